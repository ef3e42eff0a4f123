"""Takes away what has had its time, in small steps, and gives the room back to the disk."""

from __future__ import annotations

import sqlite3
from typing import Final, NamedTuple

STEP: Final = 500  # rows taken away at once: some milliseconds, in which no batch is written
_PAGES: Final = 256  # given back at once

EVENTS_BEFORE: Final = """
DELETE FROM events WHERE (session, seq) IN (
    SELECT session, seq FROM events AS each WHERE at < ?
    AND NOT EXISTS (SELECT 1 FROM cells WHERE cells.session = each.session AND cells.cell = each.cell)
    AND seq < (SELECT max(seq) FROM events AS newest WHERE newest.session = each.session)
    ORDER BY at LIMIT ?
)
"""


class Trimmed(NamedTuple):
    """Rows that were taken away, and the bytes by which the file is still too large."""

    rows: int
    excess_bytes: int


def step(connection: sqlite3.Connection, oldest: float, most_bytes: int) -> Trimmed:
    """Take away up to `STEP` rows: what deleted sessions left, events from before `oldest`, or, while the file is too
    large, the oldest ones.

    The output of cells that are still known stays, as does each session's last event, whose number must not be
    given again.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        rows = _of_deleted(connection) or _events_before(connection, oldest)
        if not rows and used_bytes(connection) > most_bytes:
            rows = _events_before(connection, float("inf"))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    connection.executescript(f"PRAGMA incremental_vacuum({_PAGES})")  # `execute` would stop after the first page
    return Trimmed(rows, max(0, used_bytes(connection) - most_bytes))


def used_bytes(connection: sqlite3.Connection) -> int:
    """The size of what the file holds, without pages that are free."""
    pages, free, size = (
        int(connection.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    return (pages - free) * size


def checkpoint(connection: sqlite3.Connection) -> int:
    """Carry what is committed from the log into the file, holding up nobody; the size of the log in bytes."""
    _, frames, _ = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int(frames) * int(size)


def restart_log(connection: sqlite3.Connection) -> None:
    """The same for the rest, and begin the log anew; by whoever writes, so that it is short."""
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _of_deleted(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT number FROM deleted_sessions LIMIT 1").fetchone()
    if found is None:
        return 0
    rows = 0
    for table, key in (("events", "session, seq"), ("calls", "session, cell, number")):
        rows += connection.execute(
            f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE session = ? LIMIT ?)",
            (*found, STEP),
        ).rowcount
    if not rows:
        connection.execute("DELETE FROM deleted_sessions WHERE number = ?", found)
        return STEP  # there may be another one
    return max(rows, STEP)


def _events_before(connection: sqlite3.Connection, moment: float) -> int:
    return connection.execute(EVENTS_BEFORE, (moment, STEP)).rowcount
