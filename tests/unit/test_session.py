"""A session on processes that are none: admission, repeats, results of the caller, stored values, and the end."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from collections import deque
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from anyio import CapacityLimiter

from codemode.calls.hooks import Hook
from codemode.calls.slots import ToolThreads
from codemode.cells.cell import Cell
from codemode.cells.observation import Observation, ToolResult
from codemode.errors import (
    CellNotFound,
    CodeModeError,
    InvalidRequest,
    InvalidSource,
    IsolationUnavailable,
    SessionNotFound,
    ToolCallAlreadyResolved,
    ToolCallNotFound,
    TooManyCells,
)
from codemode.isolation.pool import Pool
from codemode.isolation.wire import FromCell
from codemode.journal.journal import Journal
from codemode.journal.rows import SessionRow
from codemode.limits import Limits
from codemode.mcp.config import McpServer
from codemode.sessions.declaration import Declaration
from codemode.sessions.session import Session
from codemode.sessions.store import StoredValues
from codemode.tools.http import AllowedUrls, HttpTools
from codemode.tools.tool import Tool
from tests.unit.cell_doubles import FakeProcess, done, thrown


@dataclass
class FakePool:
    """Hands out doubles; with `spares` at 0 a lease waits until the test gives one."""

    spares: int = 1000
    leased: list[FakeProcess] = field(default_factory=list)
    waiting: deque[asyncio.Future[FakeProcess]] = field(default_factory=deque)

    def lease_nowait(self) -> FakeProcess | None:
        if self.spares == 0:
            return None
        self.spares -= 1
        self.leased.append(FakeProcess())
        return self.leased[-1]

    async def lease(self) -> FakeProcess:
        self.waiting.append(asyncio.get_running_loop().create_future())
        process = await self.waiting[-1]
        self.leased.append(process)
        return process


class Host:
    """The service's part."""

    def __init__(self, most: int = 1000) -> None:
        self.fake_pool = FakePool()
        self.journal = Journal()
        self.pool = cast("Pool", self.fake_pool)
        self.http = HttpTools(AllowedUrls())
        self.threads = ToolThreads(CapacityLimiter(4), CapacityLimiter(4), CapacityLimiter(4))
        self.hooks: list[Hook] = []
        self.mcp_servers: list[McpServer] = []
        self.command_root = None
        self.live = 0
        self.most = most

    def check_open(self) -> None:
        pass

    def admit_cell(self, key: str) -> None:
        if self.live >= self.most:
            raise TooManyCells("full")
        self.live += 1

    def release_cell(self, key: str) -> None:
        self.live -= 1

    def forget_session(self, session: Session) -> None:
        pass


@dataclass
class Rig:
    """A session with its host; `process` is the one of the last cell that has begun."""

    host: Host
    session: Session

    @classmethod
    def of(cls, limits: Limits | None = None, tools: list[Tool] | None = None, host: Host | None = None) -> Rig:
        host = host or Host()
        tools = [Tool(name="caller")] if tools is None else tools
        row = SessionRow(0, "s", "", 0.0, 0.0, 0, b"{}")
        return cls(host, Session(host, row, tools, Declaration(limits=limits or Limits(), metadata={})))

    @property
    def processes(self) -> list[FakeProcess]:
        return self.host.fake_pool.leased

    async def started(self, source: str = "x", **options: Any) -> str:
        """A new cell that runs on."""
        return (await self.session.exec(source, yield_time_ms=0, **options)).cell_id

    async def ran(self, *frames: tuple[int, bytes], source: str = "x") -> Observation:
        """A script that does this and ends."""
        cell_id = await self.started(source)
        self.processes[-1].send(*frames)
        return await self.session.wait(cell_id)

    def config(self, which: int = -1) -> dict[str, Any]:
        """What a process was started with."""
        config: dict[str, Any] = json.loads(self.processes[which].got[0][1])
        return config


def stored(key: str, value: Any = None, *, json_key: str | None = None) -> tuple[int, bytes]:
    """A STORE record; None deletes."""
    text = "" if value is None else json.dumps(value)
    return FromCell.STORE, f"{json_key or json.dumps(key)}\n{text}".encode()


DONE = (FromCell.DONE, done())


@pytest.fixture
def rig() -> Rig:
    return Rig.of()


# Starting


async def test_a_process_is_told_all_it_has_to_know(rig: Rig) -> None:
    """The source as it is, the tools, the stored values as JSON texts and the limits."""
    await rig.ran(stored("k", {"a": "é"}), DONE)
    await rig.started("text('中 \\ \" \u2028')")
    config = rig.config()
    assert (config["source"], config["tools"], config["stored"], config["rehearsal"]) == (
        "text('中 \\ \" \u2028')",
        [["caller", "function", ""]],
        {"k": '{"a": "\\u00e9"}'},
        False,
    )
    assert config["limits"]["memory_mb"] == 256


async def test_ids_count_up_whatever_becomes_of_the_cells(rig: Rig) -> None:
    """From 1; a source that cannot run uses none up."""
    first = await rig.started()
    for source in ("", "// @exec: {}\n", "// @exec: [\ntext(1)", "text('\ud800')"):
        with pytest.raises(InvalidSource):
            await rig.session.exec(source)
    second = (await rig.session.exec('"a quoted script"')).cell_id
    third = await rig.started()
    assert [first, second, third] == ["1", "2", "3"]


async def test_the_directive_beats_the_arguments(rig: Rig) -> None:
    """A yield time of 0 answers at once, though the request would wait."""
    async with asyncio.timeout(5):
        answer = await rig.session.exec('// @exec: {"yield_time_ms": 0}\nx', yield_time_ms=60_000)
    assert answer.status == "running"


async def test_a_session_has_at_most_so_many_live_cells() -> None:
    """An ended one makes room."""
    rig = Rig.of(Limits(max_cells_session=2))
    first = await rig.started()
    await rig.started()
    with pytest.raises(TooManyCells, match="2 live cells"):
        await rig.started()
    await rig.session.terminate(first)
    assert await rig.started() == "3"


async def test_a_full_server_refuses_and_nothing_is_counted() -> None:
    """The refusal leaves no cell behind, and the next one after an end is taken."""
    rig = Rig.of(host=Host(most=1))
    await rig.started()
    for _ in range(3):
        with pytest.raises(TooManyCells):
            await rig.started()
    await rig.session.terminate("1")
    assert (await rig.started(), rig.host.live, len(rig.session.cells())) == ("2", 1, 2)


async def test_cells_that_wait_for_a_process_begin_when_there_is_one() -> None:
    """In the meantime they are running cells like any other, and can be ended."""
    rig = Rig.of()
    rig.host.fake_pool.spares = 0
    first, second = await rig.started("one"), await rig.started("two")
    await asyncio.sleep(0)
    ended = await rig.session.terminate(second)
    processes = [FakeProcess(), FakeProcess()]
    for waiting, process in zip(rig.host.fake_pool.waiting, processes, strict=True):
        waiting.set_result(process)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    processes[0].send(DONE)
    assert (ended.status, processes[1].was_killed, (await rig.session.wait(first)).status) == (
        "terminated",
        True,
        "completed",
    )


@pytest.mark.parametrize(
    "problem", [IsolationUnavailable("no process"), BrokenPipeError(), OSError(24, "Too many open files")]
)
async def test_a_cell_that_gets_no_process_fails(problem: Exception) -> None:
    """Whatever kept it from one: the caller is told, and nothing of the host's shows."""
    rig = Rig.of()
    rig.host.fake_pool.spares = 0
    pending = asyncio.ensure_future(rig.session.exec("x", yield_time_ms=2000))
    async with asyncio.timeout(5):
        while not rig.host.fake_pool.waiting:
            await asyncio.sleep(0)
    rig.host.fake_pool.waiting[0].set_exception(problem)
    answer = await pending
    assert answer.error is not None
    assert (answer.status, answer.error.kind, rig.host.live, "Too many" in answer.error.message) == (
        "failed",
        "worker_crashed",
        0,
        False,
    )


# Repeats


async def test_a_script_with_a_key_runs_once(rig: Rig) -> None:
    """A repeat gets all output of the same cell, and another source under the key is refused."""
    first = asyncio.ensure_future(rig.session.exec("x", yield_time_ms=60_000, idempotency_key="k"))
    await asyncio.sleep(0)
    joined = asyncio.ensure_future(rig.session.exec("x", yield_time_ms=0, idempotency_key="k"))
    await asyncio.sleep(0)
    rig.processes[0].send((FromCell.TEXT, b"a"), DONE)
    answers = [await first, await joined, await rig.session.exec("x", idempotency_key="k")]
    assert [(answer.cell_id, answer.output) for answer in answers] == [("1", [{"type": "text", "text": "a"}])] * 3
    assert len(rig.processes) == 1
    with pytest.raises(InvalidRequest, match="another source"):
        await rig.session.exec("y", idempotency_key="k")


async def test_a_key_whose_exec_was_refused_is_free() -> None:
    """Nothing ran, so a later try with the key does."""
    rig = Rig.of(Limits(max_cells_session=1))
    await rig.started()
    with pytest.raises(TooManyCells):
        await rig.session.exec("x", idempotency_key="k")
    await rig.session.terminate("1")
    assert (await rig.session.exec("y", yield_time_ms=0, idempotency_key="k")).cell_id == "2"


async def test_a_key_is_forgotten_with_its_cell() -> None:
    """Afterwards it starts a new one."""
    rig = Rig.of(Limits(keep_ms=0))
    first = asyncio.ensure_future(rig.session.exec("x", idempotency_key="k"))
    await asyncio.sleep(0)
    rig.processes[0].send(DONE)
    assert (await first).cell_id == "1"
    async with asyncio.timeout(5):
        while rig.session.cells():
            await asyncio.sleep(0.001)
    with pytest.raises(CellNotFound):
        await rig.session.wait("1")
    assert (await rig.session.exec("y", yield_time_ms=0, idempotency_key="k")).cell_id == "2"


# Results of the caller


async def calling(rig: Rig, count: int) -> str:
    cell_id = await rig.started()
    rig.processes[-1].send(*[(FromCell.CALL, b"%d 0 {}" % number) for number in range(1, count + 1)])
    await asyncio.sleep(0)  # until they are handed out
    return cell_id


async def test_results_are_taken_all_or_none(rig: Rig) -> None:
    """One that cannot be taken keeps the others from being taken, whichever place it has."""
    cell_id = await calling(rig, 3)
    good = [ToolResult(cell_id, "call-1", 1), ToolResult(cell_id, "call-2", error="no")]
    refusals: list[tuple[ToolResult, type[CodeModeError]]] = [
        (ToolResult(cell_id, "call-9", 1), ToolCallNotFound),
        (ToolResult(cell_id, "nonsense", 1), ToolCallNotFound),
        (ToolResult("99", "call-1", 1), CellNotFound),
    ]
    for bad, error in refusals:
        for place in range(3):
            with pytest.raises(error):
                rig.session.tool_results([*good[:place], bad, *good[place:]])
    assert rig.session.cell(cell_id).counts.in_flight == 3
    assert rig.session.tool_results(good) == 2
    with pytest.raises(ToolCallAlreadyResolved):
        rig.session.tool_results([ToolResult(cell_id, "call-3", 1), good[0]])
    assert rig.session.cell(cell_id).counts.in_flight == 1


async def test_one_call_cannot_have_two_results_in_one_request(rig: Rig) -> None:
    """Neither is taken."""
    cell_id = await calling(rig, 1)
    with pytest.raises(CodeModeError) as caught:
        rig.session.tool_results([ToolResult(cell_id, "call-1", 1), ToolResult(cell_id, "call-1", 2)])
    assert (
        caught.value.code in ("invalid_request", "tool_call_already_resolved"),
        rig.session.tool_results([ToolResult(cell_id, "call-1", 3)]),
    ) == (
        True,
        1,
    )


async def test_the_slots_are_those_of_the_session() -> None:
    """Calls of all its cells share them, in the order in which they came."""
    rig = Rig.of(Limits(max_in_flight=2))
    first = await calling(rig, 2)
    second = await calling(rig, 2)
    counts = [rig.session.cell(cell_id).counts for cell_id in (first, second)]
    assert [(each.in_flight, each.queued) for each in counts] == [(2, 0), (0, 2)]
    await rig.session.terminate(first)
    assert rig.session.cell(second).counts.in_flight == 2


# Stored values


async def test_values_of_an_ended_script_are_there_for_the_next(rig: Rig) -> None:
    """Kept at completion and at a throw, not at a terminate; None deletes."""
    await rig.ran(stored("a", 1), stored("b", 2), DONE)
    await rig.ran(stored("b"), stored("c", 3), (FromCell.DONE, thrown()))
    cell_id = await rig.started()
    rig.processes[-1].send(stored("d", 4))
    await rig.session.terminate(cell_id)
    await rig.started()
    assert rig.config()["stored"] == {"a": "1", "c": "3"}


async def test_a_value_that_another_cell_wrote_meanwhile_is_named(rig: Rig) -> None:
    """The later finisher wins and is told; who saw the other's value at its start is not."""
    first, second = await rig.started(), await rig.started()
    rig.processes[0].send(stored("k", "first"), DONE)
    rig.processes[1].send(stored("k", "second"), DONE)
    third = await rig.ran(stored("k", "third"), DONE)
    warnings = [(await rig.session.wait(cell_id)).warnings for cell_id in (first, second)]
    assert warnings == [[], ["the stored value 'k', which cell 1 wrote meanwhile, was overwritten"]]
    assert third.warnings == []


async def test_a_key_that_is_no_utf_8_spoils_nothing(rig: Rig) -> None:
    """A script may use a lone surrogate in a key; the session goes on, and no place for a cell is lost."""
    await rig.ran(stored("", 1, json_key='"\\ud800"'), stored("fine", 2), DONE)
    for _ in range(3):
        answer = await rig.ran(DONE)
        assert answer.status == "completed"
    assert (rig.host.live, rig.config()["stored"].get("fine", "2")) == (0, "2")


async def test_warnings_about_overwritten_values_are_bounded(rig: Rig) -> None:
    """However many keys two scripts fight over."""
    keys = [stored(f"key {number}", 1) for number in range(5000)]
    first, second = await rig.started(), await rig.started()
    rig.processes[0].send(*keys, DONE)
    rig.processes[1].send(*keys, DONE)
    await rig.session.wait(first)
    assert len((await rig.session.wait(second)).warnings) <= 100


@pytest.mark.parametrize(("letter", "fits"), [("a", 932), ("中", 310)])
def test_the_limit_of_the_store_is_in_bytes(letter: str, fits: int) -> None:
    """Of keys and JSON texts in UTF-8, over all values; what has no room is named and the old value stays."""
    store = StoredValues(1000)
    assert store.merge("1", {"kk": f'"{letter * fits}"'}, 0) == []
    assert len(store.merge("2", {"x": "1"}, 1)) == 1
    assert store.merge("3", {"kk": f'"{letter * (fits - 70)}"', "x": "1"}, 1) == []
    assert sorted(store.values) == ["kk", "x"]


def test_a_deletion_makes_room() -> None:
    """Also one that comes in the same merge."""
    store = StoredValues(164)
    store.merge("1", {"a": '"' + "x" * 90 + '"'}, 0)
    assert (store.merge("2", {"a": None, "b": '"' + "x" * 90 + '"'}, 1), list(store.values)) == ([], ["b"])


def test_keys_that_are_gone_leave_nothing_behind() -> None:
    """A session lives long: scripts that store and delete ever new keys must not fill memory."""
    store = StoredValues(100_000)
    tracemalloc.start()
    try:
        for number in range(1000):
            key = f"{number} {'k' * 5000}"
            store.merge(str(number), {key: "1"}, number * 2)
            store.merge(str(number), {key: None}, number * 2 + 1)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (dict(store.values), held < 1_000_000) == ({}, True)


async def test_many_values_are_merged_in_no_time(rig: Rig) -> None:
    """The merge runs in the event loop: as many keys as fit take less than a moment."""
    loop = asyncio.get_running_loop()
    cell_id = await rig.started()
    rig.processes[-1].send(*[stored(f"k{number}", 1) for number in range(50_000)])
    began = loop.time()
    rig.processes[-1].send(DONE)
    assert ((await rig.session.wait(cell_id)).status, loop.time() - began < 1.0) == ("completed", True)


# What is kept


async def test_what_ended_cells_hold_is_bounded() -> None:
    """Those that ended first are forgotten early when their output takes too much."""
    rig = Rig.of(Limits(max_kept_bytes=1_000_000))
    for _ in range(10):
        await rig.ran((FromCell.TEXT, b"x" * 300_000), DONE)
    assert len(rig.session.cells()) <= 4


async def test_the_input_of_a_call_is_dropped_with_its_end(rig: Rig) -> None:
    """Only its record is kept."""
    answer = await rig.ran((FromCell.CALL, b'1 0 {"a":"' + b"x" * 300_000 + b'"}'), DONE)
    cell = rig.session.cell(answer.cell_id)
    assert isinstance(cell, Cell)
    (call,) = cell.bridge.calls
    assert (call.state, call.text) == ("cancelled", b"")


# The end


async def test_closing_ends_everything_and_answers_everybody(rig: Rig) -> None:
    """Whoever waits gets `terminated`; afterwards the session is not found."""
    cells = [await rig.started() for _ in range(3)]
    waits = [asyncio.ensure_future(rig.session.wait(cell_id, yield_time_ms=60_000)) for cell_id in cells]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await rig.session.close()
    assert [(await wait).status for wait in waits] == ["terminated"] * 3
    assert (rig.host.live, [process.is_over for process in rig.processes]) == (0, [True] * 3)
    for refused in (rig.session.exec("x"), rig.session.wait("1"), rig.session.terminate("1")):
        with pytest.raises(SessionNotFound):
            await refused


async def test_closing_ends_cells_that_wait_for_a_process() -> None:
    """And a process that comes too late is let go."""
    rig = Rig.of()
    rig.host.fake_pool.spares = 0
    pending = asyncio.ensure_future(rig.session.exec("x", yield_time_ms=60_000))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await rig.session.close()
        assert (await pending).status == "terminated"
    assert rig.host.live == 0
