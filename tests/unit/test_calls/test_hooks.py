"""Hooks around uses of tools, by scripts and direct alike: who is asked, what an answer does, and who is told."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from codemode import CodeMode
from codemode.calls.hooks import Hook
from codemode.errors import InvalidRequest, ToolError
from tests.unit.test_calls.call_helpers import (
    DENY,
    Calls,
    How,
    Told,
    Used,
    is_well,
    use,
    wants,
)


def denied(said: str) -> Used:
    return Used(None, "hook_denied", f"t: {said}")


# What is told


async def test_both_hooks_are_told_of_a_use(cm: CodeMode, how: How) -> None:
    """The same ids and source in both; the result and the state in the second alone."""
    told = Told()
    session = cm.create_session([Calls().tool()], hooks=told.both())
    used = await use(session, how, value={"a": [1, None]}, turn_id="turn-7")
    assert used == Used({"got": {"a": [1, None]}})
    before, after = told.payloads
    kind = "direct" if how == "direct" else "code_mode"
    assert before["tool_source"]["type"] == kind
    assert ("cell_id" in before["tool_source"]) == (how == "nested")
    assert before == {
        "hook_event_name": "PreToolUse",
        "session_id": session.session_id,
        "turn_id": "turn-7",
        "tool_use_id": before["tool_use_id"],
        "tool_name": "t",
        "tool_source": before["tool_source"],
        "tool_input": {"a": [1, None]},
    }
    assert after == before | {
        "hook_event_name": "PostToolUse",
        "tool_response": {"got": {"a": [1, None]}},
        "tool_status": {"state": "completed", "exit_code": None},
    }
    await is_well(session)


async def test_minimal_payloads_have_neither_inputs_nor_results(cm: CodeMode, how: How) -> None:
    """Not even as null."""
    told = Told()
    session = cm.create_session([Calls().tool()], hooks=told.both(payload="minimal"))
    await use(session, how, value={"secret": 1})
    common = {"hook_event_name", "session_id", "turn_id", "tool_use_id", "tool_name", "tool_source"}
    assert [set(each) for each in told.payloads] == [common, common | {"tool_status"}]


async def test_hooks_of_the_operator_come_first(how: How) -> None:
    """Each list in the order it was given, before and after the use."""
    order: list[str] = []

    def hook(event: Any, name: str) -> Hook:
        return Hook(event=event, function=lambda _: order.append(f"{name} {event[:4]}"))

    of_operator = [hook("PostToolUse", "a"), hook("PreToolUse", "a"), hook("PreToolUse", "b")]
    async with CodeMode([Calls().tool()], hooks=of_operator, spares=1) as cm:
        own = [hook("PreToolUse", "c"), hook("PostToolUse", "c"), hook("PreToolUse", "d")]
        session = cm.create_session(hooks=own)
        await use(session, how)
    assert order == ["a PreT", "b PreT", "c PreT", "d PreT", "a Post", "c Post"]


async def test_a_matcher_is_found_in_the_name(cm: CodeMode, how: How) -> None:
    """A regular expression, anywhere in it unless it says otherwise; an empty one matches each tool."""
    seen: dict[str, list[str]] = {}

    def hook(matcher: str) -> Hook:
        return Hook(
            event="PreToolUse",
            matcher=matcher,
            function=lambda told: seen.setdefault(matcher, []).append(told["tool_name"]),
        )

    session = cm.create_session(
        [Calls().tool(name) for name in ("read", "spread", "write")],
        hooks=[hook(each) for each in ("", "read", "^read$", "(read|write)$", "nothing")],
    )
    for name in ("read", "spread", "write"):
        await use(session, how, name)
    assert seen == {
        "": ["read", "spread", "write"],
        "read": ["read", "spread"],
        "^read$": ["read"],
        "(read|write)$": ["read", "spread", "write"],
    }


@pytest.mark.parametrize("matcher", ["(a+)+$", "(a|a)*b", "(a|aa)+$", "^(a+)*\\1x", "(?=(a+))a*b\\1"])
def test_a_catastrophic_matcher_takes_no_time(matcher: str) -> None:
    """If it would take too long to find out, the tool counts as matched: a hook is asked too much, never too little."""
    hook = Hook(event="PreToolUse", matcher=matcher, function=lambda _: None)
    begun = time.monotonic()
    hook.matches("a" * 60 + "!")
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize("matcher", ["(", "[a", "a{2,1}", "*", "\\", "(?<name", "x" * 501])
def test_a_matcher_that_is_none_is_refused(matcher: str) -> None:
    """At once, not at the first use."""
    with pytest.raises(InvalidRequest, match="matcher"):
        Hook(event="PreToolUse", matcher=matcher, function=lambda _: None)


@pytest.mark.parametrize(
    "options",
    [
        {"event": "preToolUse"},
        {"payload": "none"},
        {"function": None},
        {"url": "http://127.0.0.1"},
        {"function": None, "command": []},
        {"function": None, "command": "true"},
        {"function": None, "command": ["true", 1]},
        {"timeout_ms": 0},
        {"timeout_ms": 600_001},
        {"timeout_ms": True},
        {"timeout_ms": 1.5},
    ],
    ids=str,
)
def test_a_hook_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    """With what was expected."""
    with pytest.raises(InvalidRequest, match="hook: "):
        Hook(**{"event": "PreToolUse", "function": lambda _: None} | options)


# Denying


async def test_one_denial_is_enough(cm: CodeMode, how: How) -> None:
    """The reason is in the error; the tool is not called, later hooks are not asked, and all are told of the end."""
    told, later, calls = Told(), Told(), Calls()
    hooks = [told.hook("PreToolUse", DENY), *later.both(), told.hook("PostToolUse")]
    session = cm.create_session([calls.tool()], hooks=hooks)
    assert await use(session, how) == denied("denied by a hook: because of X")
    assert (calls.inputs, told.states, later.of("PreToolUse"), later.states) == ([], ["denied"], [], ["denied"])
    (after,) = told.of("PostToolUse")
    assert (after["tool_response"], after["tool_status"]) == (None, {"state": "denied", "exit_code": None})
    told.check()
    await is_well(session)


async def test_a_denial_without_a_reason(cm: CodeMode, how: How) -> None:
    """Says so much, and no more."""
    session = cm.create_session(
        [Calls().tool()],
        hooks=[Told().hook("PreToolUse", wants(permissionDecision="deny", hookEventName="PreToolUse"))],
    )
    assert await use(session, how) == denied("denied by a hook")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"hookSpecificOutput": None},
        wants(),
        wants(permissionDecision=None, updatedInput=None),
        wants(permissionDecision="allow", permissionDecisionReason="x", hookEventName="PreToolUse"),
    ],
    ids=str,
)
async def test_nothing_said_allows(cm: CodeMode, answer: Any) -> None:
    """Also when it is said at length."""
    session = cm.create_session([Calls().tool()], hooks=[Told().hook("PreToolUse", answer)])
    assert (await use(session, "direct")).code is None


NONSENSE: list[Any] = [
    "allow",
    b"{}",
    [],
    0,
    True,
    object(),
    {"decision": "allow"},
    {"hookSpecificOutput": {}, "continue": True},
    {"hookSpecificOutput": []},
    {"hookSpecificOutput": "allow"},
    wants(permissionDecision="Allow"),
    wants(permissionDecision="block"),
    wants(permissionDecision=["allow"]),
    wants(permissionDecision=1),
    wants(decision="allow"),
    wants(updatedOutput={}),
    wants(hookEventName="PostToolUse"),
    wants(permissionDecision="allow", permissionDecisionReason=5),
    wants(updatedInput=[]),
    wants(updatedInput="text"),
    wants(updatedInput=0),
    wants(updatedInput=False),
    wants(updatedInput={"a": "no number"}),
    wants(updatedInput={"a": 1, "b": 2}),
]
FALSY: list[Any] = [
    wants(permissionDecision=""),
    wants(permissionDecision=False),
    wants(permissionDecision=0),
    wants(permissionDecision=[]),
    wants(permissionDecision={}),
    wants(permissionDecisionReason=0),
    wants(hookEventName=""),
]
UNWRITABLE: list[Any] = [
    wants(updatedInput={"a": object()}),
]


@pytest.mark.parametrize(
    "answer",
    [pytest.param(each, id=str(each)[:60]) for each in [*NONSENSE, *FALSY, *UNWRITABLE]],
)
async def test_nonsense_denies_that_call_alone(cm: CodeMode, how: How, answer: Any) -> None:
    """The tool is not called; the next call, for which the hook answers well, goes through."""
    calls, answers = Calls(), [answer, {}]
    told = Told()
    hooks = [told.hook("PreToolUse", lambda _: answers.pop(0)), told.hook("PostToolUse")]
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    session = cm.create_session([calls.tool(input_schema=schema)], hooks=hooks)
    used = await use(session, how)
    assert (used.code, calls.inputs) == ("hook_denied", []), used
    assert used.message.startswith("t: denied, because a hook failed: it"), used
    assert (await use(session, how)).code is None
    assert told.states == ["denied", "completed"]
    told.check()


@pytest.mark.parametrize(
    "problem",
    [
        ValueError("a secret"),
        ToolError("a secret"),
        KeyError(),
        RecursionError(),
        MemoryError(),
        TimeoutError(),
        OSError(2, "a secret"),
        StopAsyncIteration(),
    ],
    ids=repr,
)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_hook_that_fails_denies(cm: CodeMode, how: How, problem: BaseException, is_async: bool) -> None:
    """And the service goes on."""

    def fails(_: Any) -> Any:
        raise problem

    async def fails_later(_: Any) -> Any:
        raise problem

    calls, told = Calls(), Told()
    hooks = [Hook(event="PreToolUse", function=fails_later if is_async else fails), told.hook("PostToolUse")]
    session = cm.create_session([calls.tool()], hooks=hooks)
    used = await use(session, how)
    assert (used.code, calls.inputs, told.states) == ("hook_denied", [], ["denied"])


@pytest.mark.parametrize("event", ["PreToolUse", "PostToolUse"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_hook_that_is_late_has_failed(cm: CodeMode, how: How, is_async: bool, event: Any) -> None:
    """After its own time."""

    async def hangs(_: Any) -> None:
        await asyncio.Event().wait()

    def blocks(_: Any) -> None:
        time.sleep(0.3)

    hook = Hook(event=event, function=hangs if is_async else blocks, timeout_ms=30)
    session = cm.create_session([Calls().tool()], hooks=[hook])
    used = await use(session, how)
    code = "hook_denied" if event == "PreToolUse" else "result_withheld"
    assert used.code == code
    assert used.message.endswith("it did not answer within 30 ms")


async def test_a_slow_hook_holds_up_no_other_call(cm: CodeMode) -> None:
    """Not even one of the same script."""
    gate = asyncio.Event()

    async def slow(_: Any) -> None:
        await gate.wait()

    hooks = [Hook(event="PreToolUse", matcher="^slow$", function=slow)]
    session = cm.create_session([Calls().tool("slow"), Calls().tool("quick")], hooks=hooks)
    source = (
        "const a = tools.slow({}); text(JSON.stringify(await tools.quick({}))); yield_control(); await a; text('a')"
    )
    first = await session.exec(source)
    assert (first.status, len(first.output)) == ("running", 1)
    assert (await use(session, "direct", "quick")).code is None
    gate.set()
    assert (await session.wait(first.cell_id)).status == "completed"
