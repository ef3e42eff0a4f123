"""What a client remembers of cells, so that a lost answer loses nothing."""

from __future__ import annotations

import threading
import time
from typing import Final

_MOST_CURSORS: Final = 4096
_LONGEST_PENDING_S: Final = 30.0
_LATE_S: Final = 1.0  # a request may reach the service after its connection was cut here


class CellMemory:
    """The last cursor seen of each cell, and calls about it whose answers were lost. Threads may share one.

    A cell is doubtful from a lost call on until an answer came after the service can have been waiting
    with that call: until then it may hand output to a client that is not there, and name calls to it.
    """

    def __init__(self) -> None:
        self._cursors: dict[str, int] = {}
        self._lost: dict[str, tuple[float, float]] = {}  # cell → when a call was lost, how long it may pend
        self._lock = threading.Lock()

    def saw(self, cell_id: str, cursor: int) -> None:
        """An answer brought everything up to `cursor`."""
        with self._lock:
            self._cursors.pop(cell_id, None)
            self._cursors[cell_id] = cursor
            if len(self._cursors) > _MOST_CURSORS:
                del self._cursors[next(iter(self._cursors))]

    def lost(self, cell_id: str, wait_s: float) -> None:
        """No answer came to a call with which the service may wait so long."""
        now = time.monotonic()
        with self._lock:
            _, until = self._lost.get(cell_id, (now, now))
            self._lost[cell_id] = (now, max(now + wait_s + _LATE_S, until))

    def caught_up(self, cell_id: str, asked_at: float) -> None:
        """An answer to a call of that time brought everything since the last cursor."""
        with self._lock:
            if cell_id in self._lost and self._lost[cell_id][1] < asked_at:
                del self._lost[cell_id]

    def cursor(self, cell_id: str) -> int:
        """The last cursor; 0 for a cell that was not seen."""
        with self._lock:
            return self._cursors.get(cell_id, 0)

    def is_doubtful(self, cell_id: str) -> bool:
        """Whether an answer may be lost that nothing has made up for."""
        with self._lock:
            return cell_id in self._lost

    def may_be_taken_for_pending(self, cell_id: str) -> bool:
        """Whether the service may refuse a call since it still waits with a lost one; bounded: others may wait too."""
        with self._lock:
            lost_at, until = self._lost.get(cell_id, (0.0, 0.0))
        return time.monotonic() < min(until, lost_at + _LONGEST_PENDING_S)
