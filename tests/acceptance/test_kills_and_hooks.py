"""SIGKILL of the server at the worst moments: no hook is told an end twice, and no call that one was asked about is
forgotten."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.receiver import Payload, Receiver
from tests.acceptance.site import Client, Site, site
from tests.faults.rig import until_found
from tests.faults.server import is_alive

BOTH = pytest.mark.parametrize("direct", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["nested", "direct"])
LOST = {"state": "lost", "exit_code": None}


def kill_at(there: Site, event: str) -> None:
    """Kill the server in the moment in which a hook is told this."""

    def answer(told: Payload) -> Any:
        if told["hook_event_name"] == event:
            there.server.process.kill()
            return None
        return {}

    there.receiver.answers = answer


@contextmanager
def killed(
    receiver: Receiver, folder: Path, work: Callable[[Site], Client], *, may_complain: bool = False
) -> Iterator[Client]:
    """The session on a second server, when the first has done some work and was killed."""
    flags = ("--data-dir", str(folder / "data"))
    with site(receiver, folder, *flags) as there:
        client = work(there)
        there.server.process.kill()
        there.server.process.wait(10)
    receiver.answers = lambda _: {}
    with site(receiver, folder, *flags, may_complain=may_complain) as there:
        yield Client(there.server, receiver, client.session_id)


def begin(client: Client, *, direct: bool) -> None:
    """A call of `echo` on a server that is killed by it."""
    if direct:
        client.attempt("tools/echo", input={})
    else:
        client.attempt("exec", source="await tools.echo({})", yield_time_ms=0)


def told_once(client: Client) -> Payload:
    """The one Post of the one call, when it has come, and the next server has answered, so that another would have."""
    client.is_whole()
    posts = [each for each in client.told if each["hook_event_name"] == "PostToolUse"]
    assert len(posts) == 1, client.told
    return posts[0]


@BOTH
def test_killed_while_a_hook_is_asked(tmp_path: Path, receiver: Receiver, direct: bool) -> None:
    """The next server tells that it was lost."""

    def work(there: Site) -> Client:
        kill_at(there, "PreToolUse")
        client = there.session()
        begin(client, direct=direct)
        there.server.process.wait(10)
        return client

    with killed(receiver, tmp_path, work) as client:
        assert told_once(client)["tool_status"] == LOST


@BOTH
def test_killed_while_a_hook_is_told_of_an_end(tmp_path: Path, receiver: Receiver, direct: bool) -> None:
    """The next server has that end, and tells no hook another one."""

    def work(there: Site) -> Client:
        kill_at(there, "PostToolUse")
        client = there.session()
        begin(client, direct=direct)
        there.server.process.wait(10)
        return client

    with killed(receiver, tmp_path, work) as client:
        assert told_once(client)["tool_status"] == {"state": "completed", "exit_code": None}


def test_killed_while_a_hook_is_told_of_the_end_of_a_process(tmp_path: Path, receiver: Receiver) -> None:
    """The same of a command that its cell has left running."""

    def work(there: Site) -> Client:
        client = there.session()
        client.exec("await tools.exec_command({cmd: 'until [ -e go ]; do sleep 0.02; done', yield_time_ms: 0})")
        kill_at(there, "PostToolUse")
        (there.workspace / "go").touch()
        there.server.process.wait(10)
        return client

    with killed(receiver, tmp_path, work) as client:
        assert told_once(client)["tool_status"] == {"state": "exited", "exit_code": 0}


SCRIPT = "await tools.exec_command({cmd: 'echo $$ > pid; exec sleep 600', yield_time_ms: 0}); await tools.hang({})"


def test_what_was_under_way_is_lost(tmp_path: Path, receiver: Receiver) -> None:
    """A call that waited, a command that went on, a direct one, one that a person was asked about: each once."""

    def work(there: Site) -> Client:
        tools = [receiver.tool(name) for name in ("echo", "hang")]
        tools += [receiver.tool("risky", "echo", requires_approval=True)]
        client = there.session(tools=tools, approval_policy="on_request")
        client.exec(SCRIPT, tool_call_id="exec-1", turn_id="t-1", yield_time_ms=0)
        client.exec("tools.risky({}); await tools.hang({})", tool_call_id="exec-2", yield_time_ms=0)
        client.call("exec_command", {"cmd": "sleep 600", "yield_time_ms": 0}, tool_use_id="mine", turn_id="t-2")
        client.call("echo", {})
        until_found(lambda: client.get("approvals") and len(client.told) == 7, "all have begun")
        until_found(lambda: (there.workspace / "pid").exists(), "the command runs")
        return client

    with killed(receiver, tmp_path, work) as client:
        pid = int((tmp_path / "workspace" / "pid").read_text())
        assert not is_alive(pid)
        events = client.is_whole()
        posts = [each for each in client.told if each["hook_event_name"] == "PostToolUse"]
        lost = [each for each in posts if each["tool_status"] == LOST]
        assert sorted(each["tool_name"] for each in lost) == ["exec_command", "exec_command", "hang", "hang", "risky"]
        assert len(posts) == 6
        assert client.get("approvals") == client.get("processes") == []
        (cell,) = {each["cell_id"] for each in events if each.get("tool_call_id") == "exec-1"}
        of_cell = {each["tool_name"] for each in lost if each["tool_source"].get("cell_id") == cell}
        assert of_cell == {"exec_command", "hang"}
        assert {each["turn_id"] for each in lost if each["tool_source"]["type"] == "direct"} == {"t-2"}


def test_a_third_server_tells_nothing_again(tmp_path: Path, receiver: Receiver) -> None:
    """What was lost with the first was told by the second."""
    flags = ("--data-dir", str(tmp_path / "data"))
    with site(receiver, tmp_path, *flags) as there:
        client = there.session()
        client.exec("await tools.hang({})", yield_time_ms=0)
        receiver.until_told(client.session_id, "PreToolUse")
        there.server.process.kill()
        there.server.process.wait(10)
    with site(receiver, tmp_path, *flags) as there:
        receiver.until_told(client.session_id, "PostToolUse", tool_status=LOST)
        there.server.process.kill()
        there.server.process.wait(10)
    with site(receiver, tmp_path, *flags) as there:
        assert told_once(Client(there.server, receiver, client.session_id))["tool_status"] == LOST
