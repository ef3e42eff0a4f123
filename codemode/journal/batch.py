"""What is to be written next, and how it is written: one transaction."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from codemode.journal.rows import TABLES, CallRow, CellRow, EventRow, OpenCallRow, SessionRow, ValueRow
from codemode.lifecycle.events import encoded

Row = SessionRow | CellRow | CallRow | OpenCallRow
Key = tuple[Any, ...]  # of a row: its kind, the session's number, the cell and the call if it belongs to one
_log = logging.getLogger(__name__)

_PUT: Final = {
    kind: f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * columns)})"
    for kind, (table, columns) in TABLES.items()
}
_DROP_CELL: Final = (
    "DELETE FROM cells WHERE session = ? AND cell = ?",
    "DELETE FROM calls WHERE session = ? AND cell = ?",
)
_DROP_OPEN_CALL: Final = "DELETE FROM open_calls WHERE session = ? AND tool_use_id = ?"
_DROP_SESSION: Final = (  # its calls and events are taken away bit by bit, see retention
    "INSERT OR REPLACE INTO deleted_sessions VALUES (?)",
    "DELETE FROM sessions WHERE number = ?",
    "DELETE FROM stored_values WHERE session = ?",
    "DELETE FROM cells WHERE session = ?",
    "DELETE FROM open_calls WHERE session = ?",
)
_ROW_BYTES: Final = 300


class Batch:
    """Changes since the last batch. Of a row that changes several times, only how it stands at the end is written.

    Rows are made by the callables that were handed in, when the batch is `sealed`: a thing may change a hundred
    times before that, and costs one row.
    """

    def __init__(self) -> None:
        self._makers: dict[Key, Callable[[], Row | None]] = {}
        self._rows: dict[Key, Row] = {}
        self._values: dict[int, dict[str, str | None]] = {}
        self._dropped_cells: set[tuple[int, int]] = set()
        self._dropped_open_calls: set[tuple[int, str]] = set()
        self._dropped_sessions: set[int] = set()
        self._events: list[EventRow] = []
        self._event_bytes = 0
        self._value_bytes = 0

    def __bool__(self) -> bool:
        return bool(
            self._makers
            or self._events
            or self._values
            or self._dropped_cells
            or self._dropped_open_calls
            or self._dropped_sessions
            or self._rows
        )

    def put(self, key: Key, make: Callable[[], Row | None]) -> None:
        """The row named `key` is to be as `make` says at the end; None if it is gone by then."""
        self._makers[key] = make

    def event(self, row: EventRow) -> None:
        """Append an event."""
        self._events.append(row)
        self._event_bytes += _ROW_BYTES + row.size

    def values(self, session: int, written: Mapping[str, str | None]) -> None:
        """Set stored values; None deletes. In few steps: a script may have stored tens of thousands."""
        held = self._values.setdefault(session, {})
        self._value_bytes += _size(written) - _size({key: held[key] for key in held.keys() & written.keys()})
        held.update(written)

    def drop_cell(self, session: int, cell: int) -> None:
        """Forget a cell and its calls."""
        self._dropped_cells.add((session, cell))

    def drop_open_call(self, session: int, tool_use_id: str) -> None:
        """A call that was open has ended."""
        self._dropped_open_calls.add((session, tool_use_id))

    def drop_session(self, session: int) -> None:
        """Forget a session."""
        self._dropped_sessions.add(session)
        self._value_bytes -= _size(self._values.pop(session, {}))

    @property
    def weight(self) -> int:
        """About the bytes that it holds."""
        return _ROW_BYTES * (len(self._makers) + len(self._rows)) + self._value_bytes + self._event_bytes

    def drop_events(self) -> int:
        """Leave its events out; their number."""
        dropped = len(self._events)
        self._events.clear()
        self._event_bytes = 0
        return dropped

    def seal(self) -> int:
        """Make the rows. To be called where the things change, on the event loop's thread.

        A row that cannot be made is left out, since everybody would wait for it for ever; returns how many. Of cells
        and sessions that were dropped no row is kept: a disk may refuse to be written for days.
        """
        refused = 0
        for key, make in self._makers.items():
            try:
                row = make()
            except Exception:
                _log.exception("a row of the journal cannot be made: %s", key)
                refused += 1
                continue
            if row is not None:
                self._rows[key] = row
        self._makers.clear()
        if self._dropped_cells or self._dropped_sessions or self._dropped_open_calls:
            self._rows = {key: row for key, row in self._rows.items() if not self._is_dropped(row)}
        return refused

    def _is_dropped(self, row: Row) -> bool:
        if isinstance(row, SessionRow):
            return row.number in self._dropped_sessions
        if isinstance(row, OpenCallRow):
            return row.session in self._dropped_sessions or row[:2] in self._dropped_open_calls
        return row.session in self._dropped_sessions or (row.session, row.cell) in self._dropped_cells

    def write(self, connection: sqlite3.Connection) -> None:
        """Write all in one transaction. Raises sqlite3.Error; nothing is written then."""
        with _transaction(connection):
            for kind, rows in self._by_kind().items():
                connection.executemany(_PUT[kind], rows)
            if self._events:
                connection.executemany(_PUT[EventRow], map(_event, self._events))
            self._write_values(connection)
            self._drop(connection)

    def write_what_can_be(self, connection: sqlite3.Connection) -> int:
        """The same without the rows that cannot be written; their number. For a batch that `write` refused.

        Raises sqlite3.Error for what is not a row's fault: a full disk, or a file that is damaged.
        """
        refused = 0
        kinds: dict[type, list[Any]] = {**self._by_kind(), EventRow: self._events}
        with _transaction(connection):
            for kind, rows in kinds.items():
                for row in rows:
                    try:
                        connection.execute(_PUT[kind], _event(row) if kind is EventRow else row)
                    except Exception as problem:
                        if _is_of_file(problem):
                            raise
                        refused += 1
            self._write_values(connection)
            self._drop(connection)
        return refused

    def _by_kind(self) -> dict[type, list[Row]]:
        kinds: dict[type, list[Row]] = {}
        for row in self._rows.values():
            kinds.setdefault(type(row), []).append(row)
        return kinds

    def _write_values(self, connection: sqlite3.Connection) -> None:
        for session, written in self._values.items():
            kept = ((session, key, value) for key, value in written.items() if value is not None)
            connection.executemany(_PUT[ValueRow], kept)
            dropped = ((session, key) for key, value in written.items() if value is None)
            connection.executemany("DELETE FROM stored_values WHERE session = ? AND key = ?", dropped)

    def _drop(self, connection: sqlite3.Connection) -> None:
        connection.executemany(_DROP_OPEN_CALL, self._dropped_open_calls)
        for statement in _DROP_CELL:
            connection.executemany(statement, self._dropped_cells)
        for statement in _DROP_SESSION:
            connection.executemany(statement, ((number,) for number in self._dropped_sessions))


def _size(written: Mapping[str, str | None]) -> int:
    return _ROW_BYTES * len(written) + sum(map(len, filter(None, written.values())))


def _is_of_file(problem: Exception) -> bool:
    """Whether the next row would meet the same. What is damaged, or no database any more, is a plain DatabaseError."""
    return isinstance(problem, sqlite3.OperationalError) or type(problem) is sqlite3.DatabaseError


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
    return (*row[:5], encoded(row.fields))
