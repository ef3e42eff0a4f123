"""The collector of the examples beside a real server: what it proves of an approved verifier, from minimal payloads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.receiver import ALLOW, Receiver, decision
from tests.acceptance.site import Client, Site, site
from tests.faults.rig import until_found
from tests.faults.server import is_alive, until
from tests.unit.cli_helpers import pipe_of, started

SECRET = "a secret of the tests"
RUN = "await tools.run_verifier({})"
TOOLS = ("--tools", "examples.verifier_tool:tools")


class Proofs:
    """A collector, a server whose sessions tell it of their calls, and the verifier's command."""

    def __init__(self, process: subprocess.Popen[bytes], collector: httpx.Client, there: Site) -> None:
        self.process = process
        self.collector = collector
        self.site = there

    def verifier(self, script: str) -> None:
        """What the verifier does from now on."""
        (self.site.workspace / "pid").unlink(missing_ok=True)
        (self.site.workspace / "check.sh").write_text(f"echo on >> ran; {script}")

    @property
    def pid(self) -> int:
        """That of the verifier, if it has written it down since `verifier`."""
        file = self.site.workspace / "pid"
        return int((file.read_text() if file.exists() else "") or 0)

    @property
    def runs(self) -> int:
        """How often it was begun."""
        ran = self.site.workspace / "ran"
        return ran.read_text().count("\n") if ran.exists() else 0

    def session(self, **body: Any) -> Client:
        """One that tells the collector, and the receiver too."""
        return self.site.session(hooks=self.hooks(), tools=[{"name": "ask"}], **body)

    def hooks(self) -> list[dict[str, Any]]:
        own = {
            "type": "http",
            "url": f"{self.collector.base_url}/hook".replace("//hook", "/hook"),
            "payload": "minimal",
        }
        events = ("PreToolUse", "PostToolUse")
        receiver = self.site.receiver
        return [{**own, "event": event} for event in events] + [
            receiver.hook(event, payload="minimal") for event in events
        ]

    def verdict(self, client: Client, parent: str = "exec-1", tool: str = "run_verifier") -> dict[str, Any]:
        question = {"session_id": client.session_id, "tool_name": tool, "parent_tool_use_id": parent}
        answer: dict[str, Any] = self.collector.get("/verdict", params=question).raise_for_status().json()
        assert answer["proven"] == (not answer["reasons"])
        return answer

    def refuses(self, client: Client, *said: str) -> None:
        """Nothing is proven, for these reasons."""
        reasons = self.verdict(client)["reasons"]
        assert len(reasons) == len(said), reasons
        for text, reason in zip(said, reasons, strict=True):
            assert text in reason


@contextmanager
def proofs(receiver: Receiver, folder: Path, *options: str, flags: tuple[str, ...] = TOOLS) -> Iterator[Proofs]:
    """Both processes, on ports of their own."""
    (folder / "secret").write_text(SECRET)
    (folder / "workspace").mkdir(exist_ok=True)
    place = str(folder / "workspace")
    command = (sys.executable, "-m", "examples.verifier_collector", "--secret-file", str(folder / "secret"), *options)
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv(
            "VERIFIER_COMMAND", f"sh -c 'cd {place} && exec sh check.sh'"
        )
        collecting = stack.enter_context(started(*command))
        url = pipe_of(collecting.stdout).readline().decode().split()[-1]
        collector = stack.enter_context(httpx.Client(base_url=url, timeout=15, trust_env=False))
        signing = ("--tool-secret-file", str(folder / "secret"), "--allow-tool-url", f"{url}/")
        there = stack.enter_context(site(receiver, folder, *signing, *flags))
        yield Proofs(collecting, collector, there)


@pytest.fixture(scope="module")
def _shared(shared_receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proofs]:
    with proofs(shared_receiver, tmp_path_factory.mktemp("proofs")) as made:
        yield made


@pytest.fixture
def made(_shared: Proofs, receiver: Receiver) -> Proofs:
    """Shared by the tests, each of which has sessions of its own; the verifier passes."""
    _shared.verifier("exit 0")
    return _shared


def test_a_verifier_that_passed_in_a_cell_is_proven(made: Proofs) -> None:
    """By the id of its use; of no other exec, tool or session."""
    client = made.session()
    before = made.runs
    seen = client.exec(f"text(({RUN}).exit_code)", tool_call_id="exec-1")
    assert seen["output"][0]["text"] == "0"
    assert made.runs == before + 1
    (tool_use_id,) = {each["tool_use_id"] for each in client.told}
    assert made.verdict(client) == {"proven": True, "reasons": [], "tool_use_id": tool_use_id}
    assert not made.verdict(client, parent="exec-2")["proven"]
    assert not made.verdict(client, tool="exec_command")["proven"]
    assert not made.verdict(made.session())["proven"]
    client.is_whole()


def test_among_other_calls_it_is_proven_too(made: Proofs) -> None:
    """Whatever else the script does, well or not."""
    client = made.session()
    more = "await tools.exec_command({cmd: 'exit 9'}); await tools.read_file({path: 'none'}).catch(() => 0);"
    client.exec(f"{more} {RUN}; {RUN}; tools.ask({{}})", tool_call_id="exec-1")
    client.receiver.until_told(client.session_id, "PostToolUse", tool_name="ask")
    assert made.verdict(client)["proven"], made.verdict(client)


def test_run_directly_it_is_not(made: Proofs) -> None:
    """Nor by a parent that a direct caller makes up."""
    client = made.session()
    assert client.call("run_verifier", {}, tool_use_id="exec-1")["output"]["exit_code"] == 0
    made.refuses(client, "not used in that exec; uses elsewhere in the session: direct")


@pytest.mark.parametrize(
    ("script", "said"), [("exit 1", "exited, exit code 1"), ("kill -9 $$", "exited, exit code 137")]
)
def test_one_that_failed_is_not(made: Proofs, script: str, said: str) -> None:
    """Also when the script says nothing of it, or runs it again until it passes."""
    made.verifier(script)
    client = made.session()
    client.exec(RUN, tool_call_id="exec-1")
    made.refuses(client, f"has not passed: {said}")
    made.verifier("exit 0")
    client.exec(RUN, tool_call_id="exec-1")
    made.refuses(client, f"has not passed: {said}")
    client.exec(RUN, tool_call_id="exec-2")
    assert made.verdict(client, parent="exec-2")["proven"]


def test_one_that_was_denied_is_not(made: Proofs) -> None:
    """By another hook; it did not run."""
    client, before = made.session(), made.runs
    made.site.receiver.answers = lambda told: decision("deny") if told["hook_event_name"] == "PreToolUse" else ALLOW
    client.exec(f"try {{ {RUN} }} catch (e) {{ text(e.code) }}", tool_call_id="exec-1")
    made.refuses(client, "has not passed: denied")
    assert made.runs == before


def test_one_that_still_runs_is_not(made: Proofs) -> None:
    """When it has passed it is."""
    made.verifier("until [ -e passed ]; do sleep 0.02; done")
    client = made.session()
    cell = client.exec(RUN, tool_call_id="exec-1", yield_time_ms=0)["cell_id"]
    client.receiver.until_told(client.session_id, "PreToolUse")
    made.refuses(client, "has not ended")
    (made.site.workspace / "passed").touch()
    assert client.wait(cell, yield_time_ms=10_000)["status"] == "completed"
    assert made.verdict(client)["proven"]


@pytest.mark.parametrize("how", ["terminated", "not awaited"])
def test_one_that_was_cut_off_is_not(made: Proofs, how: str) -> None:
    """And its process is gone."""
    made.verifier("echo $$ > pid; exec sleep 600")
    client = made.session()
    if how == "terminated":
        cell = client.exec(RUN, tool_call_id="exec-1", yield_time_ms=0)["cell_id"]
        pid = until_found(lambda: made.pid, "it runs")
        client.wait(cell, terminate=True)
        until(lambda: not is_alive(pid), "its process is gone")
    else:
        client.exec("tools.run_verifier({}); await tools.exec_command({cmd: 'true'})", tool_call_id="exec-1")
    client.receiver.until_told(client.session_id, "PostToolUse", tool_name="run_verifier")
    made.refuses(client, "has not passed: cancelled")


def test_the_same_command_by_another_tool_is_not(made: Proofs) -> None:
    """exec_command runs anything: its name says nothing of what ran. Nor does a tool that a session calls so."""
    client = made.session()
    client.exec("await tools.exec_command({cmd: 'sh check.sh'})", tool_call_id="exec-1")
    made.refuses(client, "not used in that exec; uses elsewhere in the session: none")
    own = {"name": "run_verifier", "handler": {"type": "http", "url": f"{made.site.receiver.url}/tool/echo"}}
    taken = made.site.server.post("sessions", tools=[own], hooks=made.hooks())
    assert taken.json()["code"] == "tool_name_collision", taken.text


def test_arguments_are_not_taken(made: Proofs) -> None:
    """So no script can turn it into another command; the refused use is told to nobody."""
    client, before = made.session(), made.runs
    client.exec("await tools.run_verifier({command: 'true'}).catch((e) => text(e.code))", tool_call_id="exec-1")
    made.refuses(client, "not used in that exec; uses elsewhere in the session: none")
    assert (client.told, made.runs) == ([], before)


def test_what_is_forged_or_tampered_with_counts_for_nothing(made: Proofs) -> None:
    """Without the secret nobody can add a pass, nor spoil one."""
    made.verifier("exit 1")
    client = made.session()
    client.exec(RUN, tool_call_id="exec-1")
    _, post = [each for each in client.receiver.hooks if each.payload["session_id"] == client.session_id]
    better = post.payload | {"tool_status": {"state": "exited", "exit_code": 0}}
    other = better | {"tool_use_id": "tu_forged"}
    stamp = post.signature.partition(",")[0]
    for body in (
        json.dumps(better).encode(),
        json.dumps(other).encode(),
        post.body.replace(b'"exit_code":1', b'"exit_code":0'),
    ):
        for headers in ({}, {"Codemode-Signature": post.signature}, {"Codemode-Signature": f"{stamp},v1={'0' * 64}"}):
            assert made.collector.post("/hook", content=body, headers=headers).status_code == 400
    made.refuses(client, "has not passed: exited, exit code 1")


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
def test_what_is_replayed_spoils_the_proof(made: Proofs, event: str) -> None:
    """Recorded with its signature by somebody who was told the same, and sent once more: the history is in doubt."""
    client = made.session()
    client.exec(RUN, tool_call_id="exec-1")
    assert made.verdict(client)["proven"]
    of_session = [each for each in client.receiver.hooks if each.payload["session_id"] == client.session_id]
    (again,) = [each for each in of_session if each.payload["hook_event_name"] == event]
    headers = {"Codemode-Signature": again.signature}
    assert made.collector.post("/hook", content=again.body, headers=headers).status_code == 400
    made.refuses(client, "duplicate_start" if event == "PreToolUse" else "duplicate_end")


def test_without_a_collector_nothing_runs(tmp_path: Path, receiver: Receiver) -> None:
    """Its hooks cannot be asked, so all is denied: no use goes by unseen."""
    with proofs(receiver, tmp_path) as made:
        made.verifier("exit 0")
        client = made.session()
        made.process.kill()
        made.process.wait()
        seen = client.exec(f"try {{ {RUN} }} catch (e) {{ text(e.code) }}", tool_call_id="exec-1")
        assert seen["output"][0]["text"] == "hook_denied"
        assert made.runs == 0


def test_one_whose_server_was_killed_is_not(tmp_path: Path, receiver: Receiver) -> None:
    """The next server says so to the same collector; run again there, in another exec, it is proven."""
    data = ("--data-dir", str(tmp_path / "data"))
    with proofs(receiver, tmp_path, flags=(*TOOLS, *data)) as made:
        made.verifier("echo $$ > pid; exec sleep 600")
        client = made.session()
        client.exec(RUN, tool_call_id="exec-1", yield_time_ms=0)
        pid = until_found(lambda: made.runs and made.pid, "it runs")
        made.site.server.process.kill()
        made.site.server.process.wait(10)
        os.kill(pid, signal.SIGKILL)  # it is a process of the tool's own, not one of the service
        url = str(made.collector.base_url).rstrip("/")
        more = ("--tool-secret-file", str(tmp_path / "secret"), "--allow-tool-url", f"{url}/", *TOOLS, *data)
        with site(receiver, tmp_path, *more) as there:
            again = Client(there.server, receiver, client.session_id)
            receiver.until_told(client.session_id, "PostToolUse")
            deadline = time.monotonic() + 10
            while "lost" not in str(made.verdict(client)) and time.monotonic() < deadline:
                time.sleep(0.01)
            made.refuses(client, "has not passed: lost")
            made.verifier("exit 0")
            again.exec(RUN, tool_call_id="exec-2")
            assert made.verdict(client, parent="exec-2")["proven"]
            again.is_whole()


def test_a_verifier_that_is_an_http_tool(tmp_path: Path, receiver: Receiver) -> None:
    """It passes by answering, if the operator says so; an error, or a use that is not made, is no pass."""
    with proofs(receiver, tmp_path, "--accept", "completed", flags=()) as made:
        for path, proven in (("echo", True), ("fail", False)):
            client = made.site.session(hooks=made.hooks(), tools=[receiver.tool("run_verifier", path)])
            assert not made.verdict(client)["proven"]
            client.exec(f"{RUN}.catch(() => 0)".replace("await ", "await "), tool_call_id="exec-1")
            assert made.verdict(client)["proven"] == proven, made.verdict(client)
            client.is_whole()
