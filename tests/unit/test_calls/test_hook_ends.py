"""Whoever was asked about a call is told of its end, once, whatever the end is and whoever has caused it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from codemode import CodeMode
from codemode.calls.hooks import Hook
from codemode.errors import ToolError, ToolTimedOut
from codemode.sessions.session import Session
from codemode.tools.policy import ToolPolicy
from tests.faults.server import ROOT
from tests.unit.test_calls.call_helpers import Calls, Gate, How, Told, is_well, python, until, use

IDS = ("session_id", "turn_id", "tool_use_id", "tool_name", "tool_source")


def check_pair(told: Told, state: str) -> dict[str, Any]:
    """One Pre, and then one Post of the same call with this state; the Post."""
    told.check()
    before, after = told.payloads
    assert {name: before[name] for name in IDS} == {name: after[name] for name in IDS}
    assert after["tool_status"] == {"state": state, "exit_code": None}
    return after


def raising(problem: BaseException) -> Any:
    async def run(_: Any) -> Any:
        raise problem

    return python(run)


@pytest.mark.parametrize(
    ("problem", "state", "code"),
    [
        (ToolError("x"), "failed", "tool_failed"),
        (ValueError("x"), "failed", "tool_failed"),
        (SystemExit(3), "failed", "tool_failed"),
        (asyncio.CancelledError(), "failed", "tool_failed"),
        (ToolTimedOut("x"), "timed_out", "timed_out"),
    ],
    ids=repr,
)
async def test_a_call_that_fails(cm: CodeMode, how: How, problem: BaseException, state: str, code: str) -> None:
    """The response is the error that its caller gets."""
    told = Told()
    session = cm.create_session([raising(problem)], hooks=told.both())
    used = await use(session, how)
    assert (used.code, check_pair(told, state)["tool_response"]) == (
        code,
        {"error": {"message": used.message, "code": code}},
    )
    await is_well(session)


async def test_a_call_that_takes_too_long(cm: CodeMode, how: How) -> None:
    """The tool was told to stop."""
    told, gate = Told(), Gate()
    session = cm.create_session([gate.tool(policy=ToolPolicy(timeout_ms=20))], hooks=told.both())
    assert (await use(session, how)).code == "timed_out"
    check_pair(told, "timed_out")
    await until(lambda: gate.stopped == 1)
    await is_well(session)


Stop = Callable[[Session, str], Awaitable[Any]]
STOPS: dict[str, Stop] = {
    "terminated": lambda session, cell_id: session.terminate(cell_id),
    "session deleted": lambda session, _: session.close(),
}
RUNS_ON = "tools.t({a: 1}); await new Promise((go) => setTimeout(go, 1e6))"


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
async def test_a_nested_call_that_is_cancelled(cm: CodeMode, stop: Stop) -> None:
    """With its cell."""
    told, gate = Told(), Gate()
    session = cm.create_session([gate.tool()], hooks=told.both())
    cell_id = (await session.exec(RUNS_ON, yield_time_ms=0)).cell_id
    await until(lambda: gate.begun)
    await stop(session, cell_id)
    await until(lambda: told.states)
    assert check_pair(told, "cancelled")["tool_response"] is None
    assert (gate.begun, gate.stopped) == (1, 1)


async def test_a_nested_call_that_its_script_leaves_behind(cm: CodeMode) -> None:
    """Its end is that of the script."""
    told, gate = Told(), Gate()

    async def begun(_: Any) -> None:
        await until(lambda: gate.begun)

    session = cm.create_session([gate.tool(), python(begun, "other")], hooks=told.both(matcher="^t$"))
    await session.exec("tools.t({}); await tools.other({}); text('over')")
    await until(lambda: told.states)
    check_pair(told, "cancelled")
    assert (gate.begun, gate.stopped) == (1, 1)
    await is_well(session)


@pytest.mark.parametrize("stop", STOPS.values(), ids=STOPS)
async def test_a_nested_call_that_is_cancelled_while_its_hook_is_asked(cm: CodeMode, stop: Stop) -> None:
    """The hook is let finish, and is told of the end after that; the tool is never called."""
    told, calls, begun, opened = Told(), Calls(), asyncio.Event(), asyncio.Event()

    async def slow(payload: dict[str, Any]) -> None:
        begun.set()
        await opened.wait()
        told.payloads.append(payload)

    hooks = [Hook(event="PreToolUse", function=slow), told.hook("PostToolUse")]
    session = cm.create_session([calls.tool()], hooks=hooks)
    cell_id = (await session.exec(RUNS_ON, yield_time_ms=0)).cell_id
    await begun.wait()
    stopping = asyncio.ensure_future(stop(session, cell_id))
    await asyncio.sleep(0.05)
    assert told.payloads == []
    opened.set()
    await stopping
    await until(lambda: told.states)
    check_pair(told, "cancelled")
    assert calls.inputs == []


async def test_a_direct_call_whose_caller_goes_away(cm: CodeMode) -> None:
    """It is cancelled, and recorded so."""
    told, gate = Told(), Gate()
    session = cm.create_session([gate.tool()], hooks=told.both())
    calling = asyncio.ensure_future(session.call_tool("t"))
    await until(lambda: gate.begun)
    calling.cancel()
    await until(lambda: told.states)
    check_pair(told, "cancelled")
    assert gate.stopped == 1
    await until(lambda: not session.calls.direct.live())
    await is_well(session)
    assert (await session.lifecycle())["states"] == {"cancelled": 1}


async def test_a_direct_call_whose_caller_goes_away_while_its_hook_is_asked(cm: CodeMode) -> None:
    """The hook is told after it was asked."""
    told, calls, opened = Told(), Calls(), asyncio.Event()

    async def slow(payload: dict[str, Any]) -> None:
        await opened.wait()
        told.payloads.append(payload)

    hooks = [Hook(event="PreToolUse", function=slow), told.hook("PostToolUse")]
    session = cm.create_session([calls.tool()], hooks=hooks)
    calling = asyncio.ensure_future(session.call_tool("t"))
    await until(lambda: session.calls.direct.live() and session.calls.direct.live()[0].before is not None)
    calling.cancel()
    await asyncio.sleep(0.02)
    assert told.payloads == []
    opened.set()
    await until(lambda: told.states)
    check_pair(told, "cancelled")
    assert calls.inputs == []
    await is_well(session)


async def test_a_direct_call_of_a_session_that_is_deleted() -> None:
    """When the deletion has returned, the hooks were told, and the caller has an answer."""
    told, gate = Told(), Gate()

    async def slow(payload: dict[str, Any]) -> None:
        await asyncio.sleep(0.5)
        told.payloads.append(payload)

    hooks = [told.hook("PreToolUse"), Hook(event="PostToolUse", function=slow)]
    async with CodeMode(spares=1) as cm:
        session = cm.create_session([gate.tool()], hooks=hooks)
        calling = asyncio.ensure_future(session.call_tool("t"))
        await until(lambda: gate.begun)
        await session.close()
        at_once = told.states
        answer = await calling
        await until(lambda: told.states)
    assert answer.error is not None
    assert answer.error["code"] == "cancelled"
    check_pair(told, "cancelled")
    assert at_once == ["cancelled"]


async def test_a_direct_call_of_a_service_that_is_left() -> None:
    """As of a server that stops: when it has been left, the hooks were told."""
    told, gate = Told(), Gate()

    async def slow(payload: dict[str, Any]) -> None:
        await asyncio.sleep(0.5)
        told.payloads.append(payload)

    hooks = [told.hook("PreToolUse"), Hook(event="PostToolUse", function=slow)]
    async with CodeMode([gate.tool()], hooks=hooks, spares=1) as cm:
        calling = asyncio.ensure_future(cm.default_session().call_tool("t"))
        await until(lambda: gate.begun)
    at_once = told.states
    await calling
    await until(lambda: told.states)
    check_pair(told, "cancelled")
    assert at_once == ["cancelled"]


async def test_all_hooks_are_told_of_many_calls_of_all_kinds(cm: CodeMode) -> None:
    """A script with calls that end well, fail, are denied, take too long and are left behind, beside direct ones."""
    told, gate = Told(), Gate()
    deny = {"hookSpecificOutput": {"permissionDecision": "deny"}}
    tools = [
        Calls().tool("good"),
        Calls().tool("refused"),
        python(lambda _: 1 / 0, "bad", is_async=False),
        gate.tool("late", ToolPolicy(timeout_ms=10)),
        gate.tool("left"),
    ]
    hooks = [*told.both(), Hook(event="PreToolUse", matcher="refused", function=lambda _: deny)]
    session = cm.create_session(tools, hooks=hooks)
    script = """
    for (let i = 0; i < 5; i++) {
        tools.left({});
        await Promise.allSettled([tools.good({}), tools.refused({}), tools.bad({}), tools.late({})]);
    }
    """
    seen = await asyncio.gather(
        session.exec(script), *(use(session, "direct", name) for name in ("good", "bad", "refused"))
    )
    assert seen[0].status == "completed"
    await until(lambda: len(told.of("PostToolUse")) == 28)
    told.check()
    counts = {state: told.states.count(state) for state in set(told.states)}
    assert counts == {"completed": 6, "denied": 6, "failed": 6, "timed_out": 5, "cancelled": 5}
    await is_well(session)


# Hooks that leave as nobody should

_MISFIT = """
import asyncio, sys
from codemode import CodeMode, Hook
from tests.unit.test_calls.call_helpers import Calls, use

async def is_async(_):
    {act}

def is_sync(_):
    {act}

async def main():
    hook = Hook(event={event!r}, function={kind})
    async with CodeMode([Calls().tool()], hooks=[hook], spares=1) as cm, asyncio.timeout(2):
        session = cm.create_session()
        print((await use(session, "nested")).code)
        print((await use(session, "nested")).code)

asyncio.run(main())
"""


_ACTS = ("sys.exit(3)", "raise asyncio.CancelledError", "raise GeneratorExit")
_MISFITS = {
    f"{kind} {event} {act}": (act, kind, event)
    for act in _ACTS
    for kind in ("is_sync", "is_async")
    for event in ("PreToolUse", "PostToolUse")
}
_HANGS = "is_sync PreToolUse raise GeneratorExit"


@pytest.mark.parametrize(
    ("act", "kind", "event"),
    [
        *(pytest.param(*each, id=name) for name, each in _MISFITS.items() if name != _HANGS),
        pytest.param(
            *_MISFITS[_HANGS],
            id=_HANGS,
        ),
    ],
)
def test_a_hook_cannot_end_the_service(act: str, kind: str, event: str) -> None:
    """As a tool cannot: the call fails as with any hook that fails, and the next one is served."""
    program = _MISFIT.format(act=act, event=event, kind=kind)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=15)
    code = "hook_denied" if event == "PreToolUse" else "result_withheld"
    assert (done.stdout.split(), done.returncode) == ([code, code], 0), done.stderr[-2000:]


async def test_a_hook_may_be_an_object_that_is_called(cm: CodeMode, how: How) -> None:
    """With an async `__call__`, or a function that gives an awaitable: the type of hooks says so."""

    async def allow(_: Any) -> None:
        return None

    session = cm.create_session([Calls().tool()], hooks=[Hook(event="PreToolUse", function=lambda told: allow(told))])
    used = await use(session, how)
    assert used.code is None
