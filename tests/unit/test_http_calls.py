"""Hooks, policies, approvals, direct calls and turns over HTTP, as a client of a real server meets them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.faults.hook_server import HookServer, hook_server
from tests.faults.rig import Service, service, texts, until_found
from tests.unit.test_calls.call_helpers import audited

SAID = "await tools.%s(%s).then((r) => text(JSON.stringify(r)), (e) => text(`${e.code}: ${e.message}`))"


@pytest.fixture(scope="module")
def hooks() -> Iterator[HookServer]:
    with hook_server() as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, hooks: HookServer) -> Iterator[Service]:
    flags = (
        "--tools",
        "tests.faults.host_tools:tools",
        "--allow-tool-url",
        hooks.url,
        "--limit",
        "max_sessions_key=1000",
    )
    with service(tmp_path_factory.mktemp("server"), *flags) as started:
        yield started


@pytest.fixture
def told(hooks: HookServer) -> HookServer:
    """The server of the hooks, with nothing told yet."""
    hooks.payloads.clear()
    hooks.opened.clear()
    return hooks


def call(server: Service, session: str, name: str = "echo", **body: Any) -> httpx.Response:
    return server.post(f"tools/{quote(name, safe='')}", session, **body)


def is_well(server: Service, session: str) -> None:
    told = server.client.get(f"/v1/sessions/{session}/lifecycle").json()
    assert told["ok"], told


def get(server: Service, session: str, path: str) -> Any:
    return server.client.get(f"/v1/sessions/{session}/{path}").json()


def asked(server: Service, session: str, count: int = 1) -> list[dict[str, Any]]:
    """The questions, when there are so many."""

    def found() -> list[dict[str, Any]]:
        every: list[dict[str, Any]] = get(server, session, "approvals")
        return every if len(every) == count else []

    approvals: list[dict[str, Any]] = until_found(found, "questions")
    return approvals


# Hooks


@pytest.mark.parametrize("how", ["direct", "nested"])
@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        ("allow", "allow", '"x"'),
        ("change", "allow", '"changed"'),
        ("allow", "replace", '"replaced"'),
        ("deny", "allow", "hook_denied: echo: denied by a hook: because of X"),
        ("no_json", "allow", "hook_denied: echo: denied, because a hook failed: it answered with what is no JSON"),
        ("empty", "allow", "hook_denied: echo: denied, because a hook failed: it answered with what is no JSON"),
        ("list", "allow", "hook_denied: echo: denied, because a hook failed: it answered with what is no JSON object"),
        ("unknown_field", "allow", "hook_denied: echo: denied, because a hook failed: it answered with the unknown field 'decision'"),
        ("unknown_decision", "allow", "hook_denied: echo: denied, because a hook failed: it answered with the unknown permissionDecision 'maybe'"),
        ("not_found", "allow", "hook_denied: echo: denied, because a hook failed: it answered with HTTP status 404"),
        ("error", "allow", "hook_denied: echo: denied, because a hook failed: it answered with HTTP status 500"),
        ("created", "allow", "hook_denied: echo: denied, because a hook failed: it answered with HTTP status 201"),
        ("replace", "allow", "hook_denied: echo: denied, because a hook failed: it answered with the unknown field 'updatedOutput'"),
        ("ask", "allow", "approval_declined: echo: it needs a person's approval, and this session asks nobody (approval_policy never)"),
        ("allow", "error", "result_withheld: echo: its result is withheld, because a hook failed: it answered with HTTP status 500"),
        ("allow", "deny", "result_withheld: echo: its result is withheld, because a hook failed: it answered with the unknown field 'permissionDecision'"),
    ],
)  # fmt: skip
def test_hooks_at_a_url(server: Service, told: HookServer, how: str, before: str, after: str, seen: str) -> None:
    """Their answers do what they should, and all else fails that call alone."""
    session = server.session(hooks=told.hooks(before, after))
    if how == "nested":
        assert texts(server.exec(SAID % ("echo", '{value: "x"}'), session)) == [seen]
    else:
        answer = call(server, session, input={"value": "x"}).json()
        error = answer.get("error")
        assert seen == (f'"{answer["output"]}"' if error is None else f"{error['code']}: {error['message']}")
    assert audited(told.told(1)) == []
    state = "completed" if before in ("allow", "change") else "denied"
    assert told.states() == [state]
    is_well(server, session)


def test_a_hook_that_does_not_answer(server: Service, told: HookServer) -> None:
    """Fails its call after its time; other calls go through meanwhile."""
    session = server.session(hooks=told.hooks("hang", matcher="^echo$", timeout_ms=150))
    source = f"const a = (async () => {{ {SAID % ('echo', '{}')} }})(); {SAID % ('sleep', '{ms: 1}')}; await a"
    assert texts(server.exec(source, session)) == [
        "1",
        "hook_denied: echo: denied, because a hook failed: it did not answer within 150 ms",
    ]
    assert audited(told.told(1)) == []


def test_an_answer_that_is_too_long(server: Service, told: HookServer) -> None:
    """Is no answer, and is not read to its end."""
    session = server.session(hooks=told.hooks("long"))
    error = call(server, session).json()["error"]
    assert error["code"] == "hook_denied"
    assert "longer than" in error["message"]


def test_a_hook_that_hangs_up(server: Service, told: HookServer) -> None:
    """The address is not told."""
    session = server.session(hooks=[{"event": "PreToolUse", "type": "http", "url": f"{told.url}/missing"}])
    error = call(server, session).json()["error"]
    assert error["code"] == "hook_denied"
    assert "127.0.0.1" not in error["message"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "command", "command": ["true"]},
        {"type": "command", "url": "http://127.0.0.1:1/"},
        {"type": "python"},
        {"command": ["true"]},
        {"url": "http://127.0.0.1:1/"},
        {"url": "file:///etc/passwd"},
        {"url": "http://user:secret@127.0.0.1/"},
        {"url": None},
        {"event": "Stop"},
        {"event": None},
        {"matcher": "("},
        {"matcher": "x" * 501},
        {"matcher": 5},
        {"timeout_ms": 0},
        {"timeout_ms": 600_001},
        {"timeout_ms": "5"},
        {"payload": "some"},
        {"other": 1},
    ],
    ids=str,
)
def test_a_hook_that_may_not_be(server: Service, told: HookServer, wrong: dict[str, Any]) -> None:
    """Is refused with the session: commands are the operator's, and URLs have to be allowed."""
    hook = {**told.hooks()[0], **wrong}
    response = server.client.post("/v1/sessions", json={"hooks": [hook]})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request"), response.text


def test_a_matcher_that_would_take_for_ever(server: Service, told: HookServer) -> None:
    """Holds nobody up: the hook is asked."""
    name = "a" * 60 + "b"
    session = server.session(tools=[{"name": name}], hooks=told.hooks("deny", matcher="^(a+)+$"))
    with ThreadPoolExecutor() as pool:
        running = pool.submit(server.exec, SAID % (name, "{}"), session)
        assert server.client.get("/healthz", timeout=2).status_code == 200
        running.result(5)
    is_well(server, session)


# Policies


def test_the_policy_of_a_tool_over_http(server: Service) -> None:
    """Each code, in scripts and in direct calls; a client tool that takes too long takes no result any more."""
    tools = [
        {"name": "scripts_only", "allowed_callers": ["programmatic"]},
        {"name": "direct_only", "allowed_callers": ["direct"]},
        {"name": "once", "max_calls": 0},
        {"name": "late", "timeout_ms": 40},
        {"name": "short", "max_result_bytes": 5},
        {"name": "strict", "input_schema": {"type": "object", "required": ["a"]}},
        {"name": "asks", "requires_approval": True},
    ]
    session = server.session(tools=tools)
    source = "; ".join(SAID % (name, "{}") for name in ("direct_only", "once", "strict", "asks"))
    seen = [text.partition(":")[0] for text in texts(server.exec(source, session))]
    assert seen == ["caller_not_allowed", "call_limit", "invalid_input", "approval_declined"]
    for name in ("scripts_only", "direct_only"):  # a client tool has nobody that could be called
        answer = call(server, session, name)
        assert (answer.status_code, answer.json()["error"]["code"]) == (200, "caller_not_allowed")
    observation = server.exec(f"{SAID % ('late', '{}')}; await new Promise((go) => setTimeout(go, 1e6))", session)
    (pending,) = observation["pending_tool_calls"]
    seen = until_found(lambda: texts(server.wait(observation["cell_id"], session, yield_time_ms=50)), "the end")
    assert seen[0].startswith("timed_out")
    result = {"cell_id": pending["cell_id"], "runtime_tool_call_id": pending["runtime_tool_call_id"], "output": 1}
    response = server.post("tool_results", session, results=[result])
    assert (response.status_code, response.json()["code"]) == (409, "tool_call_already_resolved")
    server.wait(observation["cell_id"], session, terminate=True)
    observation = server.exec(SAID % ("short", "{}"), session)
    (pending,) = observation["pending_tool_calls"]
    result = {"cell_id": pending["cell_id"], "runtime_tool_call_id": pending["runtime_tool_call_id"], "output": "long"}
    observation = server.post("tool_results", session, results=[result], cell_id=pending["cell_id"]).json()
    assert texts(observation)[0].startswith("result_too_large")
    is_well(server, session)


@pytest.mark.parametrize(
    "wrong",
    [
        {"allowed_callers": []},
        {"allowed_callers": ["script"]},
        {"timeout_ms": 0},
        {"max_concurrency": 0},
        {"max_calls": -1},
        {"max_result_bytes": 1.5},
        {"requires_approval": "yes"},
        {"annotations": {"readOnlyHint": "yes"}},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense(server: Service, wrong: dict[str, Any]) -> None:
    """Is refused with the session."""
    response = server.client.post("/v1/sessions", json={"tools": [{"name": "t", **wrong}]})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")


# Approvals


def test_a_person_decides(server: Service, told: HookServer) -> None:
    """Every answer that a decision may have, and what becomes of the calls."""
    session = server.session(hooks=told.hooks("ask"), approval_policy="on_request", limits={"lifetime_ms": 2000})
    with ThreadPoolExecutor() as pool:
        running = pool.submit(server.exec, SAID % ("echo", "{value: 1}"), session)
        (asked_now,) = asked(server, session)
        assert asked_now["item"]["input"] == {"value": 1}
        path = f"approvals/{asked_now['approval_id']}"
        wrong = server.post(path, session, decision="accept", arguments_hash="sha256:other")
        assert (wrong.status_code, wrong.json()["code"]) == (409, "approval_mismatch")
        assert asked(server, session) == [asked_now]
        for body in ({}, {"decision": "maybe"}, {"decision": "accept", "x": 1}):
            assert server.post(path, session, **body).status_code == 422
        settings = {"accept_settings": {"for_session": True}, "arguments_hash": asked_now["arguments_hash"]}
        decided = server.post(path, session, decision="accept", **settings)
        assert (decided.status_code, decided.json()["resolution"]) == (200, "accepted")
        assert texts(running.result(10)) == ["1"]
        again = server.post(path, session, decision="accept")
        assert (again.status_code, again.json()["code"]) == (409, "approval_already_resolved")
        unknown = server.post("approvals/ap_none", session, decision="accept")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "approval_not_found")
        assert call(server, session, input={"value": 1}).json()["output"] == 1
        direct = pool.submit(call, server, session, input={"value": 2})
        (asked_now,) = asked(server, session)
        server.post(f"approvals/{asked_now['approval_id']}", session, decision="decline")
        assert direct.result(10).json()["error"]["code"] == "approval_declined"
        running = pool.submit(server.exec, SAID % ("echo", "{value: 3}"), session)
        (asked_now,) = asked(server, session)
        assert server.post(f"approvals/{asked_now['approval_id']}", session, decision="cancel").status_code == 200
        assert running.result(10)["status"] == "terminated"
    assert audited(told.told(4)) == []
    assert told.states() == ["completed", "completed", "denied", "cancelled"]
    is_well(server, session)


# Direct calls and turns


def test_direct_calls_over_http(server: Service) -> None:
    """Their answers and their errors."""
    session = server.session(tools=[{"name": "a/b c/工具"}])
    assert call(server, session, input={"value": [1]}, tool_use_id="x").json() == {"tool_use_id": "x", "output": [1]}
    for name, body, status, code in (
        ("none", {}, 404, "tool_not_found"),
        ("echo/", {}, 404, "tool_not_found"),
        ("echo", {"tool_use_id": "x"}, 409, "tool_use_id_taken"),
        ("echo", {"tool_use_id": ""}, 422, "invalid_request"),
        ("echo", {"tool_use_id": "x" * 513}, 422, "invalid_request"),
        ("echo", {"input": [1]}, 422, "invalid_request"),
        ("echo", {"inputs": {}}, 422, "invalid_request"),
    ):
        response = call(server, session, name, **body)
        assert (response.status_code, response.json()["code"]) == (status, code), (name, response.text)
    response = call(server, session, "a/b c/工具")
    assert (response.status_code, response.json()["error"]["code"]) == (200, "caller_not_allowed")
    raw = server.client.post(f"/v1/sessions/{session}/tools/echo", content=b'{"tool_use_id": "\\ud800"}')
    assert raw.status_code == 422
    assert call(server, session, "leave").json()["error"]["code"] == "tool_failed"
    is_well(server, session)


def test_a_client_that_hangs_up_cancels_its_call(server: Service, told: HookServer) -> None:
    """The hooks and the events say so."""
    session = server.session(hooks=told.hooks())
    with pytest.raises(httpx.ReadTimeout):
        server.client.post(f"/v1/sessions/{session}/tools/never", json={}, timeout=0.3)
    assert audited(told.told(1)) == []
    assert told.states() == ["cancelled"]
    states = until_found(lambda: get(server, session, "lifecycle")["states"], "an end")
    assert states == {"cancelled": 1}
    is_well(server, session)


def test_turns_over_http(server: Service) -> None:
    """One that still runs is said to; with `detach` it ends all the same."""
    session = server.session()
    assert server.client.post(f"/v1/sessions/{session}/turns/a%2Fb/end").json() == {"needs_follow_up": False}
    cell_id = server.exec("await tools.never({})", session, turn_id="a/b", yield_time_ms=0)["cell_id"]
    answer = server.post("turns/a%2Fb/end", session).json()
    assert (answer["needs_follow_up"], answer["running"]) == (True, [{"type": "cell", "cell_id": cell_id}])
    assert server.post("turns/a%2Fb/end", session, detach=True).json() == {"needs_follow_up": False}
    assert server.post("turns/a%2Fb/end", session).json() == {"needs_follow_up": False}
    assert server.post("turns/a%2Fb/end", session, detach="yes").status_code == 422
    assert server.wait(cell_id, session, terminate=True)["status"] == "terminated"
    is_well(server, session)


def test_a_session_that_is_deleted_tells_its_hooks(server: Service, told: HookServer) -> None:
    """Of nested and direct calls; whoever waits for one has an answer."""
    session = server.session(hooks=told.hooks())
    answers: list[httpx.Response] = []
    direct = threading.Thread(target=lambda: answers.append(call(server, session, "never")))
    direct.start()
    server.exec("tools.never({}); await tools.never({})", session, yield_time_ms=0)
    until_found(lambda: len(told.of("PreToolUse")) == 3, "three calls")
    assert server.client.delete(f"/v1/sessions/{session}").status_code == 204
    direct.join(10)
    assert audited(told.told(3)) == []
    assert told.states() == ["cancelled"] * 3
    assert answers[0].json()["error"]["code"] == "cancelled"
