"""Takes away what has had its time, in small steps, and gives the room back to the disk."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

# What is taken away at once, rows and about the bytes, and pages given back: some milliseconds without a batch.
STEP: Final = 500
_STEP_BYTES: Final = 8 * 1024 * 1024
_PAGES: Final = 256

EVENTS_BEFORE: Final = """
SELECT session, seq, length(fields) FROM events AS each WHERE at < ?
AND NOT EXISTS (SELECT 1 FROM cells WHERE cells.session = each.session AND cells.cell = each.cell)
AND seq < (SELECT max(seq) FROM events AS newest WHERE newest.session = each.session)
ORDER BY at LIMIT ?
"""


class Found(NamedTuple):
    """Events that may go, as session and number, and whether there may be more of them."""

    events: list[tuple[int, int]]
    more: bool


class Trimmed(NamedTuple):
    """Rows that were taken away, the bytes by which the file is still too large, whether there is more to take."""

    rows: int
    excess_bytes: int
    more: bool
    log_bytes: int = 0  # about what it wrote to the log


def find(connection: sqlite3.Connection, oldest: float, most_bytes: int) -> Found:
    """Events that may go in one step: those from before `oldest` or, while the file is too large, the oldest ones.

    The output of cells that are still known stays, as does each session's last event, whose number must not be
    given again. Where much stays this reads long; it holds up no writer.
    """
    found = _events_before(connection, oldest)
    if not found.events and used_bytes(connection) > most_bytes:
        found = _events_before(connection, float("inf"))
    return found


def step(connection: sqlite3.Connection, found: Found, most_bytes: int) -> Trimmed:
    """Take away these, or what deleted sessions left, and give back room to the disk."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        rows, more = _of_deleted(connection), True
        if not rows:
            connection.executemany("DELETE FROM events WHERE session = ? AND seq = ?", found.events)
            rows, more = len(found.events), found.more
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    before, _, _ = _pages(connection)
    connection.executescript(f"PRAGMA incremental_vacuum({_PAGES})")  # `execute` would stop after the first page
    pages, free, size = _pages(connection)
    shrinks = pages < before and free > 0 and pages * size > most_bytes
    return Trimmed(rows, max(0, (pages - free) * size - most_bytes), more or shrinks, (before - pages) * size)


def used_bytes(connection: sqlite3.Connection) -> int:
    """The size of what the file holds, without pages that are free."""
    pages, free, size = _pages(connection)
    return (pages - free) * size


def _pages(connection: sqlite3.Connection) -> list[int]:
    names = ("page_count", "freelist_count", "page_size")
    return [int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in names]


def checkpoint(connection: sqlite3.Connection) -> int:
    """Carry what is committed from the log into the file, holding up nobody; the size of the log in bytes."""
    _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(frames) * int(size)


def restart_log(connection: sqlite3.Connection) -> None:
    """The same for the rest, and begin the log anew; by whoever writes, so that it is short.

    A reader that is in the way, like somebody who makes a copy, is not waited for: answers would have to wait as well.
    """
    (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")


def _of_deleted(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT number FROM deleted_sessions LIMIT 1").fetchone()
    if found is None:
        return 0
    rows, _ = _few(
        connection.execute("SELECT session, seq, length(fields) FROM events WHERE session = ? LIMIT ?", (*found, STEP))
    )
    connection.executemany("DELETE FROM events WHERE session = ? AND seq = ?", rows)
    key = "session, cell, number"
    calls = connection.execute(
        f"DELETE FROM calls WHERE ({key}) IN (SELECT {key} FROM calls WHERE session = ? LIMIT ?)", (*found, STEP)
    )
    if not rows and not calls.rowcount:
        connection.execute("DELETE FROM cells WHERE session = ?", found)
        connection.execute("DELETE FROM deleted_sessions WHERE number = ?", found)
        return 1  # there may be another one
    return len(rows) + calls.rowcount


def _events_before(connection: sqlite3.Connection, moment: float) -> Found:
    return _few(connection.execute(EVENTS_BEFORE, (moment, STEP)))


def _few(rows: Iterable[tuple[int, int, int]]) -> Found:
    events: list[tuple[int, int]] = []
    size = 0
    for session, seq, length in rows:
        events.append((session, seq))
        size += length
        if size >= _STEP_BYTES:
            break
    return Found(events, size >= _STEP_BYTES or len(events) == STEP)
