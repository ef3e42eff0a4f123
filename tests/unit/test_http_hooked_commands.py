"""Hooks around commands: waiting for their end, and people who are asked about more rights, on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.faults.hook_server import HookServer, hook_server
from tests.faults.rig import Service, service, texts, until_found
from tests.unit.test_calls.call_helpers import audited

NOT_BOOLEAN = "hook returned non-boolean field 'waitUntilCompletion'"
WAITS = """
import json, sys
payload = json.load(sys.stdin)
if "BY_COMMAND" in payload["tool_input"]["cmd"]:
    updated = {**payload["tool_input"], "waitUntilCompletion": True}
    print(json.dumps({"hookSpecificOutput": {"updatedInput": updated}}))
else:
    print("{}")
"""


@pytest.fixture(scope="module")
def hooks() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, hooks: HookServer) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "workspace").mkdir()
    (folder / "waits.py").write_text(WAITS)
    hook = {
        "event": "PreToolUse",
        "type": "command",
        "command": ["python3", str(folder / "waits.py")],
        "matcher": "^exec_command$",
    }
    (folder / "hooks.json").write_text(json.dumps([hook]))
    flags = ["--workspace", str(folder / "workspace"), "--allow-exec", "--allow-tool-url", hooks.url]
    for each in (str(folder / "hooks.json"), "tests.faults.host_hooks:waiting"):
        flags += ["--hooks", each]
    with service(folder, *flags) as started:
        yield started


@pytest.fixture
def told(hooks: HookServer) -> HookServer:
    hooks.payloads.clear()
    return hooks


def run(server: Service, session: str, cmd: str, how: str = "direct", **more: Any) -> dict[str, Any]:
    """What an exec_command gives that waits for nothing by itself: its output, or {error}."""
    given = {"cmd": cmd, "yield_time_ms": 0, **more}
    if how == "direct":
        answer: dict[str, Any] = server.post("tools/exec_command", session, input=given).json()
        found: dict[str, Any] = answer["output"] if "output" in answer else {"error": answer["error"]}
        return found
    source = f"""
    try {{ text(JSON.stringify(await tools.exec_command({json.dumps(given)}))) }}
    catch (e) {{ text(JSON.stringify({{error: {{message: e.message, code: e.code}}}})) }}
    """
    (said,) = texts(server.exec(source, session))
    seen: dict[str, Any] = json.loads(said)
    return seen


def is_well(server: Service, session: str) -> None:
    told = server.client.get(f"/v1/sessions/{session}/lifecycle").json()
    assert told["ok"], told


@pytest.mark.parametrize("how", ["direct", "nested"])
def test_a_hook_lets_an_answer_wait_for_the_end(server: Service, told: HookServer, how: str) -> None:
    """Whatever the yield time is; the later hooks and the tool see nothing of the field."""
    session = server.session(hooks=told.hooks())
    for wants in ("BY_COMMAND # WANTS=null", "# WANTS=true"):
        cmd = f"sleep 0.3; echo done {wants.replace('=null', '=true')}"
        seen = run(server, session, cmd, how)
        assert (seen["exit_code"], "session_id" in seen) == (0, False), seen
    assert audited(told.told(2)) == []
    assert [each["tool_status"] for each in told.of("PostToolUse")] == [{"state": "exited", "exit_code": 0}] * 2
    assert not any("waitUntilCompletion" in each["tool_input"] for each in told.payloads)
    is_well(server, session)


@pytest.mark.parametrize("how", ["direct", "nested"])
def test_a_command_that_goes_on_is_told_of_when_it_has_ended(server: Service, told: HookServer, how: str) -> None:
    """Not when it was answered: the hooks have its exit code."""
    session = server.session(hooks=told.hooks())
    seen = run(server, session, "sleep 0.3; exit 3 # WANTS=false", how)
    assert "session_id" in seen
    assert told.states() == []
    assert audited(told.told(1)) == []
    assert told.of("PostToolUse")[0]["tool_status"] == {"state": "exited", "exit_code": 3}
    is_well(server, session)


@pytest.mark.parametrize("how", ["direct", "nested"])
@pytest.mark.parametrize("wants", ["one", "text", "null", "list"])
def test_a_field_that_is_no_boolean_fails_the_call(server: Service, told: HookServer, how: str, wants: str) -> None:
    """With exactly this text; the command does not run."""
    session = server.session(hooks=told.hooks())
    seen = run(server, session, f"echo ran >> ran # WANTS={wants}", how)
    assert seen == {"error": {"message": NOT_BOOLEAN, "code": "hook_denied"}}
    assert told.told(1)[0]["tool_status"] == {"state": "denied", "exit_code": None}
    is_well(server, session)


@pytest.mark.parametrize("how", ["direct", "nested"])
def test_commands_with_more_rights_need_a_person(server: Service, told: HookServer, how: str) -> None:
    """Who is told why they want them; nobody is asked under the policy `never`."""
    more = {"with_escalated_permissions": True, "justification": "to see"}
    session = server.session(hooks=told.hooks())
    assert run(server, session, "echo x # WANTS=true", how, **more)["error"]["code"] == "approval_declined"
    session = server.session(approval_policy="on_request")
    with ThreadPoolExecutor() as pool:
        running = pool.submit(run, server, session, "echo x # WANTS=true", how, **more)
        (approval,) = until_found(lambda: server.client.get(f"/v1/sessions/{session}/approvals").json(), "a question")
        assert approval["reason"] == "escalated permissions: to see"
        assert (approval["item"]["type"], approval["item"]["command"]) == ("commandExecution", "echo x # WANTS=true")
        assert server.post(f"approvals/{approval['approval_id']}", session, decision="accept").status_code == 200
        assert running.result(10)["output"] == "x\n"
    is_well(server, session)


def test_a_turn_is_held_by_a_command(server: Service, told: HookServer, tmp_path: Path) -> None:
    """Until it has ended; its call holds nothing, for it was answered."""
    session = server.session()
    given = {"cmd": f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done # WANTS=false", "yield_time_ms": 0}
    server.post("tools/exec_command", session, input=given, turn_id="a")
    ended = server.post("turns/a/end", session).json()
    assert [each["type"] for each in ended["running"]] == ["process"]
    assert "write_stdin" in ended["warning"]
    (tmp_path / "go").touch()
    until_found(lambda: not server.post("turns/a/end", session).json()["needs_follow_up"], "the end of the turn")
    is_well(server, session)
