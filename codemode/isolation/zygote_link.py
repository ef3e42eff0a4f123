"""The service's side of one zygote: its start, the control socket, its silence, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
from typing import Final, NamedTuple, Protocol

from codemode.isolation.confinement import Confinement
from codemode.isolation.wire import ProtocolError
from codemode.isolation.zygote_messages import EXITED, FAILED, KINDS, MESSAGE, SPAWNED, WANTED, WANTED_AT_ONCE, Exit
from codemode.isolation.zygote_process import ZygoteOptions, end_zygote, start_zygote

_CHUNK: Final = 4096
_MOST_DESCRIPTORS: Final = 2  # that one message brings; the kernel closes what would be more
_TICKS: Final = 5  # looks within a time of silence: a service that was itself suspended counts as one of them


class Patience(NamedTuple):
    """How long the processes may take before they count as hung, in seconds."""

    start: float = 20.0  # a zygote, until it says that it has started
    silence: float = 5.0  # a zygote that was asked for processes, until it says anything
    ready: float = 10.0  # a cell process, from its fork until it can take a script
    lease: float = 30.0  # somebody who waits for a process
    frame: float = 5.0  # a cell process between two pieces of one frame


class ZygoteOwner(Protocol):
    """The pool."""

    def forked(self, pid: int, descriptors: list[int]) -> None:
        """There is one more process; its socket and a descriptor of it, or nothing if there was no room for them."""

    def exited(self, exit_: Exit) -> None:
        """A process has ended and is reaped."""

    def fork_failed(self) -> None:
        """One that was ordered will not come."""

    def zygote_lost(self, link: ZygoteLink, reason: str) -> None:
        """The zygote does no more work; `reason` says what happened. Told once, and not of one that never started."""


class ZygoteLink:
    """One zygote. Orders go out, its messages go to the owner, until it is lost or closed.

    A zygote that was asked for processes and is silent for too long is killed and counts as lost.
    Closing gives back every descriptor, those of messages that were cut off too.
    """

    def __init__(self, owner: ZygoteOwner, patience: Patience, options: ZygoteOptions) -> None:
        self._owner = owner
        self._patience = patience
        self._options = options
        self.confinement = Confinement()  # of the process that it forked for trial
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        # Of SPAWNED messages, in order; those of one may come before the message is whole.
        self._descriptors: list[list[int]] = []
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._silent_ticks = 0
        self._tick: asyncio.TimerHandle | None = None
        self.outstanding = 0  # processes that were ordered and have not come yet

    async def start(self) -> None:
        """Start the zygote. Raises OSError if it does not come up, SandboxUnavailable if its walls do not suffice.

        It is ended then.
        """
        ours, theirs = socket.socketpair()
        self._process = start_zygote(theirs, self._options)
        theirs.close()
        self.listen(ours)
        try:
            await asyncio.wait_for(self._started, self._patience.start)
            refusal = self._options.refusal(self.confinement)
            if refusal is not None:
                raise refusal
        except TimeoutError:
            self._give_up()
            raise TimeoutError(f"it did not say within {self._patience.start:g} s that it has started") from None
        except BaseException:
            self._give_up()
            raise

    def listen(self, control: socket.socket) -> None:
        """Take messages from this socket."""
        control.setblocking(False)
        self._socket = control
        asyncio.get_running_loop().add_reader(control.fileno(), self.read)

    @property
    def pid(self) -> int | None:
        """The zygote's process."""
        return None if self._process is None else self._process.pid

    @property
    def answers(self) -> bool:
        """Whether it is there and does not keep anybody waiting for a while already."""
        return self._socket is not None and self._silent_ticks < 2

    def order(self, count: int, *, at_once: bool) -> int:
        """Ask for processes; how many of them could be asked for, the socket may be full."""
        if self._socket is None:
            return 0
        try:
            sent = self._socket.send((WANTED_AT_ONCE if at_once else WANTED) * count)
        except OSError:  # full; or the zygote is gone, which is seen in a moment
            return 0
        self.outstanding += sent
        if self._tick is None:
            self._tick_later()
        return sent

    def close(self) -> None:
        """Hear no more of it: it ends when it sees that."""
        if self._tick is not None:
            self._tick.cancel()
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        for descriptor in (each for group in self._descriptors for each in group):
            os.close(descriptor)
        self._descriptors = []
        self.outstanding = 0

    async def end(self) -> None:
        """Close, and wait until the process has ended; it is killed if that takes long."""
        self.close()
        if self._process is not None:
            await asyncio.to_thread(end_zygote, self._process)

    def read(self) -> None:
        """Take what there is on the socket."""
        if self._socket is None:
            return
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, _CHUNK, _MOST_DESCRIPTORS)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        if descriptors:
            self._descriptors.append(descriptors)
        if not data:
            self._lose("it ended")
            return
        self._silent_ticks = 0
        self._buffer += data
        while len(self._buffer) >= MESSAGE.size and self._socket is not None:
            message, self._buffer = self._buffer[: MESSAGE.size], self._buffer[MESSAGE.size :]
            self._take(*MESSAGE.unpack(message))

    def _take(self, kind: int, pid: int, status: int, cpu_us: int, memory: int, said: int) -> None:
        if kind not in KINDS or (kind in (SPAWNED, EXITED) and pid <= 1):
            self._kill()
            self._lose("it said what makes no sense")
        elif kind == SPAWNED:
            self.outstanding = max(0, self.outstanding - 1)
            self._owner.forked(pid, self._descriptors.pop(0) if self._descriptors else [])
        elif kind == EXITED:
            self._owner.exited(Exit(pid, status, cpu_us, memory, bool(said)))
        elif kind == FAILED:
            self.outstanding = max(0, self.outstanding - 1)
            self._owner.fork_failed()
        elif not self._started.done():
            with contextlib.suppress(ProtocolError):  # what cannot be read are no walls
                self.confinement = Confinement.decode(bytes([status & 0xFF]))
            self._started.set_result(None)

    def _tick_later(self) -> None:
        self._tick = asyncio.get_running_loop().call_later(self._patience.silence / _TICKS, self._look)

    def _look(self) -> None:
        self._tick = None
        self.read()  # the event loop may have had no time for it
        if self._socket is None:
            return
        if self.outstanding == 0:
            self._silent_ticks = 0
            return
        self._silent_ticks += 1
        if self._silent_ticks > _TICKS:
            self._kill()
            self._lose(f"it did not answer for {self._patience.silence:g} s")
        else:
            self._tick_later()

    def _give_up(self) -> None:
        self.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()  # which is at once

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def _lose(self, reason: str) -> None:
        self.close()
        if not self._started.done():
            self._started.set_exception(ConnectionError(reason))
        else:
            self._owner.zygote_lost(self, reason)
