"""A server is stopped or killed while calls are under way: whoever was asked about one is told of its end, once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.hook_server import HookServer, hook_server
from tests.faults.rig import Service, service, texts, until_found
from tests.unit.test_calls.call_helpers import audited

CALLS = "tools.never({}); await tools.never({})"


@pytest.fixture
def told() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


def flags(told: HookServer, folder: Path | None = None) -> list[str]:
    more = [] if folder is None else ["--data-dir", str(folder / "data")]
    return ["--tools", "tests.faults.host_tools:tools", "--allow-tool-url", told.url, *more]


def direct(server: Service, session: str, **body: Any) -> tuple[threading.Thread, list[Any]]:
    """A direct call that waits; its answer will be in the list."""
    answers: list[Any] = []

    def call() -> None:
        with contextlib.suppress(httpx.HTTPError):
            answers.append(server.post("tools/never", session, **body).json())

    thread = threading.Thread(target=call)
    thread.start()
    return thread, answers


def under_way(server: Service, told: HookServer, session: str) -> tuple[threading.Thread, list[Any]]:
    """Two nested calls and a direct one; a crash of the server would not make it forget them."""
    before = len(told.of("PreToolUse"))
    server.exec(CALLS, session, yield_time_ms=0, turn_id="turn-1")
    made = direct(server, session, turn_id="turn-1")
    until_found(lambda: len(told.of("PreToolUse")) == before + 3, "three calls")
    until_found(lambda: len(server.client.get(f"/v1/sessions/{session}/lifecycle").json()["open"]) == 3, "three calls")
    settled(server, session)
    return made


def settled(server: Service, session: str) -> None:
    """All that has happened so far is written: an answer waits for that."""
    assert server.post("turns/none/end", session).status_code == 200


def lifecycle(server: Service, session: str) -> dict[str, Any]:
    told: dict[str, Any] = server.client.get(f"/v1/sessions/{session}/lifecycle").json()
    assert told["ok"], told
    return told


def test_a_server_that_stops_tells_all_hooks(tmp_path: Path, told: HookServer) -> None:
    """Before it has ended; whoever waits for a direct call has an answer, and the history is whole for the next one."""
    with service(tmp_path, *flags(told, tmp_path)) as server:
        session = server.session(hooks=told.hooks())
        thread, answers = under_way(server, told, session)
        server.terminate()
        assert server.status() == 0, server.said
    thread.join(10)
    assert audited(told.payloads) == []
    assert told.states() == ["cancelled"] * 3
    assert answers[0]["error"]["code"] == "cancelled"
    with service(tmp_path, *flags(told, tmp_path)) as server:
        assert lifecycle(server, session)["states"] == {"cancelled": 3}
    assert len(told.payloads) == 6


def test_a_server_that_stops_while_a_hook_is_asked(tmp_path: Path, told: HookServer) -> None:
    """The hook is told after it was asked."""
    with service(tmp_path, *flags(told)) as server:
        session = server.session(hooks=told.hooks("hang"))
        server.exec("await tools.echo({})", session, yield_time_ms=0)
        until_found(lambda: told.payloads, "a hook that is asked")
        server.terminate()
        threading.Timer(0.5, told.opened.set).start()
        assert server.status() == 0, server.said
    assert audited(told.payloads) == []
    assert told.states() == ["cancelled"]


def test_the_server_after_one_that_was_killed_tells_of_what_was_lost(tmp_path: Path, told: HookServer) -> None:
    """The same ids and source as in the Pre, each once; a third server has nothing to tell any more."""
    with service(tmp_path, *flags(told, tmp_path)) as server:
        session = server.session(hooks=told.hooks())
        server.exec("await tools.echo({})", session)
        told.told(1)
        thread, answers = under_way(server, told, session)
        server.process.kill()
        server.process.wait()
    thread.join(10)
    assert answers == []
    with service(tmp_path, *flags(told, tmp_path)) as server:
        payloads = told.told(4)
        assert lifecycle(server, session)["states"] == {"completed": 1, "lost": 3}
    assert audited(payloads) == []
    assert told.states() == ["completed", "lost", "lost", "lost"]
    lost = [each for each in payloads if each.get("tool_status", {}).get("state") == "lost"]
    assert [each["tool_status"]["exit_code"] for each in lost] == [None] * 3
    assert {each["turn_id"] for each in lost} == {"turn-1"}
    with service(tmp_path, *flags(told, tmp_path)) as server:
        assert lifecycle(server, session)["states"] == {"completed": 1, "lost": 3}
    assert len(told.payloads) == 8


def test_a_server_that_is_killed_while_hooks_are_told(tmp_path: Path, told: HookServer) -> None:
    """Nobody is told twice: those that it did not come to are not told any more, and what happens next is."""
    with service(tmp_path, *flags(told, tmp_path)) as server:
        session = server.session(hooks=[*told.hooks(after="hang", matcher="^echo$"), *told.hooks(matcher="^sleep$")])
        server.exec("await tools.echo({})", session, yield_time_ms=0)
        until_found(lambda: "hang" in told.paths, "the first is told")
        until_found(lambda: not server.client.get(f"/v1/sessions/{session}/lifecycle").json()["open"], "an end")
        settled(server, session)
        server.process.kill()
        server.process.wait()
    told.opened.set()
    before = len(told.payloads)
    with service(tmp_path, *flags(told, tmp_path)) as server:
        server.post("tools/sleep", session, input={"ms": 0})
        until_found(lambda: len(told.payloads) >= before + 2, "both of the next call")
        assert [each["tool_name"] for each in told.payloads[before:]] == ["sleep", "sleep"]
        assert lifecycle(server, session)["states"] == {"completed": 2}


def test_a_server_that_is_killed_while_a_person_is_asked(tmp_path: Path, told: HookServer) -> None:
    """The call never runs; nobody can decide about it any more, and the hooks are told that it was lost."""
    with service(tmp_path, *flags(told, tmp_path)) as server:
        session = server.session(hooks=told.hooks("ask"), approval_policy="on_request")
        server.exec("await tools.echo({})", session, yield_time_ms=0)
        (approval,) = until_found(lambda: server.client.get(f"/v1/sessions/{session}/approvals").json(), "a question")
        settled(server, session)
        server.process.kill()
        server.process.wait()
    with service(tmp_path, *flags(told, tmp_path)) as server:
        assert server.client.get(f"/v1/sessions/{session}/approvals").json() == []
        response = server.post(f"approvals/{approval['approval_id']}", session, decision="accept")
        assert response.status_code == 404
        assert audited(told.told(1)) == []
        assert told.states() == ["lost"]
        assert lifecycle(server, session)["states"] == {"lost": 1}


def test_a_url_that_is_not_allowed_any_more_is_told_nothing(tmp_path: Path, told: HookServer) -> None:
    """The session's calls are denied then: nobody can be asked about them."""
    with service(tmp_path, *flags(told, tmp_path)) as server:
        session = server.session(hooks=told.hooks())
        assert "output" in server.post("tools/echo", session).json()
    told.payloads.clear()
    others = [*flags(told, tmp_path)]
    others[others.index(told.url)] = "http://127.0.0.1:9/"
    with service(tmp_path, *others) as server:
        answer = server.post("tools/echo", session).json()
    assert (answer.get("error", {}).get("code"), told.payloads) == ("hook_denied", [])


def test_hooks_of_a_session_are_there_after_a_restart(tmp_path: Path, told: HookServer) -> None:
    """As they were declared."""
    with service(tmp_path, *flags(told, tmp_path)) as server:
        session = server.session(hooks=told.hooks("deny", matcher="^echo$", payload="minimal", timeout_ms=5000))
    with service(tmp_path, *flags(told, tmp_path)) as server:
        assert server.post("tools/echo", session).json()["error"]["code"] == "hook_denied"
        assert server.post("tools/sleep", session, input={"ms": 0}).json()["output"] == 0
        assert texts(server.exec("try { await tools.echo({}) } catch (e) { text(e.code) }", session)) == ["hook_denied"]
        assert audited(told.told(2)) == []
        assert not any("tool_input" in each or "tool_response" in each for each in told.payloads)


def test_a_hook_that_leaves_does_not_end_the_server(tmp_path: Path, told: HookServer) -> None:
    """As a tool that does so."""
    with service(tmp_path, *flags(told), "--hooks", "tests.faults.host_hooks:leaving", may_complain=True) as server:
        session, codes = server.session(), []
        with contextlib.suppress(httpx.HTTPError):
            for _ in range(2):
                codes.append(server.post("tools/echo", session).json()["error"]["code"])
    assert codes == ["hook_denied", "hook_denied"]
