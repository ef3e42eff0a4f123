"""The tables of the journal, in the versions they had: a newer codemode brings an older file up to date."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from codemode.errors import InvalidRequest

_FIRST: Final = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    key TEXT NOT NULL,
    created_at REAL NOT NULL,
    used_at REAL NOT NULL,
    last_cell INTEGER NOT NULL,
    declaration BLOB NOT NULL,
    UNIQUE (key, session_id)
);
CREATE TABLE stored_values (
    session INTEGER NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (session, key)
) WITHOUT ROWID;
CREATE TABLE cells (
    session INTEGER NOT NULL,
    cell INTEGER NOT NULL,
    status TEXT NOT NULL,
    created_at REAL NOT NULL,
    ended_at REAL,
    turn_id TEXT,
    tool_call_id TEXT,
    parent_tool_use_id TEXT NOT NULL,
    idempotency_key TEXT,
    source_digest BLOB,
    first_event INTEGER NOT NULL,
    last_event INTEGER,
    cursor INTEGER NOT NULL,
    output_bytes INTEGER NOT NULL,
    taken INTEGER NOT NULL,
    collected INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    ending BLOB,
    PRIMARY KEY (session, cell)
) WITHOUT ROWID;
CREATE TABLE calls (
    session INTEGER NOT NULL,
    cell INTEGER NOT NULL,
    number INTEGER NOT NULL,
    tool_use_id TEXT NOT NULL,
    tool_name TEXT NOT NULL,
    state TEXT NOT NULL,
    started_at REAL,
    ended_at REAL,
    PRIMARY KEY (session, cell, number)
) WITHOUT ROWID;
CREATE TABLE events (
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    cell INTEGER,
    type TEXT NOT NULL,
    at REAL NOT NULL,
    fields BLOB NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE INDEX events_at ON events (at);
CREATE TABLE deleted_sessions (number INTEGER PRIMARY KEY);
"""

_OPEN_CALLS: Final = """
ALTER TABLE calls ADD COLUMN exit_code INTEGER;
CREATE TABLE open_calls (
    session INTEGER NOT NULL,
    tool_use_id TEXT NOT NULL,
    cell INTEGER,
    number INTEGER NOT NULL,
    turn_id TEXT,
    told BLOB NOT NULL,
    ended INTEGER NOT NULL,
    PRIMARY KEY (session, tool_use_id)
) WITHOUT ROWID;
"""

# The script at place N takes a file from version N to N + 1. Those that were published are never changed.
MIGRATIONS: Final[Sequence[str]] = (_FIRST, _OPEN_CALLS)

_PRAGMAS: Final = (
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "wal_autocheckpoint=0",
    "cell_size_check=ON",
)


def connect(path: str | os.PathLike[str], *, timeout: float = 5.0) -> sqlite3.Connection:
    """A connection for one thread at a time. Commits survive the end of this process, at any moment.

    They are not flushed to the disk one by one (`synchronous=NORMAL`): a power cut may take the last ones, and never
    damages the file. Checkpoints are made by whoever keeps house, not by the commit that happens to fill the log.
    A file that is not there is not made: where one was, an empty one would be taken for it.
    """
    place = f"file:{quote(os.fspath(path))}?mode=rw"
    connection = sqlite3.connect(place, timeout=timeout, isolation_level=None, check_same_thread=False, uri=True)
    if connection.execute("PRAGMA page_count").fetchone() == (0,):  # it is new; on an old one this would write
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL").close()  # room is given back piece by piece
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()
    return connection


def migrate(connection: sqlite3.Connection, scripts: Sequence[str] = MIGRATIONS) -> None:
    """Bring the tables up to date, each step whole or not at all. Raises InvalidRequest for newer ones."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(scripts):
        raise InvalidRequest(
            f"the journal has version {version}, and this codemode knows versions up to {len(scripts)}: "
            "it was written by a newer codemode; use that one, or another directory"
        )
    for number, script in enumerate(scripts[version:], version + 1):
        connection.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version={number}; COMMIT;")
