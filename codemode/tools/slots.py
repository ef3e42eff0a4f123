"""How many nested calls of a session run at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from anyio import CapacityLimiter


@dataclass(frozen=True, slots=True)
class ToolThreads:
    """How many sync tools run at once: those that wait, and those that compute."""

    many: CapacityLimiter
    few: CapacityLimiter


class CallSlots:
    """Lets so many calls run at once and queues the rest, first come first served."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._queue: deque[Callable[[], bool]] = deque()

    def enter(self, begin: Callable[[], bool]) -> None:
        """Call `begin` as soon as a slot is free; it returns False if it no longer wants one."""
        self._queue.append(begin)
        self._advance()

    def leave(self) -> None:
        """Give a slot back."""
        self._free += 1
        self._advance()

    def _advance(self) -> None:
        while self._free > 0 and self._queue:
            begin = self._queue.popleft()
            self._free -= 1  # before it runs: it may come back here
            if not begin():
                self._free += 1
