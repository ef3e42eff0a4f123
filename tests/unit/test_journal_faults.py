"""A journal whose file, disk or writer misbehaves: nothing is lost in silence, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from codemode.errors import InvalidRequest
from codemode.journal import reading, retention, sqlite_journal
from codemode.journal.batch import Batch
from codemode.journal.rows import CallRow, CellRow, EventRow, SessionRow
from codemode.journal.schema import connect
from codemode.journal.sqlite_journal import SqliteJournal
from codemode.limits import Limits
from codemode.sessions import housekeeping
from codemode.sessions.registry import Sessions
from tests.unit.test_journal import cell_row, event, opened, session_row

SOON = 5.0


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    made = await opened(tmp_path / "data")
    made.put(("session", 1), lambda: session_row(1))
    await made.settled()
    yield made
    await made.close()


@pytest.fixture
def file(journal: SqliteJournal, tmp_path: Path) -> Path:
    return tmp_path / "data" / "journal.sqlite3"


@pytest.fixture
def lock(file: Path) -> Iterator[sqlite3.Connection]:
    """Somebody else is about to write, and takes a while."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


@pytest.mark.parametrize("what", ["moved", "deleted", "replaced"])
async def test_a_file_that_is_gone_is_told(journal: SqliteJournal, file: Path, what: str) -> None:
    """SQLite would write on into it, and the next server would find nothing."""
    if what == "deleted":
        file.unlink()
    else:
        file.rename(file.with_name("old"))
    if what == "replaced":
        file.write_bytes(file.with_name("old").read_bytes())
    journal.event(event(1, 1))
    assert "moved, replaced or deleted" in (await journal.settled() or "")
    assert "moved, replaced or deleted" in (journal.trouble or "")
    assert file.exists() == (what == "replaced"), "a reader or the writer made an empty one"


async def test_a_file_that_is_back_is_written_again(
    journal: SqliteJournal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all that came meanwhile."""
    monkeypatch.setattr(sqlite_journal, "_RETRY", 0.01)
    file.rename(file.with_name("old"))
    journal.event(event(1, 1))
    await journal.settled()
    assert journal.trouble is not None
    file.with_name("old").rename(file)
    async with asyncio.timeout(SOON):
        while journal.trouble is not None:
            await asyncio.sleep(0.01)
    assert [row.seq for row in await journal.read_events(1, 0, 9, None)] == [1]


async def test_a_damaged_page_is_no_fault_of_the_rows(tmp_path: Path) -> None:
    """They are not left out in silence: answers say that they would not survive."""
    journal = await opened(tmp_path)
    journal.put(("session", 1), lambda: session_row(1))
    for seq in range(1, 40):
        journal.event(event(1, seq, text="x" * 3000))
    await journal.close()
    connection = connect(tmp_path / "journal.sqlite3")
    connection.execute("PRAGMA writable_schema = ON")
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'cells'").fetchone()
    connection.close()
    journal = await opened(tmp_path)
    with (tmp_path / "journal.sqlite3").open("r+b") as damaged:
        damaged.seek((root - 1) * 4096)
        damaged.write(b"\xff" * 4096)
    journal.put(("cell", 1, "1"), lambda: cell_row(1, 1, status="completed"))
    told = await journal.settled()
    statistics = journal.statistics()
    await journal.close()
    assert (told, statistics["rows_left_out"]) == (statistics["trouble"], 0)
    assert "malformed" in (told or "")


async def test_a_row_that_cannot_be_made_holds_up_nobody(
    journal: SqliteJournal, caplog: pytest.LogCaptureFixture
) -> None:
    """It is left out, logged, counted and told; what came with it is written."""

    def fails() -> CellRow:
        raise RuntimeError("no such row")

    journal.put(("cell", 1, "1"), fails)
    journal.put(("cell", 1, "2"), lambda: cell_row(1, 2))
    assert await journal.settled() == "the journal left out what cannot be written"
    assert await journal.settled() is None
    assert journal.statistics()["rows_left_out"] == 1
    assert "no such row" in caplog.text
    connection = connect(journal._folder.file)
    assert [cell.cell for cell in reading.sessions(connection)[0].cells] == [2]
    connection.close()


async def test_who_waited_in_vain_is_told_so(
    journal: SqliteJournal, lock: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the disk answers again before they run: what they wait for is not what was written then."""
    monkeypatch.setattr(sqlite_journal, "_PATIENCE", 0.05)
    journal.event(event(1, 1))
    journal.hurry()
    journal.event(event(1, 2))
    waits = [asyncio.ensure_future(journal.settled()) for _ in range(3)]
    told = await asyncio.gather(*waits)
    assert all("has not answered" in (each or "") for each in told)
    lock.execute("ROLLBACK")
    async with asyncio.timeout(SOON):
        while journal.trouble is not None:
            await asyncio.sleep(0.01)
    assert await journal.settled() is None
    assert [row.seq for row in await journal.read_events(1, 0, 9, None)] == [1, 2]


async def test_a_journal_that_is_closed_tries_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop in order loses nothing that the disk has room for by then."""
    journal = await opened(tmp_path)
    file, away = tmp_path / "journal.sqlite3", tmp_path / "away"
    monkeypatch.setattr(sqlite_journal, "_RETRY", 3600.0)
    journal.put(("session", 1), lambda: session_row(1))
    file.rename(away)
    journal.event(event(1, 1))
    assert await journal.settled() is not None
    journal.values(1, {"k": "1"})
    away.rename(file)
    await journal.close()
    after = SqliteJournal(tmp_path)
    assert [(state.values, state.last_event) for state in after.sessions] == [({"k": "1"}, 1)]


async def test_a_reader_is_not_waited_for(journal: SqliteJournal, file: Path) -> None:
    """Somebody who makes a copy keeps the log from being begun anew, and no answer from going out."""
    journal.event(event(1, 1))
    await journal.settled()
    reader = sqlite3.connect(file, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM events").fetchone()
    journal.event(event(1, 2))
    await journal.settled()
    began = time.monotonic()
    restarting = journal._writer.run(retention.restart_log)
    journal.event(event(1, 3))
    assert await journal.settled() is None
    await restarting
    assert time.monotonic() - began < 2
    assert await journal._writer.run(lambda each: each.execute("PRAGMA busy_timeout").fetchone()) == (5000,)
    reader.close()


async def test_the_log_is_carried_over_by_its_size(journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by the number of batches, each of which may have megabytes."""
    monkeypatch.setattr(sqlite_journal, "_LONG_LOG", 1024 * 1024)
    log = Path(journal._folder.file + "-wal")
    largest = 0
    for seq in range(1, 41):
        text = "x" * (2 * 1024 * 1024)
        journal.event(event(1, seq, text=text)._replace(size=len(text)))
        await journal.settled()
        largest = max(largest, log.stat().st_size)
    assert largest < 60 * 1024 * 1024
    assert journal.statistics()["trouble"] is None


# What is held while a disk refuses to be written


def put(batch: Batch, *rows: Any) -> None:
    for row in rows:
        kind = {SessionRow: "session", CellRow: "cell", CallRow: "call"}[type(row)]
        batch.put((kind, *row[: 1 if kind == "session" else 3]), lambda row=row: row)  # type: ignore[misc]  # mypy cannot infer it


def test_of_cells_that_were_forgotten_nothing_is_held() -> None:
    """A server that goes on for days without a disk does not fill its memory with them."""
    batch = Batch()
    for cell in range(1, 101):
        put(batch, cell_row(1, cell), CallRow(1, cell, 1, "tu", "t", "completed", 1.0, 2.0, None))
        batch.seal()
        batch.drop_cell(1, cell)
    put(batch, cell_row(1, 101))
    batch.seal()
    assert batch.weight < 1000


def test_of_sessions_that_were_deleted_nothing_is_held() -> None:
    """Nor what they had stored."""
    batch = Batch()
    for session in range(1, 101):
        put(
            batch,
            session_row(session),
            cell_row(session, 1),
            CallRow(session, 1, 1, "tu", "t", "queued", None, None, None),
        )
        batch.values(session, {"k": "v" * 10_000})
        batch.seal()
        batch.drop_session(session)
    put(batch, session_row(101))
    for _ in range(100):
        batch.values(101, {"k": "v" * 500})
    batch.seal()
    assert batch.weight < 2000


async def test_a_disk_that_hangs_is_no_reason_to_hold_without_end(
    journal: SqliteJournal, lock: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It never says no, so nobody would look at how much waits."""
    monkeypatch.setattr(sqlite_journal, "_PATIENCE", 0.01)
    monkeypatch.setattr(sqlite_journal, "_MOST_HELD", 100_000)
    journal.event(event(1, 1))
    await journal.settled()
    for seq in range(2, 1000):
        journal.event(event(1, seq)._replace(size=1000))
    assert journal._next.weight <= 110_000
    assert journal.statistics()["rows_left_out"] > 800
    lock.execute("ROLLBACK")


async def test_a_journal_that_grows_fast_is_looked_at_earlier(
    tmp_path: Path, journal: SqliteJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a minute of output can be gigabytes."""
    monkeypatch.setattr(housekeeping, "_LOOK_S", 0.01)
    monkeypatch.setattr(housekeeping, "_LOOKS", 10**9)
    trimmed = asyncio.Event()

    async def trim(*_: Any) -> retention.Trimmed:
        trimmed.set()
        return retention.Trimmed(0, 0, False)

    monkeypatch.setattr(journal, "trim", trim)
    sessions = Sessions(None, Limits(), [])  # type: ignore[arg-type]
    async with housekeeping.Housekeeping(journal, sessions, Limits(max_journal_mb=8)):
        await asyncio.sleep(0.05)
        assert not trimmed.is_set()
        journal.event(event(1, 1)._replace(size=3 * 1024 * 1024))
        await asyncio.wait_for(trimmed.wait(), SOON)


# The directory


async def test_a_relative_directory_stays_the_same_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the program goes, and whatever a link points to later."""
    (tmp_path / "one ü%?#").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "link").symlink_to("one ü%?#")
    monkeypatch.chdir(tmp_path)
    journal = await opened(Path("link/data"))
    journal.put(("session", 1), lambda: session_row(1))
    journal.event(event(1, 1))
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("two")
    monkeypatch.chdir(tmp_path / "two")
    assert [row.seq for row in await journal.read_events(1, 0, 9, None)] == [1]
    assert journal.trouble is None
    await journal.close()
    assert list((tmp_path / "two").iterdir()) == []


def test_a_journal_that_nobody_started_lets_its_directory_go(tmp_path: Path) -> None:
    """As of a CodeMode that was made and never entered."""
    first = SqliteJournal(tmp_path)
    with pytest.raises(InvalidRequest, match="in use"):
        SqliteJournal(tmp_path)
    del first
    gc.collect()
    SqliteJournal(tmp_path)


def test_the_log_is_for_nobody_else_either(tmp_path: Path) -> None:
    """Even in a directory that others may read."""
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        journal = SqliteJournal(tmp_path)
        connection = connect(journal._folder.file)
        connection.execute("DELETE FROM events")
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        connection.close()
    finally:
        os.umask(before)
    assert set(modes.values()) == {0o600}, modes


async def test_a_start_that_cannot_write_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells have to be ended, and somebody else holds the file; no traceback."""
    journal = await opened(tmp_path)
    journal.put(("session", 1), lambda: session_row(1))
    journal.put(("cell", 1, "1"), lambda: cell_row(1, 1))
    await journal.close()
    other = sqlite3.connect(tmp_path / "journal.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr("codemode.journal.folder.connect", lambda path: connect(path, timeout=0.05))
    with pytest.raises(InvalidRequest, match="cannot be opened or written: database is locked"):
        SqliteJournal(tmp_path)
    other.close()
    (state,) = SqliteJournal(tmp_path).sessions
    assert state.cells[0].status == "failed"


async def test_a_large_step_does_not_hold_up_the_writer(tmp_path: Path) -> None:
    """Rows may have megabytes: what is taken away at once is bounded by their bytes as well."""
    journal = await opened(tmp_path)
    journal.put(("session", 1), lambda: session_row(1))
    for seq in range(1, 31):
        journal.event(EventRow(1, seq, None, "cell/output", 1.0, b'{"t":"' + b"x" * 1024 * 1024 + b'"}'))
    await journal.settled()
    connection = connect(journal._folder.file)
    assert len(retention.find(connection, 2.0, 10**12).events) < 10
    connection.close()
    done = await journal.trim(2.0, 1024 * 1024)
    assert (done.rows, done.more) == (29, False)
    connection = connect(journal._folder.file)
    assert retention.used_bytes(connection) < 3 * 1024 * 1024
    assert connection.execute("PRAGMA page_count").fetchone()[0] * 4096 < 3 * 1024 * 1024
    connection.close()
    await journal.close()
