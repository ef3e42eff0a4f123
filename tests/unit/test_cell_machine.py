"""A cell through random orders of all that can happen to it, against what the contract says of any order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from codemode.cells.observation import Observation
from codemode.cells.outcome import Outcome
from codemode.errors import CellBusy
from codemode.isolation.wire import FromCell, ToCell
from codemode.isolation.zygote_messages import Exit
from codemode.limits import Limits
from codemode.tools.tool import PythonHandler, Tool
from tests.unit.cell_doubles import FakeProcess, FakeSession, SetClock, begin, done, thrown

IDLE_S, LIFETIME_S = 20.0, 100.0
LIMITS = Limits(
    idle_ms=int(IDLE_S * 1000),
    lifetime_ms=int(LIFETIME_S * 1000),
    max_output_bytes=3000,
    max_undelivered_bytes=600,
    max_tool_calls=4,
    max_in_flight=2,
)
rarely = st.integers(0, 4).map(lambda number: number == 0)  # so that a cell lives for a while
BREACHES = [
    (0, b""),
    (12, b"x"),
    (255, b"\xff"),
    (FromCell.READY, b""),
    (FromCell.ITEM, b"{"),
    (FromCell.ITEM, b'{"type":"image","image_url":5,"detail":null}'),
    (FromCell.STATE, b"short"),
    (FromCell.STORE, b"no key"),
    (FromCell.STORE, b"5\n1"),
    (FromCell.CALL, b"99 0 {}"),
    (FromCell.CALL, b"1 7 {}"),
    (FromCell.CALL, b""),
    (FromCell.DONE, b"[]"),
    (FromCell.DONE, b'{"status":"failed","kind":"nonsense"}'),
    (FromCell.DONE, b'{"status":"stopped","kind":null}'),
]


@dataclass
class Pending:
    """A call on the cell that has no answer yet."""

    task: asyncio.Task[Observation]
    after: int | None  # what its output has to begin behind; None: behind what was taken
    seen: bool = False


class CellMachine(RuleBasedStateMachine):
    """The rules are what clients, the process, the clock and the service may do, in any order."""

    @initialize(begins=st.booleans())
    def start(self, begins: bool) -> None:
        self.loop = SetClock()
        self.gates: list[asyncio.Event] = []
        self.written: list[str] = []
        self.stored: dict[str, str | None] = {}
        self.taken = 0
        self.cursor = 0
        self.pending: list[Pending] = []
        self.outcomes: list[Outcome] = []
        self.process: FakeProcess | None = None
        self.freed = self.contact = self.loop.time()
        with self.settled():
            self.loop.run(self.make())
            if begins:
                self.begin()

    async def make(self) -> None:
        async def wait_for_gate(_: object) -> str:
            gate = asyncio.Event()
            self.gates.append(gate)
            await gate.wait()
            return "well"

        host = Tool(name="host", handler=PythonHandler(run=wait_for_gate, is_async=True))
        self.session = FakeSession(LIMITS, tools=[Tool(name="caller"), host])
        self.cell = self.session.cell()

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Whatever is done within is followed by all that follows from it."""
        yield
        self.loop.settle()
        self.look()

    # What is seen of it

    @property
    def is_running(self) -> bool:
        return self.cell.outcome is None

    def look(self) -> None:
        """Take note of the answers and of the decision."""
        outcome = self.cell.outcome
        if outcome is not None and (not self.outcomes or self.outcomes[-1] is not outcome):
            self.outcomes.append(outcome)
        for each in sorted(self.pending, key=lambda each: each.after is not None):  # who waited took what was new
            if each.task.done():
                self.pending.remove(each)
                if not each.task.cancelled():
                    self.check(each)

    def check(self, answered: Pending) -> None:
        observation = answered.task.result()
        start = self.taken if answered.after is None else answered.after
        assert [item["text"] for item in observation.output] == self.written[start : observation.cursor]
        assert self.cursor <= observation.cursor <= len(self.written)
        assert (observation.error is not None) == (observation.status == "failed")
        assert (observation.safe_to_retry is None) == (observation.status in ("running", "completed"))
        self.cursor = observation.cursor
        self.taken = max(self.taken, observation.cursor)

    # The rules

    @precondition(lambda self: self.process is None)
    @rule()
    def begin(self) -> None:
        """A process was leased, perhaps after the end."""

        async def lease() -> FakeProcess:
            return begin(self.cell)

        was_over = self.cell.outcome is not None
        with self.settled():
            self.process = self.loop.run(lease())
        assert self.process.was_killed == was_over

    @property
    def speaks(self) -> bool:
        return self.process is not None and self.process.owner is not None and not self.process.is_lost

    @precondition(lambda self: self.speaks and not self.process.is_paused)
    @rule(length=st.integers(1, 900))
    def text(self, length: int) -> None:
        text = f"{len(self.written)}:".ljust(length, "x")
        assert self.process is not None
        with self.settled():
            self.written.append(text)
            self.call_soon(lambda: self.process.text(text))

    def call_soon(self, work: object) -> None:
        """As the event loop calls: within it, not from outside."""

        async def run() -> None:
            work()  # type: ignore[operator]

        self.loop.run(run())

    @precondition(lambda self: self.speaks)
    @rule(idle=st.booleans(), timers=st.booleans())
    def state(self, idle: bool, timers: bool) -> None:
        assert self.process is not None
        resolved = self.cell.bridge.resolved
        with self.settled():
            self.call_soon(lambda: self.process.state(idle=idle, timers=timers, delivered=resolved))

    @precondition(lambda self: self.speaks)
    @rule(tool=st.integers(0, 1))
    def nested_call(self, tool: int) -> None:
        assert self.process is not None
        number = len(self.cell.bridge.calls) + 1
        with self.settled():
            self.call_soon(lambda: self.process.send((FromCell.CALL, b"%d %d {}" % (number, tool))))

    @precondition(lambda self: self.speaks)
    @rule(key=st.sampled_from("ab"), value=st.sampled_from(["", "1", "2"]))
    def store(self, key: str, value: str) -> None:
        assert self.process is not None
        if self.is_running:
            self.stored[key] = value or None
        with self.settled():
            self.call_soon(lambda: self.process.send((FromCell.STORE, f'"{key}"\n{value}'.encode())))

    @precondition(lambda self: self.speaks)
    @rule()
    def yield_control(self) -> None:
        assert self.process is not None
        with self.settled():
            self.call_soon(lambda: self.process.send((FromCell.YIELD, b"")))
        assert not any(each.after is None for each in self.pending) or not self.is_running

    @precondition(lambda self: self.speaks)
    @rule(
        ends=rarely,
        payload=st.sampled_from([done(), thrown(), done("failed", "out_of_memory"), done("failed", "deadlock")]),
    )
    def report_the_end(self, ends: bool, payload: bytes) -> None:
        assert self.process is not None
        if not ends:
            return
        with self.settled():
            self.call_soon(lambda: self.process.send((FromCell.DONE, payload), (FromCell.DONE, payload)))
        assert self.cell.ended is not None

    @precondition(lambda self: self.speaks)
    @rule(ends=rarely, breach=st.sampled_from(BREACHES))
    def break_the_protocol(self, ends: bool, breach: tuple[int, bytes]) -> None:
        assert self.process is not None
        if not ends:
            return
        was_running = self.is_running
        with self.settled():
            self.call_soon(lambda: self.process.send(breach))
        if was_running and self.outcomes:
            error = self.outcomes[0].error
            assert error is not None
            assert (error.kind, "broke the protocol" in error.message) == ("worker_crashed", True)
        assert not was_running or self.outcomes

    @precondition(lambda self: self.speaks)
    @rule(ends=rarely, reported=st.booleans(), status=st.sampled_from([0, 9, 5]))
    def lose_the_process(self, ends: bool, reported: bool, status: int) -> None:
        assert self.process is not None
        if not ends:
            return
        with self.settled():
            self.call_soon(self.process.lose)
            if reported:
                self.call_soon(lambda: self.process.exit.set_result(Exit(1, status, 0, 0, False)))

    @rule(yield_ms=st.sampled_from([1, 5_000, 10_001, 60_000]))
    def wait(self, yield_ms: int) -> None:
        self.observe(yield_ms, None)

    @precondition(lambda self: self.cell.ended is not None or self.cell.output.cursor > 0)
    @rule(share=st.floats(0, 0.99))
    def wait_again(self, share: float) -> None:
        """For output that there is; it answers at once, and is left out while another waits."""
        if not self.pending:
            self.contact = self.loop.time()
            self.observe(5_000, int(share * self.cell.output.cursor))

    def observe(self, yield_ms: int, after: int | None) -> None:
        is_taken = any(each.after is None for each in self.pending)
        with self.settled():
            task = self.loop.create_task(self.cell.observe(yield_ms, after=after))
            self.loop.settle()
            if is_taken and self.cell.ended is None:
                assert isinstance(task.exception(), CellBusy)
            else:
                self.pending.append(Pending(task, after))
                task.add_done_callback(self.left)

    def left(self, _: object) -> None:
        """Somebody who waited does so no more, at this moment."""
        self.freed = self.contact = self.loop.time()

    @rule(ends=rarely)
    def terminate(self, ends: bool) -> None:
        if not ends:
            return
        with self.settled():
            waits = self.cell.ended is None
            after = self.taken if waits else None
            task = self.loop.create_task(self.cell.observe(terminate=True))
            self.pending.append(Pending(task, after))

    @rule(ends=rarely)
    def reach_a_limit(self, ends: bool) -> None:
        if ends:
            with self.settled():
                self.call_soon(lambda: self.cell.fail("output_limit"))

    @precondition(lambda self: self.pending)
    @rule(which=st.integers(0, 10))
    def hang_up(self, which: int) -> None:
        """A client goes away; the place is free at once and no output is gone."""
        with self.settled():
            self.pending[which % len(self.pending)].task.cancel()

    @rule()
    def answer_now(self) -> None:
        with self.settled():
            self.call_soon(self.cell.answer_now)
        assert not any(each.after is None for each in self.pending) or not self.is_running

    @precondition(lambda self: self.cell.bridge.client_calls.pending())
    @rule(well=st.booleans())
    def result_of_the_caller(self, well: bool) -> None:
        call = self.cell.bridge.client_calls.pending()[0]
        with self.settled():
            self.call_soon(lambda: self.cell.bridge.resolve(call, **({"output": 1} if well else {"error": "no"})))

    @precondition(lambda self: self.gates)
    @rule()
    def result_of_the_host(self) -> None:
        with self.settled():
            self.gates.pop(0).set()

    @rule(seconds=st.sampled_from([0.01, 0.2, 1.0, 6.0, 12.0, IDLE_S, 1.1 * IDLE_S]))
    def time_passes(self, seconds: float) -> None:
        was_running = self.is_running
        waited = bool(self.pending)
        idle_since, contact = self.freed, self.contact
        with self.settled():
            self.loop.pass_time(seconds)
        if not was_running or waited:
            return
        error = self.outcomes[0].error if self.outcomes else None
        is_idle_end = error is not None and error.kind == "deadline" and "nobody waited" in error.message
        if self.loop.time() - contact >= IDLE_S + 0.1:
            assert self.outcomes
        if is_idle_end:
            assert self.loop.time() - idle_since >= IDLE_S

    # What always holds

    @invariant()
    def the_end_is_decided_once(self) -> None:
        if hasattr(self, "outcomes"):
            assert len(self.outcomes) <= 1
            assert (self.cell.status == "running") == (self.cell.ended is None)
            if self.cell.ended is not None:
                assert self.cell.status == self.outcomes[0].status

    @invariant()
    def everybody_is_answered_at_the_end(self) -> None:
        if hasattr(self, "cell") and self.cell.ended is not None:
            assert self.pending == []
            assert self.session.ended == 1
            kept = self.outcomes[0].keeps_store
            assert self.session.committed == ([self.stored] if kept else [])
            assert self.process is None or self.process.is_over

    @invariant()
    def one_place_for_one_observer(self) -> None:
        if not hasattr(self, "cell"):
            return
        waiting = [each for each in self.pending if each.after is None]
        assert len(waiting) <= 1
        try:
            self.cell.check_observable()
        except CellBusy:
            assert waiting
        else:
            assert not waiting or not self.is_running

    @invariant()
    def a_script_waits_for_a_reader_only_when_it_has_written_much(self) -> None:
        if not hasattr(self, "cell") or self.process is None or not self.is_running or not self.speaks:
            return
        waiting = sum(len(text) + 64 for text in self.written[self.taken :])
        somebody = any(each.after is None for each in self.pending)
        if somebody:
            assert not self.process.is_paused
        elif waiting > LIMITS.max_undelivered_bytes:
            assert self.process.is_paused

    @invariant()
    def calls_are_counted(self) -> None:
        if hasattr(self, "cell"):
            bridge = self.cell.bridge
            assert sum(bridge.counts.values()) == len(bridge.calls) <= LIMITS.max_tool_calls
            assert bridge.counts["in_flight"] <= LIMITS.max_in_flight
            if self.outcomes:
                assert bridge.counts["in_flight"] == bridge.counts["queued"] == 0

    @invariant()
    def results_reach_the_script_once(self) -> None:
        if hasattr(self, "process") and self.process is not None:
            told = [what[0] for kind, what in self.process.got if kind == ToCell.RESULT]
            assert len(told) == len(set(told))

    def teardown(self) -> None:
        """Whatever happened, it can be ended, and nothing is left over: no task, no exception that nobody saw."""
        if hasattr(self, "loop"):
            try:
                self.end_it()
            finally:
                self.loop.clear_up()

    def end_it(self) -> None:
        after = self.taken if self.cell.ended is None else None
        with self.settled():
            self.pending.append(Pending(self.loop.create_task(self.cell.observe(terminate=True)), after))
        with self.settled():
            self.loop.pass_time(1)
        assert self.cell.ended is not None
        self.everybody_is_answered_at_the_end()
        assert (self.loop.faults, asyncio.all_tasks(self.loop)) == ([], set())


CellMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40)
TestCell = pytest.mark.timeout(60)(CellMachine.TestCase)
