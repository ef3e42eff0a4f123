"""The zygote, and a few spare cell processes that are ready to run a script at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, NamedTuple

from codemode.errors import InvalidRequest, IsolationUnavailable, ShuttingDown
from codemode.isolation import sandbox
from codemode.isolation.confinement import Confinement
from codemode.isolation.process import CellProcess
from codemode.isolation.spare import Spare
from codemode.isolation.zygote_link import Patience, ZygoteLink
from codemode.isolation.zygote_messages import Exit
from codemode.isolation.zygote_process import ZygoteOptions

_REFILL_DELAY: Final = 0.01  # seconds: a refill should not compete with the exec that caused it
_FAILURE_DELAY: Final = 0.5  # seconds, after a fork that failed, or when processes die again and again as they start
_MOST_FAILURES: Final = 3  # in a row, that say nothing yet
_RETRY_DELAYS: Final = (0.0, 0.1, 0.5, 2.0)  # before attempts to start a zygote that does not come up
_RESTART_DELAY: Final = 5.0  # seconds, when all of these were in vain, or zygotes are lost again and again
_log = logging.getLogger(__name__)


class PoolStatistics(NamedTuple):
    """What the pool holds at this moment."""

    spares: int
    starting: int
    live: int
    forked: int


class Pool:
    """Hands out fresh cell processes; use as an async context manager, which owns all of them.

    A process that was leased never comes back. `spares` is how many are kept ready. What dies or hangs before
    it is leased is replaced, the zygote too. `patience` is for tests.
    """

    def __init__(self, spares: int, options: ZygoteOptions | None = None, *, patience: Patience | None = None) -> None:
        if spares < 0:
            raise InvalidRequest(f"spares is {spares}; it has to be at least 0")
        self._target = spares
        self._options, self.confinement = options or ZygoteOptions(), Confinement()  # of the process ready last
        self._patience = patience or Patience()
        self._spares: deque[CellProcess] = deque()
        self._waiting: deque[asyncio.Future[CellProcess]] = deque()
        self._starting: dict[CellProcess, asyncio.TimerHandle] = {}  # forked and not ready yet
        self._start_failures = 0  # in a row
        self._processes: dict[int, CellProcess] = {}
        self._forked = 0
        self._link: ZygoteLink | None = None
        self._refill: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._restarting = False
        self._zygote_losses = 0  # since a process was ready
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
        for timer in self._starting.values():
            timer.cancel()
        for process in list(self._processes.values()):
            process.kill()
        link, self._link = self._link, None
        if link is not None:
            await link.end()

    def statistics(self) -> PoolStatistics:
        """Numbers for /readyz and metrics."""
        return PoolStatistics(len(self._spares), self._asked, len(self._processes), self._forked)

    @property
    def is_ready(self) -> bool:
        """Whether scripts can be started: cell processes are at hand, or are forked by a zygote that answers.

        Not while one after the other is lost before it is ready; without spares that is only known when one is wanted.
        """
        fails = self._target > 0 and self._start_failures >= _MOST_FAILURES
        can_fork = self._link is not None and self._link.answers and not fails
        return not self._closed and (bool(self._spares) or can_fork)

    @property
    def _asked(self) -> int:
        """Processes that were ordered and are not ready yet."""
        return len(self._starting) + (0 if self._link is None else self._link.outstanding)

    # Leases

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

        Raises IsolationUnavailable if none can be made in time, ShuttingDown if the pool closes.
        """
        process = self.lease_nowait()
        if process is not None:
            return process
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[CellProcess] = loop.create_future()
        self._waiting.append(waiting)
        patience = self._patience.lease
        late = IsolationUnavailable(f"no cell process became ready within {patience:g} s")
        timer = loop.call_later(patience, _refuse, waiting, late)
        self._fill()
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                waiting.result().kill()
            raise
        finally:
            timer.cancel()

    def _refill_later(self, delay: float = _REFILL_DELAY) -> None:
        if self._refill is None and not self._closed:
            self._refill = asyncio.get_running_loop().call_later(delay, self._refill_now)

    def _refill_now(self) -> None:
        self._refill = None
        self._fill()

    def _fill(self) -> None:
        self._waiting = deque(waiting for waiting in self._waiting if not waiting.done())
        if self._link is None:
            if not self._restarting and not self._closed:
                self._restarting = True  # here, not when the task begins: this may be called again before
                self._spawn(self._restart())
            return
        missing = self._target + len(self._waiting) - len(self._spares) - self._asked
        if missing > 0 and self._link.order(missing, at_once=bool(self._waiting)) < missing:
            self._refill_later()  # it has not read some hundred earlier orders yet

    # Processes

    def forked(self, pid: int, descriptors: list[int]) -> None:
        """The zygote has made a process."""
        self._forked += 1
        if not descriptors:  # we have no room for its socket
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            self.fork_failed()
            return
        spare = Spare(self)
        pidfd = descriptors[1] if len(descriptors) > 1 else None
        process = CellProcess(pid, pidfd, spare, self._gone, self._patience.frame)
        spare.process = process
        self._processes[pid] = process
        timer = asyncio.get_running_loop().call_later(self._patience.ready, self._not_ready, process)
        self._starting[process] = timer
        self._spawn(self._connect(process, socket.socket(fileno=descriptors[0])))

    async def _connect(self, process: CellProcess, connection: socket.socket) -> None:
        connection.setblocking(False)
        await asyncio.get_running_loop().create_unix_connection(lambda: process, sock=connection)

    def _not_ready(self, process: CellProcess) -> None:
        _log.warning("cell process %d was not ready after %g s; it is replaced", process.pid, self._patience.ready)
        process.kill()

    def spare_ready(self, process: CellProcess) -> None:
        """A process can take a script."""
        self._forget_start(process)
        self._start_failures = self._zygote_losses = 0
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
        delay = _REFILL_DELAY
        if process in self._spares:
            self._spares.remove(process)
            if not self._closed:
                _log.warning("the waiting cell process %d was lost; it is replaced", process.pid)
        elif self._forget_start(process):
            self._start_failures += 1
            delay = min(_FAILURE_DELAY, _REFILL_DELAY * 2 ** min(self._start_failures, 10))
        self._refill_later(delay)

    def _forget_start(self, process: CellProcess) -> bool:
        timer = self._starting.pop(process, None)
        if timer is not None:
            timer.cancel()
        return timer is not None

    def exited(self, exit_: Exit) -> None:
        """The zygote has reaped a process."""
        process = self._processes.pop(exit_.pid, None)
        if process is not None:
            process.exited(exit_)

    def _gone(self, process: CellProcess) -> None:
        """It was killed or ended. Usually the zygote reports its exit; if that is gone as well, nobody does."""
        if process.exit.done():
            self._processes.pop(process.pid, None)

    def fork_failed(self) -> None:
        """One that was ordered will not come."""
        self._start_failures += 1
        unavailable = IsolationUnavailable("no cell process can be forked: the host is out of processes")
        while self._waiting:
            if _refuse(self._waiting.popleft(), unavailable):
                break
        self._refill_later(_FAILURE_DELAY)

    # The zygote

    async def _start_zygote(self) -> None:
        for delay in _RETRY_DELAYS:
            await asyncio.sleep(delay)
            link = ZygoteLink(self, self._patience, self._options)
            try:
                await link.start()
            except OSError as problem:  # it ended, it is silent, or there is no room for it
                _log.warning("the process that cells are forked from did not come up: %s", problem)
            else:
                self._link, self.confinement = link, link.confinement
                return
        raise IsolationUnavailable("no cell process can be started: the process they are forked from does not come up")

    def zygote_lost(self, link: ZygoteLink, reason: str) -> None:
        """Its children go on; nobody reports their exits any more. Start another one."""
        if link is not self._link:
            return
        self._link = None
        for process in self._processes.values():
            if not process.exit.done():
                process.exit.set_result(None)
        self._processes = {pid: process for pid, process in self._processes.items() if not process.is_lost}
        _log.warning("the process that cells are forked from (%s) was lost: %s; starting another", link.pid, reason)
        self._spawn(link.end())
        self._zygote_losses += 1
        self._fill()

    async def _restart(self) -> None:
        try:
            if self._zygote_losses > 1:
                await asyncio.sleep(min(_RESTART_DELAY, _REFILL_DELAY * 2 ** min(self._zygote_losses, 10)))
            await self._start_zygote()
            _log.warning("cells are forked from process %s now", None if self._link is None else self._link.pid)
        except IsolationUnavailable as problem:
            for waiting in self._waiting:
                _refuse(waiting, problem)
            self._refill_later(_RESTART_DELAY)
        finally:
            self._restarting = False
        if self._link is not None:
            self._fill()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _refuse(waiting: asyncio.Future[CellProcess], problem: Exception) -> bool:
    """Tell somebody who waits that there will be none; False if nobody waits any more."""
    if waiting.done():
        return False
    waiting.set_exception(problem)
    return True
