"""The journal: what was settled is there for the next one, whatever order it came in."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codemode.cells.observation import ScriptError, Usage
from codemode.errors import InvalidRequest
from codemode.journal import reading, retention
from codemode.journal.rows import CallRow, CellRow, EventRow, SessionRow
from codemode.journal.schema import MIGRATIONS, connect, migrate
from codemode.journal.sqlite_journal import SqliteJournal


def session_row(number: int, **changed: Any) -> SessionRow:
    return SessionRow(number, f"s{number}", "key", 1.0, 2.0, 0, b"{}")._replace(**changed)


def cell_row(session: int, cell: int, **changed: Any) -> CellRow:
    row = CellRow(session, cell, "running", 1.0, None, None, None, "tu", None, None, 1, None, 0, 0, 0, False, 0, None)
    return row._replace(**changed)


def event(session: int, seq: int, cell: int | None = 1, at: float = 1.0, text: str = "a") -> EventRow:
    fields = {"cursor": 1, "item": {"type": "text", "text": text}}
    return EventRow(session, seq, cell, "cell/output", at, fields)


async def opened(path: Path) -> SqliteJournal:
    journal = SqliteJournal(path)
    journal.start()
    return journal


async def test_what_was_settled_is_there_for_the_next_one(tmp_path: Path) -> None:
    """Without a close: a killed process makes none. The lock is let go of, as the kernel would."""
    journal = await opened(tmp_path)
    number = journal.new_session()
    row = session_row(number, last_cell=3)
    journal.put(("session", number), lambda: row)
    journal.values(number, {"k": '"v"'})
    journal.put(("cell", number, "3"), lambda: cell_row(number, 3, status="completed", ended_at=5.0, ending=b"{}"))
    journal.put(("call", number, "3", 1), lambda: CallRow(number, 3, 1, "tu_1", "echo", "completed", 1.0, 2.0, None))
    journal.event(event(number, 1, 3))
    await journal.settled()
    journal._folder.close()

    after = SqliteJournal(tmp_path)
    (state,) = after.sessions
    assert (state.row, state.values, state.last_event) == (row, {"k": '"v"'}, 1)
    assert [(cell.cell, cell.status) for cell in state.cells] == [(3, "completed")]
    after.start()
    contents = await after.read_cell(number, 3, 1, None)
    assert [call.tool_use_id for call in contents.calls] == ["tu_1"]
    assert [each.fields for each in contents.output] == [b'{"cursor":1,"item":{"type":"text","text":"a"}}']
    assert after.new_session() == number + 1
    await after.close()
    await journal.close()


async def test_of_many_changes_the_last_one_is_written(tmp_path: Path) -> None:
    """And its row is made once, when it is time."""
    journal = await opened(tmp_path)
    made: list[int] = []

    def make(taken: int) -> Callable[[], CellRow]:
        def row() -> CellRow:
            made.append(taken)
            return cell_row(1, 1, taken=taken, status="completed")

        return row

    journal.put(("session", 1), lambda: session_row(1))
    for taken in range(5):
        journal.put(("cell", 1, "1"), make(taken))
    await journal.close()
    assert made == [4]
    (state,) = SqliteJournal(tmp_path).sessions
    assert [cell.taken for cell in state.cells] == [4]


KEYS = st.sampled_from("abc")
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("delete"), KEYS, st.none()),
        st.tuples(st.just("settle"), st.none(), st.none()),
    ),
    max_size=30,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(operations=OPERATIONS)
def test_values_are_what_was_said_last(tmp_path_factory: pytest.TempPathFactory, operations: list[Any]) -> None:
    """Set and deleted in any order, in any batches."""
    folder = tmp_path_factory.mktemp("values")
    model: dict[str, str] = {}

    async def play() -> None:
        journal = await opened(folder)
        journal.put(("session", 1), lambda: session_row(1))
        for what, key, value in operations:
            match what:
                case "settle":
                    await journal.settled()
                case "set":
                    journal.values(1, {key: str(value)})
                    model[key] = str(value)
                case _:
                    journal.values(1, {key: None})
                    model.pop(key, None)
        await journal.close()

    asyncio.run(play())
    journal = SqliteJournal(folder)
    assert journal.sessions[0].values == model
    journal._folder.close()


async def test_cells_that_ran_have_ended(tmp_path: Path) -> None:
    """With what was under way; calls that waited for a place are cancelled, and nothing else changes."""
    journal = await opened(tmp_path)
    journal.put(("session", 1), lambda: session_row(1))
    for cell, started in ((1, 1.0), (2, None)):
        journal.put(("cell", 1, str(cell)), lambda cell=cell: cell_row(1, cell, first_event=cell))  # type: ignore[misc]
        state = "in_flight" if started else "queued"
        row = CallRow(1, cell, 1, f"tu_{cell}", "echo", state, started, None, None)
        journal.put(("call", 1, str(cell), 1), lambda row=row: row)  # type: ignore[misc]
        journal.event(event(1, cell, cell))
    journal.put(("cell", 1, "3"), lambda: cell_row(1, 3, status="completed", ended_at=9.0))
    await journal.settled()
    journal._folder.close()

    after = await opened(tmp_path)
    cells = {cell.cell: cell for cell in after.sessions[0].cells}
    assert [(cells[each].status, cells[each].cursor, cells[each].calls) for each in (1, 2)] == [("failed", 1, 1)] * 2
    assert (cells[3].status, cells[3].ended_at) == ("completed", 9.0)
    states = [(await after.read_cell(1, cell, 1, None)).calls[0].state for cell in (1, 2)]
    assert states == ["lost", "cancelled"]
    told = [(row.seq, row.cell, row.type) for row in await after.read_events(1, 2, 99, None)]
    assert told == [(3, 1, "tool_call/ended"), (4, 1, "cell/ended"), (5, 2, "cell/ended")]
    (end,) = await after.read_events(1, 3, 99, 1)
    told_end = json.loads(end.fields)  # type: ignore[arg-type]
    assert list(told_end) == ["status", "error", "warnings", "usage", "tool_calls", "safe_to_retry"]
    assert (told_end["safe_to_retry"], told_end["tool_calls"]["in_flight"]) == (False, 1)
    assert ScriptError(**told_end["error"]).kind == "server_restarted"
    assert set(told_end["usage"]) == {field.name for field in fields(Usage)}
    assert b'"safe_to_retry":true' in bytes((await after.read_events(1, 4, 99, 2))[0].fields)  # type: ignore[arg-type]
    await after.close()
    await journal.close()


class Raises(Mapping[str, Any]):
    """Fields that cannot be written."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("cannot be read")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("cannot be read")

    def __len__(self) -> int:
        return 1


async def test_a_fault_of_the_thread_costs_only_what_caused_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another thread takes over, nobody waits for ever, and the rest is written."""
    journal = await opened(tmp_path)
    journal.put(("session", 1), lambda: session_row(1))
    journal.event(EventRow(1, 1, 1, "cell/output", 1.0, Raises()))
    journal.event(event(1, 2))
    await asyncio.wait_for(journal.settled(), 5)
    assert [row.seq for row in await journal.read_events(1, 0, 99, None)] == [2]
    statistics = journal.statistics()
    assert (statistics["rows_left_out"], statistics["trouble"]) == (1, None)
    assert statistics["writer_restarts"] >= 1
    assert "another one takes over" in caplog.text
    await journal.close()


async def test_a_text_that_no_file_can_hold_costs_only_its_row(tmp_path: Path) -> None:
    """A lone surrogate that got this far."""
    journal = await opened(tmp_path)
    journal.put(("session", 1), lambda: session_row(1))
    journal.put(("cell", 1, "1"), lambda: cell_row(1, 1, turn_id="\ud800", status="completed"))
    journal.put(("cell", 1, "2"), lambda: cell_row(1, 2, status="completed"))
    assert "left out" in (await asyncio.wait_for(journal.settled(), 5) or "")
    await journal.close()
    assert [cell.cell for cell in SqliteJournal(tmp_path).sessions[0].cells] == [2]


# Versions


def new_file(folder: Path) -> sqlite3.Connection:
    (folder / "j").touch()
    return connect(folder / "j")


def test_an_older_file_is_brought_up_to_date(tmp_path: Path) -> None:
    """Step by step, from where it is."""
    connection = new_file(tmp_path)
    migrate(connection)
    later = [*MIGRATIONS, "ALTER TABLE sessions ADD COLUMN colour TEXT;", "UPDATE sessions SET colour = 'red';"]
    connection.execute("INSERT INTO sessions VALUES (1, 's', 'k', 1, 1, 0, '')")
    migrate(connection, later)
    assert connection.execute("SELECT colour FROM sessions").fetchall() == [("red",)]
    assert connection.execute("PRAGMA user_version").fetchone() == (len(later),)
    migrate(connection, later)
    connection.close()


def test_a_step_that_fails_changes_nothing(tmp_path: Path) -> None:
    """The file is as it was."""
    connection = new_file(tmp_path)
    migrate(connection)
    with pytest.raises(sqlite3.Error):
        migrate(connection, [*MIGRATIONS, "DROP TABLE calls; SELECT * FROM nowhere;"])
    connection.close()
    again = new_file(tmp_path)
    assert again.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
    assert again.execute("SELECT count(*) FROM calls").fetchone() == (0,)
    again.close()


def test_a_newer_file_is_refused(tmp_path: Path) -> None:
    """Rather than misread."""
    connection = new_file(tmp_path)
    connection.execute("PRAGMA user_version = 99")
    with pytest.raises(InvalidRequest, match="newer codemode"):
        migrate(connection)
    connection.close()


# Retention


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    made = new_file(tmp_path)
    migrate(made)
    made.execute("INSERT INTO sessions VALUES (1, 's', 'k', 1, 1, 0, '')")
    yield made
    made.close()


def numbers(connection: sqlite3.Connection) -> list[int]:
    return [seq for (seq,) in connection.execute("SELECT seq FROM events WHERE session = 1 ORDER BY seq")]


def put(connection: sqlite3.Connection, *rows: Any) -> None:
    for row in rows:
        table = {EventRow: "events", CellRow: "cells", CallRow: "calls"}[type(row)]
        if isinstance(row, EventRow):
            row = (*row[:5], row.fields["item"]["text"].encode())  # type: ignore[index,call-overload]
        connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)


def trim(connection: sqlite3.Connection, oldest: float, most: int = 10**12) -> retention.Trimmed:
    for _ in range(1000):
        done = retention.step(connection, retention.find(connection, oldest, most), most)
        if not done.more:
            return done
    raise AssertionError("it does not end")


def test_old_events_go_but_not_the_output_of_a_cell_that_is_known(connection: sqlite3.Connection) -> None:
    """Nor the last event of a session, whose number must not be given again."""
    put(connection, cell_row(1, 2), *(event(1, seq, 1 + seq % 2, at=float(seq)) for seq in range(1, 9)))
    trim(connection, oldest=7.0)
    assert numbers(connection) == [1, 3, 5, 7, 8]
    connection.execute("DELETE FROM cells")
    trim(connection, oldest=100.0)
    assert numbers(connection) == [8]


def test_a_file_that_is_too_large_loses_its_oldest_events(connection: sqlite3.Connection) -> None:
    """Until it is small enough, and the room is given back to the disk."""
    now = time.time()
    put(connection, *(event(1, seq, None, at=now + seq, text="x" * 1000) for seq in range(1, 3001)))
    before = retention.used_bytes(connection)
    done = trim(connection, 0.0, before // 2)
    left = numbers(connection)
    assert done.excess_bytes == 0
    assert left == list(range(left[0], 3001))
    assert 500 < len(left) < 1600
    retention.restart_log(connection)
    assert connection.execute("PRAGMA page_count").fetchone()[0] * 4096 < before * 0.7


def test_what_cannot_be_taken_away_is_told(connection: sqlite3.Connection) -> None:
    """So that ended cells can be forgotten early."""
    put(connection, cell_row(1, 1), *(event(1, seq, 1, text="x" * 1000) for seq in range(1, 1001)))
    done = trim(connection, 0.0, 200_000)
    assert done.excess_bytes > 500_000
    assert len(numbers(connection)) == 1000


def test_what_a_deleted_session_left_goes(connection: sqlite3.Connection) -> None:
    """Its events and calls, and nobody else's."""
    connection.execute("INSERT INTO sessions VALUES (2, 't', 'k', 1, 1, 0, '')")
    for session in (1, 2):
        put(connection, *(event(session, seq) for seq in range(1, 1201)))
        put(
            connection,
            *(CallRow(session, 1, number, "tu", "t", "completed", 1.0, 2.0, None) for number in range(1, 701)),
        )
    connection.execute("DELETE FROM sessions WHERE number = 2")
    connection.execute("INSERT INTO deleted_sessions VALUES (2)")
    trim(connection, 0.0)
    for table, left in (("events", 1200), ("calls", 700)):
        rows = connection.execute(f"SELECT session, count(*) FROM {table} GROUP BY session").fetchall()
        assert rows == [(1, left)]
    assert connection.execute("SELECT * FROM deleted_sessions").fetchall() == []
    assert reading.last_session(connection) == 2


def test_looking_for_what_is_old_does_not_read_everything(connection: sqlite3.Connection) -> None:
    """It uses the index of times: a large journal is trimmed as fast as a small one."""
    plan = " ".join(
        str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {retention.EVENTS_BEFORE}", (1.0, 5)).fetchall()
    )
    assert "INDEX events_at" in plan
    assert "SCAN each" not in plan
