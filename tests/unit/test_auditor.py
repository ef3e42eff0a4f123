"""The auditor finds nothing in what the service may tell, and each fault that is put into it."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codemode.lifecycle import pairing
from codemode.lifecycle.auditor import LifecycleAuditor
from codemode.lifecycle.findings import MOST_FINDINGS, Finding
from codemode.lifecycle.hook_auditor import HookAuditor
from tests.unit.histories import SESSION, Event, Writer, history, renumbered, with_gap
from tests.unit.history_faults import FAULTS, Fault, dropped, repeated, swapped

seeds = st.integers(0, 2**64 - 1).map(Random)


def audited(events: list[Any], *, from_start: bool = True) -> LifecycleAuditor:
    auditor = LifecycleAuditor(SESSION, from_start=from_start)
    for event in events:
        auditor.take(event)
    auditor.finish()
    return auditor


def codes(auditor: LifecycleAuditor) -> list[str]:
    return [finding.code for finding in auditor.findings]


@pytest.fixture
def writer() -> Writer:
    writer = Writer()
    writer.tell("session/created")
    return writer


# Any history


@given(seeds)
@settings(max_examples=300)
def test_finds_nothing_in_a_valid_history(random: Random) -> None:
    """Whatever happened, in whatever order it may."""
    auditor = audited(history(random))
    assert auditor.findings == []
    report = auditor.report()
    assert (report["ok"], report["complete"], report["open"]) == (True, True, [])


@given(seeds)
@settings(max_examples=150)
def test_finds_nothing_where_the_service_tells_of_a_gap(random: Random) -> None:
    """What was in it may have been the start or the end of anything."""
    events = with_gap(random, with_gap(random, history(random)) if random.random() < 0.3 else history(random))
    auditor = audited(events)
    assert auditor.findings == []
    assert not auditor.report()["complete"]


@given(seeds)
@settings(max_examples=150)
def test_finds_nothing_in_the_rest_of_a_history(random: Random) -> None:
    """Begun anywhere, told that it is so."""
    events = history(random)
    auditor = audited(events[random.randrange(len(events)) :], from_start=False)
    assert auditor.findings == []
    assert not auditor.report()["complete"]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@given(random=seeds)
@settings(max_examples=40)
def test_finds_each_fault(fault: Fault, random: Random) -> None:
    """At least as what it is."""
    for steps in (20, 40, 80):
        events = history(random, steps)
        before = json.dumps(events)
        if (faulty := fault(random, events)) is not None:
            assert json.dumps(events) == before
            break
    else:
        return
    auditor = audited(faulty[0])
    assert set(codes(auditor)) & faulty[1], (auditor.findings, faulty[1])
    assert not auditor.report()["ok"]


@given(seeds)
@settings(max_examples=200)
def test_goes_on_from_its_state(random: Random) -> None:
    """Cut anywhere and told again as JSON, it finds the same as one that was never cut."""
    events: list[Any] = history(random)
    if random.random() < 0.3:
        events = with_gap(random, events)
    else:
        events = (random.choice(FAULTS)(random, events) or (events,))[0]
    for _ in range(random.randrange(3)):  # these can be put into what has a fault
        events = (random.choice((dropped, repeated, swapped))(random, events) or (events,))[0]
    from_start = random.random() < 0.7
    whole = LifecycleAuditor(from_start=from_start)
    cut = LifecycleAuditor(from_start=from_start)
    cuts = {random.randrange(len(events) + 1) for _ in range(3)}
    for at, event in enumerate(events):
        if at in cuts:
            cut = LifecycleAuditor.restore(json.loads(json.dumps(cut.state())))
        assert cut.take(event) == whole.take(event)
    assert LifecycleAuditor.restore(json.loads(json.dumps(cut.state()))).finish() == whole.finish() == cut.finish()
    assert cut.report() == whole.report()
    assert cut.state() == whole.state()
    assert json.loads(json.dumps(cut.report())) == cut.report()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(["direct", "code_mode", "1"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["type", "cell_id", "state"]) | st.text(), inner),
    max_leaves=6,
)
TYPES = ["session/created", "session/deleted", "cell/started", "cell/ended", "events/lost", "tool_call/started"]
FIELDS = ["cell_id", "tool_use_id", "tool_name", "tool_source", "tool_status", "process_id", "from", "to", "status"]
junk = json_values | st.fixed_dictionaries(
    {
        "seq": st.integers(-1, 2**70) | json_values,
        "type": st.sampled_from([*TYPES, "tool_call/yielded", "tool_call/ended"]),
        "at": st.just("2026"),
        "session_id": st.just(SESSION) | json_values,
    },
    optional=dict.fromkeys([*FIELDS, "runtime_tool_call_id"], st.sampled_from(["1", 1, 2]) | json_values),
)


@given(st.lists(junk, max_size=6))
@settings(max_examples=200)
def test_raises_for_nothing(events: list[Any]) -> None:
    """Whatever it is handed; and what it knows then can still be written down."""
    auditor, hooks = LifecycleAuditor(), HookAuditor()
    for event in events:
        auditor.take(event)
        hooks.take(event)
    auditor.finish()
    hooks.finish()
    assert LifecycleAuditor.restore(json.loads(json.dumps(auditor.state()))).report() == auditor.report()


# Each code


def test_names_the_event_and_the_call(writer: Writer) -> None:
    """So that somebody can look it up."""
    writer.end(writer.start(writer.cell()))
    del writer.events[2]
    found = LifecycleAuditor(SESSION)
    for event in writer.events[:2]:
        assert found.take(event) == []
    assert found.take(writer.events[2]) == [
        Finding("missing_event", "events 3 to 3 did not come", 4),
        Finding("end_without_start", "the call ended, and no start of it was seen", 4, "tu_1", "1"),
    ]


def test_report_says_what_came(writer: Writer) -> None:
    """And what is open."""
    cell_id = writer.cell()
    writer.end(writer.start(cell_id), "exited", 0)
    writer.start()
    auditor = LifecycleAuditor()
    for event in writer.events:
        auditor.take(event)
    assert auditor.report() == {
        "ok": True,
        "complete": True,
        "session_id": SESSION,
        "events": 5,
        "first_seq": 1,
        "last_seq": 5,
        "open": ["tu_2"],
        "states": {"exited": 1},
        "findings": [],
        "more_findings": 0,
    }
    assert [(finding.tool_use_id, finding.cell_id) for finding in auditor.finish()] == [("tu_2", None), (None, "1")]
    assert auditor.finish() == []


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ([1, 2, 3], []),
        ([2, 3], ["missing_event", "missing_event"]),  # the number 1, and that it begins with something else
        ([1, 4, 5], ["missing_event"]),
        ([1, 3, 2, 4], ["missing_event", "reordered_event"]),
        ([1, 6, 3, 3, 5, 2], ["missing_event", "reordered_event", "duplicate_event", *["reordered_event"] * 2]),
        ([1, 2, 2, 1, 3], ["duplicate_event", "duplicate_event"]),
    ],
)
def test_numbers(order: list[int], expected: list[str]) -> None:
    """Each comes once, after the one before."""
    types = {1: "session/created"}
    events = [{"seq": seq, "type": types.get(seq, "cell/output"), "at": "2026", "session_id": SESSION} for seq in order]
    found = codes(audited(events))
    assert found == (expected if order[0] == 1 else ["missing_event"])


def test_a_history_begins_with_the_session(writer: Writer) -> None:
    """Number 1 is of nothing else, and no other event is its creation."""
    writer.tell("session/created")
    assert codes(audited(writer.events)) == ["duplicate_event"]
    assert codes(audited(renumbered(writer.events[1:] and [writer.events[0] | {"type": "cell/output"}]))) == [
        "missing_event"
    ]


def test_from_the_middle_earlier_events_are_out_of_order() -> None:
    """They come once too."""
    events = [{"seq": seq, "type": "x", "at": "2026", "session_id": SESSION} for seq in (7, 3, 5, 5, 8)]
    found = codes(audited(events, from_start=False))
    assert found == ["reordered_event", "reordered_event", "duplicate_event"]


def test_another_session(writer: Writer) -> None:
    """Not looked at."""
    other = writer.events[0] | {"session_id": "s-2", "seq": 2, "type": "session/deleted"}
    auditor = audited([*writer.events, other])
    assert codes(auditor) == ["wrong_session"]
    assert auditor.report()["last_seq"] == 1


def test_starts_and_ends(writer: Writer) -> None:
    """Each once; an end told again may differ."""
    call = writer.start()
    start = writer.events[-1]
    again = start | {"seq": 3}
    writer.seq += 1
    writer.end(call)
    end = writer.events[-1]
    last = end | {"seq": 5, "tool_status": {"state": "failed", "exit_code": None}}
    auditor = audited([writer.events[0], start, again, end, last, start | {"seq": 6}])
    assert codes(auditor) == ["duplicate_start", "duplicate_end", "conflicting_status", "duplicate_start"]
    assert auditor.report()["states"] == {"completed": 1}


def test_start_after_end(writer: Writer) -> None:
    """Told once as an end without a start, and once as out of order."""
    writer.end(writer.start())
    first, start, end = writer.events
    found = codes(audited(renumbered([first, end, start, start])))
    assert found == ["end_without_start", "reordered_event", "duplicate_start"]


def test_a_yield(writer: Writer) -> None:
    """Once, between start and end; then the call may end after its cell, but cannot be denied any more."""
    cell_id = writer.cell()
    call = writer.start(cell_id)
    writer.leave(call)
    left = writer.events[-1]
    writer.end_cell(cell_id)
    writer.end(call, "exited", 3)
    assert codes(audited(writer.events)) == []
    first, cell, start, left, over, end = writer.events
    assert codes(audited(renumbered([first, cell, start, left, left, over, end]))) == ["unexpected_yield"]
    assert codes(audited(renumbered([first, cell, start, left, over, end, left]))) == ["unexpected_yield"]
    found = codes(audited(renumbered([first, cell, left, start, over, end])))
    assert found == ["unexpected_yield", "start_without_end", "end_after_cell_end"]
    found = codes(audited(renumbered([first, cell, start, over, left, end])))
    assert found == ["start_without_end", "unexpected_yield", "end_after_cell_end"]
    denied = end | {"tool_status": {"state": "denied", "exit_code": None}}
    assert codes(audited([first, cell, start, left, over, denied])) == ["unexpected_end"]
    assert codes(audited([first, cell, start, left | {"process_id": None}, over])) == [
        "malformed_event",
        "start_without_end",
    ]


@pytest.mark.parametrize(
    "status",
    [("exited", None), ("completed", 0), ("failed", 1), ("lost", -9)],
)
def test_exit_codes(writer: Writer, status: tuple[str, int | None]) -> None:
    """Exactly with `exited`."""
    writer.end(writer.start(), *status)
    assert codes(audited(writer.events)) == ["unexpected_end"]


@pytest.mark.parametrize(
    ("at", "change", "expected"),
    [
        (2, {"tool_status": {"state": "completed", "exit_code": None}}, ["conflicting_status"]),
        (2, {"tool_status": None}, []),
        (2, {"cell_id": "2"}, ["conflicting_source"]),
        (2, {"runtime_tool_call_id": None}, ["conflicting_source"]),
        (3, {"tool_name": "other"}, ["conflicting_name"]),
        (3, {"tool_source": {"type": "direct"}}, ["conflicting_source"] * 3),
        (3, {"tool_source": {"type": "other"}}, ["malformed_event", "start_without_end"]),
        (3, {"tool_source": None}, ["malformed_event", "start_without_end"]),
        (3, {"tool_use_id": ""}, ["malformed_event", "start_without_end"]),
        (3, {"tool_use_id": "x" * 2000}, ["malformed_event", "start_without_end"]),
        (3, {"tool_status": {"state": "vanished", "exit_code": None}}, ["malformed_event", "start_without_end"]),
        (3, {"tool_status": {"state": "completed"}}, ["malformed_event", "start_without_end"]),
        (3, {"tool_status": {"state": "exited", "exit_code": "0"}}, ["malformed_event", "start_without_end"]),
        (3, {"tool_status": {"state": "exited", "exit_code": True}}, ["malformed_event", "start_without_end"]),
        (1, {"tool_call_id": "exec-9"}, ["conflicting_source"]),
        (1, {"tool_call_id": ""}, []),
        (4, {"status": None}, ["malformed_event", "start_without_end"]),
    ],
)
def test_one_field_is_wrong(writer: Writer, at: int, change: Event, expected: list[str]) -> None:
    """Of the events of a cell with one call."""
    cell_id = writer.cell()
    writer.end(writer.start(cell_id))
    writer.end_cell(cell_id)
    writer.events[at] |= change
    assert codes(audited(writer.events)) == expected


def test_a_place_names_one_call(writer: Writer) -> None:
    """Within a cell, however it goes on; and all calls of a cell have one parent."""
    cell_id = writer.cell(named=False)
    writer.end(writer.start(cell_id))
    writer.calls[cell_id] = 0
    writer.end(writer.start(cell_id))
    writer.cells[cell_id] = "exec-9"
    writer.end(writer.start(cell_id))
    writer.end_cell(cell_id)
    assert codes(audited(writer.events)) == ["conflicting_source"] * 2


def test_cells(writer: Writer) -> None:
    """Each starts once and ends once, and its calls are within."""
    cell_id = writer.cell()
    writer.end(writer.start(cell_id))
    writer.end_cell(cell_id)
    first, cell, start, end, over = writer.events

    def found(*events: Event) -> list[str]:
        return codes(audited(renumbered(list(events))))

    assert found(first, cell, cell, over, over, cell) == ["duplicate_cell"] * 3
    assert found(first, over) == ["cell_end_without_start"]
    assert found(first, start, end, over) == ["start_without_cell", "cell_end_without_start"]
    assert found(first, start, cell, end, over) == ["start_without_cell", "reordered_event"]
    assert found(first, cell, over, start, end) == ["start_after_cell_end"]
    assert found(first, cell, start, over, end) == ["start_without_end", "end_after_cell_end"]
    assert found(first, cell, start, end) == ["start_without_end"]


def test_the_end_of_a_session(writer: Writer) -> None:
    """Nothing is open then, and nothing comes after."""
    call = writer.start()
    writer.leave(call)
    writer.cell()
    writer.tell("session/deleted")
    writer.end(call)
    found = codes(audited(writer.events))
    assert found == ["start_without_end", "start_without_end", "event_after_session_end"]


def test_after_a_gap_what_started_since_is_known(writer: Writer) -> None:
    """A call of a cell that started after it must have a start; another need not."""
    writer.tell("events/lost", **{"from": 2, "to": 2})
    before = writer.start()
    del writer.events[-1]
    writer.seq -= 1
    writer.end(before)
    call = writer.start(writer.cell())
    del writer.events[-1]
    writer.seq -= 1
    writer.end(call)
    auditor = audited(writer.events)
    assert codes(auditor) == ["end_without_start", "start_without_end"]


@pytest.mark.parametrize("fields", [{}, {"from": 3, "to": 2}, {"from": 2, "to": 3}, {"from": "2", "to": 2}])
def test_a_gap_that_cannot_be(writer: Writer, fields: Event) -> None:
    """It has the number of its end."""
    writer.tell("events/lost", **fields)
    auditor = audited(writer.events)
    assert codes(auditor) == ["malformed_event"]
    assert auditor.report()["complete"]


# Bounds


def test_findings_are_bounded() -> None:
    """The first are kept, the rest are counted."""
    auditor = LifecycleAuditor()
    for _ in range(MOST_FINDINGS + 5):
        assert len(auditor.take(None)) == 1
    report = auditor.report()
    assert (len(report["findings"]), report["more_findings"], report["ok"]) == (MOST_FINDINGS, 5, False)
    restored = LifecycleAuditor.restore(json.loads(json.dumps(auditor.state())))
    restored.take(None)
    assert restored.report()["more_findings"] == 6


def test_memory_is_bounded(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest that has ended is forgotten, what is open is not; and gaps are merged into what has come."""
    monkeypatch.setattr(pairing, "MOST_ENDED", 10)
    writer.start()
    for _ in range(50):
        cell_id = writer.cell()
        writer.end(writer.start(cell_id))
        writer.end_cell(cell_id)
    auditor = audited(writer.events)
    state = auditor.state()
    assert [len(state["calls"][name]) for name in ("open", "ended", "names", "parents")] == [1, 10, 10, 10]
    assert len(state["ended_cells"]) == 10
    assert codes(auditor) == ["start_without_end"]
    many = LifecycleAuditor()
    for seq in range(1, 5001, 2):
        many.take({"seq": seq, "type": "x", "at": "2026", "session_id": SESSION})
    assert len(many.state()["numbers"][2]) == 1000


@pytest.mark.parametrize("state", [None, {}, [], {"version": 1}, {"version": 2}, {"version": 1, "numbers": 3}])
def test_what_is_no_state(state: Any) -> None:
    """Is told as such."""
    with pytest.raises(ValueError, match="no state of an auditor"):
        LifecycleAuditor.restore(state)
