"""Reads the events of a session and names what is missing, twice, out of order or in conflict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final

from codemode.lifecycle.events import LOST
from codemode.lifecycle.findings import (
    Code,
    Finding,
    Findings,
    Malformed,
    Problem,
    Source,
    misplaced,
    number,
    optional_text,
    shown,
    source_of,
    status_of,
    text,
)
from codemode.lifecycle.numbering import Numbers
from codemode.lifecycle.pairing import Calls, remember

_VERSION: Final = 1  # of what `state` gives
_CALL_EVENTS: Final = ("tool_call/started", "tool_call/yielded", "tool_call/ended")


@dataclass(slots=True)
class _OpenCell:
    has_started: bool  # else its calls alone are known
    unsure: bool = False  # some events since then are not known
    told: bool = False


class LifecycleAuditor:
    """Takes the events of one session in the order in which they come.

    Made for the stream of a session, not for that of one cell. Without `session_id` it is that of the first event.
    Not `from_start`, the history begins anywhere: what must have begun before is no finding. Neither is, after an event
    `events/lost`, what may have been among those. Memory is bounded: beside what is open, the newest 100 000 calls and
    cells that have ended, and the first 1000 findings. What is no event is a finding, never an exception.
    """

    def __init__(self, session_id: str | None = None, *, from_start: bool = True) -> None:
        self.session_id = session_id
        self._complete = from_start  # and without a gap that the service has told of
        self._numbers = Numbers(from_start=from_start)
        self._calls = Calls()
        self._cells: dict[str, _OpenCell] = {}
        self._ended_cells: dict[str, None] = {}
        self._deleted = False
        self._events = 0
        self._first_seq: int | None = None
        self._findings = Findings()
        self._found: list[Finding] = []  # in what is looked at now
        self._about: tuple[int | None, str | None, str | None] = (None, None, None)  # event, call, cell

    @property
    def findings(self) -> list[Finding]:
        """The first 1000, in the order in which they showed."""
        return list(self._findings.kept)

    @property
    def open_calls(self) -> list[str]:
        """The tool_use_ids of calls of which no end was seen."""
        return list(self._calls.open)

    def take(self, event: Mapping[str, Any]) -> list[Finding]:
        """The next event: what it shows to be wrong."""
        self._found, self._about = [], (None, None, None)
        self._events += 1
        try:
            self._take(event)
        except Malformed as problem:
            self._find("malformed_event", str(problem))
        self._findings.add(self._found)
        return self._found

    def finish(self) -> list[Finding]:
        """The history is over: each call and each cell that is open misses its end. Each is told once."""
        self._found, self._about = [], (self._numbers.last or None, None, None)
        self._miss_ends("the history")
        self._findings.add(self._found)
        return self._found

    def report(self) -> dict[str, Any]:
        """All there is to say so far, for JSON. `complete`: from the start, and the service told of no gap."""
        return {
            "ok": not self._findings.kept,
            "complete": self._complete,
            "session_id": self.session_id,
            "events": self._events,
            "first_seq": self._first_seq,
            "last_seq": self._numbers.last or None,
            "open": self.open_calls,
            "states": dict(self._calls.states),
            "findings": [finding._asdict() for finding in self._findings.kept],
            "more_findings": self._findings.more,
        }

    def state(self) -> dict[str, Any]:
        """Everything, for JSON: what `restore` makes of it goes on as this one would."""
        return {
            "version": _VERSION,
            "session_id": self.session_id,
            "complete": self._complete,
            "deleted": self._deleted,
            "events": self._events,
            "first_seq": self._first_seq,
            "numbers": self._numbers.state(),
            "calls": self._calls.state(),
            "cells": [[cell_id, *astuple(cell)] for cell_id, cell in self._cells.items()],
            "ended_cells": list(self._ended_cells),
            "findings": [list(finding) for finding in self._findings.kept],
            "more_findings": self._findings.more,
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> LifecycleAuditor:
        """One that goes on from what `state` gave. Raises ValueError for what is none."""
        try:
            if state["version"] != _VERSION:
                raise ValueError("it is of another version")
            auditor = cls(state["session_id"], from_start=state["complete"])
            auditor._deleted, auditor._events = state["deleted"], state["events"]
            auditor._first_seq = state["first_seq"]
            auditor._numbers = Numbers.restore(state["numbers"])
            auditor._calls = Calls.restore(state["calls"])
            auditor._cells = {cell_id: _OpenCell(*cell) for cell_id, *cell in state["cells"]}
            auditor._ended_cells = dict.fromkeys(state["ended_cells"])
            findings = [Finding(*finding) for finding in state["findings"]]
            auditor._findings = Findings(findings, state["more_findings"])
        except (AttributeError, LookupError, TypeError, ValueError) as problem:
            raise ValueError(f"this is no state of an auditor: {problem}") from problem
        return auditor

    def _find(self, code: Code, message: str) -> None:
        self._found.append(Finding(code, message, *self._about))

    def _find_all(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self._find(*problem)

    def _take(self, event: Mapping[str, Any]) -> None:
        if not isinstance(event, Mapping):
            raise Malformed("it is no object")
        seq = number(event, "seq")
        self._about = (seq, None, None)
        type_, session_id, _ = text(event, "type"), text(event, "session_id"), text(event, "at")
        if session_id != (self.session_id or session_id):
            self._find("wrong_session", f"it is of session {shown(session_id)}")
            return
        self.session_id = session_id
        since = number(event, "from") if type_ == LOST else seq
        if since > seq or (type_ == LOST and number(event, "to") != seq):
            raise Malformed("it does not say which events are lost")
        problems, is_new = self._numbers.take(seq, since)
        self._find_all(problems)
        if self._first_seq is None:
            self._first_seq = since
            if since == 1 and type_ not in ("session/created", LOST):
                self._find("missing_event", "the first event is not session/created")
        if is_new and self._deleted:
            self._find("event_after_session_end", f"{shown(type_)} came after session/deleted")
        elif is_new:
            self._look_at(type_, event)

    def _look_at(self, type_: str, event: Mapping[str, Any]) -> None:
        if type_ in _CALL_EVENTS:
            self._call(type_, event)
        elif type_ in ("cell/started", "cell/ended"):
            cell_id = text(event, "cell_id")
            self._about = (self._about[0], None, cell_id)
            if type_ == "cell/started":
                self._cell_started(cell_id, event)
            else:
                self._cell_ended(cell_id, event)
        elif type_ == LOST:
            self._complete = False
            self._calls.lose_sight()
            for cell in self._cells.values():
                cell.unsure = True
        elif type_ == "session/created" and self._about[0] != 1:
            self._find("duplicate_event", "the session has begun before")
        elif type_ == "session/deleted":
            self._deleted = True
            self._miss_ends("the session")

    def _call(self, type_: str, event: Mapping[str, Any]) -> None:
        tool_use_id, source = text(event, "tool_use_id"), source_of(event)
        self._about = (self._about[0], tool_use_id, source.cell_id)
        is_yield = type_ == "tool_call/yielded"
        name = optional_text(event, "tool_name") if is_yield else text(event, "tool_name")
        status = status_of(event) if type_ == "tool_call/ended" else None
        if is_yield and (not isinstance(event.get("process_id"), str | int) or event["process_id"] == ""):
            raise Malformed("its process_id is neither a text nor a number")
        self._find_all(misplaced(event, source, ("cell_id",) if is_yield else ("cell_id", "runtime_tool_call_id")))
        if status is None and event.get("tool_status") is not None:
            self._find("conflicting_status", "it has a tool_status, and is no end")
        if is_yield:
            self._find_all(self._calls.yielded(tool_use_id, name, source, seen=self._must_know(source)))
        elif name is not None and status is not None:
            self._find_all(self._calls.end(tool_use_id, name, source, status, seen=self._must_know(source)))
        elif name is not None:
            self._starts_in(source.cell_id)
            self._find_all(self._calls.start(tool_use_id, name, source))

    def _must_know(self, source: Source) -> bool:
        """Whether the start of a call was seen, if there was one."""
        cell = self._cells.get(source.cell_id or "")
        return self._complete or (cell is not None and cell.has_started and not cell.unsure)

    def _starts_in(self, cell_id: str | None) -> None:
        if cell_id is None or cell_id in self._cells:
            return
        if cell_id in self._ended_cells:
            self._find("start_after_cell_end", "the call started after the end of its cell")
            return
        if self._complete:
            self._find("start_without_cell", "the call started in a cell that had not")
        self._cells[cell_id] = _OpenCell(has_started=False)

    def _cell_started(self, cell_id: str, event: Mapping[str, Any]) -> None:
        optional_text(event, "turn_id")
        parent = optional_text(event, "tool_call_id")
        cell = self._cells.get(cell_id)
        if cell_id in self._ended_cells or (cell is not None and cell.has_started):
            self._find("duplicate_cell", "the cell has started before")
            return
        if cell is not None:
            self._find("reordered_event", "the cell started after a call in it")
        self._cells[cell_id] = _OpenCell(has_started=True)
        if parent is not None:
            self._find_all(self._calls.parent(cell_id, parent))

    def _cell_ended(self, cell_id: str, event: Mapping[str, Any]) -> None:
        text(event, "status")
        cell = self._cells.pop(cell_id, None)
        if cell is None and cell_id in self._ended_cells:
            self._find("duplicate_cell", "the cell has ended before")
        elif self._complete and (cell is None or not cell.has_started):
            self._find("cell_end_without_start", "the cell ended, and no start of it was seen")
        remember(self._ended_cells, cell_id, None)
        self._miss_ends("the cell", cell_id)

    def _miss_ends(self, of: str, cell_id: str | None = None) -> None:
        seq = self._about[0]
        for tool_use_id, call in self._calls.overdue(cell_id):
            self._about = (seq, tool_use_id, call.source.cell_id)
            self._find("start_without_end", f"{of} ended before the call")
        for open_id, cell in self._cells.items() if cell_id is None else ():
            if cell.has_started and not cell.unsure and not cell.told:
                cell.told = True
                self._about = (seq, None, open_id)
                self._find("start_without_end", f"{of} ended before the cell")
