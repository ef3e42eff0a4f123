"""What lasts, as the rest of the program sees it. `Journal` itself keeps nothing; see sqlite_journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codemode.journal import retention
from codemode.journal.batch import Row
from codemode.journal.reading import CellContents, SessionState
from codemode.journal.rows import EventRow


class Journal:
    """Keeps nothing over a restart. All methods are for the event loop's thread."""

    is_durable = False
    sessions: Sequence[SessionState] = ()  # those of earlier runs
    written = 0  # about the bytes that were written so far

    def start(self) -> None:
        """The event loop runs by now."""

    @property
    def trouble(self) -> str | None:
        """Why what answers say would not survive a restart at this moment, though it should; None if all is well."""
        return None

    def new_session(self) -> int:
        """A number for a session that no other one ever had here."""
        return 0

    def put(self, key: tuple[Any, ...], make: Callable[[], Row | None]) -> None:
        """Something changed; its row will be made by `make`, soon and on this thread."""

    def event(self, row: EventRow) -> None:
        """An event was added."""

    def values(self, session: int, written: Mapping[str, str | None]) -> None:
        """Stored values were set, or deleted with None."""

    def drop_cell(self, session: int, cell: int) -> None:
        """A cell was forgotten. Its events stay for their time."""

    def drop_open_call(self, session: int, tool_use_id: str) -> None:
        """A call that was open has ended."""

    def drop_session(self, session: int) -> None:
        """A session was deleted."""

    def hurry(self) -> None:
        """Somebody will wait in a moment."""

    async def settled(self) -> str | None:
        """Return when all changes so far will survive the end of this process, or else why they would not."""
        return None

    async def read_cell(self, session: int, cell: int, first: int, last: int | None) -> CellContents:
        """The calls and the output of a cell of an earlier run."""
        return CellContents([], [])

    async def read_events(self, session: int, after: int, before: int, cell: int | None) -> list[EventRow]:
        """Some of the events after one number and before another, in order."""
        return []

    async def trim(self, oldest: float, most_bytes: int) -> retention.Trimmed:
        """Take away events from before a moment, and more if the file is too large."""
        return retention.Trimmed(0, 0, False)

    def statistics(self) -> dict[str, Any]:
        """For /readyz and metrics."""
        return {"kept_in": "memory"}

    async def close(self) -> None:
        """Write what is left."""
