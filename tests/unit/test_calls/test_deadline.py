"""Deadlines: a timeout, a cancellation, and time that stands still; against a model, on a clock that is set."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from codemode.cells.deadlines import Deadlines
from codemode.lifecycle.deadline import Deadline, DeadlineEnded
from tests.unit.cell_doubles import SetClock


class DeadlineMachine(RuleBasedStateMachine):
    """What a deadline says, and when, after any sequence of what may be done to it."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SetClock()
        asyncio.set_event_loop(self.clock)
        self.ends: list[str] = []
        self.end: str | None = None
        self.closed = False
        self.pauses = 0

    @initialize(milliseconds=st.one_of(st.none(), st.integers(0, 50).map(lambda n: n * 10)))
    def make(self, milliseconds: int | None) -> None:
        self.left = milliseconds

        async def made() -> Deadline:
            return Deadline(milliseconds, self.ends.append)

        self.deadline = self.clock.run(made())
        self.waits = self.clock.create_task(self.deadline.wait())
        self.pass_time(0)

    @rule(milliseconds=st.integers(0, 20).map(lambda n: n * 10))
    def pass_time(self, milliseconds: int) -> None:
        self.clock.now += milliseconds / 1000
        self.clock.settle()
        if self.left is not None and not self.pauses and not self.closed and self.end is None:
            self.left -= milliseconds
            if self.left <= 0:
                self.end = "timed_out"

    @rule(milliseconds=st.integers(1, 20).map(lambda n: n * 10))
    def pause_at_the_last_moment(self, milliseconds: int) -> None:
        """When its time has run out already, and the loop has not come to it yet."""
        self.clock.now += milliseconds / 1000
        if self.left is not None and not self.pauses and not self.closed and self.end is None:
            self.left = max(0, self.left - milliseconds)
        self.pause()

    @rule()
    def pause(self) -> None:
        self._do(self.deadline.pause)
        self.pauses += 1

    @precondition(lambda self: self.pauses)
    @rule()
    def resume(self) -> None:
        self._do(self.deadline.resume)
        self.pauses -= 1
        self.pass_time(0)

    @rule()
    def cancel(self) -> None:
        self._do(self.deadline.cancel)
        if self.end is None and not self.closed:
            self.end = "cancelled"
        self.clock.settle()

    @rule()
    def close(self) -> None:
        self._do(self.deadline.close)
        self.closed = True

    @invariant()
    def it_has_ended_as_it_should(self) -> None:
        if not hasattr(self, "deadline"):
            return
        assert self.deadline.end == self.end
        assert self.ends == ([] if self.end is None else [self.end])
        assert self.waits.done() == (self.end is not None)

    def _do(self, what: Any) -> None:
        async def done() -> None:
            what()

        self.clock.run(done())

    def teardown(self) -> None:
        faults = self.clock.faults
        self.clock.clear_up()
        asyncio.set_event_loop(None)
        assert faults == []


TestDeadline = DeadlineMachine.TestCase
TestDeadline.settings = settings(max_examples=100, stateful_step_count=20)


@pytest.fixture
def clock() -> Iterator[SetClock]:
    clock = SetClock()
    yield clock
    faults = clock.faults
    clock.clear_up()
    assert faults == []


async def _sleep(seconds: float, result: Any = "done") -> Any:
    await asyncio.sleep(seconds)
    return result


async def _fail(seconds: float) -> None:
    await asyncio.sleep(seconds)
    raise ValueError("x")


def test_work_that_is_over_in_time_gives_its_result(clock: SetClock) -> None:
    """And its error; nothing is left that could end later."""

    async def results() -> list[Any]:
        ended: list[str] = []
        found = [await Deadline(1000, ended.append).over(_sleep(0, None)), await Deadline(None).over(_sleep(0))]
        with pytest.raises(ValueError, match="x"):
            await Deadline(1000, ended.append).over(_fail(0))
        return [*found, ended]

    assert clock.run(results()) == [None, "done", []]
    clock.pass_time(5)


def test_work_that_is_not_over_in_time_is_cancelled(clock: SetClock) -> None:
    """The error says how it ended."""
    stopped: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            stopped.append(True)

    async def over(end: str) -> str:
        deadline = Deadline(1000)
        if end == "cancelled":
            asyncio.get_running_loop().call_later(0.5, deadline.cancel)
        try:
            await deadline.over(work())
        except DeadlineEnded as ended:
            return ended.end
        return "not at all"

    tasks = [clock.create_task(over(end)) for end in ("timed_out", "cancelled")]
    clock.pass_time(2)
    assert ([task.result() for task in tasks], stopped) == (["timed_out", "cancelled"], [True, True])


def test_whoever_waits_for_work_may_go(clock: SetClock) -> None:
    """The work goes with them."""
    stopped: list[bool] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            stopped.append(True)

    async def over() -> None:
        await Deadline(5000).over(work())

    task = clock.create_task(over())
    clock.settle()
    task.cancel()
    clock.settle()
    assert (task.cancelled(), stopped) == (True, [True])


def test_time_that_stands_still_is_nobodys(clock: SetClock) -> None:
    """Of several pauses the last `resume` counts."""
    ends: list[str] = []

    async def made() -> Deadline:
        return Deadline(1000, ends.append)

    deadline = clock.run(made())

    async def do(*names: str) -> None:
        for name in names:
            getattr(deadline, name)()

    clock.pass_time(0.9)
    clock.run(do("pause", "pause"))
    clock.pass_time(100)
    clock.run(do("resume"))
    clock.pass_time(100)
    clock.run(do("resume"))
    clock.pass_time(0.05)
    assert ends == []
    clock.pass_time(0.1)
    assert ends == ["timed_out"]


def test_work_that_fails_when_it_is_cancelled_is_no_fault_of_ours(clock: SetClock) -> None:
    """Nobody takes its error, and nothing is said of it."""

    async def work() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            raise ValueError("in the cleaning up")

    async def over() -> None:
        with pytest.raises(DeadlineEnded):
            await Deadline(1000).over(work())

    task = clock.create_task(over())
    clock.pass_time(2)
    task.result()
    faults, clock.faults = clock.faults, []
    assert faults == []


def test_a_deadline_of_a_cell_that_is_set_anew_while_a_person_is_asked(clock: SetClock) -> None:
    """Stands still as the old one did; that of a stop does not."""
    ends: list[str] = []
    deadlines = Deadlines()

    async def do(what: Any, *arguments: Any) -> None:
        what(*arguments)

    def set_(name: Any, milliseconds: float) -> None:
        deadlines.set(name, milliseconds, lambda: ends.append(f"{name} {milliseconds}"))

    for step in (
        (set_, "lifetime", 1000),
        (set_, "idle", 500),
        (deadlines.stand_still, True),
        (deadlines.stand_still, True),
    ):
        clock.run(do(*step))
    for step in ((set_, "idle", 700), (set_, "stop", 100)):
        clock.run(do(*step))
    clock.pass_time(10)
    assert ends == ["stop 100"]
    clock.run(do(deadlines.stand_still, False))
    clock.pass_time(10)
    assert ends == ["stop 100"]
    clock.run(do(deadlines.stand_still, False))
    clock.pass_time(0.8)
    assert ends == ["stop 100", "idle 700"]
    clock.run(do(deadlines.cancel_all))
    clock.run(do(deadlines.stand_still, True))
    clock.run(do(deadlines.stand_still, False))
    clock.pass_time(10)
    assert ends == ["stop 100", "idle 700"]
