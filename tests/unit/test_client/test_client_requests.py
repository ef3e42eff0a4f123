"""What the clients send and how they read answers, without a service."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import httpx
import pytest

from codemode import TurnEnd
from codemode.cells.observation import (
    Notification,
    Observation,
    PendingToolCall,
    ScriptError,
    ToolCallCounts,
    Usage,
)
from codemode.client import (
    AnswerLost,
    AsyncClientSession,
    AsyncCodeModeClient,
    ClientSession,
    CodeModeClient,
    ToolResult,
    answers,
    patience,
    requests,
    tool_run,
)
from codemode.client.flows import SessionFlows
from codemode.client.requests import Request
from codemode.errors import CodeModeError, SessionNotFound, ShuttingDown, ToolUseIdTaken
from tests.unit.test_client.client_helpers import Client, done

OBSERVATION = Observation(
    session_id="s",
    cell_id="1",
    status="failed",
    output=[{"type": "text", "text": "a"}, {"type": "hologram", "url": "u"}],
    cursor=2,
    truncated=False,
    original_token_count=3,
    wall_time_ms=4,
    error=ScriptError("script_error", "Error", "m", 1, 2, "st", "h"),
    warnings=["w"],
    notifications=[Notification("n", 5)],
    usage=Usage(1, 2, 3, 4, 5),
    tool_calls=ToolCallCounts(1, 2, 3, 4, 5),
    safe_to_retry=False,
    pending_tool_calls=[PendingToolCall("call-1", "f", {"a": 1}, "1")],
    model_output=[{"type": "input_text", "text": "t"}],
)

Handler = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(params=[CodeModeClient, AsyncCodeModeClient])
def made(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Client]:
    """Makes either client, in front of a function that answers; retries follow quickly."""
    monkeypatch.setattr(patience, "_FIRST_DELAY_S", 0.0)

    def make(handler: Handler, url: str = "http://127.0.0.1", **options: Any) -> Client:
        client: Client = request.param(url, transport=httpx.MockTransport(handler), **options)
        return client

    return make


def with_a_future(value: dict[str, Any]) -> dict[str, Any]:
    """An answer of a later version: every object of ours has one more field."""
    return {**value, "from_the_future": {"a": [1]}}


def later_observation() -> dict[str, Any]:
    body = with_a_future(asdict(OBSERVATION))
    for name in ("error", "usage", "tool_calls"):
        body[name] = with_a_future(body[name])
    for name in ("notifications", "pending_tool_calls"):
        body[name] = [with_a_future(each) for each in body[name]]
    return body


async def test_unknown_fields_are_ignored(made: Callable[..., Client]) -> None:
    """In all objects of an observation; unknown kinds of output are passed on."""
    client = made(lambda _: httpx.Response(200, json=later_observation()))
    assert await done(client.exec("1")) == OBSERVATION


async def test_unknown_fields_of_sessions_and_cells_are_ignored(made: Callable[..., Client]) -> None:
    """As are those of their parts."""
    at = "2026-11-30T12:00:00.5Z"
    tool = with_a_future({"name": "f", "js_name": "f", "kind": "function"})
    session = {
        "session_id": "s",
        "created_at": at,
        "tools": [tool],
        "limits": {},
        "metadata": {},
        "approval_policy": "x",
    }
    cell = {
        "cell_id": "1",
        "status": "failed",
        "created_at": at,
        "ended_at": None,
        "turn_id": None,
        "tool_call_id": "t",
    }
    call: dict[str, Any] = {
        "runtime_tool_call_id": "call-1",
        "tool_use_id": "u",
        "tool_name": "f",
        "started_at": at,
        "ended_at": None,
    }
    call |= {"tool_source": {}, "tool_status": {"state": "queued"}}
    detail = cell | {"error": None, "usage": with_a_future({}), "calls": [with_a_future(call)]}
    bodies: dict[str, dict[str, Any]] = {"/v1/sessions/s": session, "/v1/sessions/default/cells/1": detail}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/cells"):
            return httpx.Response(200, json=[with_a_future(cell)])
        if request.url.path.endswith("/tool_specs"):
            return httpx.Response(200, json=[dict(request.url.params)])
        return httpx.Response(200, json=with_a_future(bodies[request.url.path]))

    client = made(answer)
    info = (await done(client.session("s"))).info
    assert (info.created_at.isoformat(), info.tools[0].js_name) == ("2026-11-30T12:00:00.500000+00:00", "f")
    assert [cell.cell_id for cell in await done(client.cells())] == ["1"]
    assert await done(client.tool_specs("mcp & more")) == [{"format": "mcp & more"}]
    shown = await done(client.cell("1"))
    assert (shown.usage, shown.calls[0].tool_status, shown.calls[0].ended_at) == (Usage(), {"state": "queued"}, None)


def problem(code: str, status: int, **fields: Any) -> Handler:
    body = {"type": "t", "title": "T", "status": status, "detail": "no", "code": code, **fields}
    headers = {"Content-Type": "application/problem+json", **({"Retry-After": "7"} if status == 503 else {})}
    return lambda _: httpx.Response(status, content=json.dumps(body), headers=headers)


@pytest.mark.parametrize(
    ("handler", "kind", "code", "fields"),
    [
        (problem("session_not_found", 404), SessionNotFound, "session_not_found", {}),
        (problem("shutting_down", 503, more=1), ShuttingDown, "shutting_down", {"more": 1, "retry_after_s": 7}),
        (problem("no_such_code_yet", 418, self=[]), CodeModeError, "no_such_code_yet", {"self": []}),
        (problem("internal_error", 500), CodeModeError, "internal_error", {}),
    ],
)
async def test_a_problem_raises_the_exception_of_its_code(
    made: Callable[..., Client], handler: Handler, kind: type[CodeModeError], code: str, fields: dict[str, Any]
) -> None:
    """With its detail as it is and with all further fields; CodeModeError itself where no class has the code."""
    with pytest.raises(CodeModeError) as raised:
        await done(made(handler).ready())
    error = raised.value
    assert (type(error), error.code, error.detail, str(error), error.fields) == (kind, code, "no", "no", fields)
    assert CodeModeError.code == "internal_error"


@pytest.mark.parametrize(
    ("status", "body"),
    [(502, "<html>"), (200, "<html>"), (200, "[]"), (200, "{}"), (404, '{"detail": "x"}'), (307, "")],
)
async def test_an_answer_of_something_else_is_named(made: Callable[..., Client], status: int, body: str) -> None:
    """It may be another service's, or that of a proxy in between."""
    client = made(lambda _: httpx.Response(status, text=body))
    with pytest.raises(
        CodeModeError, match=rf"^http://127.0.0.1/v1/sessions/default/exec answered {status} "
    ) as raised:
        await done(client.exec("1"))
    assert raised.value.code == "unexpected_answer"


async def test_the_key_and_what_the_caller_gives_are_sent(made: Callable[..., Client]) -> None:
    """Nothing else is; each exec gets an idempotency key of its own unless the caller says which, or none."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=asdict(OBSERVATION))

    client = made(answer, "https://example.org/behind/it/", api_key="k")
    await done(client.exec("é"))
    await done(client.exec("1", yield_time_ms=0, max_output_tokens=1, tool_call_id="c", turn_id="t"))
    await done(client.exec("1", idempotency_key="mine"))
    await done(client.exec("1", idempotency_key=False))
    await done(client.wait("1"))
    await done(client.wait("1", after=0, max_tokens=0, yield_time_ms=0))
    await done(client.terminate("1"))
    at = "https://example.org/behind/it/v1/sessions/default"
    assert [(str(request.url), json.loads(request.content)) for request in seen] == [
        (f"{at}/exec", {"source": "é"}),
        (
            f"{at}/exec",
            {"source": "1", "yield_time_ms": 0, "max_output_tokens": 1, "tool_call_id": "c", "turn_id": "t"},
        ),
        (f"{at}/exec", {"source": "1"}),
        (f"{at}/exec", {"source": "1"}),
        (f"{at}/wait", {"cell_id": "1"}),
        (f"{at}/wait", {"cell_id": "1", "after": 0, "max_tokens": 0, "yield_time_ms": 0}),
        (f"{at}/wait", {"cell_id": "1", "terminate": True}),
    ]
    assert {request.headers["authorization"] for request in seen} == {"Bearer k"}
    keys = [request.headers.get("idempotency-key") for request in seen]
    assert (keys[2], keys[3:]) == ("mine", [None] * 4)
    assert len({keys[0], keys[1]} - {None}) == 2


@pytest.mark.parametrize("lost", [httpx.ConnectError("refused"), httpx.ReadTimeout("late"), httpx.ReadError("reset")])
async def test_a_lost_connection_is_tried_again_where_that_is_harmless(
    made: Callable[..., Client], lost: httpx.TransportError
) -> None:
    """With the same key; and not at all for what could be done twice or asks for the present."""
    keys: list[str | None] = []

    def lose(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers.get("idempotency-key"))
        raise lost

    client = made(lose, patience_s=0.01)
    is_repeated = {}
    for name, ask in {
        "exec": lambda: client.exec("1"),
        "exec without a key": lambda: client.exec("1", idempotency_key=False),
        "wait": lambda: client.wait("1"),
        "tool_results": lambda: client.tool_results([ToolResult("1", "call-1")]),
        "cells": client.cells,
        "create_session": client.create_session,
        "health": client.health,
        "call_tool": lambda: client.call_tool("f", tool_use_id="u"),
        "user_shell": lambda: client.user_shell("true"),
        "cancel_user_command": lambda: client.cancel_user_command("us"),
        "end_turn": lambda: client.end_turn("t"),
        "decide": lambda: client.decide("ap", "accept"),
        "end_process": lambda: client.end_process(1),
        "lifecycle": client.lifecycle,
    }.items():
        keys.clear()
        is_unsure = name == "call_tool" and not isinstance(lost, httpx.ConnectError)
        with pytest.raises(AnswerLost if is_unsure else type(lost)):
            await done(ask())
        is_repeated[name] = len(keys) > 1
        assert len(set(keys)) == 1
    assert is_repeated == {
        "exec": True,
        "exec without a key": False,
        "wait": True,
        "tool_results": True,
        "cells": True,
        "create_session": isinstance(lost, httpx.ConnectError),  # else it may have been made
        "health": False,
        "call_tool": isinstance(lost, httpx.ConnectError),
        "user_shell": isinstance(lost, httpx.ConnectError),
        "cancel_user_command": True,
        "end_turn": True,
        "decide": True,
        "end_process": True,
        "lifecycle": True,
    }


@pytest.mark.parametrize("given", [None, "mine"])
async def test_a_direct_call_that_was_refused_after_it_ran_is_lost(
    made: Callable[..., Client], given: str | None
) -> None:
    """An id that nobody else can have is taken by an attempt of our own; of one that was given that is not known."""
    ids: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        ids.append(json.loads(request.content)["tool_use_id"])
        refuse = problem("overloaded", 503) if len(ids) == 1 else problem("tool_use_id_taken", 409)
        response = refuse(request)
        response.headers.pop("Retry-After", None)
        return response

    with pytest.raises(AnswerLost if given is None else ToolUseIdTaken) as raised:
        await done(made(answer).call_tool("f", tool_use_id=given))
    assert ids == [ids[0]] * 2
    if isinstance(raised.value, AnswerLost):
        assert raised.value.tool_use_id == ids[0]


async def test_what_actions_send(made: Callable[..., Client]) -> None:
    """What the caller gave, at a place that no name can lead away from; what is not given is not sent."""
    seen: list[tuple[str, str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else None
        seen.append((request.method, request.url.raw_path.decode().removeprefix("/v1/sessions/default/"), body))
        return httpx.Response(200, json={"tool_use_id": "u", "needs_follow_up": False})

    client = made(answer)
    await done(client.call_tool("a/b?", "text", tool_use_id="u"))
    await done(client.call_tool("..", {"a": None}, tool_use_id="u", turn_id="t"))
    await done(client.end_turn(".", detach=True))
    await done(client.end_turn("t"))
    for settings in ({}, {"for_session": True, "arguments_hash": "h"}):
        with pytest.raises(CodeModeError):
            await done(client.decide("ap", "accept", **settings))
    await done(client.end_process(7))
    for options in ({}, {"workdir": "w", "turn_id": "t", "timeout_ms": 1}):
        with pytest.raises(CodeModeError):
            await done(client.user_shell("true", **options))
    assert seen == [
        ("POST", "tools/a%2Fb%3F", {"input": "text", "tool_use_id": "u"}),
        ("POST", "tools/%2E%2E", {"input": {"a": None}, "tool_use_id": "u", "turn_id": "t"}),
        ("POST", "turns/%2E/end", {"detach": True}),
        ("POST", "turns/t/end", {}),
        ("POST", "approvals/ap", {"decision": "accept"}),
        (
            "POST",
            "approvals/ap",
            {"decision": "accept", "accept_settings": {"for_session": True}, "arguments_hash": "h"},
        ),
        ("DELETE", "processes/7", None),
        ("POST", "user_shell", {"command": "true"}),
        ("POST", "user_shell", {"command": "true", "workdir": "w", "turn_id": "t", "timeout_ms": 1}),
    ]


async def test_unknown_fields_of_answers_to_actions_are_ignored(made: Callable[..., Client]) -> None:
    """As are those of their parts; a later kind of finding is passed on."""
    at = "2026-11-30T12:00:00.5Z"
    approval: dict[str, Any] = {"approval_id": "ap", "reason": "r", "arguments_hash": "h", "tool_name": "f"}
    approval |= {"tool_use_id": "u", "tool_source": {}, "asked_at": at, "expires_at": at, "item": {}}
    process: dict[str, Any] = {"type": "process", "session_id": 7, "command": "c", "workdir": ".", "tty": False}
    process |= {"turn_id": None, "cell_id": None, "tool_use_id": "u", "started_at": at}
    command: dict[str, Any] = {"type": "commandExecution", "id": "us", "command": "c", "cwd": ".", "parsedCmd": []}
    command |= {"status": "completed", "aggregatedOutput": "", "exitCode": 0, "durationMs": 1, "source": "userShell"}
    finding = with_a_future({"code": "later", "message": "m", "seq": 1, "tool_use_id": None, "cell_id": None})
    report: dict[str, Any] = {"ok": False, "complete": True, "session_id": "s", "events": 1, "first_seq": 1}
    report |= {"last_seq": 1, "open": [], "states": {}, "findings": [finding], "more_findings": 0}
    bodies: dict[str, Any] = {
        "f": with_a_future({"tool_use_id": "u", "error": {"message": "m", "code": "c"}}),
        "end": with_a_future({"needs_follow_up": True, "running": [{"type": "later"}], "warning": "w"}),
        "approvals": [with_a_future(approval)],
        "processes": [with_a_future(process)],
        "user_shell": [with_a_future(command)],
        "lifecycle": with_a_future(report),
    }
    client = made(lambda request: httpx.Response(200, json=bodies[request.url.path.rpartition("/")[2]]))
    answer = await done(client.call_tool("f"))
    assert (answer.output, answer.error) == (None, {"message": "m", "code": "c"})
    assert await done(client.end_turn("t")) == TurnEnd(True, [{"type": "later"}], "w")
    [asked] = await done(client.approvals())
    assert (asked.resolution, asked.asked_at.microsecond) == (None, 500_000)
    assert [each.session_id for each in await done(client.processes())] == [7]
    assert [each.command_id for each in await done(client.user_commands())] == ["us"]
    assert [each.code for each in (await done(client.lifecycle())).findings] == ["later"]


async def test_a_wait_that_is_lost_over_and_over_answers_early(made: Callable[..., Client]) -> None:
    """Where each long poll is cut, but looks are not, the caller hears after the yield time that nothing is new."""
    running = asdict(OBSERVATION) | {"status": "running", "output": [], "notifications": [], "pending_tool_calls": []}
    waits: list[int | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        waits.append(json.loads(request.content).get("yield_time_ms"))
        if waits[-1] != 0:
            raise httpx.ReadError("reset")
        return httpx.Response(202, json=running)

    observation: Observation = await done(made(answer).wait("1", yield_time_ms=50))
    assert (observation.status, waits) == ("running", [50, 0] * (len(waits) // 2))


class Service:
    """Answers that its cell waits for the result of call-1; loses answers and refuses results as it is told."""

    def __init__(self, *, lose: int = 0, results: Handler | None = None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.lose = lose
        self._results = results

    def __call__(self, request: httpx.Request) -> httpx.Response:
        what, body = request.url.path.rpartition("/")[2], json.loads(request.content)
        self.asked.append((what, body))
        if self.lose:
            self.lose -= 1
            raise httpx.ReadError("reset")
        if what == "tool_results" and self._results is not None:
            return self._results(request)
        if what == "tool_results" and "cell_id" not in body:
            return httpx.Response(200, json={"accepted": 1})
        status = "terminated" if body.get("terminate") else "running"
        return httpx.Response(200, json=asdict(OBSERVATION) | {"status": status, "cursor": 7})


async def test_doubt_lasts_until_the_lost_call_is_over(made: Callable[..., Client]) -> None:
    """As long as the service may be waiting with a lost call, all is asked for that came since the last cursor."""
    service = Service()
    client = made(service)
    await done(client.wait("1"))
    service.lose = 1
    results = [ToolResult("1", "call-1", 2)]
    await done(client.tool_results(results, cell_id="1", yield_time_ms=50))
    await done(client.tool_results(results, cell_id="1"))
    while service.asked[-1][1].get("after") is not None:
        await done(client.wait("1", yield_time_ms=9))
    given = [asdict(results[0]) | {"output": 2}]
    del given[0]["error"]
    look = ("wait", {"cell_id": "1", "yield_time_ms": 0, "after": 7})
    assert service.asked[:6] == [
        ("wait", {"cell_id": "1"}),
        ("tool_results", {"results": given, "cell_id": "1", "yield_time_ms": 50}),
        ("tool_results", {"results": given}),
        look,
        ("tool_results", {"results": given}),
        look,
    ]
    assert service.asked[6:-1] == [look] * len(service.asked[6:-1])
    assert service.asked[-1] == ("wait", {"cell_id": "1", "yield_time_ms": 9})


async def test_a_run_whose_results_are_refused_ends(made: Callable[..., Client]) -> None:
    """The refusal is raised, and the cell terminated: it would wait for ever."""
    service = Service(results=problem("internal_error", 500))
    with pytest.raises(CodeModeError, match=r"^no$"):
        await done(made(service).run("1", {"f": lambda _: None}))
    assert service.asked[-1] == ("wait", {"cell_id": "1", "terminate": True})


def read_timeout(request: Request) -> float | None:
    with httpx.Client() as http:
        timeout: dict[str, float | None] = request.build(http, 7.0).extensions["timeout"]
    assert timeout == {"connect": 7.0, "read": timeout["read"], "write": 7.0, "pool": None}
    return timeout["read"]


@pytest.mark.parametrize(
    ("yield_time_ms", "expected"),
    [
        (None, 17.0),
        (0, 7.0),
        (500, 7.5),
        (10_000, 17.0),
        (10_001, 18.001),
        (60_000, 68.0),
        (2**53 - 1, None),
        (-9, 7.0),
    ],
)
def test_no_timeout_comes_before_the_answer(yield_time_ms: int | None, expected: float | None) -> None:
    """The service waits the yield time, above 10 000 ms a second longer; the margin comes on top."""
    session = SessionFlows("s", 0)
    directive = f'// @exec: {{"yield_time_ms": {json.dumps(yield_time_ms)}}}\n1'
    asked = [
        session.exec("1", yield_time_ms=yield_time_ms),
        session.wait("1", yield_time_ms=yield_time_ms),
        session.hand_in_and_wait([ToolResult("1", "call-1")], "1", yield_time_ms),
    ]
    assert [read_timeout(next(flow)) for flow in asked] == pytest.approx([expected] * 3)
    if yield_time_ms is not None and yield_time_ms >= 0:
        assert read_timeout(next(session.exec(directive, yield_time_ms=3))) == pytest.approx(expected)
    else:  # null says nothing, and what this version cannot read a later service may
        unreadable = yield_time_ms is not None
        assert read_timeout(next(session.exec(directive, yield_time_ms=3000))) == (None if unreadable else 10.0)


def test_other_requests_wait_for_the_margin_only() -> None:
    """They are answered at once."""
    session = SessionFlows("s", 0)
    asked = [session.hand_in([ToolResult("1", "call-1")]), session.cells(), session.delete()]
    assert [read_timeout(next(flow)) for flow in asked] == [7.0] * 3


def test_a_direct_call_has_all_the_time_of_its_tool() -> None:
    """Or of a person who is asked."""
    assert read_timeout(next(SessionFlows("s", 0).call_tool("f"))) is None


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("http://localhost:1", False),
        ("http://127.8.8.8", False),
        ("http://[::1]:1", False),
        ("http://10.0.0.1", True),
        ("https://localhost.example.org", True),
    ],
)
def test_proxies_of_the_environment_are_for_other_machines(url: str, trusted: bool) -> None:
    """On loopback they would only see what is none of their business."""
    assert requests.http_options(url, None)["trust_env"] is trusted


def test_both_clients_offer_the_same() -> None:
    """The same methods with the same parameters: whoever knows one knows the other."""

    def surface(kind: type) -> dict[str, str]:
        names = [name for name in dir(kind) if not name.startswith("_")]
        shown = {name: getattr(kind, name) for name in names}
        return {name: str(inspect.signature(each)) for name, each in shown.items() if callable(each)}

    def as_blocking(signatures: dict[str, str]) -> dict[str, str]:
        return {name: signature.replace("Async", "") for name, signature in signatures.items()}

    assert as_blocking(surface(AsyncCodeModeClient)) == surface(CodeModeClient)
    assert as_blocking(surface(AsyncClientSession)) == surface(ClientSession)


def test_nothing_of_the_service_is_imported() -> None:
    """A program that only talks to a service needs httpx alone."""
    probe = """
import sys
import httpx
before = set(sys.modules)
import codemode.client
added = {name for name in set(sys.modules) - before if name.partition(".")[0] not in sys.stdlib_module_names}
print(*sorted(name for name in added if not name.startswith(("codemode.client", "anyio", "sniffio", "exceptiongroup"))))
"""
    shown = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout.split()
    names = ("observation", "source", "truncation", "wrapping")
    cells = ["codemode.cells", *(f"codemode.cells.{name}" for name in names)]
    values = ["codemode.lifecycle", "codemode.lifecycle.findings", "codemode.sessions", "codemode.sessions.turns"]
    assert [name for name in shown if name.startswith("codemode")] == ["codemode", *cells, "codemode.errors", *values]
    assert {name.partition(".")[0] for name in shown} <= {"codemode", "idna", "typing_extensions"}


def test_an_observation_is_read_as_it_was_written() -> None:
    """Every field of the dataclasses comes back."""
    assert answers.observation(json.loads(json.dumps(asdict(OBSERVATION)))) == OBSERVATION


def test_results_are_not_handed_in_when_the_run_is_over() -> None:
    """While the service is away, nobody goes on asking it for a run that has ended."""
    run = tool_run.ToolRun(SessionFlows("s", 60), {})
    run.finished.append(ToolResult("1", "call-1"))
    handing_in = run.hand_in()
    assert next(handing_in).path.endswith("tool_results")
    assert handing_in.throw(httpx.ConnectError("refused")).delay_s > 0
    run.is_over = True
    with pytest.raises(StopIteration):
        handing_in.throw(httpx.ConnectError("refused"))
