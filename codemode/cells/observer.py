"""Somebody who waits for a cell: one exec, wait or tool_results call at a time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final

from codemode.cells.observation import Observation

DEFAULT_YIELD_MS: Final = 10_000
DEFAULT_BUDGET: Final = 10_000  # tokens
_GRACE_ABOVE_MS: Final = 10_000
_GRACE_MS: Final = 1_000
_LONGEST_S: Final = 10 * 365 * 86_400.0  # a timer of the event loop must not overflow


def patience(yield_time_ms: int | None) -> float:
    """Seconds until a call answers `running`: above 10 000 ms there is one second of grace on top."""
    wanted = DEFAULT_YIELD_MS if yield_time_ms is None else yield_time_ms
    grace = _GRACE_MS if wanted > _GRACE_ABOVE_MS else 0
    return min((wanted + grace) / 1000, _LONGEST_S)


@dataclass(slots=True)
class Observer:
    """A pending call. Several may share it: repeats of one exec with the same idempotency key."""

    budget: int | None
    after: int | None
    began: float = field(default_factory=time.monotonic)
    sharers: int = 1
    answer: asyncio.Future[Observation] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    timer: asyncio.TimerHandle | None = None
