"""The cells of a session that are known: those that run, and ended ones until they have been kept long enough."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Final

from codemode.cells.cell import Cell
from codemode.limits import Limits
from codemode.sessions.past import PastCell

AnyCell = Cell | PastCell

_ENDED_CELL_BYTES: Final = 4096  # without output; 3 700 measured with 10 000 of them
_CALL_BYTES: Final = 512  # of the record of a nested call


class CellShelf:
    """Cells by id. An ended one is forgotten after `keep_ms`, or earlier if ended cells hold too much."""

    def __init__(self, limits: Limits, forgotten: Callable[[AnyCell], None]) -> None:
        self._limits = limits
        self._forgotten = forgotten
        self._cells: dict[str, AnyCell] = {}
        self._by_key: dict[str, AnyCell] = {}  # idempotency key → cell
        self._ended: dict[str, asyncio.TimerHandle] = {}  # in the order of their ends; the timer forgets the cell
        self._kept_bytes = 0
        self._closed = False

    def add(self, cell: AnyCell) -> None:
        """Know a cell, by its id and its idempotency key."""
        self._cells[cell.cell_id] = cell
        if cell.idempotency is not None:
            self._by_key[cell.idempotency[0]] = cell

    def restore(self, cells: Iterable[PastCell]) -> None:
        """Know those of an earlier run, given in the order they were started."""
        ended = list(cells)
        for cell in ended:
            self.add(cell)
        for cell in sorted(ended, key=lambda cell: cell.ended_at or 0.0):
            self.ended(cell)

    def find(self, cell_id: str) -> AnyCell | None:
        """The cell with this id, if it is known."""
        return self._cells.get(cell_id)

    def find_by_key(self, idempotency_key: str) -> AnyCell | None:
        """The cell that was started with this key, if it is known."""
        return self._by_key.get(idempotency_key)

    def all(self) -> list[AnyCell]:
        """Every cell that is known, in the order they were started."""
        return list(self._cells.values())

    def running(self) -> list[Cell]:
        """Those that run."""
        return [cell for cell in self._cells.values() if isinstance(cell, Cell) and cell.ended is None]

    def ended(self, cell: AnyCell) -> None:
        """A cell has ended, now or in an earlier run: keep it for the rest of its time."""
        if self._closed:
            return
        age = 0.0 if isinstance(cell, Cell) or cell.ended_at is None else max(0.0, time.time() - cell.ended_at)
        delay = max(0.0, self._limits.keep_ms / 1000 - age)
        self._ended[cell.cell_id] = asyncio.get_running_loop().call_later(delay, self._forget, cell)
        self._kept_bytes += _cost(cell)
        for cell_id in list(self._ended) if self._kept_bytes > self._limits.max_kept_bytes else ():
            if self._kept_bytes > self._limits.max_kept_bytes and cell_id != cell.cell_id:
                self._forget(self._cells[cell_id])

    def forget_oldest(self) -> int:
        """Forget the cell that ended first, to make room; about the bytes that it held, 0 if there is none."""
        for cell_id in self._ended:
            cell = self._cells[cell_id]
            self._forget(cell)
            return _cost(cell)
        return 0

    @property
    def oldest_end(self) -> float | None:
        """When the ended cell that is kept for the longest time has ended."""
        return next((self._cells[cell_id].ended_at for cell_id in self._ended), None)

    def close(self) -> None:
        """Nothing is forgotten by itself any more."""
        self._closed = True
        for timer in self._ended.values():
            timer.cancel()

    def forget_all(self) -> None:
        """Their session is no more: what is still being told of them changes nothing that lasts."""
        for cell in self._cells.values():
            cell.forgotten = True

    def _forget(self, cell: AnyCell) -> None:
        cell.forgotten = True
        del self._cells[cell.cell_id]
        self._ended.pop(cell.cell_id).cancel()
        self._kept_bytes -= _cost(cell)
        if cell.idempotency is not None:
            del self._by_key[cell.idempotency[0]]
        self._forgotten(cell)


def _cost(cell: AnyCell) -> int:
    """About the bytes that an ended cell holds; of one of an earlier run, those that it may come to hold."""
    return _ENDED_CELL_BYTES + cell.kept_bytes + _CALL_BYTES * cell.calls
