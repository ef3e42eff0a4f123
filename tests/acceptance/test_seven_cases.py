"""What a receiver of hooks is told of each kind of call, from outside: over HTTP alone."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.receiver import Receiver, decision
from tests.acceptance.site import Client, Site, check, hooked, site
from tests.faults.rig import until_found


def nested(cell_id: str, number: int = 1, parent: str = "exec-1") -> dict[str, Any]:
    """The source of a nested call."""
    return {
        "type": "code_mode",
        "parent_tool": "exec",
        "parent_tool_use_id": parent,
        "cell_id": cell_id,
        "runtime_tool_call_id": f"call-{number}",
    }


def pair(client: Client, tool_use_id: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The Pre and the Post of the one call that there was, or of this one."""
    until_found(lambda: client.receiver.told(client.session_id, "PostToolUse"), "a PostToolUse")
    of_call = [each for each in client.told if tool_use_id in (None, each["tool_use_id"])]
    assert [each["hook_event_name"] for each in of_call] == ["PreToolUse", "PostToolUse"], client.told
    pre, post = of_call
    assert post == pre | {"hook_event_name": "PostToolUse", "tool_status": post["tool_status"]}
    return pre, post


def ended(state: str, exit_code: int | None = None) -> dict[str, Any]:
    return {"state": state, "exit_code": exit_code}


def waiting_for(file: str, then: str = "exit 0") -> str:
    """A command that waits for a file of the workspace."""
    return f"until [ -e {file} ]; do sleep 0.02; done; {then}"


@pytest.mark.parametrize(
    ("tool", "given", "status"),
    [
        ("echo", {"a": 1}, ended("completed")),
        ("fail", {}, ended("failed")),
        ("exec_command", {"cmd": "true"}, ended("exited", 0)),
        ("shell_command", {"command": "exit 3"}, ended("exited", 3)),
        ("shell_command", {"command": "sleep 60", "timeout_ms": 50}, ended("timed_out")),
    ],
)
def test_a_direct_call(here: Site, tool: str, given: dict[str, Any], status: dict[str, Any]) -> None:
    """It has the id that the caller gave, and no source but that it is direct."""
    client = here.session()
    answer = client.call(tool, given, tool_use_id="mine", turn_id="t-1")
    assert answer["tool_use_id"] == "mine"
    pre, post = pair(client)
    assert pre == {
        "hook_event_name": "PreToolUse",
        "session_id": client.session_id,
        "turn_id": "t-1",
        "tool_use_id": "mine",
        "tool_name": tool,
        "tool_source": {"type": "direct"},
    }
    assert post["tool_status"] == status
    assert client.post(f"tools/{tool}", input=given, tool_use_id="mine").json()["code"] == "tool_use_id_taken"
    assert len(client.told) == 2
    client.is_whole()


def test_a_nested_call_that_ends_at_once(here: Site) -> None:
    """It names its cell, its place there, and the exec of the caller; what the events say is the same."""
    client = here.session()
    seen = client.exec("text(await tools.echo({a: 1}))", tool_call_id="exec-1", turn_id="t-1")
    assert seen["status"] == "completed"
    pre, post = pair(client)
    assert (pre["tool_name"], pre["tool_source"], pre["turn_id"]) == ("echo", nested(seen["cell_id"]), "t-1")
    assert post["tool_status"] == ended("completed")
    start, end = hooked(client.is_whole())
    assert start["runtime_tool_call_id"] == end["runtime_tool_call_id"] == "call-1"
    assert start["tool_use_id"] == pre["tool_use_id"]


def test_an_exec_without_an_id_is_a_parent_too(here: Site) -> None:
    """One is made, and is the same for all calls of the cell."""
    client = here.session()
    client.exec("await Promise.all([tools.echo({}), tools.echo({}), tools.fail({}).catch(() => 0)])")
    sources = [each["tool_source"] for each in client.told]
    assert len(sources) == 6
    (parent,) = {each["parent_tool_use_id"] for each in sources}
    assert parent.startswith("tu_")
    assert {each["runtime_tool_call_id"] for each in sources} == {"call-1", "call-2", "call-3"}
    client.is_whole()


@pytest.mark.parametrize(("exit_code", "cell_goes_on"), [(0, False), (7, False), (0, True)])
def test_a_command_that_yields(here: Site, exit_code: int, cell_goes_on: bool) -> None:
    """Its Post comes when its process has ended, not before, with the ids of its start: the cell may be over by then."""
    client, go = here.session(), here.workspace / f"go-{exit_code}-{cell_goes_on}"
    call = f"tools.exec_command({{cmd: {waiting_for(go.name, f'exit {exit_code}')!r}, yield_time_ms: 0}})"
    more = "await tools.hang({})" if cell_goes_on else ""
    source = f"const told = await {call}; text(String(told.session_id)); await tools.echo({{}}); {more}"
    seen = client.exec(source, tool_call_id="exec-1", yield_time_ms=5000 if not cell_goes_on else 500)
    assert seen["status"] == ("running" if cell_goes_on else "completed")
    before = [(each["hook_event_name"], each["tool_name"]) for each in client.told]
    echoed = [("PreToolUse", "echo"), ("PostToolUse", "echo")]
    assert before == [("PreToolUse", "exec_command"), *echoed, *[("PreToolUse", "hang")] * cell_goes_on]
    (start,) = [each for each in client.events() if each["type"] == "tool_call/started"][:1]
    assert client.lifecycle()["open"][0] == start["tool_use_id"]
    client.until_event("tool_call/yielded", tool_use_id=start["tool_use_id"])

    written = time.monotonic()
    go.touch()
    post = client.receiver.until_told(client.session_id, "PostToolUse", tool_name="exec_command")
    received = next(each for each in client.receiver.hooks if each.payload is post)
    assert received.at > written
    assert post["tool_status"] == ended("exited", exit_code)
    assert (post["tool_use_id"], post["tool_source"]) == (start["tool_use_id"], nested(seen["cell_id"]))
    client.is_whole(open_calls=int(cell_goes_on))
    assert len([each for each in client.told if each["tool_name"] == "exec_command"]) == 2


@pytest.mark.parametrize(("command", "exit_code"), [("exit 7", 7), ("kill -TERM $$", 143), ("no-such-program-1", 127)])
@pytest.mark.parametrize("yields", [False, True])
def test_a_command_that_fails_has_exited(here: Site, command: str, exit_code: int, yields: bool) -> None:
    """The state is `exited` with its code, not `failed`: the tool did what it was asked; the script gets the answer."""
    client = here.session()
    given = f"{{cmd: {command!r}, yield_time_ms: {0 if yields else 10_000}}}"
    seen = client.exec(f"text(await tools.exec_command({given}))", tool_call_id="exec-1")
    assert seen["status"] == "completed"
    _, post = pair(client)
    assert post["tool_status"] == ended("exited", exit_code)
    client.is_whole()


def test_a_cell_that_is_terminated_cancels_its_command(here: Site) -> None:
    """One that had not answered; its process is gone, too."""
    client, file = here.session(), here.workspace / "terminated"
    source = f"await tools.exec_command({{cmd: 'echo $$ > {file.name}; exec sleep 600', yield_time_ms: 600000}})"
    cell = client.exec(source, yield_time_ms=0, tool_call_id="exec-1")["cell_id"]
    pid = until_found(lambda: file.exists() and file.read_text().strip(), "the command runs")
    client.wait(cell, terminate=True)
    _, post = pair(client)
    assert (post["tool_status"], post["tool_source"]) == (ended("cancelled"), nested(cell))
    until_found(lambda: not Path(f"/proc/{pid}").exists(), "its process is gone")
    client.is_whole()


@pytest.mark.parametrize("call", ["exec_command({cmd: 'sleep 600', yield_time_ms: 600000})", "hang({})", "ask({})"])
def test_a_call_that_is_not_awaited_is_cancelled(here: Site, call: str) -> None:
    """When its script ends, which says so in a warning."""
    client = here.session()
    seen = client.exec(f"tools.{call}; await tools.echo({{}})", tool_call_id="exec-1")
    assert seen["status"] == "completed"
    assert "was not awaited" in seen["warnings"][0]
    post = client.receiver.until_told(client.session_id, "PostToolUse", tool_name=call.partition("(")[0])
    assert (post["tool_status"], post["tool_source"]) == (ended("cancelled"), nested(seen["cell_id"]))
    client.is_whole()


MANY = """
tools.exec_command({cmd: 'sleep 600', yield_time_ms: 600000});
tools.hang({}); tools.ask({});
await tools.exec_command({cmd: 'sleep 600', yield_time_ms: 0});
await tools.hang({});
"""


def begun(client: Client, source: str = MANY, calls: int = 5) -> str:
    """A cell, all calls of which have started; and a direct command that goes on."""
    cell = str(client.exec(source, yield_time_ms=0, tool_call_id="exec-1")["cell_id"])
    client.call("exec_command", {"cmd": "sleep 600", "yield_time_ms": 0}, tool_use_id="mine")
    until_found(lambda: len(client.told) == calls + 1, "all have started")
    return cell


def test_a_session_that_is_deleted_cancels_its_calls(here: Site) -> None:
    """Those that wait, and those whose processes go on; hooks are told of all of them."""
    client = here.session()
    begun(client)
    events = client.delete()
    assert events[-1]["type"] == "session/deleted"
    posts = [each for each in client.told if each["hook_event_name"] == "PostToolUse"]
    assert [each["tool_status"] for each in posts] == [ended("cancelled")] * 6
    check(client.session_id, events, client.told, is_over=True)


@pytest.mark.parametrize("keeps", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["data directory", "memory"])
def test_a_server_that_is_told_to_stop_cancels_all_calls(tmp_path: Path, receiver: Receiver, keeps: bool) -> None:
    """Before it ends, hooks are told; a server that takes over tells nothing again, and has the same history."""
    flags = ("--data-dir", str(tmp_path / "data")) if keeps else ()
    with site(receiver, tmp_path, *flags) as there:
        client = there.session()
        begun(client)
        stream = client.follow()
        there.server.process.send_signal(signal.SIGTERM)
        assert there.server.status() == 0
        posts = [each["tool_status"] for each in client.told if each["hook_event_name"] == "PostToolUse"]
        assert posts == [ended("cancelled")] * 6
        check(client.session_id, stream.whole(), client.told, is_over=True)
    if keeps:
        with site(receiver, tmp_path, *flags) as there:
            again = Client(there.server, receiver, client.session_id)
            assert again.is_whole() == stream.events
            assert len(client.told) == 12


def test_a_call_that_a_hook_denies(here: Site) -> None:
    """Pre and Post, `denied`, and its tool was not reached."""
    client = here.session()
    here.receiver.answers = lambda told: decision("deny") if told["hook_event_name"] == "PreToolUse" else {}
    seen = client.exec("try { await tools.echo({}) } catch (e) { text(e.code) }", tool_call_id="exec-1")
    assert seen["output"][0]["text"] == "hook_denied", seen
    _, post = pair(client)
    assert post["tool_status"] == ended("denied")
    assert here.receiver.tools == []
    client.is_whole()


MARKERS = ("MARKINPUT", "MARKPATH", "MARKCOMMAND", "MARKOUTPUT", "MARKSOURCE", "MARKERROR", "MARKTYPED")


def test_a_minimal_payload_holds_no_content(here: Site) -> None:
    """No code, command, path or output: of a command, one that types, a tool that gives, one that fails, all ways."""
    folder = here.workspace / "MARKPATH"
    folder.mkdir()
    (folder / "MARKPATH.txt").write_text("MARKOUTPUT")
    client = here.session()
    source = """// MARKSOURCE
        text(await tools.echo({MARKINPUT: 'MARKINPUT'}));
        text(await tools.read_file({path: 'MARKPATH/MARKPATH.txt'}));
        text(await tools.exec_command({cmd: 'echo MARK""OUTPUT; : MARKCOMMAND', workdir: 'MARKPATH'}));
        await tools.fail({MARKINPUT: 1}).catch(() => 0);
        await tools.read_file({path: 'MARKPATH/MARKERROR'}).catch((e) => text(e.message));
        const shell = await tools.exec_command({cmd: ': MARKCOMMAND; read a; echo $a', tty: true, yield_time_ms: 0});
        text(await tools.write_stdin({session_id: shell.session_id, chars: 'MARKTYPED\\n', yield_time_ms: 5000}));
        await tools.shell_command({command: 'echo MARK""OUTPUT; exit 5'});
        throw new Error('MARKERROR');
    """
    seen = client.exec(source, tool_call_id="exec-1", turn_id="t-1")
    assert seen["error"]["message"] == "MARKERROR", seen
    client.call("exec_command", {"cmd": "echo MARKOUTPUT MARKCOMMAND", "workdir": "MARKPATH"})
    client.is_whole()
    raw = b"".join(each.body for each in here.receiver.hooks)
    assert len(here.receiver.hooks) == 2 * 9
    for marker in (*MARKERS, str(here.workspace), "MARK"):
        assert marker.encode() not in raw
    for each in here.receiver.hooks:
        assert set(each.payload) <= {
            "hook_event_name",
            "session_id",
            "turn_id",
            "tool_use_id",
            "tool_name",
            "tool_source",
            "tool_status",
        }
        assert len(each.body) < 600


def test_a_full_payload_holds_it(here: Site) -> None:
    """So what was looked for above would have been found; only `tool_input` and `tool_response` are more."""
    client = here.session("full")
    client.exec("await tools.exec_command({cmd: 'echo MARK\"\"OUTPUT; : MARKCOMMAND'})", tool_call_id="exec-1")
    pre, post = client.told
    assert set(pre) - set(post) == set()
    assert set(post) - set(pre) == {"tool_response", "tool_status"}
    assert "MARKCOMMAND" in pre["tool_input"]["cmd"]
    assert post["tool_response"]["output"] == "MARKOUTPUT\n"
