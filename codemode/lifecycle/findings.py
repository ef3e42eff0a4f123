"""What can be wrong with a history of tool calls, and how what tells of it is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

Code = Literal[
    "missing_event",
    "duplicate_event",
    "reordered_event",
    "wrong_session",
    "malformed_event",
    "duplicate_start",
    "duplicate_end",
    "end_without_start",
    "start_without_end",
    "unexpected_yield",
    "unexpected_end",
    "end_after_cell_end",
    "conflicting_source",
    "conflicting_name",
    "conflicting_status",
    "start_without_cell",
    "start_after_cell_end",
    "duplicate_cell",
    "cell_end_without_start",
    "event_after_session_end",
]
Problem = tuple[Code, str]

STATES: Final = ("completed", "failed", "exited", "cancelled", "denied", "timed_out", "lost")  # a call ends in one
MOST_FINDINGS: Final = 1000  # are kept
_LONGEST: Final = 1024  # characters of an id or a name
_MOST: Final = 2**63  # numbers are below that, so that they can be written down and read again


class Finding(NamedTuple):
    """One thing that is wrong. `seq` is the number of the event that showed it, None if none did.

    - `missing_event`: numbers were left out, or the first event is not that of the session's beginning
    - `duplicate_event`: a number came twice (what the later one says is not looked at), or a session began twice
    - `reordered_event`: an event came after one that it precedes, by its number or by what it says
    - `wrong_session`: it is of another session (and not looked at)
    - `malformed_event`: a field is missing, is of a wrong type or too long (what it says is not looked at)
    - `duplicate_start`, `duplicate_end`: the call had started, or ended, before
    - `end_without_start`: a call ended of which no start was seen, though the history would have it
    - `start_without_end`: its cell, the session or the history ended before the call; or the history before the cell
    - `unexpected_yield`: a call yielded that had not started, had ended, or had yielded before
    - `unexpected_end`: an end that cannot be: an exit code without `exited`, or none with it; denied after it yielded
    - `end_after_cell_end`: a call that had not yielded ended after its cell
    - `conflicting_source`: the source is not that of the call's start, of its event or of its cell, or names another
      call too
    - `conflicting_name`: the tool is not that of the call's start
    - `conflicting_status`: a start or a yield has a status, or a second end has another one than the first
    - `start_without_cell`, `start_after_cell_end`: a nested call started in a cell that had not started, or had ended
    - `duplicate_cell`: a cell started or ended twice
    - `cell_end_without_start`: a cell ended of which no start was seen, though the history would have it
    - `event_after_session_end`: something came after the session was deleted
    """

    code: Code
    message: str
    seq: int | None = None
    tool_use_id: str | None = None
    cell_id: str | None = None


class Findings:
    """The first of them in order; `more` counts those beyond that."""

    def __init__(self, kept: Iterable[Finding] = (), more: int = 0) -> None:
        self.kept = list(kept)
        self.more = more

    def add(self, found: Iterable[Finding]) -> None:
        """Keep them if there is room."""
        for finding in found:
            if len(self.kept) < MOST_FINDINGS:
                self.kept.append(finding)
            else:
                self.more += 1


class Malformed(Exception):
    """What tells of something cannot be read; the message says why."""


class Source(NamedTuple):
    """Where a call came from. A direct call has no more than `type`; only hooks tell the turn."""

    type: str
    parent_tool: str | None = None
    parent_tool_use_id: str | None = None
    cell_id: str | None = None
    runtime_tool_call_id: str | None = None
    turn_id: str | None = None


class Status(NamedTuple):
    """How a call ended."""

    state: str
    exit_code: int | None

    @property
    def is_possible(self) -> bool:
        """There is an exit code exactly when a process exited."""
        return (self.state == "exited") == (self.exit_code is not None)


def shown(value: str) -> str:
    """A text from outside, for a message."""
    return repr(value if len(value) <= 60 else value[:60] + "…")


def text(fields: Mapping[str, Any], name: str) -> str:
    """A field that has to be there. Raises Malformed."""
    value = fields.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST:
        raise Malformed(f"its {name} is no text of 1 to {_LONGEST} characters")
    return value


def optional_text(fields: Mapping[str, Any], name: str) -> str | None:
    """A field that may be null, empty or not there, which is all the same. Raises Malformed."""
    return None if fields.get(name) in (None, "") else text(fields, name)


def number(fields: Mapping[str, Any], name: str) -> int:
    """The number of an event. Raises Malformed."""
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < _MOST:
        raise Malformed(f"its {name} is no number from 1 on")
    return value


def source_of(fields: Mapping[str, Any], turn_id: str | None = None) -> Source:
    """The `tool_source`. Raises Malformed."""
    told = fields.get("tool_source")
    if not isinstance(told, Mapping):
        raise Malformed("its tool_source is no object")
    match text(told, "type"):
        case "direct":
            return Source("direct", turn_id=turn_id)
        case "code_mode":
            tool, use = text(told, "parent_tool"), text(told, "parent_tool_use_id")
            return Source("code_mode", tool, use, text(told, "cell_id"), text(told, "runtime_tool_call_id"), turn_id)
        case other:
            raise Malformed(f"its tool_source is of the unknown type {shown(other)}")


def misplaced(fields: Mapping[str, Any], source: Source, needed: Collection[str]) -> list[Problem]:
    """Where the source differs from what stands beside it. What is not `needed` there may be left out."""
    problems: list[Problem] = []
    for name, own in (("cell_id", source.cell_id), ("runtime_tool_call_id", source.runtime_tool_call_id)):
        if (name in needed or name in fields) and fields.get(name) != own:
            problems.append(("conflicting_source", f"its {name} is not the one in its tool_source"))
    if source.parent_tool not in (None, "exec"):
        problems.append(("conflicting_source", "its tool_source is code_mode, and the parent_tool is not exec"))
    return problems


def status_of(fields: Mapping[str, Any]) -> Status:
    """The `tool_status`. Raises Malformed."""
    told = fields.get("tool_status")
    if not isinstance(told, Mapping):
        raise Malformed("its tool_status is no object")
    state = text(told, "state")
    if state not in STATES:
        raise Malformed(f"its state {shown(state)} is unknown")
    code = told.get("exit_code", "")
    if code is not None and (not isinstance(code, int) or isinstance(code, bool) or abs(code) >= _MOST):
        raise Malformed("its exit_code is neither a whole number nor null")
    return Status(state, code)
