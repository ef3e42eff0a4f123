"""What confines a cell process beyond V8 itself, on the platform at hand."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path
from typing import Final, NamedTuple

MIB: Final = 1024 * 1024

# V8 keeps about 570 MB of address space writable at its start (seen on Linux x86-64, V8 14.4), so
# the wall is set relative to what the process has. The room above the heap limit is what V8 needs
# to notice the limit by itself and report it.
_LEAST_ROOM: Final = 48 * MIB
_ADDRESS_ROOM: Final = 256 * MIB  # an arena of the C library is reserved as a whole


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


class MemoryInUse(NamedTuple):
    """What a process has, in bytes: what RLIMIT_DATA counts, and its address space."""

    data: int = 0
    space: int = 0


def memory_in_use() -> MemoryInUse:
    """Of this process. Linux only; elsewhere nothing."""
    if not is_linux():
        return MemoryInUse()
    found = {b"VmData:": 0, b"VmSize:": 0}
    for line in Path("/proc/self/status").read_bytes().splitlines():  # as text it would need a codec, from a file
        name, _, value = line.partition(b"\t")
        if name in found:
            found[name] = int(value.split()[0]) * 1024
    return MemoryInUse(found[b"VmData:"], found[b"VmSize:"])


def limit_memory(base: MemoryInUse, memory: int) -> None:
    """Let this process grow by `memory` bytes and some room above `base`; beyond that V8 aborts it. Linux only.

    V8 has reserved all the address space that it will ever use. A limit of that is for what RLIMIT_DATA does not
    count, such as the tables of pages that are read and never written.
    """
    if is_linux():
        wall = memory + max(_LEAST_ROOM, memory // 4)
        resource.setrlimit(resource.RLIMIT_DATA, (base.data + wall, base.data + wall))
        most = base.space + wall + _ADDRESS_ROOM
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def end_first_without_memory() -> None:
    """Let the kernel end this process and its children before any other when the machine has no memory left.

    Otherwise it ends the largest one, which may be the service. Linux only, and before it is made not dumpable: then
    the file belongs to root.
    """
    if is_linux():
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
