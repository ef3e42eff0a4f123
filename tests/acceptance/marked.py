"""Finds processes by a mark in their arguments, whoever their parents are by now."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.faults.rig import state_of
from tests.faults.server import PATIENCE_S, until


def marked(mark: str) -> list[int]:
    """The living processes with this text in an argument."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (place / "cmdline").read_bytes() and state_of(int(place.name)) not in "ZX":
                found.append(int(place.name))
    return found


def until_none(mark: str, seconds: float = PATIENCE_S) -> None:
    """Wait until there is none."""
    until(lambda: not marked(mark), f"no process with {mark}", seconds)
