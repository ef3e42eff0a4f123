"""Faults to put into what hooks were told, as tests/unit/history_faults.py has them for events.

Each takes the payloads of a whole history and gives damaged ones, and the codes of which one must be found; or None if
the history has no place for it. What is given is left as it is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

from tests.acceptance.receiver import Payload

Fault = Callable[[Random, list[Payload]], tuple[list[Payload], set[str]] | None]
FAULTS: list[Fault] = []


def _fault(fault: Fault) -> Fault:
    FAULTS.append(fault)
    return fault


def _any(random: Random, told: list[Payload], event: str = "", *, nested: bool = False) -> int | None:
    fits = [
        at
        for at, each in enumerate(told)
        if event in each["hook_event_name"] and (not nested or each["tool_source"]["type"] == "code_mode")
    ]
    return random.choice(fits) if fits else None


def _changed(told: list[Payload], at: int, change: Callable[[Payload], object]) -> list[Payload]:
    changed = copy.deepcopy(told)
    change(changed[at])
    return changed


def _pair(told: list[Payload], at: int) -> tuple[int, int]:
    places = [place for place, each in enumerate(told) if each["tool_use_id"] == told[at]["tool_use_id"]]
    return places[0], places[1]


@_fault
def no_pre(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """A Pre did not come, of a call whose hooks must all have been asked."""
    known = {
        each["tool_use_id"] for each in told if each.get("tool_status", {}).get("state") not in ("denied", "lost", None)
    }
    fits = [at for at, each in enumerate(told) if "Pre" in each["hook_event_name"] and each["tool_use_id"] in known]
    at = random.choice(fits) if fits else None
    return None if at is None else (told[:at] + told[at + 1 :], {"end_without_start"})


@_fault
def no_post(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """A Post did not come."""
    at = _any(random, told, "Post")
    return None if at is None else (told[:at] + told[at + 1 :], {"start_without_end"})


@_fault
def twice(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """One came again, at once or later."""
    at = _any(random, told)
    if at is None:
        return None
    again = random.randint(at + 1, len(told))
    code = "duplicate_start" if told[at]["hook_event_name"] == "PreToolUse" else "duplicate_end"
    return [*told[:again], told[at], *told[again:]], {code}


@_fault
def swapped(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """A Post came before its Pre."""
    at = _any(random, told)
    if at is None:
        return None
    first, second = _pair(told, at)
    mixed = list(told)
    mixed[first], mixed[second] = mixed[second], mixed[first]
    return mixed, {"reordered_event"}


@_fault
def other_end(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """A second Post tells another end than the first."""
    at = _any(random, told, "Post")
    if at is None:
        return None
    other = "failed" if told[at]["tool_status"]["state"] != "failed" else "completed"
    return [*told, told[at] | {"tool_status": {"state": other, "exit_code": None}}], {"conflicting_status"}


@_fault
def other_source(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """A call is said to come from elsewhere."""
    at = _any(random, told, nested=True)
    if at is None:
        return None
    names = ("parent_tool", "parent_tool_use_id", "cell_id", "runtime_tool_call_id")
    name, value = random.choice((*((name, "other") for name in names), ("type", "direct")))
    return _changed(told, at, lambda each: each["tool_source"].update({name: value})), {"conflicting_source"}


@_fault
def other_turn(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """A call is said to be of another turn."""
    at = _any(random, told)
    return (
        None
        if at is None
        else (
            _changed(told, at, lambda each: each.update(turn_id="another")),
            {"conflicting_source"},
        )
    )


@_fault
def other_tool(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """A call ends as one of another tool."""
    at = _any(random, told)
    return (
        None
        if at is None
        else (
            _changed(told, at, lambda each: each.update(tool_name="another")),
            {"conflicting_name"},
        )
    )


@_fault
def other_session(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """One is of another session."""
    at = _any(random, told)
    return (
        None
        if at is None
        else (
            _changed(told, at, lambda each: each.update(session_id="another")),
            {"wrong_session"},
        )
    )


@_fault
def replayed(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """A pair of Pre and Post comes again as another call, of the same place in its cell."""
    at = _any(random, told, nested=True)
    if at is None:
        return None
    again = [told[place] | {"tool_use_id": "another"} for place in _pair(told, at)]
    return [*told, *again], {"conflicting_source"}


@_fault
def impossible(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """An exit code where there can be none, none where there must be one, or a status of what has not ended."""
    at = _any(random, told)
    if at is None:
        return None
    exited = (told[at].get("tool_status") or {}).get("state") == "exited"
    status = {"state": "exited", "exit_code": None} if exited else {"state": "failed", "exit_code": 1}
    code = "unexpected_end" if "tool_status" in told[at] else "conflicting_status"
    return _changed(told, at, lambda each: each.update(tool_status=status)), {code}


@_fault
def unreadable(random: Random, told: list[Payload]) -> tuple[list[Payload], set[str]] | None:
    """A field is missing, or is of another type."""
    at = _any(random, told)
    if at is None:
        return None
    names = ["hook_event_name", "session_id", "tool_use_id", "tool_name", "tool_source", "tool_status"]
    name = random.choice([name for name in names if name in told[at]])
    wrong: Any = random.choice((None, [], {}, "x" * 5000, -1, True))
    return _changed(told, at, lambda each: each.update({name: wrong})), {"malformed_event"}
