"""The service's side of one cell process: its socket, its frames, its end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
from collections.abc import Callable
from typing import Final, Protocol, cast

from codemode.isolation import wire
from codemode.isolation.wire import FromCell, ProtocolError, ToCell
from codemode.isolation.zygote_messages import Exit

# The longest frame a cell process may send: an output item of the largest total, and what surrounds it.
_MOST_FRAME: Final = 65 * 1024 * 1024
# Read at once. A script may send a thousand short records in it, which take 10 ms; the event loop is free in between.
_READ: Final = 32 * 1024
_EXIT_GRACE: Final = 0.05  # seconds
_UNREAD: Final = 1024 * 1024  # bytes of results that may wait for the process to take them in; then it gets no more
_STALL_TICKS: Final = 4  # looks within the time that a frame may rest; a suspended service counts as one of them


class Owner(Protocol):
    """Whoever a process works for: told of every frame in order, then once of its end."""

    def on_frame(self, kind: int, payload: bytes) -> None:
        """A frame that came. Raise ProtocolError for one that makes no sense."""

    def on_lost(self, reason: str | None) -> None:
        """The process is gone: by itself, or killed for a `reason`, a breach of the protocol."""


class CellProcess(asyncio.BufferedProtocol):
    """A live cell process. It belongs to the pool while it is a spare, then to one cell, and to none again."""

    def __init__(
        self,
        pid: int,
        pidfd: int | None,
        owner: Owner,
        gone: Callable[[CellProcess], None] = lambda _: None,
        longest_rest: float = 5.0,
    ) -> None:
        """`gone` is called when it was killed or ended; `longest_rest` is for how many seconds a frame may rest."""
        self.pid = pid
        self.exit: asyncio.Future[Exit | None] = asyncio.get_running_loop().create_future()
        self._pidfd = pidfd
        self._owner = owner
        self._gone = gone
        self._decoder = wire.Decoder(_MOST_FRAME)
        self._space = bytearray(_READ)
        self._transport: asyncio.Transport | None = None
        self._lost = False
        self._paused = False
        self._room: Callable[[bool], None] = lambda _: None
        self._rest_tick = longest_rest / _STALL_TICKS
        self._rested = 0  # ticks since a part of a frame came
        self._timer: asyncio.TimerHandle | None = None

    def serve(self, owner: Owner, room: Callable[[bool], None] = lambda _: None) -> None:
        """From now on, frames and the end go to `owner`.

        `room` is told False when so many results wait to be taken in that no more should be made, and True when
        they are taken.
        """
        self._owner = owner
        self._room = room

    @property
    def is_lost(self) -> bool:
        """Whether it can do no more work."""
        return self._lost

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended, though its socket may not have told yet."""
        if self._lost or self._pidfd is None:
            return self._lost
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return bool(poller.poll(0))

    # What the owner may do

    def start(self, config: bytes) -> None:
        """Run the script of a configuration (JSON)."""
        self._write(wire.frame(ToCell.START, config))

    def result(self, number: int, well: bool, payload: bytes) -> None:
        """Hand in the result of a nested call."""
        self._write(wire.result(number, well, payload))

    def stop(self) -> None:
        """Ask for the output there is and the end; it may not obey."""
        self.resume()
        self._write(wire.frame(ToCell.STOP))

    def pause(self) -> None:
        """Read no more: before long the script has to wait."""
        if self._transport is not None and not self._paused and not self._lost:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and self._paused and not self._lost:
            self._paused = False
            self._rested = 0
            self._transport.resume_reading()

    def release(self, *, ends_by_itself: bool) -> None:
        """The owner is done with it and hears no more of it. Unless it is about to end by itself, it is killed now.

        Killing takes half a millisecond, which nobody should wait for who is waiting for an answer.
        """
        self._lost = True
        self._cancel_timer()
        if ends_by_itself:
            asyncio.get_running_loop().call_later(_EXIT_GRACE, self.kill)
        else:
            self.kill()

    def kill(self) -> None:
        """End the process now. Safe at any time, also after its end."""
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)
            self._pidfd = None
        elif not self.exit.done():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        if self._transport is not None:
            self._transport.abort()
        self._gone(self)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._lost:
            self._transport.write(data)

    # What the pool calls

    def exited(self, exit_: Exit) -> None:
        """The zygote has reaped it. What it had written is still read; then it is lost, whoever holds its socket."""
        if not self.exit.done():
            self.exit.set_result(exit_)
        if not self._lost:
            self._look_later(_EXIT_GRACE)

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not derived from it
        self._transport.set_write_buffer_limits(_UNREAD)

    def pause_writing(self) -> None:
        self._room(False)

    def resume_writing(self) -> None:
        self._room(True)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._space

    def buffer_updated(self, nbytes: int) -> None:
        if self.is_lost:
            return
        self._rested = 0
        try:
            for kind, payload in self._decoder.feed(bytes(memoryview(self._space)[:nbytes])):
                if self._lost:
                    return
                self._owner.on_frame(kind, payload)
        except ProtocolError as problem:
            self._end(f"it broke the protocol: {problem}")
        if self._timer is None and not self._decoder.is_between_frames and not self.is_lost:
            self._look_later(self._rest_tick)
        if nbytes == _READ and self._transport is not None and not self._paused and not self.is_lost:
            self._transport.pause_reading()  # uvloop would read 32 times before it lets anybody else have a turn
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        if self._transport is not None and not self._paused and not self._lost:
            self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(None)

    def _look_later(self, delay: float) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(delay, self._look)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """Whether it still has something to say: it may have ended, or stopped in the middle of a frame."""
        self._timer = None
        if self.exit.done() and self.exit.result() is not None:
            if self._paused or self._is_readable():
                self._look_later(_EXIT_GRACE)
            else:  # somebody else must hold its socket, or it would have been closed
                self._end(None)
        elif not self._decoder.is_between_frames:
            self._rested += not self._paused
            if self._rested > _STALL_TICKS:
                self._end("it broke the protocol: it stopped in the middle of a frame")
            else:
                self._look_later(self._rest_tick)

    def _is_readable(self) -> bool:
        if self._transport is None or self._transport.is_closing():
            return False
        poller = select.poll()
        poller.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poller.poll(0))

    def _end(self, reason: str | None) -> None:
        if self._lost:
            return
        self._lost = True
        self._cancel_timer()
        self.kill()
        self._owner.on_lost(reason)


def is_ready(kind: int) -> bool:
    """Whether a frame says that a spare is ready."""
    return kind == FromCell.READY
