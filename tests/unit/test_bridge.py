"""Nested calls, with an owner that only notes what it is told: every transition, and every way a tool can misbehave."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, computed_field

from codemode.calls.bridge import ToolBridge
from codemode.calls.call import Call, CallOrigin
from codemode.calls.slots import CallPlaces
from codemode.errors import ToolCallAlreadyResolved, ToolError
from codemode.limits import Limits
from codemode.tools.http import AllowedUrls, HttpTools
from codemode.tools.registry import ToolRegistry
from codemode.tools.tool import HttpHandler, PythonHandler, Tool
from tests.unit.cell_doubles import runner_of
from tests.unit.tool_server import answer, tool_server

LIMITS = Limits(max_tool_input_bytes=1000, max_tool_result_bytes=1000)

Result = tuple[int, bool, str]


@dataclass
class Owner:
    """The cell's part: it notes the results, in the order in which they come."""

    results: list[Result] = field(default_factory=list)
    client_calls: int = 0
    notes: list[str] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def call_resolved(self, number: int, well: bool, payload: bytes, code: str = "") -> None:
        self.results.append((number, well, payload.decode()))
        self.came.set()

    def call_changed(self, call: Call) -> None:
        self.notes.append(f"{call.number} {call.state}")

    def person_asked(self, is_asked: bool) -> None:
        self.notes.append("asked" if is_asked else "no more asked")

    async def noted(self) -> None:
        self.notes.append("noted")

    def client_call_began(self) -> None:
        self.client_calls += 1

    async def got(self, count: int) -> list[Result]:
        """The results, when there are so many."""
        async with asyncio.timeout(2):
            while len(self.results) < count:
                self.came.clear()
                await self.came.wait()
        return self.results


@dataclass
class Rig:
    """A bridge with these tools; the index of a call is that of the tool as given."""

    tools: list[Tool]
    limits: Limits = LIMITS
    places: CallPlaces = field(default_factory=lambda: CallPlaces(64))
    http: HttpTools = field(default_factory=lambda: HttpTools(AllowedUrls()))

    def __post_init__(self) -> None:
        self.owner = Owner()
        self.registry = ToolRegistry(self.tools)
        origin = CallOrigin("session", "7", "turn", "tu_parent")
        runner = runner_of(self.limits, self.http)
        self.bridge = ToolBridge(self.owner, origin, self.registry, self.limits, self.places, runner)

    def call(self, which: int = 0, text: bytes = b"{}") -> None:
        name = self.tools[which].name
        self.bridge.call(self.registry.js_names.index(name), text)

    async def pending(self, count: int) -> list[Call]:
        """The client calls that wait, when there are so many."""
        async with asyncio.timeout(2):
            while len(calls := self.bridge.client_calls.pending()) < count:
                await asyncio.sleep(0)
        return calls

    @property
    def states(self) -> list[str]:
        return [call.state for call in self.bridge.calls]

    @property
    def counts(self) -> dict[str, int]:
        return {state: count for state, count in self.bridge.counts.items() if count}


def python(run: Callable[[Any], Any], name: str = "t", *, is_async: bool = True, **told: Any) -> Tool:
    return Tool(name=name, handler=PythonHandler(run=run, is_async=is_async), **told)


async def echo(given_input: Any) -> Any:
    return given_input


def raising(problem: BaseException) -> Callable[[Any], Any]:
    async def run(_: Any) -> Any:
        raise problem

    return run


def returning(value: Any) -> Callable[[Any], Any]:
    async def run(_: Any) -> Any:
        return value

    return run


# How a call goes


async def test_a_call_runs_its_tool_and_reports_back() -> None:
    """Queued, in flight, completed; the input is the JSON that was sent, key order and all."""
    rig = Rig([python(echo)])
    rig.call(text=b'{"b": 1, "a": [null]}')
    assert rig.counts == {"in_flight": 1}
    assert await rig.owner.got(1) == [(1, True, '{"b":1,"a":[null]}')]
    assert (rig.states, rig.counts, rig.bridge.started, rig.bridge.resolved) == (["completed"], {"completed": 1}, 1, 1)


async def test_what_the_record_keeps_of_a_call() -> None:
    """Its number, its name in the cell, an id of its own, its times and where it came from."""
    rig = Rig([python(echo)])
    rig.call()
    rig.call()
    await rig.owner.got(2)
    first, second = rig.bridge.calls
    assert [first.runtime_tool_call_id, second.runtime_tool_call_id] == ["call-1", "call-2"]
    assert first.tool_use_id != second.tool_use_id
    assert None not in (first.started_at, first.ended_at)
    assert rig.bridge.origin.tool_source(second.number) == {
        "type": "code_mode",
        "parent_tool": "exec",
        "parent_tool_use_id": "tu_parent",
        "cell_id": "7",
        "runtime_tool_call_id": "call-2",
    }


async def test_calls_beyond_the_slots_wait_their_turn() -> None:
    """In order, while the others run."""
    gates = [asyncio.Event() for _ in range(4)]
    began: list[int] = []

    async def wait(given_input: Any) -> Any:
        began.append(given_input)
        await gates[given_input].wait()
        return given_input

    rig = Rig([python(wait)], places=CallPlaces(2))
    for number in range(4):
        rig.call(text=b"%d" % number)
    await asyncio.sleep(0)
    assert (began, rig.counts) == ([0, 1], {"in_flight": 2, "queued": 2})
    gates[1].set()
    await rig.owner.got(1)
    await asyncio.sleep(0)
    assert (began, rig.counts) == ([0, 1, 2], {"in_flight": 2, "queued": 1, "completed": 1})
    for gate in gates:
        gate.set()
    assert sorted(number for number, _, _ in await rig.owner.got(4)) == [1, 2, 3, 4]


async def test_sync_tools_run_on_threads() -> None:
    """They may block: two that wait for each other both get on."""
    meeting = threading.Barrier(2)
    rig = Rig([python(lambda given_input: meeting.wait(5) >= 0 and given_input, is_async=False)])
    rig.call()
    rig.call()
    assert sorted(await rig.owner.got(2)) == [(1, True, "{}"), (2, True, "{}")]


async def test_an_http_tool_is_told_all_about_the_call() -> None:
    """Names, ids and input, and the output comes back."""
    async with tool_server(answer({"output": "seen"})) as server, HttpTools(AllowedUrls([server.url])) as http:
        rig = Rig([Tool(name="t", handler=HttpHandler(server.url))], http=http)
        rig.call(text=b'{"a":1}')
        assert await rig.owner.got(1) == [(1, True, '"seen"')]
    (call,) = rig.bridge.calls
    assert server.bodies == [
        {
            "tool_name": "t",
            "input": {"a": 1},
            "session_id": "session",
            "turn_id": "turn",
            "cell_id": "7",
            "runtime_tool_call_id": "call-1",
            "tool_use_id": call.tool_use_id,
        }
    ]


# What is refused before a tool runs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'"' + b"x" * 999 + b'"', "t: the input has 1001 bytes; at most 1000 are accepted"),
        (b"{", "t: the input cannot be read as JSON: "),
        (b"", "t: the input cannot be read as JSON: "),
        (b"\xff", "t: the input cannot be read as JSON: "),
        (b"[" * 1000, "t: the input cannot be read as JSON: "),
        (b"{} {}", "t: the input cannot be read as JSON: "),
        (b'{"a": 1}', 't: input.a: 1 is not of type "string"'),
        (b'{"a": "x", "b": 1}', "t: input: Additional properties are not allowed ('b' was unexpected)"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_an_input_that_does_not_fit_never_reaches_the_tool(text: bytes, said: str) -> None:
    """The call fails at once and nothing has been started."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
    rig = Rig([python(raising(AssertionError("called")), input_schema=schema)])
    rig.call(text=text)
    ((number, well, told),) = rig.owner.results
    assert (number, well, told.startswith(said), rig.states, rig.bridge.started) == (1, False, True, ["failed"], 0)


async def test_an_input_of_exactly_the_limit_is_taken() -> None:
    """The limit is on the bytes of the JSON."""
    rig = Rig([python(returning("well"))])
    rig.call(text=b'"' + b"x" * 998 + b'"')
    assert await rig.owner.got(1) == [(1, True, '"well"')]


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda text: json.dumps(text).encode()))
async def test_any_input_is_taken_or_fails_that_call(text: bytes) -> None:
    """Whatever bytes a process sends as an input."""
    rig = Rig([python(echo, input_schema={"type": ["string", "object"], "maxLength": 10})])
    rig.call(text=text)
    ((number, _, _),) = await rig.owner.got(1)
    assert number == 1


@pytest.mark.parametrize(
    "text",
    [b'{"a": "\\ud800"}', b'{"\\udfff": 1}', b'"\\ud83d"', b'{"o":' * 160 + b"1" + b"}" * 160, b'{"n": 1e999}', b"NaN"],
    ids=lambda text: str(text)[:20],
)
async def test_an_odd_input_of_a_tool_with_a_schema_fails_that_call_alone(text: bytes) -> None:
    """A lone surrogate, a deep nesting, a number beyond all: no exception gets out to the cell."""
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    rig = Rig([python(echo, input_schema=schema)])
    rig.call(text=text)
    rig.call(text=b'{"a": "fine"}')
    results = await rig.owner.got(2)
    assert [number for number, _, _ in sorted(results)] == [1, 2]
    assert sorted(results)[1] == (2, True, '{"a":"fine"}')


# What a tool may do


class Broken(BaseModel):
    """A model that fails when it is written."""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def a(self) -> int:
        raise RuntimeError("of the host")


class Named(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("of the host")


class Rude(ToolError):
    """The same, of the kind whose text is shown."""

    def __str__(self) -> str:
        raise RuntimeError("of the host")


def looped() -> list[Any]:
    values: list[Any] = []
    values.append(values)
    return values


def deep() -> list[Any]:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "payload"),
    [
        (None, "null"),
        (float("nan"), "null"),
        ([float("inf"), -float("inf")], "[null,null]"),
        ({"a": "\ud800"}, '{"a": "\\ud800"}'),
        (10**30, str(10**30)),
        ("x" * 998, '"' + "x" * 998 + '"'),
        (b"bytes", '"bytes"'),
        ({1: 2}, '{"1":2}'),
    ],
    ids=lambda value: str(value)[:20],
)
async def test_a_result_is_written_as_json(value: Any, payload: str) -> None:
    """NaN as null, and what only the plain writer can write."""
    rig = Rig([python(returning(value))])
    rig.call()
    assert await rig.owner.got(1) == [(1, True, payload)]


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (returning("x" * 999), "t: its result has 1001 bytes; at most 1000 are accepted"),
        (returning("é" * 500), "t: its result has 1002 bytes; at most 1000 are accepted"),
        (returning(object()), "t: its result cannot be written as JSON: "),
        (returning({"a": {1, object()}}), "t: its result cannot be written as JSON: "),
        (returning(b"\xff"), "t: its result cannot be written as JSON: "),
        (returning(looped()), "t: its result cannot be written as JSON: "),
        (returning(deep()), "t: its result cannot be written as JSON: "),
        (returning(Broken()), "t: it"),
        (raising(ToolError("nope-9")), "nope-9"),
        (raising(ToolError("")), ""),
        (raising(ToolError("a", "b")), "('a', 'b')"),
        (raising(ToolError("\ud800")), "?"),
        (raising(ValueError("/a/path/of/the/host")), "t: it failed with ValueError"),
        (raising(StopIteration()), "t: it failed with RuntimeError"),
        (raising(TimeoutError()), "t: it failed with TimeoutError"),
        (raising(RecursionError()), "t: it failed with RecursionError"),
        (raising(Named()), "t: it failed with Named"),
        (raising(Rude()), "t: it failed with Rude"),
        (raising(asyncio.CancelledError()), "t: it failed with CancelledError"),
        (raising(GeneratorExit()), "t: it failed with GeneratorExit"),
    ],
    ids=lambda value: value if isinstance(value, str) else "tool",
)
async def test_a_tool_that_misbehaves_fails_its_call_alone(run: Callable[[Any], Any], said: str) -> None:
    """The call ends with a text that shows nothing of the host's, and the next one works."""
    rig = Rig([python(run), python(echo, "u")])
    rig.call(0)
    rig.call(1)
    results = sorted(await rig.owner.got(2))
    (number, well, told), second = results
    assert (number, well, told.startswith(said), "host" in told) == (1, False, True, False)
    assert (second, rig.counts) == ((2, True, "{}"), {"failed": 1, "completed": 1})


@pytest.mark.parametrize("problem", [StopIteration(), asyncio.CancelledError(), ToolError("nope"), KeyError("x")])
async def test_a_sync_tool_that_raises_fails_its_call_alone(problem: BaseException) -> None:
    """The same from a thread."""

    def run(_: Any) -> Any:
        raise problem

    rig = Rig([python(run, is_async=False), python(echo, "u")])
    rig.call(0)
    rig.call(1)
    results = sorted(await rig.owner.got(2))
    assert [(number, well) for number, well, _ in results] == [(1, False), (2, True)]


async def test_a_tool_that_awaits_what_was_cancelled_elsewhere_fails_its_call() -> None:
    """A cancellation that is not ours is a failure of the tool; the script must not wait for ever."""
    inner = asyncio.get_running_loop().create_future()

    async def run(_: Any) -> Any:
        return await inner

    rig = Rig([python(run)])
    rig.call()
    await asyncio.sleep(0)
    inner.cancel()
    ((number, well, _),) = await rig.owner.got(1)
    assert (number, well, rig.counts) == (1, False, {"failed": 1})


async def test_results_that_say_is_error_are_named() -> None:
    """They resolve, being data; the cell warns of them by tool."""
    rig = Rig([python(returning({"isError": True, "content": []})), python(returning({"isError": "yes"}), "u")])
    rig.call(0)
    rig.call(1)
    results = await rig.owner.got(2)
    assert ([well for _, well, _ in results], rig.bridge.error_results) == ([True, True], ["t"])


# Client tools


async def test_a_client_call_waits_for_the_caller() -> None:
    """It is told of, named by its id, and its result ends it."""
    rig = Rig([Tool(name="t")])
    rig.call(text=b'{"a":1}')
    (call,) = await rig.pending(1)
    assert (call.input, rig.owner.client_calls, rig.bridge.waits_for_client_alone) == ({"a": 1}, 1, True)
    rig.bridge.resolve(call, output=[1])
    assert (rig.bridge.client_calls.pending(), rig.states) == ([], ["completed"])
    assert await rig.owner.got(1) == [(1, True, "[1]")]


@pytest.mark.parametrize(
    ("given_result", "expected"),
    [
        ({"output": None}, (1, True, "null")),
        ({"error": "no"}, (1, False, "no")),
        ({"error": ""}, (1, False, "")),
        ({"output": "x" * 1000}, (1, False, "t: its result has 1002 bytes; at most 1000 are accepted")),
    ],
    ids=str,
)
async def test_results_of_a_client_call(given_result: dict[str, Any], expected: Result) -> None:
    """Any JSON, an error's text, and one that is too large."""
    rig = Rig([Tool(name="t")])
    rig.call()
    rig.bridge.resolve((await rig.pending(1))[0], **given_result)
    assert await rig.owner.got(1) == [expected]


async def test_a_client_call_takes_one_result() -> None:
    """A second one, and one after the cell's end, are refused and change nothing."""
    rig = Rig([Tool(name="t")])
    rig.call()
    rig.call()
    first, second = await rig.pending(2)
    rig.bridge.resolve(first, output=1)
    await rig.owner.got(1)
    for call, state in ((first, "completed"), (second, "cancelled")):
        if call is second:
            rig.bridge.close()
        with pytest.raises(ToolCallAlreadyResolved, match=f"is {state}"):
            rig.bridge.resolve(call, output=2)
    assert rig.owner.results == [(1, True, "1")]


@pytest.mark.parametrize(
    "name", ["", "call-", "call-0", "call-3", "call-01", "call--1", "call-1 ", "1", "xcall-1", "call-١"]
)
async def test_an_unknown_client_call_is_not_found(name: str) -> None:
    """Only the exact name of a call that was made."""
    rig = Rig([Tool(name="t"), python(echo, "u")])
    rig.call(0)
    rig.call(1)
    assert (
        rig.bridge.client_call(name),
        rig.bridge.client_call("call-2"),
        rig.bridge.client_call("call-" + "9" * 5000),
    ) == (
        None,
        None,
        None,
    )
    await rig.owner.got(1)


async def test_the_caller_is_needed_only_when_nothing_else_can_end() -> None:
    """Not while another call is under way, and once for each client call."""
    gate = asyncio.Event()

    async def wait(_: Any) -> Any:
        await gate.wait()

    rig = Rig([Tool(name="c"), python(wait, "p")])
    rig.call(1)
    rig.call(0)
    needed = [rig.bridge.waits_for_client_alone]
    gate.set()
    await rig.owner.got(1)
    needed.append(rig.bridge.waits_for_client_alone)
    for call in rig.bridge.client_calls.pending():
        call.announced = True
    needed.append(rig.bridge.waits_for_client_alone)
    assert needed == [False, True, False]


# The end


async def test_closing_cancels_what_is_under_way_and_what_is_queued() -> None:
    """The tools hear of it, the script gets no result, the slots are free again, and the names are told in order."""
    cancelled = asyncio.Event()

    async def wait(_: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    slots = CallPlaces(2)
    rig = Rig([python(wait), Tool(name="c")], places=slots)
    for which in (0, 1, 0, 1):
        rig.call(which)
    await asyncio.sleep(0)
    assert rig.bridge.close() == ["t", "c", "t", "c"]
    await asyncio.wait_for(cancelled.wait(), 5)
    assert (rig.owner.results, rig.counts, rig.bridge.started) == ([], {"cancelled": 4}, 2)
    other = Rig([python(echo)], places=slots)
    other.call()
    other.call()
    assert other.counts == {"in_flight": 2}
    await other.owner.got(2)


async def test_a_tool_that_will_not_be_cancelled_reports_to_nobody() -> None:
    """What it returns in the end is dropped."""
    ended = asyncio.Event()

    async def stubborn(_: Any) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            return "late"

    rig = Rig([python(stubborn)])
    rig.call()
    await asyncio.sleep(0)
    rig.bridge.close()
    await asyncio.wait_for(ended.wait(), 5)
    await asyncio.sleep(0)
    assert (rig.owner.results, rig.states) == ([], ["cancelled"])


async def test_a_blocked_sync_tool_is_left_behind() -> None:
    """Nobody waits for its thread; what it returns in the end is dropped."""
    began, gate = threading.Event(), threading.Event()

    def block(_: Any) -> None:
        began.set()
        gate.wait(10)

    rig = Rig([python(block, is_async=False)])
    rig.call()
    async with asyncio.timeout(5):
        while not began.is_set():
            await asyncio.sleep(0.001)
    (call,) = rig.bridge.calls
    assert call.task is not None
    rig.bridge.close()
    await asyncio.wait([call.task], timeout=5)
    gate.set()
    assert (call.task.cancelled(), rig.owner.results, rig.states) == (True, [], ["cancelled"])


async def test_an_http_call_is_cut_off() -> None:
    """Closing the bridge closes the connection to the tool's server."""
    async with tool_server(None) as server, HttpTools(AllowedUrls([server.url])) as http:
        rig = Rig([Tool(name="t", handler=HttpHandler(server.url))], http=http)
        rig.call()
        await asyncio.wait_for(server.got_one.wait(), 5)
        rig.bridge.close()
        await asyncio.wait_for(server.gone.wait(), 5)
    assert rig.states == ["cancelled"]


async def test_closing_twice_and_after_the_end_changes_nothing() -> None:
    """What has ended has ended."""
    rig = Rig([python(echo)])
    rig.call()
    await rig.owner.got(1)
    assert (rig.bridge.close(), rig.bridge.close(), rig.states) == ([], [], ["completed"])


async def test_waiting_counts_once_however_many_calls_run() -> None:
    """`tool_wait_ms` is the time with at least one call under way; after the end it stands still."""
    rig = Rig([Tool(name="t")])
    assert rig.bridge.tool_wait_ms == 0
    rig.call()
    rig.call()
    async with asyncio.timeout(5):
        while rig.bridge.tool_wait_ms < 20:
            await asyncio.sleep(0.005)
    rig.bridge.close()
    waited = rig.bridge.tool_wait_ms
    await asyncio.sleep(0.02)
    assert (waited >= 20, rig.bridge.tool_wait_ms == waited) == (True, True)


async def test_no_call_begins_while_results_wait_to_be_taken_in() -> None:
    """Those that come and those that queue wait, in their order; they begin when there is room again."""
    rig = Rig([python(echo)], places=CallPlaces(1))
    rig.bridge.make_room(False)
    for number in range(3):
        rig.call(text=b'{"n":%d}' % number)
    assert (rig.states, rig.owner.results) == (["queued"] * 3, [])
    rig.bridge.make_room(True)
    results = await rig.owner.got(3)
    assert [text for _, _, text in results] == ['{"n":0}', '{"n":1}', '{"n":2}']


async def test_calls_that_are_held_end_with_their_cell() -> None:
    """They are cancelled like all that queue, and do not begin afterwards."""
    rig = Rig([python(echo)], places=CallPlaces(1))
    rig.bridge.make_room(False)
    rig.call()
    assert rig.bridge.close() == ["t"]
    rig.bridge.make_room(True)
    await asyncio.sleep(0)
    assert (rig.states, rig.owner.results) == (["cancelled"], [])
