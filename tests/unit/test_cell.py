"""A cell, event by event: what an observer gets, what ends it, and what a hostile process can and cannot do."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode._bundled import bundled
from codemode.cells.cell import Cell
from codemode.cells.observation import Observation
from codemode.cells.waiting import patience
from codemode.errors import CellBusy
from codemode.isolation.wire import FromCell, State, ToCell
from codemode.isolation.zygote_messages import Exit
from codemode.limits import Limits
from codemode.tools.tool import Tool
from tests.unit.cell_doubles import FakeProcess, FakeSession, SetClock, begin, done, thrown

bundled("api")
observed = importlib.import_module("codemode.api.exchange").observed

IDLE_S = 20
LIMITS = Limits(
    idle_ms=IDLE_S * 1000,
    lifetime_ms=100_000,
    max_output_bytes=100_000,
    max_undelivered_bytes=1000,
    max_store_bytes=1000,
    max_tool_calls=3,
)


@dataclass
class Stage:
    """A cell on a process of ours, under a clock of ours."""

    clock: SetClock
    session: FakeSession
    cell: Cell
    process: FakeProcess

    @classmethod
    def of(cls, clock: SetClock, limits: Limits = LIMITS) -> Stage:
        async def make() -> Stage:
            session = FakeSession(limits, tools=[Tool(name="caller")])
            cell = session.cell()
            return cls(clock, session, cell, begin(cell))

        return clock.run(make())

    def observing(self, yield_time_ms: int | None = 5000, **options: Any) -> asyncio.Task[Observation]:
        """A call that has begun and waits."""
        task = self.clock.create_task(self.cell.observe(yield_time_ms, **options))
        self.clock.settle()
        return task

    def seen(self, yield_time_ms: int | None = 0, **options: Any) -> Observation:
        """The answer of a call that need not wait."""
        task = self.observing(yield_time_ms, **options)
        if options.get("terminate"):
            self.clock.pass_time(0.2)
        return task.result()

    def send(self, *frames: tuple[int, bytes]) -> None:
        async def run() -> None:
            self.process.send(*frames)

        self.clock.run(run())
        self.clock.settle()

    def text(self, *texts: str) -> None:
        self.send(*[(FromCell.TEXT, text.encode()) for text in texts])

    def state(self, *, idle: bool, timers: bool = False, delivered: int = 0) -> None:
        self.send((FromCell.STATE, State(idle, timers, delivered, 5000, 100).encode()[5:]))

    def lose(self, status: int | None = None, *, grown: int = 0, said: bool = False) -> None:
        """The process ends by itself; `status` is what its parent says of it."""

        async def run() -> None:
            self.process.lose()
            if status is not None:
                self.process.exit.set_result(Exit(1, status, 0, grown, said))

        self.clock.run(run())
        self.clock.pass_time(1)


@pytest.fixture
def clock() -> Iterator[SetClock]:
    loop = SetClock()
    yield loop
    loop.clear_up()
    assert loop.faults == []


@pytest.fixture
def stage(clock: SetClock) -> Stage:
    return Stage.of(clock)


def texts(observation: Observation) -> list[str]:
    return [item["text"] for item in observation.output]


def failure(observation: Observation) -> tuple[str, str]:
    assert observation.error is not None
    return observation.error.kind, observation.error.message


# Waiting


@pytest.mark.parametrize(
    ("yield_time_ms", "seconds"),
    [
        (None, 10),
        (0, 0),
        (1, 0.001),
        (9_999, 9.999),
        (10_000, 10),
        (10_001, 11.001),
        (60_000, 61),
        (2**53 - 1, 10 * 365 * 86_400),
    ],
)
def test_patience(yield_time_ms: int | None, seconds: float) -> None:
    """10 000 ms by default; a second of grace strictly above that; never more than a timer can hold."""
    assert patience(yield_time_ms) == pytest.approx(seconds)


def test_an_observer_is_answered_when_its_time_is_over(stage: Stage) -> None:
    """With what there is by then, and the cell runs on."""
    waiting = stage.observing(5000)
    stage.text("a")
    stage.clock.pass_time(4.9)
    assert not waiting.done()
    stage.clock.pass_time(0.2)
    assert (texts(waiting.result()), waiting.result().status) == (["a"], "running")


def test_an_observer_is_answered_at_the_end(stage: Stage) -> None:
    """At once, whatever its yield time, with the output up to the end."""
    waiting = stage.observing(60_000)
    stage.send((FromCell.TEXT, b"a"), (FromCell.DONE, done()))
    assert (texts(waiting.result()), waiting.result().status, stage.session.ended) == (["a"], "completed", 1)


def test_a_second_observer_is_refused(stage: Stage) -> None:
    """Also one that would not wait; the first one is not disturbed."""
    waiting = stage.observing()
    for yield_time_ms in (5000, 0):
        assert isinstance(stage.observing(yield_time_ms).exception(), CellBusy)
    assert not waiting.done()


def test_a_second_observer_is_refused_when_it_asks_for_output_again(stage: Stage) -> None:
    """One observer at a time: `after` must not take away what the first one is waiting for."""
    stage.text("a")
    stage.seen()
    waiting = stage.observing()
    stage.text("b")
    assert isinstance(stage.observing(after=0).exception(), CellBusy)
    stage.send((FromCell.DONE, done()))
    assert texts(waiting.result()) == ["b"]


def test_an_observer_that_hangs_up_makes_room_and_takes_nothing_along(stage: Stage) -> None:
    """The next one is taken at once and gets all output."""
    waiting = stage.observing()
    stage.text("a")
    waiting.cancel()
    stage.clock.settle()
    assert texts(stage.seen()) == ["a"]


def test_those_who_share_an_answer_all_get_it(stage: Stage) -> None:
    """One that hangs up does not end it for the others; when the last has gone the place is free."""
    first = stage.observing(is_exec=True)
    joined = [stage.clock.create_task(stage.cell.join()) for _ in range(2)]
    stage.clock.settle()
    first.cancel()
    joined[0].cancel()
    stage.clock.settle()
    assert isinstance(stage.observing().exception(), CellBusy)
    stage.text("a")
    joined[1].cancel()
    stage.clock.settle()
    assert texts(stage.seen()) == ["a"]


def test_an_answer_of_a_wait_is_not_shared(stage: Stage) -> None:
    """A repeated exec wants all output of its cell, and not what a wait on it brings."""
    stage.observing()
    assert stage.clock.run(stage.cell.join()) is None


def test_yield_control_answers_who_observes_and_is_not_remembered(stage: Stage) -> None:
    """With nobody there it does nothing."""
    stage.send((FromCell.YIELD, b""))
    waiting = stage.observing()
    stage.text("a")
    assert not waiting.done()
    stage.send((FromCell.YIELD, b""), (FromCell.TEXT, b"b"), (FromCell.DONE, done()))
    assert (texts(waiting.result()), waiting.result().status, texts(stage.seen())) == (["a"], "running", ["b"])


def test_output_can_be_had_again(stage: Stage) -> None:
    """`after` gives all behind a cursor, on a running cell at once if there is something, and after the end."""
    stage.text("a", "b")
    first = stage.seen()
    again = stage.seen(5000, after=1)
    nothing = stage.observing(5000, after=2)
    assert (first.cursor, texts(again), nothing.done()) == (2, ["b"], False)
    stage.send((FromCell.TEXT, b"c"), (FromCell.DONE, done()))
    at_the_end = [texts(stage.seen(after=cursor)) for cursor in (0, 2, 3, 99)]
    assert (texts(nothing.result()), at_the_end) == (["c"], [["a", "b", "c"], ["c"], [], []])


def test_an_end_that_was_collected_is_answered_again(stage: Stage) -> None:
    """Same status and error, no output, and a warning that says so; `after` is no second collection."""
    stage.send((FromCell.TEXT, b"a"), (FromCell.WARN, b"w"), (FromCell.DONE, thrown()))
    first, second, again = stage.seen(), stage.seen(), stage.seen(after=0)
    assert [(texts(each), each.status, each.warnings, each.error) for each in (first, second, again)] == [
        (["a"], "failed", ["w"], first.error),
        ([], "failed", ["already collected"], first.error),
        (["a"], "failed", ["w"], first.error),
    ]


# Ending it


def test_terminate_asks_for_the_last_output(stage: Stage) -> None:
    """The process has a moment to hand it over; then both who waited and who terminated get it."""
    waiting = stage.observing(60_000)
    stage.text("a")
    ending = stage.observing(terminate=True)
    assert stage.process.got[-1] == (ToCell.STOP, None)
    stage.send((FromCell.TEXT, b"b"), (FromCell.DONE, done("stopped")))
    for answer in (waiting.result(), ending.result()):
        assert (texts(answer), answer.status, answer.error) == (["a", "b"], "terminated", None)


def test_terminate_does_not_depend_on_the_process(stage: Stage) -> None:
    """One that does not obey is killed after a tenth of a second."""
    ending = stage.observing(terminate=True)
    stage.clock.pass_time(0.05)
    assert not ending.done()
    stage.clock.pass_time(0.1)
    assert (ending.result().status, stage.process.was_killed) == ("terminated", True)


def test_terminate_of_a_cell_without_a_process_ends_it_at_once(clock: SetClock) -> None:
    """A process that is leased later is let go unused."""

    async def run() -> tuple[Observation, FakeProcess]:
        cell = FakeSession(LIMITS).cell()
        answer = await cell.observe(terminate=True)
        return answer, begin(cell)

    answer, process = clock.run(run())
    assert (answer.status, process.was_killed, process.got) == ("terminated", True, [])


def test_the_real_end_beats_a_terminate_that_comes_later(stage: Stage) -> None:
    """And a terminate beats a report of the end that comes while the process is being stopped."""
    stage.send((FromCell.DONE, done()))
    assert stage.seen(terminate=True).status == "completed"
    other = Stage.of(stage.clock)
    ending = other.observing(terminate=True)
    other.send((FromCell.DONE, done()))
    assert (ending.result().status, other.session.committed) == ("terminated", [])


@pytest.mark.parametrize(
    ("payload", "kept"),
    [(done(), True), (thrown(), True), (done("failed", "out_of_memory"), False), (done("failed", "deadlock"), False)],
)
def test_stored_values_are_kept_by_scripts_that_ended_themselves(stage: Stage, payload: bytes, kept: bool) -> None:
    """At completion and at a throw; not when a limit ended it."""
    stage.send((FromCell.STORE, b'"a"\n1'), (FromCell.STORE, b'"b"\n'), (FromCell.DONE, payload))
    assert stage.session.committed == ([{"a": "1", "b": None}] if kept else [])


@pytest.mark.parametrize(
    ("status", "grown", "said", "kind", "words"),
    [
        (0, 0, False, "worker_crashed", "it ended by itself"),
        (70 << 8, 0, False, "worker_crashed", "it ended by itself"),
        (9, 0, False, "worker_crashed", "it was ended by SIGKILL"),
        (11 | 0x80, 0, False, "worker_crashed", "it was ended by SIGSEGV"),
        (33, 0, False, "worker_crashed", "it was ended by"),
        (24, 0, False, "cpu_limit", "60000 ms of CPU time"),
        (5, 0, False, "worker_crashed", "it was ended by SIGTRAP"),
        (5, 255 << 20, False, "out_of_memory", "256 MiB"),
        (6, 0, True, "out_of_memory", "256 MiB"),
        (None, 0, False, "worker_crashed", "it ended by itself"),
    ],
)
def test_how_a_process_ended_decides_the_kind(
    stage: Stage, status: int | None, grown: int, said: bool, kind: str, words: str
) -> None:
    """As its parent tells it; if nobody does, after half a second."""
    waiting = stage.observing(60_000)
    stage.text("kept")
    stage.lose(status, grown=grown, said=said)
    told_kind, message = failure(waiting.result())
    assert (texts(waiting.result()), told_kind, words in message) == (["kept"], kind, True)


@pytest.mark.parametrize("wait_for_report", [False, True])
def test_a_cell_that_lost_its_process_can_be_ended_meanwhile(stage: Stage, wait_for_report: bool) -> None:
    """Before it is known how the process ended: one answer, and nothing breaks when the report comes."""

    async def lose() -> asyncio.Task[Observation]:
        stage.process.lose()
        if wait_for_report:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return asyncio.ensure_future(stage.cell.observe(terminate=True))

    ending = stage.clock.run(lose())
    stage.clock.pass_time(1)
    assert (ending.result().status, stage.session.ended) == ("terminated", 1)


# Limits


def test_too_much_output_ends_it(stage: Stage) -> None:
    """Text, images and notifications count together; what came before is kept."""
    waiting = stage.observing()
    item = json.dumps({"type": "image", "image_url": "data:image/png;base64," + "A" * 30_000, "detail": None}).encode()
    stage.send(
        (FromCell.TEXT, b"x" * 30_000),
        (FromCell.ITEM, item),
        (FromCell.NOTIFY, b"x" * 30_000),
        (FromCell.TEXT, b"y" * 30_000),
    )
    stage.clock.pass_time(0.2)
    kind, message = failure(waiting.result())
    assert (kind, "100000 bytes of output" in message, len(waiting.result().output)) == ("output_limit", True, 3)


def test_a_flood_of_empty_items_is_bounded(stage: Stage) -> None:
    """Each costs something, though it holds nothing."""
    stage.send(*[(FromCell.TEXT, b"")] * 2000)
    stage.clock.pass_time(0.2)
    assert failure(stage.seen())[0] == "output_limit"


def test_output_after_the_decision_is_bounded_too(stage: Stage) -> None:
    """A process that is being stopped, or that has reported its end, cannot fill the service's memory."""
    stage.observing(terminate=True)
    for _ in range(50):
        stage.send((FromCell.TEXT, b"x" * 10_000))
    stage.clock.pass_time(0.2)
    assert stage.cell.output.total_bytes <= 3 * LIMITS.max_output_bytes


def test_too_many_calls_end_it(stage: Stage) -> None:
    """One more than allowed; the others are cancelled."""
    stage.send(*[(FromCell.CALL, b"%d 0 {}" % number) for number in range(1, 5)])
    stage.clock.pass_time(0.2)
    answer = stage.seen()
    assert (failure(answer)[0], answer.tool_calls.cancelled, answer.safe_to_retry) == ("tool_call_limit", 3, False)


def test_the_lifetime_ends_it_whoever_waits(stage: Stage) -> None:
    """With its own words."""
    waiting = stage.observing(2**53 - 1)
    stage.clock.pass_time(101)
    stage.clock.pass_time(0.2)
    assert failure(waiting.result()) == ("deadline", "the cell ran longer than 100000 ms")


def test_a_cell_nobody_waits_for_is_ended(stage: Stage) -> None:
    """After `idle_ms` from its start, or from the last time somebody waited."""
    stage.clock.pass_time(IDLE_S - 1)
    stage.observing(5000)
    stage.clock.pass_time(5.1)
    stage.clock.pass_time(IDLE_S - 1)
    assert stage.cell.outcome is None
    stage.clock.pass_time(1.5)
    assert failure(stage.seen()) == ("deadline", f"nobody waited for the cell for {IDLE_S * 1000} ms")


def test_a_cell_that_is_waited_for_is_not_idle(stage: Stage) -> None:
    """However long."""
    stage.observing(80_000)
    stage.clock.pass_time(4 * IDLE_S - 2)
    assert stage.cell.outcome is None


@pytest.mark.parametrize("options", [{"yield_time_ms": 0}, {"after": 0}])
def test_somebody_who_only_looks_in_keeps_it_alive(stage: Stage, options: dict[str, Any]) -> None:
    """A caller that polls with a yield time of 0, or gets old output at once, has not left the cell alone."""
    stage.text("a")
    for _ in range(3):
        stage.clock.pass_time(IDLE_S - 2)
        assert stage.seen(**options).status == "running"


def test_a_script_that_writes_faster_than_anybody_reads_waits(stage: Stage) -> None:
    """Its process is read no more until somebody waits."""
    stage.text("x" * 2000)
    assert stage.process.is_paused
    stage.observing()
    assert not stage.process.is_paused
    stage.text("x" * 2000)
    assert not stage.process.is_paused


@pytest.mark.parametrize("options", [{"yield_time_ms": 0}, {"after": 0}])
def test_somebody_who_only_looks_in_reads_as_well(stage: Stage, options: dict[str, Any]) -> None:
    """What was handed over is no longer undelivered, so the script may go on; else polling would wait for ever."""
    stage.text("x" * 2000)
    stage.seen(**options)
    assert not stage.process.is_paused


# Client calls


def call(stage: Stage, number: int, text: bytes = b"{}") -> None:
    stage.send((FromCell.CALL, b"%d 0 %b" % (number, text)))


def test_a_client_call_answers_early_once(stage: Stage) -> None:
    """When the script can do nothing more without it; it stands in every answer until its result is in."""
    waiting = stage.observing()
    call(stage, 1, b'{"a":1}')
    assert not waiting.done()
    stage.state(idle=True)
    (pending,) = waiting.result().pending_tool_calls
    assert (pending.runtime_tool_call_id, pending.tool_name, pending.input) == ("call-1", "caller", {"a": 1})
    again = stage.observing()
    assert not again.done()
    stage.clock.pass_time(5.1)
    assert [each.runtime_tool_call_id for each in again.result().pending_tool_calls] == ["call-1"]


@pytest.mark.parametrize("state", [{"idle": False}, {"idle": True, "timers": True}])
def test_no_early_answer_while_the_script_can_go_on(stage: Stage, state: dict[str, Any]) -> None:
    """It is busy or has a timer."""
    waiting = stage.observing()
    call(stage, 1)
    stage.state(**state)
    assert not waiting.done()


def test_no_early_answer_while_a_result_is_under_way(stage: Stage) -> None:
    """The call that was refused at once counts as resolved; the script has not heard of it yet."""
    waiting = stage.observing()
    call(stage, 1, b"no JSON")
    call(stage, 2)
    stage.state(idle=True)
    assert not waiting.done()
    stage.state(idle=True, delivered=1)
    assert waiting.done()


def test_an_observer_that_comes_later_is_answered_at_once(stage: Stage) -> None:
    """A call that nobody was told of is told of to the first who asks."""
    call(stage, 1)
    stage.state(idle=True)
    assert len(stage.seen(60_000).pending_tool_calls) == 1


# A hostile process


def encoded(observation: Observation) -> Any:
    """What goes out over HTTP, as a strict reader reads it."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(observed(observation).body, parse_constant=refuse)


BREACHES: list[tuple[int, bytes]] = [
    (0, b""),
    (12, b""),
    (255, b"x" * 1000),
    (FromCell.READY, b""),
    (9, b"{}"),
    (FromCell.STATE, b""),
    (FromCell.STATE, b"x" * 1000),
    (FromCell.ITEM, b""),
    (FromCell.ITEM, b"{"),
    (FromCell.ITEM, b"[]"),
    (FromCell.ITEM, b'"image"'),
    (FromCell.ITEM, b"[" * 100_000),
    (FromCell.ITEM, b"1" * 5000),
    (FromCell.ITEM, b'{"type":"image"}'),
    (FromCell.ITEM, b'{"type":"image","image_url":"u","detail":5}'),
    (FromCell.ITEM, b'{"type":"video","image_url":"u","detail":null}'),
    (FromCell.ITEM, b'{"type":"audio","audio_url":null}'),
    (FromCell.ITEM, b"\xff\xfe"),
    (FromCell.STORE, b""),
    (FromCell.STORE, b"key\n1"),
    (FromCell.STORE, b"null\n1"),
    (FromCell.STORE, b'["a"]\n1'),
    (FromCell.STORE, b"[" * 100_000),
    (FromCell.CALL, b""),
    (FromCell.CALL, b"1"),
    (FromCell.CALL, b"1 "),
    (FromCell.CALL, b"0 0 {}"),
    (FromCell.CALL, b"2 0 {}"),
    (FromCell.CALL, b"-1 0 {}"),
    (FromCell.CALL, b"1.0 0 {}"),
    (FromCell.CALL, b"01 0 {}"),
    (FromCell.CALL, b"1 1 {}"),
    (FromCell.CALL, b"1 -1 {}"),
    (FromCell.CALL, b"1 " + b"9" * 5000 + b" {}"),
    (FromCell.CALL, "١ 0 {}".encode()),
    (FromCell.DONE, b""),
    (FromCell.DONE, b"{"),
    (FromCell.DONE, b"null"),
    (FromCell.DONE, b"[" * 100_000),
    (FromCell.DONE, b"{}"),
    (FromCell.DONE, b'{"status":"completed"}'),
    (FromCell.DONE, b'{"status":"completed","kind":null,"timers":"x"}'),
    (FromCell.DONE, b'{"status":"completed","kind":null,"timers":[]}'),
    (FromCell.DONE, b'{"status":"completed","kind":null,"timers":Infinity}'),
    (FromCell.DONE, b'{"status":"completed","kind":null,"timers":NaN}'),
    (FromCell.DONE, b'{"status":"stopped","kind":null}'),
    (FromCell.DONE, b'{"status":"running","kind":null}'),
    (FromCell.DONE, b'{"status":"failed","kind":null}'),
    (FromCell.DONE, b'{"status":"failed","kind":["script_error"]}'),
    (FromCell.DONE, b'{"status":"failed","kind":"script_error"}'),
    (FromCell.DONE, b'{"status":"failed","kind":"script_error","error":[]}'),
    (FromCell.DONE, done("failed", "script_error", error={"name": "Error", "message": 5, "text": "x"})),
    (FromCell.DONE, thrown(text=None)),
    (FromCell.DONE, thrown(name=5)),
    (FromCell.DONE, thrown(line="1")),
    (FromCell.DONE, thrown(line=1.5)),
    (FromCell.DONE, thrown(column=[])),
]


@pytest.mark.parametrize("frame", BREACHES, ids=lambda frame: f"{frame[0]} {frame[1][:30]!r}")
def test_a_breach_ends_that_cell_as_crashed(stage: Stage, frame: tuple[int, bytes]) -> None:
    """With what it had put out before; the process is killed, nothing is stored, and nothing else happens."""
    other = Stage.of(stage.clock)
    waiting = stage.observing()
    stage.send((FromCell.TEXT, b"before"), (FromCell.STORE, b'"a"\n1'), frame)
    stage.clock.pass_time(1)
    kind, message = failure(waiting.result())
    assert (texts(waiting.result()), kind, "broke the protocol" in message) == (["before"], "worker_crashed", True)
    assert (stage.process.was_killed, stage.session.committed, stage.session.ended) == (True, [], 1)
    encoded(waiting.result())
    other.send((FromCell.DONE, done()))
    assert other.seen().status == "completed"


@given(
    st.integers(0, 12),
    st.binary(max_size=60)
    | st.recursive(st.none() | st.integers() | st.text(max_size=4), st.lists).map(
        lambda value: json.dumps(value).encode()
    ),
)
def test_any_frame_leaves_a_cell_that_can_be_observed(kind: int, payload: bytes) -> None:
    """Whatever it is, the cell runs or has ended, and its answer can be sent."""
    clock = SetClock()
    try:
        stage = Stage.of(clock)
        stage.send((kind, payload))
        encoded(stage.seen())
        assert encoded(stage.seen(terminate=True))["status"] in ("completed", "failed", "terminated")
    finally:
        clock.clear_up()
    assert clock.faults == []


def test_nothing_counts_after_the_end(stage: Stage) -> None:
    """Frames behind the report of the end, another report among them, change nothing."""
    stage.send(
        (FromCell.DONE, done()), (FromCell.TEXT, b"late"), (FromCell.STORE, b'"a"\n1'), (FromCell.DONE, thrown())
    )
    answer = stage.seen()
    assert (answer.status, answer.output, answer.error, stage.session.committed) == ("completed", [], None, [{}])


@pytest.mark.parametrize(
    "frames",
    [
        [(FromCell.DONE, thrown(text="Error: \ud83d"))],
        [(FromCell.DONE, thrown(message="\ud83d"))],
        [(FromCell.DONE, thrown(name="\udfff"))],
        [(FromCell.DONE, done("failed", "out_of_memory", message="\ud800"))],
        [(FromCell.DONE, done("failed", "worker_crashed", message="\ud800"))],
        [(FromCell.DONE, thrown(line=10**400, column=-(10**400)))],
        [(FromCell.DONE, thrown(line=True))],
        [(FromCell.ITEM, b'{"type":"image","image_url":"data:image/\\ud800","detail":"\\ud800"}')],
        [(FromCell.ITEM, b'{"type":"audio","audio_url":"\\udfff"}')],
        [(FromCell.TEXT, b"\xff\xed\xa0\x80")],
        [(FromCell.NOTIFY, b"\xff\xed\xa0\x80")],
        [(FromCell.WARN, b"\xff"), (FromCell.DONE, done())],
        [(FromCell.CALL, b'1 0 {"a":"\\ud83d"}')],
        [(FromCell.CALL, b'1 0 {"\\ud83d":1}')],
        [(FromCell.CALL, b'1 0 {"a":NaN,"b":[-Infinity,1e999]}')],
        [(FromCell.STORE, b'"\\ud800"\n1'), (FromCell.DONE, done())],
    ],
    ids=lambda frames: f"{frames[0][0]} {frames[0][1][:44]!r}",
)
def test_every_answer_can_be_sent(stage: Stage, frames: list[tuple[int, bytes]]) -> None:
    """Lone surrogates and odd numbers come from scripts as well as from a hostile process; an answer is strict JSON."""
    waiting = stage.observing(5000)
    stage.send(*frames)
    stage.clock.pass_time(6)
    assert encoded(waiting.result())["cell_id"] == "1"
    assert encoded(stage.seen(after=0))["cell_id"] == "1"
    assert encoded(stage.seen(terminate=True))["status"] in ("completed", "failed", "terminated")


def test_warnings_are_bounded(stage: Stage) -> None:
    """In number and in length: a flood of them cannot fill memory or answers."""
    stage.send(*[(FromCell.WARN, b"w" * 100_000)] * 200, (FromCell.DONE, done()))
    warnings = stage.seen().warnings
    assert (len(warnings) <= 64, sum(map(len, warnings)) <= 200_000) == (True, True)


@pytest.mark.parametrize("delete", [False, True])
def test_what_is_stored_is_bounded(stage: Stage, delete: bool) -> None:
    """Also what was deleted again, and also by a process that does not keep to the limit of the store."""
    for number in range(500):
        key = f'"{number}{"k" * 10_000}"'.encode()
        stage.send((FromCell.STORE, key + b"\n1"))
        if delete:
            stage.send((FromCell.STORE, key + b"\n"))
    held = sum(len(key) + len(value or "") for key, value in stage.cell.stored.items())
    assert held <= 2_000_000  # of five million that were sent; the limit of the store is 1000


def test_a_long_error_is_bounded(stage: Stage) -> None:
    """Its text for the model, and what the answer holds of it."""
    stage.send((FromCell.DONE, thrown("m" * 5_000_000, text="t" * 5_000_000)))
    answer = stage.seen()
    assert (len(observed(answer).body) < 1_000_000, failure(answer)[0]) == (True, "script_error")
