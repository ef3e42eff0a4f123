"""Faults to put into a history.

Each takes a valid, whole one and gives one with the fault, and the codes of which one must be found; or None if the
history has no place for it. The history given is left as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from tests.unit.histories import Event, renumbered

Fault = Callable[[Random, list[Event]], tuple[list[Event], set[str]] | None]
FAULTS: list[Fault] = []


def _fault(fault: Fault) -> Fault:
    FAULTS.append(fault)
    return fault


def _find(random: Random, events: list[Event], *types: str, nested: bool = False) -> int | None:
    fits = [at for at, event in enumerate(events) if event["type"] in types and (not nested or "cell_id" in event)]
    return random.choice(fits) if fits else None


def _changed(events: list[Event], at: int, change: Callable[[Event], object]) -> list[Event]:
    changed = copy.deepcopy(events)
    change(changed[at])
    return changed


def _at_of(events: list[Event], type_: str, name: str, value: Any) -> int:
    return next(at for at, event in enumerate(events) if event["type"] == type_ and event.get(name) == value)


@_fault
def dropped(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """An event did not come; that the last did not cannot be seen."""
    at = random.randrange(len(events) - 1) if len(events) > 1 else None
    return None if at is None else (events[:at] + events[at + 1 :], {"missing_event"})


@_fault
def repeated(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """An event came again, at once or later."""
    at = random.randrange(len(events))
    again = random.randint(at + 1, len(events))
    return [*events[:again], events[at], *events[again:]], {"duplicate_event"}


@_fault
def swapped(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """Two events came in another order."""
    if len(events) < 2:
        return None
    first, second = sorted(random.sample(range(len(events)), 2))
    mixed = list(events)
    mixed[first], mixed[second] = mixed[second], mixed[first]
    return mixed, {"reordered_event"}


@_fault
def end_before_start(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """The service told the end of a call first, under the number of its start."""
    at = _find(random, events, "tool_call/ended")
    if at is None:
        return None
    start = _at_of(events, "tool_call/started", "tool_use_id", events[at]["tool_use_id"])
    mixed = [*events[:start], events[at], *events[start:at], *events[at + 1 :]]
    return renumbered(mixed), {"end_without_start"}


@_fault
def no_start(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """The service did not tell the start of a call."""
    at = _find(random, events, "tool_call/started")
    return None if at is None else (renumbered(events[:at] + events[at + 1 :]), {"end_without_start"})


@_fault
def no_end(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """Nor the end of one."""
    at = _find(random, events, "tool_call/ended", "cell/ended")
    return None if at is None else (renumbered(events[:at] + events[at + 1 :]), {"start_without_end"})


@_fault
def no_cell_start(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """Nor the start of a cell."""
    at = _find(random, events, "cell/started")
    if at is None:
        return None
    return renumbered(events[:at] + events[at + 1 :]), {"start_without_cell", "cell_end_without_start"}


@_fault
def told_twice(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """The service told a start or an end twice, under two numbers."""
    types = ("tool_call/started", "tool_call/yielded", "tool_call/ended", "cell/started", "cell/ended")
    at = _find(random, events, *types)
    if at is None:
        return None
    again = random.randint(at + 1, len(events) - (events[-1]["type"] == "session/deleted"))
    codes = ("duplicate_start", "unexpected_yield", "duplicate_end", "duplicate_cell", "duplicate_cell")
    code = dict(zip(types, codes, strict=True))[events[at]["type"]]
    return renumbered([*events[:again], events[at], *events[again:]]), {code}


@_fault
def end_after_cell(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """A call that had not yielded ended after its cell."""
    left = {event["tool_use_id"] for event in events if event["type"] == "tool_call/yielded"}
    stayed = [event for event in events if event["type"] != "tool_call/ended" or event["tool_use_id"] not in left]
    at = _find(random, stayed, "tool_call/ended", nested=True)
    if at is None:
        return None
    at = events.index(stayed[at])
    over = _at_of(events, "cell/ended", "cell_id", events[at]["cell_id"])
    mixed = [*events[:at], *events[at + 1 : over + 1], events[at], *events[over + 1 :]]
    return renumbered(mixed), {"end_after_cell_end"}


@_fault
def start_after_cell(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """A call started after its cell had ended."""
    at = _find(random, events, "tool_call/started", nested=True)
    if at is None:
        return None
    over = _at_of(events, "cell/ended", "cell_id", events[at]["cell_id"])
    mixed = [*events[:at], *events[at + 1 : over + 1], events[at], *events[over + 1 :]]
    return renumbered(mixed), {"start_after_cell_end"}


@_fault
def other_source(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """A call is said to come from elsewhere."""
    at = _find(random, events, "tool_call/started", "tool_call/yielded", "tool_call/ended", nested=True)
    if at is None:
        return None
    fields = ("parent_tool", "parent_tool_use_id", "cell_id", "runtime_tool_call_id")
    name, other = random.choice((*((name, "other") for name in fields), ("type", "direct")))
    whole = random.random() < 0.5  # the event agrees with it

    def change(event: Event) -> None:
        event["tool_source"][name] = other
        if name in ("cell_id", "runtime_tool_call_id") and whole:
            event[name] = other

    started = events[at]["type"] == "tool_call/started"
    return _changed(events, at, change), {"conflicting_source", *["start_without_cell"] * started}


@_fault
def other_name(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """A call ends as one of another tool."""
    at = _find(random, events, "tool_call/started", "tool_call/ended")
    if at is None:
        return None
    return _changed(events, at, lambda event: event.update(tool_name="other")), {"conflicting_name"}


@_fault
def other_status(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """An exit code where there can be none, none where there must be one, or a status of what has not ended."""
    at = _find(random, events, "tool_call/started", "tool_call/yielded", "tool_call/ended")
    if at is None:
        return None
    exited = (events[at].get("tool_status") or {}).get("state") == "exited"
    status = {"state": "exited", "exit_code": None} if exited else {"state": "failed", "exit_code": 1}
    ended = events[at]["type"] == "tool_call/ended"
    changed = _changed(events, at, lambda event: event.update(tool_status=status))
    return changed, {"unexpected_end" if ended else "conflicting_status"}


@_fault
def other_session(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """An event is of another session."""
    at = random.randrange(1, len(events)) if len(events) > 1 else None
    if at is None:
        return None
    return _changed(events, at, lambda event: event.update(session_id="s-2")), {"wrong_session"}


@_fault
def not_over(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """The session is deleted before its end."""
    at = random.randrange(1, len(events)) if len(events) > 1 else None
    if at is None or events[-1]["type"] != "session/deleted":
        return None
    mixed = [*events[:at], events[-1], *events[at:-1]]
    return (renumbered(mixed), {"event_after_session_end"}) if mixed[-1] is not events[-1] else None


@_fault
def unreadable(random: Random, events: list[Event]) -> tuple[list[Event], set[str]] | None:
    """A field of a call's event is missing, or is of another type."""
    at = _find(random, events, "tool_call/started", "tool_call/ended")
    if at is None:
        return None
    names = ["seq", "type", "at", "session_id", "tool_use_id", "tool_name", "tool_source"]
    name = random.choice([name for name in (*names, "tool_status") if name in events[at]])
    wrong: Any = random.choice((None, [], {}, "x" * 5000 if name != "type" else 5, -1, True, 10**5000))
    return _changed(events, at, lambda event: event.update({name: wrong})), {"malformed_event"}
