"""What ties processes to the one they came from, beyond the sockets between them. Linux only; elsewhere nothing."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Container
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36


def adopt_orphans() -> None:
    """From now on, a process whose parent has ended becomes a child of this one, if this one is above it."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def wake_at_parents_end() -> None:
    """Go on when the parent ends though somebody has stopped this process, and so notice that end."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)


def kill_strays(known: Container[int]) -> bool:
    """Kill every child that is not `known`: left behind by one of those. Whether there was any."""
    strays = [pid for pid in _children() if pid not in known]
    for pid in strays:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)  # it is not reaped, so its number means no other process
    return bool(strays)


def _children() -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError, ValueError):
        for task in Path("/proc/self/task").iterdir():
            found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)
