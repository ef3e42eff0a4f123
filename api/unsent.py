"""How long an answer has been waiting for its client to take it in."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import struct
import termios


class Unsent:
    """What a connection has been told and its client has not taken; `passed` are the bytes that it took meanwhile."""

    def __init__(self) -> None:
        self.passed = 0  # bytes that it has taken since then
        self._bytes = 0
        self._began = 0.0

    def since(self, transport: asyncio.Transport, now: float) -> float:
        """Seconds; 0 if everything was handed to the kernel."""
        waiting = transport.get_write_buffer_size()
        if waiting == 0:
            self._bytes = 0
            return 0.0
        waiting += _in_kernel(transport)
        if self._bytes == 0 or waiting > self._bytes:  # a new one
            self._began, self.passed = now, 0
        else:
            self.passed += self._bytes - waiting
        self._bytes = waiting
        return now - self._began


def _in_kernel(transport: asyncio.Transport) -> int:
    """Bytes that the kernel has not sent, or the client has not acknowledged; 0 where it does not say."""
    with contextlib.suppress(OSError):
        descriptor = transport.get_extra_info("socket").fileno()
        (waiting,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))
        return int(waiting)
    return 0
