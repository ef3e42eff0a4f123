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


class Owner(Protocol):
    """Whoever a process works for: told of every frame in order, then once of its end."""

    def on_frame(self, kind: int, payload: bytes) -> None:
        """A frame that came. Raise ProtocolError for one that makes no sense."""

    def on_lost(self, reason: str | None) -> None:
        """The process is gone: by itself, or killed for a `reason`, a breach of the protocol."""


class CellProcess(asyncio.BufferedProtocol):
    """A live cell process. It belongs to the pool while it is a spare, then to one cell, and to none again."""

    def __init__(
        self, pid: int, pidfd: int | None, owner: Owner, gone: Callable[[CellProcess], None] = lambda _: None
    ) -> None:
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

    def serve(self, owner: Owner) -> None:
        """From now on, frames and the end go to `owner`."""
        self._owner = owner

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
            self._transport.resume_reading()

    def release(self, *, ends_by_itself: bool) -> None:
        """The owner is done with it and hears no more of it. Unless it is about to end by itself, it is killed now.

        Killing takes half a millisecond, which nobody should wait for who is waiting for an answer.
        """
        self._lost = True
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

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not derived from it

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._space

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for kind, payload in self._decoder.feed(bytes(memoryview(self._space)[:nbytes])):
                if self._lost:
                    return
                self._owner.on_frame(kind, payload)
        except ProtocolError as problem:
            self._end(f"it broke the protocol: {problem}")

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(None)

    def _end(self, reason: str | None) -> None:
        if self._lost:
            return
        self._lost = True
        self.kill()
        self._owner.on_lost(reason)


def is_ready(kind: int) -> bool:
    """Whether a frame says that a spare is ready."""
    return kind == FromCell.READY
