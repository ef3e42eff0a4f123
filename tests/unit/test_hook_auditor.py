"""The auditor of hooks finds nothing in what they may be told, and each thing that is wrong."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codemode.lifecycle.hook_auditor import HookAuditor
from tests.unit.histories import SESSION, Event, Writer, history

seeds = st.integers(0, 2**64 - 1).map(Random)


@pytest.fixture
def writer() -> Writer:
    return Writer()


def payloads(events: list[Event]) -> list[Event]:
    """What hooks would have been told, with nothing of inputs and results."""
    names = {"tool_call/started": "PreToolUse", "tool_call/ended": "PostToolUse"}
    kept = ("session_id", "tool_use_id", "tool_name", "tool_source", "tool_status")
    return [
        {"hook_event_name": names[event["type"]], "turn_id": "turn-1"}
        | {name: event[name] for name in kept if name in event}
        for event in events
        if event["type"] in names
    ]


def hooked(told: list[Any], *, from_start: bool = True) -> HookAuditor:
    auditor = HookAuditor(SESSION, from_start=from_start)
    for payload in told:
        auditor.take(payload)
    auditor.finish()
    return auditor


@given(seeds)
@settings(max_examples=150)
def test_hooks_of_a_valid_history(random: Random) -> None:
    """Nothing is wrong with them; nor with what comes after some moment, if it is said so."""
    told = payloads(history(random))
    assert hooked(told).findings == []
    assert hooked(told[len(told) // 2 :], from_start=False).findings == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda pre, post: [pre, post], []),
        (lambda pre, post: [pre], ["start_without_end"]),
        (lambda pre, post: [post], ["end_without_start"]),
        (lambda pre, post: [post, pre], ["end_without_start", "reordered_event"]),
        (lambda pre, post: [pre, pre, post], ["duplicate_start"]),
        (lambda pre, post: [pre, post, post], ["duplicate_end"]),
        (lambda pre, post: [pre, post | {"tool_name": "x"}], ["conflicting_name"]),
        (lambda pre, post: [pre, post | {"tool_source": {"type": "direct"}}], ["conflicting_source"]),
        (lambda pre, post: [pre, post | {"turn_id": "x"}], ["conflicting_source"]),
        (lambda pre, post: [pre, post | {"cell_id": "x"}], ["conflicting_source"]),
        (
            lambda pre, post: [pre | {"tool_use_id": "x"}, post],
            ["end_without_start", "conflicting_source", "start_without_end"],
        ),
        (lambda pre, post: [pre | {"tool_status": post["tool_status"]}, post], ["conflicting_status"]),
        (lambda pre, post: [pre, post | {"session_id": "x"}], ["wrong_session", "start_without_end"]),
        (lambda pre, post: [pre, post | {"hook_event_name": "Stop"}], ["malformed_event", "start_without_end"]),
        (lambda pre, post: [pre, post | {"tool_status": None}], ["malformed_event", "start_without_end"]),
        (lambda pre, post: [None, pre, post], ["malformed_event"]),
    ],
)
def test_hooks(writer: Writer, change: Any, expected: list[str]) -> None:
    """Of one call in a cell."""
    writer.end(writer.start(writer.cell()))
    auditor = hooked(change(*payloads(writer.events)))
    assert [finding.code for finding in auditor.findings] == expected
    assert set(auditor.open_calls) <= {"tu_1", "x"}
