"""What a cell needs of the session that it belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from codemode.limits import Limits
from codemode.tools.registry import ToolRegistry

if TYPE_CHECKING:
    from codemode.cells.cell import Cell


class CellOwner(Protocol):
    """The session that a cell belongs to."""

    @property
    def session_id(self) -> str: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def registry(self) -> ToolRegistry: ...
    @property
    def model_warnings(self) -> bool: ...
    def commit(self, cell: Cell) -> list[str]:
        """Merge what the cell stored; returns warnings about it."""

    def cell_ended(self, cell: Cell) -> None:
        """The cell runs no more."""
