"""Calls that no script makes: names, ids, checks, events, and the ends of turns that they hold up."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codemode import CodeMode
from codemode.calls.hooks import EVENTS, Hook
from codemode.errors import InvalidRequest, SessionNotFound, ToolNotFound, ToolUseIdTaken
from codemode.sessions.session import Session
from codemode.sessions.turns import RunningThing, Turns
from codemode.tools.policy import ToolPolicy
from codemode.tools.tool import Tool
from tests.unit.test_calls.call_helpers import Calls, Gate, Told, is_well, python, session_alone, until, use


async def events(session: Session) -> list[dict[str, Any]]:
    """All so far."""
    last, found = session.recorder.events.last, []
    async for event in session.events():
        found.append(event)
        if event["seq"] == last:
            break
    return found


async def test_a_direct_call_is_told_of_in_events(cm: CodeMode) -> None:
    """Without a cell, with its turn, and as what it is."""
    session = cm.create_session([Calls().tool()])
    answer = await session.call_tool("t", {"a": 1}, tool_use_id="mine", turn_id="turn-1")
    assert (answer.tool_use_id, answer.output, answer.error) == ("mine", {"got": {"a": 1}}, None)
    _, began, ended = await events(session)
    told = {"tool_use_id": "mine", "tool_name": "t", "tool_source": {"type": "direct"}, "turn_id": "turn-1"}
    for event, type_ in ((began, "tool_call/started"), (ended, "tool_call/ended")):
        assert event.items() >= {"type": type_, **told}.items()
        assert event.get("cell_id") is None
        assert "runtime_tool_call_id" not in event
    assert ended["tool_status"] == {"state": "completed", "exit_code": None}
    await is_well(session)


@pytest.mark.parametrize("name", ["t", "a/b", "/", "a b", "ä", "工具", "😀", "..", "%2f", "x" * 64])
async def test_a_tool_may_have_any_name(cm: CodeMode, name: str) -> None:
    """That a tool may be declared with."""
    try:
        session = cm.create_session([Calls().tool(name)])
    except InvalidRequest:
        pytest.skip("no tool may be named so")
    assert (await session.call_tool(name)).output == {"got": {}}
    with pytest.raises(ToolNotFound):
        await session.call_tool(name + "_")
    await is_well(session)


@pytest.mark.parametrize("state", ["under way", "completed", "failed"])
async def test_an_id_counts_once(cm: CodeMode, state: str) -> None:
    """Whatever became of its call; nothing is called the second time."""
    gate, calls = Gate(), Calls()
    session = cm.create_session([gate.tool("gate"), calls.tool(), python(lambda _: 1 / 0, "bad", is_async=False)])
    name = {"under way": "gate", "completed": "t", "failed": "bad"}[state]
    first = asyncio.ensure_future(session.call_tool(name, tool_use_id="x"))
    await until(lambda: gate.begun if state == "under way" else first.done())
    before = len(calls.inputs)
    with pytest.raises(ToolUseIdTaken):
        await session.call_tool("t", tool_use_id="x")
    assert len(calls.inputs) == before
    gate.opened.set()
    await first
    other = cm.create_session([calls.tool()])
    assert (await other.call_tool("t", tool_use_id="x")).error is None
    await is_well(session)


async def test_an_id_counts_once_also_after_a_restart(tmp_path: Path) -> None:
    """The history is one that may be."""
    for _ in range(2):
        async with CodeMode([Calls().tool()], spares=1, data_dir=tmp_path) as cm:
            session = cm.default_session()
            try:
                await session.call_tool("t", tool_use_id="x")
            except ToolUseIdTaken:
                pass
            await is_well(session)


@pytest.mark.parametrize("name", ["", "x" * 513])
async def test_an_id_that_is_none(cm: CodeMode, name: str) -> None:
    """Is refused before anything happens."""
    calls = Calls()
    session = cm.create_session([calls.tool()])
    with pytest.raises(InvalidRequest, match="tool_use_id"):
        await session.call_tool("t", tool_use_id=name)
    assert calls.inputs == []


async def test_ids_that_utf8_cannot_hold_do_no_harm(tmp_path: Path) -> None:
    """A program may hand in any string; what comes after it lasts."""
    async with CodeMode([Calls().tool()], spares=1, data_dir=tmp_path) as cm:
        session = cm.default_session()
        answer = await session.call_tool("t", {"a": "\ud800"}, tool_use_id="x\ud800", turn_id="\udfff")
        assert answer.error is None
        assert await session.recorder.settled() is None
        assert (await session.call_tool("t")).error is None
        assert (await session.lifecycle())["states"] == {"completed": 2}
    async with CodeMode([Calls().tool()], spares=1, data_dir=tmp_path) as cm:
        assert (await cm.default_session().lifecycle())["states"] == {"completed": 2}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("function", "text"),
        ("function", [1]),
        ("function", 1),
        ("function", True),
        ("function", object()),
        ("freeform", {}),
        ("freeform", ["x"]),
        ("freeform", None),
    ],
    ids=str,
)
async def test_an_input_of_the_wrong_kind(cm: CodeMode, kind: Any, value: Any) -> None:
    """Is an error of the call, as in a script."""
    calls = Calls()
    session = cm.create_session([calls.tool(kind=kind)])
    answer = await session.call_tool("t", value)
    assert answer.error is not None
    assert (answer.error["code"], calls.inputs) == ("invalid_input", [])


async def test_a_tool_of_the_caller_cannot_be_called_by_the_caller(cm: CodeMode) -> None:
    """There is nobody who would fulfil it."""
    session = cm.create_session([Tool(name="t")])
    assert (await use(session, "direct")).code == "caller_not_allowed"


async def test_a_closed_session_takes_no_call(cm: CodeMode) -> None:
    """As it takes nothing else."""
    session = cm.create_session([Calls().tool()])
    await session.close()
    with pytest.raises(SessionNotFound):
        await session.call_tool("t")


async def test_a_call_that_is_cancelled_while_it_waits_has_no_history(cm: CodeMode) -> None:
    """It never began; no hook is asked."""
    told, gate = Told(), Gate()
    session = cm.create_session([gate.tool(policy=ToolPolicy(max_concurrency=1))], hooks=told.both())
    first, second = (asyncio.ensure_future(session.call_tool("t")) for _ in range(2))
    await until(lambda: gate.begun and len(session.calls.direct.live()) == 2)
    second.cancel()
    await asyncio.wait((second,))
    assert [call.state for call in session.calls.direct.live()] == ["in_flight"]
    gate.opened.set()
    await first
    assert [each["type"] for each in (await events(session))[1:]] == ["tool_call/started", "tool_call/ended"]
    assert len(told.payloads) == 2
    await is_well(session)


@settings(max_examples=60)
@given(cancelled_at=st.integers(0, 25), hooks=st.booleans(), queued=st.booleans())
async def test_a_call_that_is_cancelled_at_any_moment(cancelled_at: int, hooks: bool, queued: bool) -> None:
    """Has begun and ended, or neither; its hooks are asked and told, or neither; its place is free."""
    told, calls = Told(), Calls()

    async def note(payload: dict[str, Any]) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        told.payloads.append(payload)

    both = [Hook(event=event, function=note) for event in EVENTS] if hooks else []
    session = session_alone([calls.tool(policy=ToolPolicy(max_concurrency=1))], hooks=both)
    first = asyncio.ensure_future(session.call_tool("t")) if queued else None
    calling = asyncio.ensure_future(session.call_tool("t", tool_use_id="x"))
    for _ in range(cancelled_at):
        await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait([task for task in (first, calling) if task is not None])
    assert (await session.call_tool("t")).error is None
    await until(lambda: not session.calls.direct.live())
    await session.calls._background.settled(5)
    told.check()
    told_of = {each["tool_use_id"] for each in told.payloads}
    types = [each["type"] for each in await events(session) if each.get("tool_use_id") == "x"]
    assert types in ([], ["tool_call/started", "tool_call/ended"])
    assert ("x" in told_of) == (hooks and bool(types))
    await is_well(session)


async def test_a_call_that_was_over_when_its_session_ends_has_its_output(cm: CodeMode) -> None:
    """The tool has done its work, and events and hooks say `completed`: so does the answer, once the hooks were told."""
    asked, opened = asyncio.Event(), asyncio.Event()

    async def slow(_: Any) -> None:
        asked.set()
        await opened.wait()

    session = cm.create_session([Calls().tool()], hooks=[Hook(event="PostToolUse", function=slow)])
    calling = asyncio.ensure_future(session.call_tool("t"))
    await asked.wait()
    closing = asyncio.ensure_future(session.close())
    await asyncio.sleep(0.01)
    opened.set()
    await closing
    assert (await calling).output == {"got": {}}


async def test_a_call_that_is_cancelled_twice_while_it_waits_gives_no_place_back() -> None:
    """By its session and by its caller in the same moment."""
    gate = Gate()
    session = session_alone([gate.tool(policy=ToolPolicy(max_concurrency=1))])
    first, second, third = (asyncio.ensure_future(session.call_tool("t", tool_use_id=name)) for name in "abc")
    await until(lambda: gate.begun and len(session.calls.direct.live()) == 3)
    (call,) = [each for each in session.calls.direct.live() if each.tool_use_id == "b"]
    session.calls.direct.cancel(call)
    second.cancel()
    await asyncio.wait((second,))
    for _ in range(10):
        await asyncio.sleep(0)
    running = gate.begun
    gate.opened.set()
    await asyncio.gather(first, third)
    assert running == 1


# Turns


async def test_a_turn_ends_when_nothing_of_it_runs(cm: CodeMode) -> None:
    """Cells and direct calls hold it, those of other turns and those that have ended do not."""
    gate, calls = Gate(), Calls()
    session = cm.create_session([gate.tool(), calls.tool("quick")])
    assert session.end_turn("unknown").needs_follow_up is False
    await session.exec("text(await tools.quick({}))", turn_id="a")
    await session.call_tool("quick", turn_id="a")
    assert session.end_turn("a").needs_follow_up is False
    cell_id = (await session.exec("await tools.t({})", turn_id="a", yield_time_ms=0)).cell_id
    direct = asyncio.ensure_future(session.call_tool("t", tool_use_id="d", turn_id="a"))
    await session.exec("await tools.t({})", yield_time_ms=0)
    await until(lambda: gate.begun == 3)
    ended = session.end_turn("a")
    assert ended.needs_follow_up
    assert ended.running == [
        {"type": "cell", "cell_id": cell_id},
        {"type": "tool_call", "tool_use_id": "d", "tool_name": "t"},
    ]
    assert ended.warning is not None
    for part in ("Turn a", f"cell {cell_id}", "the call d of t"):
        assert part in ended.warning
    assert session.end_turn("b").needs_follow_up is False
    gate.opened.set()
    await direct
    await session.wait(cell_id)
    assert session.end_turn("a").needs_follow_up is False
    ends = [each for each in await events(session) if each["type"] == "turn/ended"]
    assert [(each["turn_id"], each["detach"]) for each in ends] == [
        (name, False) for name in ("unknown", "a", "b", "a")
    ]
    await is_well(session)


async def test_what_was_detached_holds_no_turn(cm: CodeMode) -> None:
    """It lives on; what the turn starts later holds it again."""
    gate = Gate()
    session = cm.create_session([gate.tool()])
    cell_id = (await session.exec("await tools.t({}); text('on')", turn_id="a", yield_time_ms=0)).cell_id
    assert session.end_turn("a", detach=True) == session.end_turn("a")
    later = (await session.exec("await tools.t({})", turn_id="a", yield_time_ms=0)).cell_id
    assert session.end_turn("a").running == [{"type": "cell", "cell_id": later}]
    gate.opened.set()
    assert [each["text"] for each in (await session.wait(cell_id)).output] == ["on"]


things = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from(["cell", "tool_call"])), max_size=6)


@given(
    things=things,
    ends=st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.booleans(), st.integers(0, 6)), max_size=8),
)
def test_a_turn_is_held_by_what_is_its_own_and_runs(things: list[Any], ends: list[tuple[str, bool, int]]) -> None:
    """And was not detached, however turns end one after the other while things end too."""
    names = {"cell": "cell_id", "tool_call": "tool_use_id"}
    numbers = itertools.count()
    running = [
        RunningThing(turn, {"type": kind, names[kind]: str(next(numbers)), "tool_name": "t"}) for turn, kind in things
    ]
    turns, detached = Turns(), set()
    for turn, detach, left in ends:
        running = running[:left]
        held = [thing for thing in running if thing.turn_id == turn and thing.key not in detached]
        ended = turns.end(turn, running, detach=detach)
        assert ended.needs_follow_up == (bool(held) and not detach)
        assert ended.running == ([] if detach else [thing.told for thing in held])
        assert (ended.warning is None) == (not ended.needs_follow_up)
        if detach:
            detached |= {thing.key for thing in held}


def test_a_warning_names_so_many_things() -> None:
    """And how many more there are; a long command is cut."""
    running = [
        RunningThing("a", {"type": "process", "session_id": number, "command": "x" * 5000}) for number in range(50)
    ]
    ended = Turns().end("a", running, detach=False)
    assert ended.warning is not None
    assert "and 30 more" in ended.warning
    assert len(ended.warning) < 4000
    assert len(ended.running) == 50
