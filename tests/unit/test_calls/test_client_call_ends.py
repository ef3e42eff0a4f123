"""The ends of calls that the caller fulfils, when a result and another end come at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from codemode import CodeMode
from codemode.calls.hooks import Hook
from codemode.cells.observation import ToolResult
from codemode.errors import ToolCallAlreadyResolved, ToolCallNotFound
from codemode.tools.policy import ToolPolicy
from codemode.tools.tool import Tool
from tests.unit.cell_doubles import SetClock
from tests.unit.test_bridge import Rig
from tests.unit.test_calls.call_helpers import Told, is_well, until, wants

MOMENTS = range(10)  # turns of the event loop between two things that happen at once


@pytest.fixture
def clock() -> Iterator[SetClock]:
    clock = SetClock()
    yield clock
    clock.clear_up()


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def waiting(clock: SetClock) -> Rig:
    """A bridge with a call that waits for its result, for 1000 ms."""

    async def made() -> Rig:
        rig = Rig([Tool(name="t", policy=ToolPolicy(timeout_ms=1000))])
        rig.call()
        await rig.pending(1)
        return rig

    rig = clock.run(made())
    clock.settle()
    return rig


def check_one_end(rig: Rig) -> None:
    """The script has one result, and it is the one that is recorded."""
    (call,) = rig.bridge.calls
    assert [(number, well) for number, well, _ in rig.owner.results] == [(1, call.state == "completed")]
    assert call.state in ("completed", "timed_out")
    ends = [note for note in rig.owner.notes if note in ("1 completed", "1 timed_out")]
    assert ends == [f"1 {call.state}"]


def test_a_result_just_after_the_time_has_run_out(clock: SetClock) -> None:
    """Is refused, or it is the result; never something between."""
    for moment in MOMENTS:
        rig = waiting(clock)
        clock.now += 1.001

        async def late(rig: Rig = rig, moment: int = moment) -> str:
            await _turns(moment)
            try:
                rig.bridge.resolve(rig.bridge.calls[0], output=5)
            except ToolCallAlreadyResolved:
                return "refused"
            return "taken"

        said = clock.run(late())
        clock.settle()
        check_one_end(rig)
        assert rig.states == [{"refused": "timed_out", "taken": "completed"}[said]]
        assert clock.faults == []


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_result_just_before_the_time_has_run_out(clock: SetClock, moment: int) -> None:
    """Is the result."""
    rig = waiting(clock)

    async def early() -> None:
        rig.bridge.resolve(rig.bridge.calls[0], output=5)
        await _turns(moment)
        clock.now += 1.001

    clock.run(early())
    clock.settle()
    check_one_end(rig)
    assert rig.states == ["completed"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_result_and_the_end_of_the_cell(clock: SetClock, moment: int) -> None:
    """In either order: one end is recorded, and nothing is handed to a cell that has ended."""
    for result_first in (False, True):
        rig = waiting(clock)

        async def both(rig: Rig = rig, result_first: bool = result_first) -> None:
            call = rig.bridge.calls[0]
            steps = [lambda: rig.bridge.resolve(call, output=5), rig.bridge.close]
            for step in steps if result_first else reversed(steps):
                try:
                    step()
                except ToolCallAlreadyResolved:
                    assert not result_first
                await _turns(moment)

        clock.run(both())
        clock.settle()
        assert rig.states == ["completed" if result_first else "cancelled"]
        assert len(rig.owner.results) <= result_first
    assert clock.faults == []


async def test_a_client_call_that_takes_too_long(cm: CodeMode) -> None:
    """The script is told; a result that comes afterwards is refused."""
    told = Told()
    session = cm.create_session([Tool(name="t", policy=ToolPolicy(timeout_ms=30))], hooks=told.both())
    source = "try { await tools.t({}) } catch (e) { text(e.code) } await new Promise((go) => setTimeout(go, 1e6))"
    seen = await session.exec(source)
    (call,) = seen.pending_tool_calls
    await until(lambda: told.states)
    seen = await session.wait(seen.cell_id, yield_time_ms=50)
    assert ([each["text"] for each in seen.output], seen.pending_tool_calls) == (["timed_out"], [])
    with pytest.raises(ToolCallAlreadyResolved, match="timed_out"):
        session.tool_results([ToolResult(call.cell_id, call.runtime_tool_call_id, 1)])
    assert told.states == ["timed_out"]
    told.check()
    await session.terminate(seen.cell_id)
    await is_well(session)


async def test_a_client_call_is_handed_out_when_its_hook_has_allowed_it(cm: CodeMode) -> None:
    """With what the hook made of its input; before that no result is taken."""
    opened, told = asyncio.Event(), Told()

    async def slow(_: Any) -> Any:
        await opened.wait()
        return wants(updatedInput={"n": 2})

    hooks = [Hook(event="PreToolUse", function=slow), told.hook("PostToolUse", wants(updatedOutput="changed"))]
    session = cm.create_session([Tool(name="t")], hooks=hooks)
    running = asyncio.ensure_future(session.exec("text(await tools.t({n: 1}))"))
    await until(lambda: session.cells() and session.cells()[0].calls)
    result = ToolResult("1", "call-1", "given")
    with pytest.raises(ToolCallNotFound):
        session.tool_results([result])
    opened.set()
    seen = await running
    assert [(each.runtime_tool_call_id, each.input) for each in seen.pending_tool_calls] == [("call-1", {"n": 2})]
    session.tool_results([result])
    seen = await session.wait("1")
    assert [each["text"] for each in seen.output] == ["changed"]
    assert (told.payloads[0]["tool_input"], told.payloads[0]["tool_response"]) == ({"n": 2}, "given")
    await is_well(session)


@pytest.mark.parametrize(("output", "code"), [("x" * 8, "ok"), ("x" * 9, "result_too_large")])
async def test_a_result_of_the_caller_may_be_so_long(cm: CodeMode, output: str, code: str) -> None:
    """As one of any tool; one that is too long is taken, and fails the call."""
    session = cm.create_session([Tool(name="t", policy=ToolPolicy(max_result_bytes=10))])
    seen = await session.exec("text(await tools.t({}).then(() => 'ok', (e) => e.code))")
    (call,) = seen.pending_tool_calls
    session.tool_results([ToolResult(call.cell_id, call.runtime_tool_call_id, output)])
    seen = await session.wait(seen.cell_id)
    assert [each["text"] for each in seen.output] == [code]
    await is_well(session)
