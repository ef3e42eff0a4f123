"""What is to be written next, and how it is written: one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from codemode.journal.rows import TABLES, CallRow, CellRow, EventRow, SessionRow, ValueRow
from codemode.lifecycle.events import encoded, memory_of

Row = SessionRow | ValueRow | CellRow | CallRow | EventRow

_PUT: Final = {
    kind: f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(kind._fields))})"  # type: ignore[attr-defined]
    for kind, table in TABLES.items()
}
_DROP_CELL: Final = (
    "DELETE FROM cells WHERE session = ? AND cell = ?",
    "DELETE FROM calls WHERE session = ? AND cell = ?",
)
_DROP_SESSION: Final = (  # its calls and events are taken away bit by bit, see retention
    "INSERT OR REPLACE INTO deleted_sessions VALUES (?)",
    "DELETE FROM sessions WHERE number = ?",
    "DELETE FROM stored_values WHERE session = ?",
    "DELETE FROM cells WHERE session = ?",
)
_ROW_BYTES: Final = 300


class Batch:
    """Changes since the last batch. Of a row that changes several times, only how it stands at the end is written.

    Rows are made by the callables that were handed in, when the batch is `sealed`: a thing may change a hundred
    times before that, and costs one row.
    """

    def __init__(self) -> None:
        self._makers: dict[tuple[Any, ...], Callable[[], Row | None]] = {}
        self._dropped_values: set[tuple[int, str]] = set()
        self._dropped_cells: list[tuple[int, int]] = []
        self._dropped_sessions: list[int] = []
        self._events: list[EventRow] = []
        self._rows: dict[type, list[Row]] = {}

    def __bool__(self) -> bool:
        return bool(
            self._makers
            or self._events
            or self._dropped_values
            or self._dropped_cells
            or self._dropped_sessions
            or self._rows
        )

    def put(self, key: tuple[Any, ...], make: Callable[[], Row | None]) -> None:
        """The row named `key` is to be as `make` says at the end; None if it is gone by then."""
        self._makers[key] = make

    def event(self, row: EventRow) -> None:
        """Append an event."""
        self._events.append(row)

    def value(self, row: ValueRow) -> None:
        """Set a stored value."""
        self._dropped_values.discard(row[:2])
        self._makers["value", row.session, row.key] = lambda: row

    def drop_value(self, session: int, key: str) -> None:
        """Delete a stored value."""
        self._makers.pop(("value", session, key), None)
        self._dropped_values.add((session, key))

    def drop_cell(self, session: int, cell: int) -> None:
        """Forget a cell and its calls."""
        self._dropped_cells.append((session, cell))

    def drop_session(self, session: int) -> None:
        """Forget a session."""
        self._dropped_sessions.append(session)

    @property
    def weight(self) -> int:
        """About the bytes that it holds."""
        rows = len(self._makers) + sum(map(len, self._rows.values()))
        return _ROW_BYTES * rows + sum(memory_of(row.fields) for row in self._events)

    def drop_events(self) -> int:
        """Leave its events out; their number."""
        dropped = len(self._events)
        self._events.clear()
        return dropped

    def seal(self) -> None:
        """Make the rows. To be called where the things change, on the event loop's thread."""
        for make in self._makers.values():
            row = make()
            if row is not None:
                self._rows.setdefault(type(row), []).append(row)
        self._makers.clear()

    def write(self, connection: sqlite3.Connection) -> None:
        """Write all in one transaction. Raises sqlite3.Error; nothing is written then."""
        with _transaction(connection):
            for kind, rows in self._rows.items():
                connection.executemany(_PUT[kind], rows)
            if self._events:
                connection.executemany(_PUT[EventRow], map(_event, self._events))
            self._drop(connection)

    def write_what_can_be(self, connection: sqlite3.Connection) -> int:
        """The same without the rows that cannot be written; their number. For a batch that `write` refused."""
        refused = 0
        rows: Iterable[tuple[type, Any]] = [
            *((kind, row) for kind, each in self._rows.items() for row in each),
            *((EventRow, row) for row in self._events),
        ]
        with _transaction(connection):
            for kind, row in rows:
                try:
                    connection.execute(_PUT[kind], _event(row) if kind is EventRow else row)
                except sqlite3.OperationalError:
                    raise  # of the disk, not of the row
                except Exception:
                    refused += 1
            self._drop(connection)
        return refused

    def _drop(self, connection: sqlite3.Connection) -> None:
        connection.executemany("DELETE FROM stored_values WHERE session = ? AND key = ?", self._dropped_values)
        for statement in _DROP_CELL:
            connection.executemany(statement, self._dropped_cells)
        for statement in _DROP_SESSION:
            connection.executemany(statement, ((number,) for number in self._dropped_sessions))


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _event(row: EventRow) -> tuple[Any, ...]:
    fields = row.fields if isinstance(row.fields, bytes) else encoded(row.fields)
    return (*row[:5], fields)
