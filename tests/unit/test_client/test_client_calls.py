"""Both clients against a real server: what is asked is done, and what is refused raises the right exception."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from codemode.cells.observation import Observation, PendingToolCall, ScriptError, ToolCallCounts
from codemode.client import AsyncCodeModeClient, CodeModeClient, SessionTool, ToolResult
from codemode.errors import (
    CellBusy,
    CellNotFound,
    CodeModeError,
    InvalidRequest,
    InvalidSource,
    PayloadTooLarge,
    SessionNotFound,
    ToolCallAlreadyResolved,
    ToolCallNotFound,
    ToolNameCollision,
    TooManyCells,
)
from tests.unit.test_client.client_helpers import Client, Session, done, opened, texts

FOR_EVER = "while (true) {}"
NEVER = "text('a'); await new Promise(resolve => setTimeout(resolve, 1e9))"


async def test_exec_answers_the_whole_observation(client: Client) -> None:
    """Every field of an answer arrives as a typed value."""
    source = "text('a'); notify('n'); image('data:image/png;base64,AA=='); throw new RangeError('no')"
    observation: Observation = await done(client.exec(source))
    stack = "RangeError: no\n    at exec_main.mjs:1:68"
    assert observation == Observation(
        session_id="default",
        cell_id=observation.cell_id,
        status="failed",
        output=[
            {"type": "text", "text": "a"},
            {"type": "image", "image_url": "data:image/png;base64,AA==", "detail": None},
        ],
        cursor=3,
        truncated=False,
        original_token_count=observation.original_token_count,
        wall_time_ms=observation.wall_time_ms,
        error=ScriptError("script_error", "RangeError", "no", 1, 68, stack),
        warnings=[],
        notifications=observation.notifications,
        usage=observation.usage,
        tool_calls=ToolCallCounts(),
        safe_to_retry=True,
        pending_tool_calls=[],
        model_output=observation.model_output,
    )
    assert [notification.text for notification in observation.notifications] == ["n"]
    assert observation.usage.cpu_ms >= 0
    assert observation.text.startswith("Script failed\n")


async def test_exec_passes_its_options_on(client: Client) -> None:
    """Budget, ids and yield time are those that the caller gave."""
    async with opened(client) as session:
        first: Observation = await done(
            session.exec("text('x'.repeat(100))", max_output_tokens=5, tool_call_id="tc", turn_id="t")
        )
        second: Observation = await done(session.exec(FOR_EVER, yield_time_ms=0))
        cells = await done(session.cells())
    assert (first.truncated, first.original_token_count, second.status) == (True, 25, "running")
    assert [(cell.cell_id, cell.status, cell.turn_id, cell.tool_call_id) for cell in cells] == [
        ("1", "completed", "t", "tc"),
        ("2", "running", None, None),
    ]
    assert (cells[0].ended_at or cells[0].created_at) >= cells[0].created_at
    assert cells[1].ended_at is None


async def test_a_long_script_is_polled_with_wait(client: Client) -> None:
    """Each wait brings what came since the last answer, the last one the end; then that is said again."""
    source = "for (let i = 0; i < 4; i++) { text(String(i)); await new Promise(go => setTimeout(go, 20)) }"
    async with opened(client) as session:
        observation: Observation = await done(session.exec(source, yield_time_ms=0))
        seen = texts(observation)
        while observation.is_running:
            observation = await done(session.wait(observation.cell_id, yield_time_ms=15))
            seen += texts(observation)
        again: Observation = await done(session.wait("1"))
        after: Observation = await done(session.wait("1", after=2, max_tokens=100))
    assert (seen, observation.status) == (["0", "1", "2", "3"], "completed")
    assert (again.output, again.warnings) == ([], ["already collected"])
    assert (texts(after), after.warnings) == (["2", "3"], [])


async def test_a_poll_outlasts_the_margin(url: str) -> None:
    """The service is given the yield time and the margin, so a poll that takes longer than the margin is answered."""
    with CodeModeClient(url, margin_s=0.1, patience_s=0) as client, client.create_session() as session:
        observation = session.exec(NEVER, yield_time_ms=150)
        assert (observation.status, texts(observation)) == ("running", ["a"])
        assert session.wait("1", yield_time_ms=150).is_running
        assert session.exec('// @exec: {"yield_time_ms": 150}\n' + NEVER, yield_time_ms=0).is_running


async def test_terminate_ends_a_busy_loop(client: Client) -> None:
    """It hands over what output there is; a cell that had ended keeps its real end."""
    async with opened(client) as session:
        started: Observation = await done(session.exec(f"text('a'); yield_control(); text('b'); {FOR_EVER}"))
        ended: Observation = await done(session.terminate("1"))
        again: Observation = await done(session.terminate("1"))
        await done(session.exec("text('b')"))
        real: Observation = await done(session.terminate("2"))
    assert (started.status, texts(started)) == ("running", ["a"])
    assert (ended.status, again.status, real.status) == ("terminated", "terminated", "completed")


async def test_tool_results_are_handed_in(client: Client) -> None:
    """With a cell the answer is its observation, without one their number; an output may be null, an error a text."""
    source = """
        const [one, two] = await Promise.allSettled([tools.f({n: 1}), tools.f({n: 2})]);
        text(await tools.f()); text(one); text(two.reason.message)
    """
    async with opened(client, "f") as session:
        asked: Observation = await done(session.exec(source))
        expected = [PendingToolCall(f"call-{n}", "f", {"n": n}, "1") for n in (1, 2)]
        assert (asked.status, asked.pending_tool_calls) == ("running", expected)
        assert await done(session.tool_results([ToolResult("1", "call-1", None)])) == 1
        results = [ToolResult("1", "call-2", error="no")]
        asked = await done(session.tool_results(results, cell_id="1"))
        assert [call.runtime_tool_call_id for call in asked.pending_tool_calls] == ["call-3"]
        results = [ToolResult("1", "call-3", "é")]
        last: Observation = await done(session.tool_results(results, cell_id="1", yield_time_ms=5000))
        detail = await done(session.cell("1"))
        assert await done(session.tool_results([])) == 0
    assert last.status == "completed"
    assert texts(last) == ["é", '{"status":"fulfilled","value":null}', "no"]
    assert last.tool_calls == ToolCallCounts(completed=2, failed=1)
    assert [(call.runtime_tool_call_id, call.tool_name, call.tool_status["state"]) for call in detail.calls] == [
        ("call-1", "f", "completed"),
        ("call-2", "f", "failed"),
        ("call-3", "f", "completed"),
    ]
    assert (detail.status, detail.error, detail.usage) == ("completed", None, last.usage)


async def test_a_session_is_made_found_and_deleted(client: Client) -> None:
    """The context manager deletes it, and does not mind that it is gone already."""
    options: dict[str, Any] = {"limits": {"cpu_ms": 1234}, "metadata": {"a": [1]}, "approval_policy": "on_request"}
    async with opened(
        client, "get-it", model_warnings=True, lenient_source=True, typescript=True, **options
    ) as session:
        assert session.tools == [SessionTool("get-it", "get_it", "function")]
        found = await done(client.session(session.session_id))
        assert found.info == session.info
        assert (found.info.limits["cpu_ms"], found.info.metadata) == (1234, {"a": [1]})
        assert (found.info.approval_policy, found.info.model_warnings) == ("on_request", True)
        assert (found.info.lenient_source, found.info.typescript) == (True, True)
    with pytest.raises(SessionNotFound, match=session.session_id):
        await done(session.exec("1"))
    with pytest.raises(SessionNotFound):
        await done(session.delete())
    async with opened(client) as session:
        await done(session.delete())


async def _fail_in_a_session_that_cannot_be_deleted(client: Client) -> None:
    async with opened(client):
        await done(client.close())
        raise LookupError


@pytest.mark.parametrize("kind", [CodeModeClient, AsyncCodeModeClient])
async def test_what_failed_in_a_session_is_seen_though_its_end_fails_too(kind: type[Client], url: str) -> None:
    """A session that cannot be deleted does not hide the exception that ends its block."""
    with pytest.raises(LookupError):
        await _fail_in_a_session_that_cannot_be_deleted(kind(url))


async def test_health_and_readiness(client: Client) -> None:
    """The answers are given as they are."""
    assert await done(client.health()) == {"status": "ok"}
    assert (await done(client.ready()))["ready"] is True


async def _two_tools_of_one_name(client: Client, _: Session) -> Any:
    return await done(client.create_session(tools=[{"name": "a-b"}, {"name": "a_b"}]))


REFUSALS: list[tuple[type[CodeModeError], Callable[[Client, Session], Any]]] = [
    (InvalidSource, lambda _, session: session.exec("")),
    (InvalidSource, lambda _, session: session.exec("// @exec: {\n1")),
    (InvalidRequest, lambda _, session: session.exec("1", yield_time_ms=-1)),
    (InvalidRequest, lambda client, _: client.create_session(limits={"cpu_ms": 10**9})),
    (PayloadTooLarge, lambda _, session: session.exec("x" * 20_000)),
    (ToolNameCollision, _two_tools_of_one_name),
    (CellNotFound, lambda _, session: session.wait("99")),
    (CellNotFound, lambda _, session: session.cell("99")),
    (CellNotFound, lambda _, session: session.cell("a b?c#d%")),
    (SessionNotFound, lambda client, _: client.session("nope")),
    (ToolCallNotFound, lambda _, session: session.tool_results([ToolResult("1", "call-7", 1)])),
    (ToolCallAlreadyResolved, lambda _, session: session.tool_results([ToolResult("1", "call-1", 1)])),
    (TooManyCells, lambda _, session: session.exec("1")),
]


@pytest.mark.parametrize(("kind", "attempt"), REFUSALS)
async def test_a_refusal_raises_the_exception_of_its_code(
    client: Client, kind: type[CodeModeError], attempt: Callable[[Client, Session], Any]
) -> None:
    """It carries the detail and the further fields of the problem."""
    async with opened(client, "f", limits={"max_cells_session": 1}) as session:
        await done(session.exec("await tools.f(); await tools.f()"))
        await done(session.tool_results([ToolResult("1", "call-1", 1)]))
        with pytest.raises(CodeModeError) as raised:
            await done(attempt(client, session))
    assert type(raised.value) is kind
    assert raised.value.code == kind.code
    assert str(raised.value) == raised.value.detail != ""
    fields: dict[type[CodeModeError], Any] = {
        ToolCallAlreadyResolved: {"cell_id": "1", "runtime_tool_call_id": "call-1"},
        ToolCallNotFound: {"cell_id": "1", "runtime_tool_call_id": "call-7"},
        ToolNameCollision: {"js_name": "a_b", "names": ["a-b", "a_b"]},
        TooManyCells: {"retry_after_s": 1},
    }
    if kind.code in ("cell_not_found", "invalid_source", "payload_too_large"):
        expected: Any = {"model_output": [{"type": "input_text", "text": f"Script error:\n{raised.value.detail}"}]}
        if kind is CellNotFound:
            expected |= {"cell_id": raised.value.detail.removeprefix("exec cell ").removesuffix(" not found")}
    else:
        expected = fields.get(kind, {})
    assert raised.value.fields == expected


async def test_a_second_wait_is_refused_and_a_terminate_let_through(url: str) -> None:
    """CellBusy while somebody waits; both the waiter and the one who terminates get the end."""
    async with AsyncCodeModeClient(url) as client, await client.create_session() as session:
        await session.exec(NEVER, yield_time_ms=0)
        ends: list[str] = []
        refused = anyio.Event()

        async def wait() -> None:
            try:
                ends.append((await session.wait("1")).status)
            except CellBusy as busy:
                ends.append(busy.code)
                refused.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            tasks.start_soon(wait)
            await refused.wait()
            ends.append((await session.terminate("1")).status)
    assert ends == ["cell_busy", "terminated", "terminated"]


async def test_loopback_needs_no_proxy(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that the environment names is for other machines."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with CodeModeClient(url) as client:
        assert client.health() == {"status": "ok"}
