"""Which numbers of events have come, and which are missing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, Final

from codemode.lifecycle.findings import Problem

_MOST_GAPS: Final = 1000


class Numbers:
    """The numbers of the events: which have come, which are missing."""

    def __init__(self, *, from_start: bool) -> None:
        self.first: int | None = 1 if from_start else None
        self.last: int | None = 0 if from_start else None
        self._gaps: list[tuple[int, int]] = []  # in order; the oldest are forgotten, and their events count as come

    def take(self, seq: int, since: int) -> tuple[list[Problem], bool]:
        """An event that stands for the numbers from `since` to `seq`. Also whether it is to be looked at."""
        if self.first is None or self.last is None:
            self.first, self.last = since, since - 1
        if seq < self.first:
            self._add_gap(0, seq + 1, self.first - 1)
            self.first = seq
            return [("reordered_event", "it is from before the first event that came")], True
        if seq <= self.last:
            if self._fill(seq):
                return [("reordered_event", f"it came after event {self.last}")], True
            return [("duplicate_event", f"an event {seq} has come before")], False
        left_out, self.last, expected = since - self.last - 1, seq, self.last + 1
        if left_out <= 0:
            return [], True
        self._add_gap(len(self._gaps), expected, since - 1)
        return [("missing_event", f"events {expected} to {since - 1} did not come")], True

    def state(self) -> list[Any]:
        """Everything, for JSON."""
        return [self.first, self.last, self._gaps]

    @classmethod
    def restore(cls, state: Iterable[Any]) -> Numbers:
        """From a state. Raises TypeError or ValueError for what is none."""
        numbers = cls(from_start=True)
        numbers.first, numbers.last, gaps = state
        numbers._gaps = [(first, last) for first, last in gaps]
        return numbers

    def _fill(self, seq: int) -> bool:
        at = bisect_right(self._gaps, seq, key=lambda gap: gap[0]) - 1
        if at < 0 or self._gaps[at][1] < seq:
            return False
        first, last = self._gaps.pop(at)
        self._add_gap(at, seq + 1, last)
        self._add_gap(at, first, seq - 1)
        return True

    def _add_gap(self, at: int, first: int, last: int) -> None:
        if first <= last:
            self._gaps.insert(at, (first, last))
            if len(self._gaps) > _MOST_GAPS:
                del self._gaps[0]
