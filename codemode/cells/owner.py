"""What a cell needs of the session that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from codemode.calls.call import Call
from codemode.cells.facts import CellFacts
from codemode.cells.observation import Notification
from codemode.cells.truncation import Item
from codemode.limits import Limits

if TYPE_CHECKING:
    from codemode.cells.cell import Cell


class CellRecorder(Protocol):
    """Told of what happens, so that it can be seen and lasts."""

    def put_out(self, cell: CellFacts, entry: Item | Notification) -> None:
        """An item of output or a notification was added to the cell's output."""

    def call_changed(self, cell: CellFacts, call: Call) -> None:
        """A nested call was made, has begun or has ended."""

    def cell_changed(self, cell: CellFacts) -> None:
        """Something was handed over."""

    async def settled(self) -> str | None:
        """Return when all that it was told of will survive a crash of the server, or else why it would not."""


class CellOwner(Protocol):
    """The session that a cell belongs to."""

    @property
    def session_id(self) -> str: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def model_warnings(self) -> bool: ...
    @property
    def typescript(self) -> bool: ...
    @property
    def recorder(self) -> CellRecorder: ...
    def commit(self, cell: Cell) -> list[str]:
        """Merge what the cell stored; returns warnings about it."""

    def cell_ended(self, cell: Cell) -> None:
        """The cell runs no more."""
