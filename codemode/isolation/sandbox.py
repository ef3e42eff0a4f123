"""What confines a cell process beyond V8 itself, on the platform at hand."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024

# V8 keeps about 570 MB of address space writable at its start (seen on Linux x86-64, V8 14.4), so
# the wall is set relative to what the process has. The room above the heap limit is what V8 needs
# to notice the limit by itself and report it.
_LEAST_ROOM: Final = 48 * MIB


def is_linux() -> bool:
    """Whether the walls of Linux are there; elsewhere cells run as plain processes."""
    return sys.platform == "linux"


def close_all_but(*keep: int) -> None:
    """Close every descriptor but these."""
    low = 0
    for descriptor in sorted(keep):
        if low < descriptor:  # an empty range below 0 would close everything
            os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def raise_file_limit() -> int:
    """Use as many descriptors as the system lets us: each live cell takes some. Returns the number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return hard
    return soft


def limit_files() -> None:
    """No core dumps, and no byte written to any file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def limit_cpu(seconds: float) -> None:
    """The kernel ends this process some time after `seconds` of CPU time; the worker looks first."""
    most = int(seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 1))


def data_bytes() -> int:
    """The memory of this process that RLIMIT_DATA counts. Linux only; elsewhere 0."""
    if not is_linux():
        return 0
    for line in Path("/proc/self/status").read_bytes().splitlines():  # as text it would need a codec, from a file
        if line.startswith(b"VmData:"):
            return int(line.split()[1]) * 1024
    return 0


def limit_memory(base: int, memory: int) -> None:
    """Let this process grow by `memory` bytes and some room above `base`; beyond that V8 aborts it. Linux only."""
    if is_linux():
        wall = base + memory + max(_LEAST_ROOM, memory // 4)
        resource.setrlimit(resource.RLIMIT_DATA, (wall, wall))
