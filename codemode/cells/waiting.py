"""Who waits for a cell: one exec, wait or tool_results call at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from codemode.cells.observation import Observation
from codemode.errors import InvalidRequest

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


def check_numbers(**given: int | None) -> None:
    """Raises InvalidRequest for what is neither None nor a whole number from 0."""
    for name, value in given.items():
        if value is not None and (type(value) is not int or value < 0):
            raise InvalidRequest(f"{name}: expected a whole number from 0, got {value!r}")


@dataclass(slots=True)
class Observer:
    """A pending call. Several may share it: repeats of one exec with the same idempotency key."""

    budget: int | None
    after: int | None
    is_exec: bool = False
    began: float = field(default_factory=time.monotonic)
    sharers: int = 1
    answer: asyncio.Future[Observation] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    timer: asyncio.TimerHandle | None = None


class Waiting:
    """The place of the one observer. `report` makes its answer; `freed` is called when it is empty again."""

    def __init__(self, report: Callable[[Observer], Observation], freed: Callable[[], None]) -> None:
        self._report = report
        self._freed = freed
        self._observer: Observer | None = None

    @property
    def is_taken(self) -> bool:
        """Whether somebody waits."""
        return self._observer is not None

    def take(self, observer: Observer, seconds: float) -> None:
        """Let this observer wait; it is answered after `seconds` at the latest."""
        self._observer = observer
        observer.timer = asyncio.get_running_loop().call_later(seconds, self.answer)

    async def share(self, observer: Observer) -> Observation:
        """The observer's answer. When the last of those who share it is cancelled, the place is free."""
        try:
            return await asyncio.shield(observer.answer)
        finally:
            observer.sharers -= 1
            if observer.sharers == 0:
                self._release(observer)

    async def join(self) -> Observation | None:
        """Share the answer of the exec that waits; None if none does."""
        observer = self._observer
        if observer is None or not observer.is_exec:
            return None
        observer.sharers += 1
        return await self.share(observer)

    def answer(self) -> None:
        """Answer whoever waits, with what there is."""
        observer = self._observer
        if observer is not None:
            observer.answer.set_result(self._report(observer))
            self._release(observer)

    def _release(self, observer: Observer) -> None:
        if observer.timer is not None:
            observer.timer.cancel()
        if self._observer is observer:
            self._observer = None
            self._freed()
