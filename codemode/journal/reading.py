"""Reads what lasts: everything a session needs at the start, and the rest when somebody asks."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from codemode.journal.rows import CallRow, CellRow, EventRow, LostCall, SessionRow

_PAGE: Final = 200  # events read at once
_PAGE_BYTES: Final = 1024 * 1024  # and about how much of them


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as it was: its values, its cells without output, the number of its last event, calls that were lost."""

    row: SessionRow
    values: dict[str, str]
    cells: list[CellRow]
    last_event: int
    lost: Sequence[LostCall] = ()
    direct_calls: Sequence[str] = ()  # names that direct calls had


class CellContents(NamedTuple):
    """The rest of a cell: its calls, and the events that tell of its output, in order."""

    calls: list[CallRow]
    output: list[EventRow]


def sessions(
    connection: sqlite3.Connection, lost: Mapping[int, Sequence[LostCall]] = MappingProxyType({})
) -> list[SessionState]:
    """All sessions, in the order they were made. `lost` are the calls that were lost, by session."""
    found = []
    for row in map(SessionRow._make, connection.execute("SELECT * FROM sessions ORDER BY number").fetchall()):
        number = (row.number,)
        values = dict(connection.execute("SELECT key, value FROM stored_values WHERE session = ?", number).fetchall())
        cells = connection.execute("SELECT * FROM cells WHERE session = ? ORDER BY cell", number).fetchall()
        (last,) = connection.execute("SELECT max(seq) FROM events WHERE session = ?", number).fetchone()
        rows = [CellRow._make(cell) for cell in cells]
        named = connection.execute("SELECT tool_use_id FROM open_calls WHERE session = ?", number).fetchall()
        names = [name for (name,) in named]
        found.append(SessionState(row, values, rows, last or 0, lost.get(row.number, ()), names))
    return found


def last_session(connection: sqlite3.Connection) -> int:
    """The largest number that any session ever had."""
    found = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'sessions'").fetchone()
    return int(found[0]) if found else 0


def cell(connection: sqlite3.Connection, session: int, number: int, first: int, last: int | None) -> CellContents:
    """The calls and the output of a cell whose events have numbers from `first` to `last`."""
    calls = connection.execute(
        "SELECT * FROM calls WHERE session = ? AND cell = ? ORDER BY number", (session, number)
    ).fetchall()
    output = connection.execute(
        "SELECT * FROM events WHERE session = ? AND seq BETWEEN ? AND ? AND cell = ?"
        " AND type IN ('cell/output', 'cell/notification') ORDER BY seq",
        (session, first, 2**62 if last is None else last, number),
    ).fetchall()
    return CellContents([CallRow._make(call) for call in calls], [EventRow(*event) for event in output])


def events(connection: sqlite3.Connection, session: int, after: int, before: int, number: int | None) -> list[EventRow]:
    """The next events of a session, or of one cell of it, after one number and before another."""
    found: list[EventRow] = []
    held = 0
    rows = connection.execute(
        "SELECT * FROM events WHERE session = ? AND seq > ? AND seq < ? AND (? IS NULL OR cell = ?) ORDER BY seq",
        (session, after, before, number, number),
    )
    for row in (EventRow(*each) for each in rows):
        found.append(row)
        held += len(cast("bytes", row.fields))
        if len(found) == _PAGE or held > _PAGE_BYTES:
            break
    rows.close()
    return found
