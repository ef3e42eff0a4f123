"""How long an answer has been waiting for its client to take it in."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import struct
import termios


class Unsent:
    """What a connection has been told and its client has not taken."""

    def __init__(self) -> None:
        self._bytes = 0
        self._due = 0.0  # when more of it has to have been taken

    def is_overdue(self, transport: asyncio.Transport, now: float, patience: float, slowest: float) -> bool:
        """Whether too little was taken: `slowest` bytes a second, with `patience` seconds of rest at most."""
        waiting = transport.get_write_buffer_size()
        if waiting == 0:  # everything was handed to the kernel
            self._bytes = 0
            return False
        waiting += _in_kernel(transport)
        if self._bytes == 0 or waiting > self._bytes:  # a new one
            self._due = now + patience
        else:
            self._due = min(self._due + (self._bytes - waiting) / slowest, now + patience)
        self._bytes = waiting
        return now > self._due


def _in_kernel(transport: asyncio.Transport) -> int:
    """Bytes that the kernel has not sent, or the client has not acknowledged; 0 where it does not say."""
    with contextlib.suppress(OSError):
        descriptor = transport.get_extra_info("socket").fileno()
        (waiting,) = struct.unpack("i", fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(4)))
        return int(waiting)
    return 0
