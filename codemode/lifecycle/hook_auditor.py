"""Reads what hooks are told of the calls of a session, and names what is missing, twice or in conflict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from codemode.lifecycle.findings import (
    Finding,
    Findings,
    Malformed,
    misplaced,
    optional_text,
    shown,
    source_of,
    status_of,
    text,
)
from codemode.lifecycle.pairing import Calls

_MAYBE_NOT_ASKED: Final = ("denied", "lost")


class HookAuditor:
    """Takes the payloads of PreToolUse and PostToolUse of one session in the order in which they come.

    The rules are those of events, but for numbers and cells, which hooks are not told of: each Pre has one Post of the
    same tool, source and turn, and a place within a cell names one call. Without `session_id` it is that of the first
    payload. A Post without a Pre is no finding if an earlier hook may have denied the call, or the service been killed
    before it asked this one; nor is any if not `from_start`. Memory is bounded as that of LifecycleAuditor is.
    What is no payload is a finding, never an exception.
    """

    def __init__(self, session_id: str | None = None, *, from_start: bool = True) -> None:
        self.session_id = session_id
        self._from_start = from_start
        self._calls = Calls()
        self._findings = Findings()

    @property
    def findings(self) -> list[Finding]:
        """The first 1000, in the order in which they showed."""
        return list(self._findings.kept)

    @property
    def open_calls(self) -> list[str]:
        """The tool_use_ids of calls of which no Post has come."""
        return list(self._calls.open)

    def take(self, payload: Mapping[str, Any]) -> list[Finding]:
        """The next payload: what it shows to be wrong."""
        try:
            found = self._take(payload)
        except Malformed as problem:
            found = [Finding("malformed_event", str(problem))]
        self._findings.add(found)
        return found

    def finish(self) -> list[Finding]:
        """There will be no further one: each call that is open misses its end. Each is told once."""
        found = [
            Finding("start_without_end", "no PostToolUse of the call came", None, tool_use_id, call.source.cell_id)
            for tool_use_id, call in self._calls.overdue()
        ]
        self._findings.add(found)
        return found

    def _take(self, payload: Mapping[str, Any]) -> list[Finding]:
        if not isinstance(payload, Mapping):
            raise Malformed("it is no object")
        name, session_id = text(payload, "hook_event_name"), text(payload, "session_id")
        if name not in ("PreToolUse", "PostToolUse"):
            raise Malformed(f"its hook_event_name is {shown(name)}")
        if session_id != (self.session_id or session_id):
            return [Finding("wrong_session", f"it is of session {shown(session_id)}")]
        tool_use_id, tool = text(payload, "tool_use_id"), text(payload, "tool_name")
        source = source_of(payload, optional_text(payload, "turn_id"))
        status = status_of(payload) if name == "PostToolUse" else None
        self.session_id = session_id
        problems = misplaced(payload, source, ())
        if status is not None:
            must_know = self._from_start and status.state not in _MAYBE_NOT_ASKED
            problems += self._calls.end(tool_use_id, tool, source, status, seen=must_know)
        else:
            if payload.get("tool_status") is not None:
                problems.append(("conflicting_status", "a PreToolUse has a tool_status"))
            problems += self._calls.start(tool_use_id, tool, source)
        return [Finding(code, message, None, tool_use_id, source.cell_id) for code, message in problems]
