"""The zygote, and a few spare cell processes that are ready to run a script at once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from codemode.errors import InvalidRequest, IsolationUnavailable, ShuttingDown
from codemode.isolation import sandbox
from codemode.isolation.process import CellProcess
from codemode.isolation.spare import Spare
from codemode.isolation.zygote_messages import EXITED, FAILED, MESSAGE, SPAWNED, WANTED, WANTED_AT_ONCE, Exit
from codemode.isolation.zygote_process import end_zygote, start_zygote

_REFILL_DELAY: Final = 0.01  # seconds: a refill should not compete with the exec that caused it
_FAILURE_DELAY: Final = 0.5  # seconds, after a fork that failed
_START_TIMEOUT: Final = 20.0
_RETRY_DELAYS: Final = (0.0, 0.1, 0.5, 2.0)  # between attempts to start a zygote that does not come up
_CHUNK: Final = 4096


class PoolStatistics(NamedTuple):
    """What the pool holds at this moment."""

    spares: int
    starting: int
    live: int
    forked: int


class Pool:
    """Hands out fresh cell processes; use as an async context manager, which owns all of them.

    A process that was leased never comes back. `spares` is how many are kept ready.
    """

    def __init__(self, spares: int) -> None:
        if spares < 0:
            raise InvalidRequest(f"spares is {spares}; it has to be at least 0")
        self._target = spares
        self._spares: deque[CellProcess] = deque()
        self._waiting: deque[asyncio.Future[CellProcess]] = deque()
        self._asked = 0  # forks that were ordered and are not ready yet
        self._processes: dict[int, CellProcess] = {}
        self._forked = 0
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._buffer = b""
        # Of SPAWNED messages, in order; those of one may come before the message is whole.
        self._descriptors: list[list[int]] = []
        self._started: asyncio.Future[None] | None = None
        self._refill: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._restarting = False
        self._closed = False

    async def __aenter__(self) -> Pool:
        sandbox.raise_file_limit()
        await self._start_zygote()
        self._fill()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        if self._refill is not None:
            self._refill.cancel()
        for task in self._tasks:
            task.cancel()
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(ShuttingDown())
        for process in list(self._processes.values()):
            process.kill()
        zygote, self._zygote = self._zygote, None
        self._close_control()
        if zygote is not None:
            await asyncio.to_thread(end_zygote, zygote)

    def statistics(self) -> PoolStatistics:
        """Numbers for /readyz and metrics."""
        return PoolStatistics(len(self._spares), self._asked, len(self._processes), self._forked)

    @property
    def is_ready(self) -> bool:
        """Whether scripts can be started: cell processes are at hand or can be forked."""
        return not self._closed and self._control is not None

    def lease_nowait(self) -> CellProcess | None:
        """A spare, if there is one. Raises ShuttingDown if the pool closes."""
        if self._closed:
            raise ShuttingDown
        while self._spares:
            process = self._spares.pop()  # the newest: its pages are the warmest
            if not process.has_ended:
                self._refill_later()
                return process
        return None

    async def lease(self) -> CellProcess:
        """A process that is ready to start; a spare if there is one, else as soon as one is forked.

        Raises IsolationUnavailable if none can be made, ShuttingDown if the pool closes.
        """
        process = self.lease_nowait()
        if process is not None:
            return process
        waiting: asyncio.Future[CellProcess] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        if self._control is None and not self._restarting:
            self._spawn(self._restart())
        self._fill()
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                waiting.result().kill()
            raise

    def _refill_later(self, delay: float = _REFILL_DELAY) -> None:
        if self._refill is None:
            self._refill = asyncio.get_running_loop().call_later(delay, self._refill_now)

    def _refill_now(self) -> None:
        self._refill = None
        self._fill()

    def _fill(self) -> None:
        self._waiting = deque(waiting for waiting in self._waiting if not waiting.done())
        missing = self._target + len(self._waiting) - len(self._spares) - self._asked
        if missing > 0 and self._control is not None:
            try:
                sent = self._control.send((WANTED_AT_ONCE if self._waiting else WANTED) * missing)
            except BlockingIOError:
                sent = 0
            except OSError:
                return  # the zygote is gone, which is seen in a moment
            self._asked += sent
            if sent < missing:  # it has not read some hundred earlier ones yet
                self._refill_later()

    def spare_ready(self, process: CellProcess) -> None:
        """A process can take a script."""
        self._asked = max(0, self._asked - 1)
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(process)
                return
        if len(self._spares) < max(self._target, 1):
            self._spares.append(process)
        else:  # whoever wanted it has gone
            process.kill()

    def spare_lost(self, process: CellProcess) -> None:
        """A process ended before it was leased."""
        if process in self._spares:
            self._spares.remove(process)
        else:
            self._asked = max(0, self._asked - 1)
        if not self._closed:
            self._refill_later()

    async def _start_zygote(self) -> None:
        for delay in _RETRY_DELAYS:
            await asyncio.sleep(delay)
            ours, theirs = socket.socketpair()
            self._zygote = start_zygote(theirs)
            theirs.close()
            ours.setblocking(False)
            self._control, self._buffer, self._descriptors = ours, b"", []
            loop = asyncio.get_running_loop()
            self._started = loop.create_future()
            loop.add_reader(ours.fileno(), self._on_control)
            with contextlib.suppress(TimeoutError, ConnectionError):
                await asyncio.wait_for(self._started, _START_TIMEOUT)
                return
            self._close_control()
            await asyncio.to_thread(end_zygote, self._zygote)
        raise IsolationUnavailable("no cell process can be started: the process they are forked from does not come up")

    def _close_control(self) -> None:
        if self._control is not None:
            asyncio.get_running_loop().remove_reader(self._control.fileno())
            self._control.close()
            self._control = None

    def _on_control(self) -> None:
        assert self._control is not None
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, _CHUNK, 8)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if not data:
            self._zygote_lost()
            return
        self._buffer += data
        if descriptors:
            self._descriptors.append(descriptors)
        while len(self._buffer) >= MESSAGE.size:
            kind, pid, status, cpu_us, memory, said = MESSAGE.unpack_from(self._buffer)
            self._buffer = self._buffer[MESSAGE.size :]
            if kind == SPAWNED:
                self._spawned(pid, self._descriptors.pop(0) if self._descriptors else [])
            elif kind == EXITED:
                self._exited(Exit(pid, status, cpu_us, memory, bool(said)))
            elif kind == FAILED:
                self._fork_failed()
            elif self._started is not None and not self._started.done():
                self._started.set_result(None)

    def _spawned(self, pid: int, descriptors: list[int]) -> None:
        self._forked += 1
        if not descriptors:  # we have no room for its socket
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self._fork_failed()
            return
        spare = Spare(self)
        process = CellProcess(pid, descriptors[1] if len(descriptors) > 1 else None, spare, self._gone)
        spare.process = process
        self._processes[pid] = process
        self._spawn(self._connect(process, socket.socket(fileno=descriptors[0])))

    async def _connect(self, process: CellProcess, connection: socket.socket) -> None:
        connection.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: process, sock=connection)

    def _exited(self, exit_: Exit) -> None:
        process = self._processes.pop(exit_.pid, None)
        if process is not None and not process.exit.done():
            process.exit.set_result(exit_)

    def _gone(self, process: CellProcess) -> None:
        """It was killed or ended. Usually the zygote reports its exit; if that is gone as well, nobody does."""
        if process.exit.done():
            self._processes.pop(process.pid, None)

    def _fork_failed(self) -> None:
        self._asked = max(0, self._asked - 1)
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(
                    IsolationUnavailable("no cell process can be forked: the host is out of processes")
                )
                break
        self._refill_later(_FAILURE_DELAY)

    def _zygote_lost(self) -> None:
        """Its children go on; nobody reports their exits any more. Start another one."""
        self._close_control()
        for process in self._processes.values():
            if not process.exit.done():
                process.exit.set_result(None)
        self._processes = {pid: process for pid, process in self._processes.items() if not process.is_lost}
        self._asked = 0
        if self._started is not None and not self._started.done():
            self._started.set_exception(ConnectionError("the zygote ended"))
        elif not self._closed and not self._restarting:
            self._spawn(self._restart())

    async def _restart(self) -> None:
        if self._restarting:  # two that found no zygote in the same turn began one each
            return
        self._restarting = True
        try:
            await self._replace_zygote()
        finally:
            self._restarting = False

    async def _replace_zygote(self) -> None:
        if self._zygote is not None:
            await asyncio.to_thread(end_zygote, self._zygote)
        try:
            await self._start_zygote()
        except IsolationUnavailable as problem:
            for waiting in self._waiting:
                if not waiting.done():
                    waiting.set_exception(problem)
            return
        self._fill()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
