"""A command that outlives its cell, its turn and its server: what is told of it is always of the call that started it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.marked import marked, until_none
from tests.acceptance.receiver import Receiver
from tests.acceptance.site import Client, Event, Site, site
from tests.faults.rig import texts, until_found

# Answers each line; ends at "bye", with the number of lines as its code. The first argument is its mark.
LOOP = 'n=0; while read -r line; do n=$((n + 1)); echo "<$line>"; [ "$line" = bye ] && exit $n; done # '


def start(client: Client, command: str, turn_id: str = "t-1", tool_call_id: str = "exec-1") -> dict[str, Any]:
    """A cell that starts a command with a terminal, and ends at once; its observation."""
    given = json.dumps({"cmd": command, "tty": True, "yield_time_ms": 0})
    source = f"text(String((await tools.exec_command({given})).session_id))"
    seen = client.exec(source, turn_id=turn_id, tool_call_id=tool_call_id)
    assert seen["status"] == "completed", seen
    return seen


def typed(client: Client, number: int, chars: str, turn_id: str = "t-2") -> dict[str, Any]:
    """What the command has to say to this, had by another cell: all until it has answered each line, or has ended."""
    source = f"""
        let seen = '', last;
        const lines = {json.dumps(chars)}.split('\\n').length - 1;
        last = await tools.write_stdin({{session_id: {number}, chars: {json.dumps(chars)}}});
        for (seen = last.output; 'session_id' in last && seen.split('>').length <= lines;) {{
            last = await tools.write_stdin({{session_id: {number}, yield_time_ms: 20}});
            seen += last.output;
        }}
        if (seen.includes('<bye>') && 'session_id' in last)
            last = await tools.write_stdin({{session_id: {number}, yield_time_ms: 10000}});
        text(JSON.stringify({{...last, seen}}));
    """
    seen = client.exec(source, turn_id=turn_id)
    assert seen["status"] == "completed", seen
    answer: dict[str, Any] = json.loads(texts(seen)[0])
    return answer


def of_call(events: list[Event], tool_use_id: str) -> list[Event]:
    return [each for each in events if each.get("tool_use_id") == tool_use_id]


def test_a_command_that_outlives_its_cell_and_its_turn(here: Site) -> None:
    """Named by the cell, by the list of processes, and by the end of the turn; typed to by another cell; ends as itself."""
    client, command = here.session(), LOOP + "mark-long"
    seen = start(client, command)
    number, cell = int(texts(seen)[0]), seen["cell_id"]
    (warning,) = seen["warnings"]
    assert f"process {number}" in warning
    assert LOOP[:40] in warning
    (process,) = client.get("processes")
    begin = next(each for each in client.events() if each["type"] == "tool_call/started")
    assert process == {
        "type": "process",
        "session_id": number,
        "command": command,
        "workdir": ".",
        "tty": True,
        "turn_id": "t-1",
        "cell_id": cell,
        "tool_use_id": begin["tool_use_id"],
        "started_at": process["started_at"],
    }

    refused = client.end_turn("t-1")
    assert refused["needs_follow_up"]
    assert refused["running"] == [process]
    assert f"process {number}" in refused["warning"]
    assert client.end_turn("t-other") == {"needs_follow_up": False}
    assert client.end_turn("t-1", detach=True) == {"needs_follow_up": False}
    assert client.end_turn("t-1") == {"needs_follow_up": False}
    assert client.get("processes") == [process]

    assert "<one>" in typed(client, number, "one\n")["seen"]
    answer = typed(client, number, "two\nbye\n")
    assert "<two>" in answer["seen"]
    assert answer["exit_code"] == 3, answer
    post = client.receiver.until_told(client.session_id, "PostToolUse", tool_use_id=begin["tool_use_id"])
    events = client.is_whole()
    started, yielded, ended = of_call(
        [each for each in events if each["type"].startswith("tool_call/")], begin["tool_use_id"]
    )
    assert [each["type"] for each in (started, yielded, ended)] == [
        f"tool_call/{how}" for how in ("started", "yielded", "ended")
    ]
    for name in ("tool_use_id", "cell_id", "runtime_tool_call_id", "tool_name", "tool_source"):
        assert started[name] == yielded[name] == ended[name]
    assert (started["cell_id"], started["runtime_tool_call_id"]) == (cell, "call-1")
    assert started["tool_source"]["parent_tool_use_id"] == "exec-1"
    assert yielded["process_id"] == number
    assert ended["tool_status"] == post["tool_status"] == {"state": "exited", "exit_code": 3}
    assert ended["seq"] > max(
        each["seq"] for each in events if each["type"] == "cell/ended" and each["cell_id"] == cell
    )
    assert (post["tool_source"], post["turn_id"]) == (started["tool_source"], "t-1")
    assert client.get("processes") == []
    assert client.end_turn("t-2") == {"needs_follow_up": False}
    (call,) = client.get(f"cells/{cell}")["calls"]
    assert call["tool_status"] == ended["tool_status"]
    (turn,) = [each for each in events if each["type"] == "turn/ended" and each["turn_id"] == "t-1" and each["detach"]]
    assert turn["seq"] < ended["seq"]
    (item,) = [each["item"] for each in events if each["type"] == "item/completed"]
    assert (item["id"], item["status"], item["exitCode"]) == (begin["tool_use_id"], "failed", 3)
    assert "<bye>" in item["aggregatedOutput"]


def test_the_calls_that_type_end_by_themselves(here: Site) -> None:
    """A write_stdin is a call with ids and an end of its own; that of the process is told once, and not by it."""
    client = here.session()
    number = int(texts(start(client, LOOP + "mark-type"))[0])
    client.call("write_stdin", {"session_id": number, "chars": "bye\n", "yield_time_ms": 10_000}, tool_use_id="typing")
    events = client.is_whole()
    (_, ended) = of_call([each for each in events if each["type"].startswith("tool_call/")], "typing")
    assert ended["tool_status"] == {"state": "completed", "exit_code": None}
    exits = [each for each in events if (each.get("tool_status") or {}).get("state") == "exited"]
    assert [each["tool_name"] for each in exits] == ["exec_command"]


def test_a_process_that_is_ended_by_its_number(here: Site) -> None:
    """`cancelled`, with the ids of its call; a second time there is none."""
    client = here.session()
    seen = start(client, LOOP + "mark-ended")
    place = f"/v1/sessions/{client.session_id}/processes/{texts(seen)[0]}"
    assert client.server.client.delete(place).status_code == 204
    post = client.receiver.until_told(client.session_id, "PostToolUse")
    assert post["tool_status"] == {"state": "cancelled", "exit_code": None}
    assert post["tool_source"]["cell_id"] == seen["cell_id"]
    assert client.server.client.delete(place).json()["code"] == "process_not_found"
    until_none("mark-ended")
    client.is_whole()


def test_a_turn_waits_for_cells_and_direct_calls_too(here: Site) -> None:
    """Each is named; when they have ended, the turn ends."""
    client = here.session()
    cell = client.exec("await tools.hang({})", turn_id="t-1", yield_time_ms=0)["cell_id"]
    client.call("exec_command", {"cmd": "sleep 600 # mark-turn", "yield_time_ms": 0}, turn_id="t-1", tool_use_id="mine")
    refused = client.end_turn("t-1")
    assert [each["type"] for each in refused["running"]] == ["cell", "process"]
    (process,) = client.get("processes")
    assert f"cell {cell}" in refused["warning"]
    assert f"process {process['session_id']} (sleep 600 # mark-turn)" in refused["warning"]
    assert (process["tool_use_id"], process["cell_id"]) == ("mine", None)
    client.wait(cell, terminate=True)
    client.server.client.delete(f"/v1/sessions/{client.session_id}/processes/{process['session_id']}")
    until_found(lambda: not client.end_turn("t-1")["needs_follow_up"], "the turn ends")
    client.is_whole()


@pytest.mark.parametrize("detached", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_command_whose_server_is_killed_is_lost(tmp_path: Path, receiver: Receiver, detached: bool) -> None:
    """The next server tells so, with its ids, once; no process of it is left by then, nor listed."""
    flags, mark = ("--data-dir", str(tmp_path / "data")), f"mark-lost-{detached}"
    with site(receiver, tmp_path, *flags) as there:
        client = there.session()
        seen = start(client, LOOP + mark)
        if detached:
            client.end_turn("t-1", detach=True)
        assert len(marked(mark)) == 1
        (start_event,) = [each for each in client.events() if each["type"] == "tool_call/started"]
        there.server.process.kill()
        there.server.process.wait(10)
        until_none(mark, 2.0)
    with site(receiver, tmp_path, *flags) as there:
        client = Client(there.server, receiver, client.session_id)
        post = receiver.until_told(client.session_id, "PostToolUse")
        assert post["tool_status"] == {"state": "lost", "exit_code": None}
        assert post["tool_source"] == start_event["tool_source"]
        assert (post["tool_use_id"], post["turn_id"]) == (start_event["tool_use_id"], "t-1")
        events = client.is_whole()
        (ended,) = [each for each in events if each["type"] == "tool_call/ended"]
        for name in ("tool_use_id", "cell_id", "runtime_tool_call_id", "tool_name", "tool_source"):
            assert ended[name] == start_event[name]
        assert ended["tool_status"] == post["tool_status"]
        (call,) = client.get(f"cells/{seen['cell_id']}")["calls"]
        assert call["tool_status"] == ended["tool_status"]
        assert client.get("processes") == []
        assert client.end_turn("t-1") == {"needs_follow_up": False}
        answer = client.call("write_stdin", {"session_id": int(texts(seen)[0])})
        assert answer["error"]["code"] == "tool_failed"
        again = start(client, "exit 0")
        assert again["cell_id"] != seen["cell_id"]
