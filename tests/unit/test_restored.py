"""Sessions of an earlier run, and what comes too late for one that was forgotten: nothing is mixed up or made up."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from codemode import CodeMode
from codemode.cells.cell import Cell
from codemode.errors import CellNotFound, JournalUnavailable
from codemode.journal.reading import CellContents
from codemode.journal.rows import EventRow
from codemode.journal.schema import connect
from codemode.journal.sqlite_journal import SqliteJournal
from codemode.lifecycle.events import LOST, EventLog, encoded
from codemode.sessions.following import follow
from codemode.sessions.past import PastCell
from codemode.sessions.recorder import Recorder
from tests.unit.test_journal import cell_row, event, opened, session_row

HANGS = "await new Promise((resolve) => setTimeout(resolve, 1e6))"


def texts(output: list[dict[str, Any]]) -> list[str]:
    return [item["text"] for item in output]


def change(folder: Path, statement: str, *values: Any) -> list[Any]:
    """The journal, between two runs."""
    with closing(connect(folder / "journal.sqlite3")) as connection:
        return connection.execute(statement, values).fetchall()


# Names


async def test_closing_a_session_again_does_nothing_to_the_next_of_its_name(tmp_path: Path) -> None:
    """A program may do so with an `async with` around what it deletes; a client with two deletes at once."""
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        async with cm.default_session():
            await cm.delete_session("default")
            await cm.exec("store('k', 'kept')")
        assert texts((await cm.exec("text(load('k'))")).output) == ["kept"]
        assert [session.session_id for session in cm.sessions.all()] == ["default"]
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        assert texts((await cm.exec("text(load('k'))")).output) == ["kept"]


async def test_a_service_is_entered_once(tmp_path: Path) -> None:
    """A second time it would go on from what its directory held at the first one."""
    cm = CodeMode(spares=1, data_dir=tmp_path)
    async with cm:
        with pytest.raises(RuntimeError, match="entered once"):
            await cm.__aenter__()
        await cm.exec("store('k', 1)")
    with pytest.raises(RuntimeError, match="entered once"):
        await cm.__aenter__()
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        assert texts((await cm.exec("text(load('k'))")).output) == ["1"]


# What cannot be read


async def test_a_declaration_that_cannot_be_read_costs_only_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Cells and values are there; a new session in its place would have taken the row of the old one."""
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        await cm.exec("store('k', 1); text('t')")
    change(tmp_path, "UPDATE sessions SET declaration = ?", b'{"limits": []}')
    for _ in range(2):
        async with CodeMode(spares=1, data_dir=tmp_path) as cm:
            assert texts((await cm.exec("text(load('k'))")).output) == ["1"]
            assert texts((await cm.wait("1", after=0)).output) == ["t"]
    assert "restored without its own tools and limits" in caplog.text


async def test_a_cell_that_cannot_be_read_costs_only_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its id is not given again."""
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        await cm.exec("text('a')")
        await cm.exec("text('b')")
    change(tmp_path, "UPDATE cells SET ending = ? WHERE cell = 2", b'{"error": {"kind": "of a later version", "x": 1}}')
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        assert texts((await cm.wait("1", after=0)).output) == ["a"]
        with pytest.raises(CellNotFound):
            await cm.wait("2")
        assert (await cm.exec("1")).cell_id == "3"
    assert "cell 2 of session default cannot be read" in caplog.text


async def test_output_that_was_left_out_is_warned_of(tmp_path: Path) -> None:
    """And what is there stands at the cursor that it was told with. Once, over any number of runs."""
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        await cm.exec("for (const each of 'abcde') text(each)")
        running = await cm.exec(f"for (const each of 'abcde') text(each); {HANGS}", yield_time_ms=100)
        assert running.cursor == 5
        change(tmp_path, "UPDATE cells SET status = 'completed' WHERE cell = 1")
        rows = change(tmp_path, "SELECT seq, cell, fields FROM events WHERE type = 'cell/output'")
    left_out = {(1, "b"), (1, "e"), (2, "a"), (2, "b")}
    for seq, cell, fields in rows:
        if (cell, json.loads(fields)["item"]["text"]) in left_out:
            change(tmp_path, "DELETE FROM events WHERE seq = ?", seq)
    change(tmp_path, "UPDATE cells SET status = 'running', ended_at = NULL, last_event = NULL WHERE cell = 2")
    for _ in range(2):
        async with CodeMode(spares=1, data_dir=tmp_path) as cm:
            for cell, whole in (("1", "a.cd."), ("2", "..cde")):
                seen = await cm.wait(cell, after=0)
                assert ("".join(text or "." for text in texts(seen.output)), seen.cursor) == (whole, 5)
                assert [each for each in seen.warnings if "2 items of its output are missing" in each] == seen.warnings
                assert texts((await cm.wait(cell, after=3)).output) == [each.strip(".") for each in whole[3:]]


# What is told of an end


async def test_the_end_of_a_lost_cell_is_told_like_any_other(tmp_path: Path) -> None:
    """The same fields in its event, so that who reads them needs no case of its own."""
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        await cm.exec("throw new Error('x')")
        await cm.exec(HANGS, yield_time_ms=0)
    change(tmp_path, "UPDATE cells SET status = 'running', ended_at = NULL, last_event = NULL WHERE cell = 2")
    change(tmp_path, "DELETE FROM events WHERE cell = 2 AND type = 'cell/ended'")
    SqliteJournal(tmp_path)
    honest, lost = (
        json.loads(fields) for (fields,) in change(tmp_path, "SELECT fields FROM events WHERE type = 'cell/ended'")
    )
    assert lost["error"]["kind"] == "server_restarted"
    for part in ((), ("error",), ("usage",), ("tool_calls",)):
        one, other = honest, lost
        for name in part:
            one, other = one[name], other[name]
        assert other.keys() == one.keys()


async def test_after_a_restart_too_those_that_ended_first_are_forgotten_first(tmp_path: Path) -> None:
    """Not those that were started first."""
    async with CodeMode(spares=2, data_dir=tmp_path) as cm:
        long = await cm.exec(HANGS, yield_time_ms=0)
        await cm.exec("2")
        await cm.terminate(long.cell_id)
    async with CodeMode(spares=1, data_dir=tmp_path, limits={"max_kept_bytes": 5000}) as cm:
        assert [cell.cell_id for cell in cm.default_session().cells()] == ["1"]


# What comes too late


class Reading(PastCell):
    """It is forgotten, or its session deleted, while its output is read."""

    def __init__(self) -> None:
        self.reading = asyncio.Event()
        self.may_end = asyncio.Event()

        async def read(_: Any) -> CellContents:
            self.reading.set()
            await self.may_end.wait()
            return CellContents([], [])

        super().__init__(cell_row(1, 1, status="failed", ended_at=1.0), None, read)  # type: ignore[arg-type]


async def test_a_cell_that_is_forgotten_while_it_is_read_is_not_there() -> None:
    """Its calls may be gone already: it would seem that it is safe to retry."""
    cell = Reading()
    observing = asyncio.ensure_future(cell.observe())
    await cell.reading.wait()
    cell.forgotten = True
    cell.may_end.set()
    with pytest.raises(CellNotFound):
        await observing


async def test_what_is_told_of_a_forgotten_cell_does_not_bring_it_back(tmp_path: Path) -> None:
    """The next run would know it again, and its key."""
    journal = await opened(tmp_path)
    journal.put(("session", 1), lambda: session_row(1))
    recorder = Recorder(journal, 1)
    cell = Reading()
    recorder.cell_changed(cell)
    cell.forgotten = True
    recorder.cell_forgotten(cell)
    await journal.settled()
    recorder.cell_changed(cell)
    await journal.close()
    assert change(tmp_path, "SELECT * FROM cells") == []


@pytest.mark.parametrize("is_past", [False, True])
async def test_who_leaves_while_the_disk_is_slow_takes_no_output_along(tmp_path: Path, is_past: bool) -> None:
    """Nor the news of the end: the next one who waits has both."""
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        started = await cm.exec("text('a'); yield_control(); text('b')")
        assert texts(started.output) == ["a"]
        if not is_past:
            await leave_early(cm, tmp_path)
            return
        cell = cm.default_session().cell("1")
        assert isinstance(cell, Cell)
        await cell.wait_concluded()
    async with CodeMode(spares=1, data_dir=tmp_path) as cm:
        await leave_early(cm, tmp_path)


async def leave_early(cm: CodeMode, folder: Path) -> None:
    cell = cm.default_session().cell("1")
    with closing(sqlite3.connect(folder / "journal.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = asyncio.ensure_future(cm.wait("1"))
        async with asyncio.timeout(3):
            while not cell.collected:
                await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait((waiting,))
        other.execute("ROLLBACK")
    again = await cm.wait("1")
    assert (texts(again.output), again.warnings, again.status) == (["b"], [], "completed")
    assert (await cm.wait("1")).warnings == ["already collected"]


# Gaps between events


@pytest.fixture
def gaps(tmp_path: Path) -> Path:
    """Of ten events of an earlier run, 4, 5 and 9 are no longer kept."""
    made = SqliteJournal(tmp_path)
    made._folder.close()
    change(tmp_path, "INSERT INTO sessions VALUES (1, 's', '', 1, 1, 0, '{}')")
    for seq in (1, 2, 3, 6, 7, 8, 10):
        row: EventRow = event(1, seq)
        change(tmp_path, "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", *row[:5], encoded(row.fields))
    return tmp_path


async def told(recorder: Recorder, after: int = 0) -> list[Any]:
    events = follow(recorder, after)
    found: list[Any] = []
    async for each in events:
        assert each is not None
        found.append(each.fields if each.type == LOST else each.seq)
        if each.seq == 10:
            break
    return found


async def test_each_gap_is_told(gaps: Path) -> None:
    """Not the first one alone: the output of cells that are known stays, what was told between it goes."""
    journal = await opened(gaps)
    recorder = Recorder(journal, 1, 10)
    assert await told(recorder) == [1, 2, 3, {"from": 4, "to": 5}, 6, 7, 8, {"from": 9, "to": 9}, 10]
    assert await told(recorder, 4) == [{"from": 5, "to": 5}, 6, 7, 8, {"from": 9, "to": 9}, 10]
    await journal.close()


async def test_events_that_wait_for_the_disk_are_not_told_to_be_lost(gaps: Path) -> None:
    """The stream ends where it is, and who comes back later has them."""
    journal = await opened(gaps)
    recorder = Recorder(journal, 1, 10)
    recorder.events = EventLog(1000, 10)
    file = gaps / "journal.sqlite3"
    file.rename(gaps / "away")
    for seq in (4, 5, 9):
        journal.event(event(1, seq))
    assert await journal.settled() is not None
    (gaps / "away").rename(file)
    found: list[int] = []
    with pytest.raises(JournalUnavailable):
        async for each in follow(recorder, 0):
            assert each is not None
            found.append(each.seq)
    assert found == [1, 2, 3]
    with pytest.raises(JournalUnavailable):  # of a cell nobody could see what is missing
        await anext(follow(recorder, 0, Reading()))
    await journal.close()
    journal = await opened(gaps)
    assert await told(Recorder(journal, 1, 10), 3) == [4, 5, 6, 7, 8, 9, 10]
    await journal.close()
