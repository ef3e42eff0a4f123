"""What the zygote and the pool say to each other on the control socket. Standard library only."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

MESSAGE: Final = struct.Struct("<BIiQQB")
REQUIRE: Final = "--require-sandbox"  # on the zygote's command line
STARTED: Final = 0  # its status is the Confinement of a process that was forked for trial
SPAWNED: Final = 1  # comes with the cell's socket and, on Linux, a descriptor of its process
EXITED: Final = 2
FAILED: Final = 3  # a fork failed: no more memory or processes
KINDS: Final = frozenset({STARTED, SPAWNED, EXITED, FAILED})
WANTED: Final = b"W"  # from the pool: fork one to be kept ready
WANTED_AT_ONCE: Final = b"A"  # fork one that somebody waits for


class Exit(NamedTuple):
    """How a cell process ended: wait status, CPU time, what it grew by at most, whether V8 said out of memory."""

    pid: int
    status: int
    cpu_us: int
    grown_bytes: int
    said_out_of_memory: bool

    def encode(self) -> bytes:
        """The message for the pool."""
        return MESSAGE.pack(EXITED, *self)


def message(kind: int, pid: int = 0, status: int = 0) -> bytes:
    """Any other message for the pool."""
    return MESSAGE.pack(kind, pid, status, 0, 0, 0)
