"""The times at which something happens to a cell by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

Name = Literal["lifetime", "idle", "stop"]


class Deadlines:
    """Timers by name; setting one again replaces it."""

    def __init__(self) -> None:
        self._timers: dict[Name, asyncio.TimerHandle] = {}

    def set(self, name: Name, milliseconds: float, then: Callable[[], None]) -> None:
        """Call `then` after so long."""
        self.cancel(name)
        self._timers[name] = asyncio.get_running_loop().call_later(milliseconds / 1000, then)

    def cancel(self, name: Name) -> None:
        """Let one not happen."""
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def cancel_all(self) -> None:
        """Let none happen."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
