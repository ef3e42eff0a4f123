"""What the next server makes of calls that were under way when the last one was killed; and of older journals."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from codemode import CodeMode
from codemode.calls.hooks import Hook
from codemode.journal.recovery import end_lost
from codemode.journal.rows import LostCall
from codemode.journal.schema import MIGRATIONS, connect, migrate
from codemode.journal.sqlite_journal import SqliteJournal
from codemode.lifecycle.provenance import code_mode_source, direct_source
from tests.unit.test_calls.call_helpers import Calls, Gate, Told, is_well, until

DIRECT = {"tool_use_id": "d", "tool_name": "t", "tool_source": direct_source()}
NESTED = {
    "tool_use_id": "n",
    "runtime_tool_call_id": "call-2",
    "tool_name": "exec_command",
    "tool_source": code_mode_source("tu_exec", "1", 2),
}


def add(connection: sqlite3.Connection, table: str, *row: Any) -> None:
    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


def add_event(connection: sqlite3.Connection, seq: int, cell: int | None, type_: str, fields: dict[str, Any]) -> None:
    add(connection, "events", 1, seq, cell, type_, float(seq), json.dumps(fields).encode())


def add_cell(connection: sqlite3.Connection, status: str) -> None:
    row = [1, 1, status, 1.0, None, "turn-1", None, "tu_exec", None, None, 2, None, 0, 0, 0, 0, 0, None]
    if status != "running":
        row[4], row[17] = 2.0, b'{"error": null, "warnings": [], "usage": {}}'
    add(connection, "cells", *row)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A journal of this version with one session."""
    (tmp_path / "journal.sqlite3").touch()
    with closing(connect(tmp_path / "journal.sqlite3")) as made:
        migrate(made)
        declaration = (
            b'{"tools": [], "limits": {}, "metadata": {}, "approval_policy": "never", "model_warnings": false}'
        )
        add(made, "sessions", 1, "s", "", 1.0, 1.0, 1, declaration)
        add_event(made, 1, None, "session/created", {})
        yield made


def ends(connection: sqlite3.Connection) -> list[tuple[int | None, dict[str, Any]]]:
    """The events of ends of calls."""
    rows = connection.execute("SELECT cell, fields FROM events WHERE type = 'tool_call/ended' ORDER BY seq")
    return [(cell, json.loads(fields)) for cell, fields in rows]


LOST = {"tool_status": {"state": "lost", "exit_code": None}}


def test_direct_calls_are_lost(connection: sqlite3.Connection) -> None:
    """Told with their turn, once."""
    add(connection, "open_calls", 1, "d", None, 0, "turn-7", json.dumps(DIRECT).encode(), 0)
    add(connection, "open_calls", 1, "e", None, 0, None, json.dumps(DIRECT | {"tool_use_id": "e"}).encode(), 0)
    lost = end_lost(connection)
    assert lost == {1: [LostCall("turn-7", DIRECT), LostCall(None, DIRECT | {"tool_use_id": "e"})]}
    expected = [
        (None, {**DIRECT, "turn_id": "turn-7", **LOST}),
        (None, {**DIRECT, "tool_use_id": "e", "turn_id": None, **LOST}),
    ]
    assert ends(connection) == expected
    assert end_lost(connection) == {}
    assert ends(connection) == expected


def test_a_direct_call_that_has_ended_is_not_lost(connection: sqlite3.Connection) -> None:
    """Only its name is known still."""
    add(connection, "open_calls", 1, "d", None, 0, "turn-7", json.dumps(DIRECT).encode(), 1)
    assert end_lost(connection) == {}
    assert ends(connection) == []
    assert connection.execute("SELECT tool_use_id FROM open_calls").fetchall() == [("d",)]


@pytest.mark.parametrize("status", ["running", "completed"])
def test_a_command_that_went_on_is_lost(connection: sqlite3.Connection, status: str) -> None:
    """Whether its cell had ended or not: its end comes once, after that of the cell."""
    add_cell(connection, status)
    add(connection, "calls", 1, 1, 1, "a", "t", "completed", 1.0, 1.5, None)
    add(connection, "calls", 1, 1, 2, "n", "exec_command", "running", 1.0, None, None)
    add(connection, "open_calls", 1, "n", 1, 2, "turn-1", json.dumps(NESTED).encode(), 0)
    lost = end_lost(connection)
    assert lost == {1: [LostCall("turn-1", NESTED)]}
    assert ends(connection) == [(1, NESTED | LOST)]
    assert connection.execute("SELECT state, exit_code FROM calls ORDER BY number").fetchall() == [
        ("completed", None),
        ("lost", None),
    ]
    types = [type_ for (type_,) in connection.execute("SELECT type FROM events ORDER BY seq")][1:]
    assert types == (["cell/ended"] if status == "running" else []) + ["tool_call/ended"]


def test_calls_of_a_cell_that_ran(connection: sqlite3.Connection) -> None:
    """Those under way are lost, queued ones never began; a refused one does not make it unsafe to try again."""
    add_cell(connection, "running")
    states = ["denied", "queued", "in_flight", "timed_out"]
    for number, state in enumerate(states, 1):
        started = None if state == "queued" else 1.0
        add(connection, "calls", 1, 1, number, f"tu_{number}", "t", state, started, None, None)
    (call,) = end_lost(connection)[1]
    assert (call.turn_id, call.told["tool_use_id"], call.told["runtime_tool_call_id"]) == ("turn-1", "tu_3", "call-3")
    assert call.told["tool_source"] == code_mode_source("tu_exec", "1", 3)
    found = [state for (state,) in connection.execute("SELECT state FROM calls ORDER BY number")]
    assert found == ["denied", "cancelled", "lost", "timed_out"]
    (told,) = connection.execute("SELECT fields FROM events WHERE type = 'cell/ended'").fetchone()
    ended = json.loads(told)
    assert (ended["status"], ended["safe_to_retry"]) == ("failed", False)
    assert ended["tool_calls"] == {"completed": 0, "failed": 2, "in_flight": 1, "queued": 0, "cancelled": 1}


@pytest.mark.parametrize(("states", "safe"), [([], True), (["denied"], True), (["queued"], True), (["failed"], False)])
def test_whether_a_lost_cell_may_run_again(connection: sqlite3.Connection, states: list[str], safe: bool) -> None:
    """If nothing has reached a tool."""
    add_cell(connection, "running")
    for number, state in enumerate(states, 1):
        add(
            connection,
            "calls",
            1,
            1,
            number,
            f"tu_{number}",
            "t",
            state,
            None if state == "queued" else 1.0,
            None,
            None,
        )
    end_lost(connection)
    (told,) = connection.execute("SELECT fields FROM events WHERE type = 'cell/ended'").fetchone()
    assert json.loads(told)["safe_to_retry"] is safe


async def test_hooks_of_the_next_server_are_told(connection: sqlite3.Connection, tmp_path: Path) -> None:
    """With what is known of the calls; only those of the tools that the hooks are for."""
    add(connection, "open_calls", 1, "d", None, 0, "turn-7", json.dumps(DIRECT).encode(), 0)
    add_event(connection, 2, None, "tool_call/started", DIRECT | {"turn_id": "turn-7"})
    other = DIRECT | {"tool_use_id": "e", "tool_name": "other"}
    add(connection, "open_calls", 1, "e", None, 0, None, json.dumps(other).encode(), 0)
    add_event(connection, 3, None, "tool_call/started", other | {"turn_id": None})
    connection.close()
    told, minimal = Told(), Told()
    hooks = [*told.both(matcher="^t$"), *minimal.both(payload="minimal")]
    async with CodeMode(hooks=hooks, spares=1, data_dir=tmp_path) as cm:
        await until(lambda: len(told.payloads) == 1 and len(minimal.payloads) == 2)
        await is_well(cm.session("s"))
    (payload,) = told.payloads
    assert payload == {
        "hook_event_name": "PostToolUse",
        "session_id": "s",
        "turn_id": "turn-7",
        "tool_use_id": "d",
        "tool_name": "t",
        "tool_source": {"type": "direct"},
        "tool_input": None,
        "tool_response": None,
        **LOST,
    }
    assert {each["tool_use_id"] for each in minimal.payloads} == {"d", "e"}
    assert not any("tool_input" in each for each in minimal.payloads)


async def test_direct_calls_leave_nothing_open(tmp_path: Path) -> None:
    """However they end, also with their session."""
    gate = Gate()
    async with CodeMode([Calls().tool(), gate.tool("gate")], spares=1, data_dir=tmp_path) as cm:
        session = cm.create_session()
        waiting = [asyncio.ensure_future(session.call_tool("gate")) for _ in range(3)]
        await session.call_tool("t")
        await until(lambda: gate.begun == 3)
        await session.recorder.settled()
        with closing(connect(tmp_path / "journal.sqlite3")) as connection:
            assert connection.execute("SELECT count(*) FROM open_calls").fetchone() == (3,)
        waiting[0].cancel()
        await cm.delete_session(session.session_id)
        await asyncio.wait(waiting)
    with closing(connect(tmp_path / "journal.sqlite3")) as connection:
        assert connection.execute("SELECT count(*) FROM open_calls").fetchone() == (0,)
    journal = SqliteJournal(tmp_path)
    assert journal.sessions == []
    await journal.close()


# Older journals


async def test_a_journal_of_the_first_version(tmp_path: Path) -> None:
    """Has what it had, and what is new; its calls that were under way are told as lost, and it can be written."""
    file = tmp_path / "journal.sqlite3"
    with closing(sqlite3.connect(file)) as made:
        made.executescript(f"{MIGRATIONS[0]} PRAGMA user_version=1;")
        declaration = (
            b'{"tools": [], "limits": {}, "metadata": {"a": 1}, "approval_policy": "never", "model_warnings": false}'
        )
        add(made, "sessions", 1, "s", "", 1.0, 1.0, 1, declaration)
        add(made, "stored_values", 1, "k", '"v"')
        add_event(made, 1, None, "session/created", {})
        add_event(made, 2, 1, "cell/started", {"turn_id": "turn-1", "tool_call_id": None})
        add_cell(made, "running")
        for number, state in enumerate(["completed", "in_flight"], 1):
            add(made, "calls", 1, 1, number, f"tu_{number}", "t", state, 1.0, 2.0 if number == 1 else None)
            call = {"tool_use_id": f"tu_{number}", "runtime_tool_call_id": f"call-{number}", "tool_name": "t"}
            source = {"tool_source": code_mode_source("tu_exec", "1", number)}
            add_event(made, 1 + 2 * number, 1, "tool_call/started", call | source)
            if number == 1:
                status = {"tool_status": {"state": "completed", "exit_code": None}}
                add_event(made, 4, 1, "tool_call/ended", call | source | status)
        made.commit()
    told = Told()
    hook: Hook = told.hook("PostToolUse")
    async with CodeMode([Calls().tool()], hooks=[hook], spares=1, data_dir=tmp_path) as cm:
        session = cm.session("s")
        assert session.metadata == {"a": 1}
        await until(lambda: told.states)
        assert [(each["tool_use_id"], each["tool_status"]["state"]) for each in told.payloads] == [("tu_2", "lost")]
        cell = await session.whole_cell("1")
        assert [(call.tool_use_id, call.state, call.exit_code) for call in cell.ledger()] == [
            ("tu_1", "completed", None),
            ("tu_2", "lost", None),
        ]
        seen = await session.exec("text(load('k')); await tools.t({})")
        assert seen.output == [{"type": "text", "text": "v"}]
        assert (await session.call_tool("t")).error is None
        await is_well(session)
    async with CodeMode([Calls().tool()], spares=1, data_dir=tmp_path) as cm:
        assert (await cm.session("s").lifecycle())["states"] == {"completed": 3, "lost": 1}
    with closing(connect(file)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)
