"""What a tool's declaration allows of its use: enforced at the host, and told by the code of the error."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codemode import CodeMode
from codemode.errors import InvalidRequest, ToolError
from codemode.limits import Limits
from codemode.tools.policy import NO_POLICY, ToolPolicy
from codemode.tools.tool import HttpHandler, Tool
from tests.unit.test_calls.call_helpers import Calls, Gate, How, Told, is_well, python, session_alone, until, use
from tests.unit.tool_server import answer, tool_server

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
policies = st.builds(
    ToolPolicy,
    allowed_callers=st.sampled_from([("direct",), ("programmatic",), ["programmatic", "direct"]]),
    timeout_ms=st.none() | st.integers(1, 86_400_000),
    max_concurrency=st.none() | st.integers(1, 10**6),
    max_calls=st.none() | st.integers(0, 10**6),
    max_result_bytes=st.none() | st.integers(0, 10**9),
    requires_approval=st.booleans(),
    annotations=st.dictionaries(st.sampled_from(_HINTS), st.booleans()),
)


@given(policies)
def test_a_policy_is_the_same_after_it_was_declared(policy: ToolPolicy) -> None:
    """As JSON; one that says nothing declares nothing."""
    assert ToolPolicy.from_declared(json.loads(json.dumps(policy.declared()))) == policy
    assert (policy.declared() == {}) == (policy == NO_POLICY)


@pytest.mark.parametrize(
    "said",
    [
        {"allowed_callers": ()},
        {"allowed_callers": "direct"},
        {"allowed_callers": ["direct", "other"]},
        *({name: value} for name in ("timeout_ms", "max_concurrency") for value in (0, -1, 1.0, "1", True)),
        *({name: value} for name in ("max_calls", "max_result_bytes") for value in (-1, 1.5, False)),
        {"timeout_ms": 86_400_001},
        *({"annotations": {hint: 1}} for hint in _HINTS),
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(said: dict[str, Any]) -> None:
    """By name."""
    with pytest.raises(InvalidRequest, match=next(iter(said))):
        ToolPolicy(**said)


async def test_a_caller_that_is_not_allowed(cm: CodeMode, how: How) -> None:
    """No hook is asked, and the tool is not called; the other one may."""
    told, calls = Told(), Calls()
    mine: Any = "direct" if how == "direct" else "programmatic"
    other: Any = "programmatic" if how == "direct" else "direct"
    tools = [
        calls.tool("t", ToolPolicy(allowed_callers=[other])),
        calls.tool("mine", ToolPolicy(allowed_callers=[mine])),
    ]
    session = cm.create_session(tools, hooks=told.both())
    assert (await use(session, how)).code == "caller_not_allowed"
    assert (told.payloads, calls.inputs) == ([], [])
    assert (await use(session, how, "mine")).code is None
    await is_well(session)


@pytest.mark.parametrize(("most", "code"), [(8, "result_too_large"), (9, None), (None, None)])
async def test_a_result_may_be_so_long(cm: CodeMode, how: How, most: int | None, code: str | None) -> None:
    """As JSON, to the byte; the state is that of a failure."""
    told = Told()

    async def run(_: Any) -> Any:
        return {"a": "é"}

    session = cm.create_session([python(run, policy=ToolPolicy(max_result_bytes=most))], hooks=told.both())
    assert (await use(session, how)).code == (None if most is None else "result_too_large" if most < 10 else None)
    assert told.states == ["completed" if most is None else "failed"]
    session = cm.create_session([python(run, policy=ToolPolicy(max_result_bytes=10))])
    assert (await use(session, how)).output == {"a": "é"}


async def test_a_result_longer_than_that_of_the_session(cm: CodeMode, how: How) -> None:
    """The smaller bound counts."""

    async def run(_: Any) -> Any:
        return "x" * 100

    tool = python(run, policy=ToolPolicy(max_result_bytes=10_000))
    session = cm.create_session([tool], limits={"max_tool_result_bytes": 50})
    assert (await use(session, how)).code == "result_too_large"


async def test_a_result_of_an_http_tool_longer_than_that_of_the_session(how: How) -> None:
    """Has the same code as that of a tool of this process."""
    async with (
        tool_server(answer({"output": "x" * 5000})) as server,
        CodeMode(spares=1, allow_tool_urls=[server.url]) as cm,
    ):
        tool = Tool(name="t", handler=HttpHandler(server.url))
        session = cm.create_session([tool], limits={"max_tool_result_bytes": 50})
        used = await use(session, how)
    assert used.code == "result_too_large", used


async def test_the_codes_of_http_tools(how: How) -> None:
    """Those of the policy are the same for them."""
    async with (
        tool_server(answer({"output": "x" * 100}), None) as server,
        CodeMode(spares=1, allow_tool_urls=[server.url]) as cm,
    ):
        tools = [
            Tool(name="t", handler=HttpHandler(server.url), policy=ToolPolicy(max_result_bytes=50)),
            Tool(name="late", handler=HttpHandler(server.url), policy=ToolPolicy(timeout_ms=40)),
            Tool(name="later", handler=HttpHandler(server.url, 40)),
        ]
        session = cm.create_session(tools)
        codes = [(await use(session, how, name)).code for name in ("t", "late", "later")]
        assert codes == ["result_too_large", "timed_out", "timed_out"]
        await is_well(session)


async def test_an_input_that_does_not_fit(cm: CodeMode, how: How) -> None:
    """No hook is asked."""
    told, calls = Told(), Calls()
    schema = {"type": "object", "required": ["a"]}
    session = cm.create_session([calls.tool(input_schema=schema)], hooks=told.both())
    assert (await use(session, how)).code == "invalid_input"
    assert (told.payloads, calls.inputs) == ([], [])


async def test_a_script_may_call_a_tool_so_often(cm: CodeMode) -> None:
    """Each script anew; calls that are refused for another reason do not count."""
    calls = Calls()
    schema = {"type": "object", "required": ["a"]}
    tools = [
        calls.tool("t", ToolPolicy(max_calls=2), input_schema=schema),
        calls.tool("never", ToolPolicy(max_calls=0)),
    ]
    session = cm.create_session(tools)
    source = """
    const said = (p) => p.then(() => 'ok', (e) => e.code);
    text((await Promise.all([{}, {a: 1}, {a: 2}, {a: 3}].map((i) => said(tools.t(i))))).join());
    text(await said(tools.never({})));
    """
    for _ in range(2):
        seen = await session.exec(source)
        assert [each["text"] for each in seen.output] == ["invalid_input,ok,ok,call_limit", "call_limit"]
    assert calls.inputs == [{"a": 1}, {"a": 2}] * 2
    assert (await use(session, "direct", value={"a": 9})).code is None
    await is_well(session)


async def test_calls_of_a_tool_queue_in_order_and_hold_up_no_other(cm: CodeMode) -> None:
    """Those of scripts and direct ones, of one session together."""
    gate, free = Gate(), Calls()
    order: list[Any] = []

    async def run(given: Any) -> None:
        order.append(given["n"])
        gate.begun += 1
        await gate.opened.wait()

    tools = [python(run, policy=ToolPolicy(max_concurrency=2)), free.tool("free")]
    session = cm.create_session(tools)
    other = cm.create_session(tools)
    source = "const all = [1, 2, 3, 4].map((n) => tools.t({n})); await tools.free({}); yield_control(); await Promise.all(all)"
    cell_id = (await session.exec(source)).cell_id
    direct = asyncio.ensure_future(use(session, "direct", value={"n": 5}))
    elsewhere = asyncio.ensure_future(use(other, "direct", value={"n": 6}))
    await until(lambda: 6 in order)
    assert (order, free.inputs) == ([1, 2, 6], [{}])
    gate.opened.set()
    assert (await session.wait(cell_id)).status == "completed"
    await asyncio.gather(direct, elsewhere)
    assert order == [1, 2, 6, 3, 4, 5]
    await is_well(session)


async def test_a_queue_goes_on_when_calls_in_it_are_cancelled(cm: CodeMode) -> None:
    """No place is lost, whether the call waited or ran."""
    gate, calls = Gate(), Calls()
    session = cm.create_session(
        [gate.tool("t", ToolPolicy(max_concurrency=1)), calls.tool("free")], limits={"max_in_flight": 2}
    )
    for _ in range(5):
        begun = gate.begun
        cell_id = (
            await session.exec("await Promise.all([tools.t({}), tools.t({}), tools.t({})])", yield_time_ms=0)
        ).cell_id
        waiting = [asyncio.ensure_future(session.call_tool("t")) for _ in range(2)]
        await until(partial(gate.has_begun, begun + 1))
        assert (await use(session, "direct", "free")).code is None
        for each in waiting:
            each.cancel()
        await session.terminate(cell_id)
    gate.opened.set()
    assert (await use(session, "nested")).code is None
    assert (await use(session, "direct")).code is None
    await is_well(session)


@settings(max_examples=40)
@given(
    most=st.integers(1, 3),
    in_all=st.integers(1, 4),
    calls=st.lists(st.tuples(st.sampled_from(["t", "u"]), st.booleans()), max_size=12),
)
async def test_never_more_run_at_once_than_may(most: int, in_all: int, calls: list[tuple[str, bool]]) -> None:
    """Whatever is cancelled meanwhile; at the end each other call has run once."""
    running = {"t": 0, "u": 0}
    worst = {"t": 0, "all": 0}
    ran: list[str] = []

    def tool(name: str, policy: ToolPolicy) -> Tool:
        async def run(_: Any) -> None:
            running[name] += 1
            worst["t"] = max(worst["t"], running["t"])
            worst["all"] = max(worst["all"], sum(running.values()))
            try:
                for _turn in range(3):
                    await asyncio.sleep(0)
                ran.append(name)
            finally:
                running[name] -= 1

        return python(run, name, policy=policy)

    tools = [tool("t", ToolPolicy(max_concurrency=most)), tool("u", NO_POLICY)]
    session = session_alone(tools, limits=Limits(max_in_flight=in_all))
    tasks = [asyncio.ensure_future(session.call_tool(name)) for name, _ in calls]
    for number, (_, is_cancelled) in enumerate(calls):
        await asyncio.sleep(0)
        if is_cancelled:
            tasks[number].cancel()
    await asyncio.wait(tasks) if tasks else None
    await until(lambda: not any(running.values()))
    assert worst["t"] <= most
    assert worst["all"] <= in_all
    assert len(ran) >= sum(not is_cancelled for _, is_cancelled in calls)
    for name in ("t", "u"):
        assert (await use(session, "direct", name)).code is None
    await is_well(session)


async def test_a_failure_has_the_code_of_one(cm: CodeMode, how: How) -> None:
    """In the script as `code` of a ToolError; directly in `error`."""

    async def run(_: Any) -> Any:
        raise ToolError("no")

    session = cm.create_session([python(run)])
    assert (await use(session, how))[1:] == ("tool_failed", "no")
    seen = await session.exec(
        "try { await tools.t({}) } catch (e) { text(`${e.name} ${e instanceof Error} ${e.code}`) }"
    )
    assert seen.output[0]["text"] == "ToolError true tool_failed"
