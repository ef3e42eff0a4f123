"""The bodies of answers, but for observations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel

from codemode.calls.call import LedgerEntry, tool_status
from codemode.cells.facts import CellFacts
from codemode.cells.observation import ScriptError, Status, Usage
from codemode.lifecycle.provenance import code_mode_source, runtime_tool_call_id
from codemode.sessions.session import Session


class Accepted(BaseModel):
    """The answer of tool_results without a `cell_id`."""

    accepted: int


class SessionTool(BaseModel):
    """A tool as a session shows it."""

    name: str
    js_name: str
    kind: Literal["function", "freeform"]


class SessionView(BaseModel):
    """A session."""

    session_id: str
    created_at: datetime
    tools: list[SessionTool]
    limits: dict[str, int]
    metadata: dict[str, Any]
    approval_policy: Literal["never", "on_request"]
    model_warnings: bool
    lenient_source: bool
    typescript: bool
    last_event: int  # the number of the newest event: follow from here to hear of new ones only

    @classmethod
    def of(cls, session: Session) -> SessionView:
        return cls(
            session_id=session.session_id,
            created_at=_time(session.created_at),
            tools=[
                SessionTool(name=each.tool.name, js_name=each.js_name, kind=each.tool.kind) for each in session.registry
            ],
            limits=session.limits.as_dict(),
            metadata=dict(session.metadata),
            approval_policy=session.approval_policy,
            model_warnings=session.model_warnings,
            lenient_source=session.lenient_source,
            typescript=session.typescript,
            last_event=session.recorder.events.last,
        )


class SessionSummary(BaseModel):
    """A session in a list."""

    session_id: str
    created_at: datetime
    metadata: dict[str, Any]
    live_cells: int

    @classmethod
    def of(cls, session: Session) -> SessionSummary:
        return cls(
            session_id=session.session_id,
            created_at=_time(session.created_at),
            metadata=dict(session.metadata),
            live_cells=session.live_cells,
        )


class ToolFailure(BaseModel):
    """Why a direct call failed: what a script would get as a ToolError."""

    message: str
    code: str


class DirectCallView(BaseModel):
    """What became of a direct call: `output` or `error`."""

    tool_use_id: str
    output: Any = None
    error: ToolFailure | None = None


class ProcessView(BaseModel):
    """A command that runs; `session_id` is what write_stdin takes."""

    type: Literal["process"]
    session_id: int
    command: str
    workdir: str
    tty: bool
    turn_id: str | None
    cell_id: str | None
    tool_use_id: str
    started_at: datetime


class CommandItem(BaseModel):
    """A command as people are shown it. `cwd` is relative to the workspace."""

    type: Literal["commandExecution"]
    id: str
    command: str
    cwd: str
    parsedCmd: list[dict[str, Any]]  # noqa: N815 (the name is that of the events)
    status: Literal["inProgress", "completed", "failed", "declined"]
    aggregatedOutput: str | None  # noqa: N815
    exitCode: int | None  # noqa: N815
    durationMs: int | None  # noqa: N815
    source: Literal["agent", "userShell"]


class TurnEndView(BaseModel):
    """`running` and `warning` are there when the turn goes on."""

    needs_follow_up: bool
    running: list[dict[str, Any]] | None = None
    warning: str | None = None


class ApprovalView(BaseModel):
    """A call that waits, or waited, for a person's decision."""

    approval_id: str
    reason: str
    arguments_hash: str
    tool_name: str
    tool_use_id: str
    tool_source: dict[str, Any]
    asked_at: str
    expires_at: str
    item: dict[str, Any]
    resolution: Literal["accepted", "declined", "cancelled", "expired", "withdrawn"] | None = None


class Finding(BaseModel):
    """Something in a history that cannot be: what, and where."""

    code: str
    message: str
    seq: int | None
    tool_use_id: str | None
    cell_id: str | None


class LifecycleView(BaseModel):
    """What an auditor makes of a session's events. `complete`: from the first one on, with none lost."""

    ok: bool
    complete: bool
    session_id: str
    events: int
    first_seq: int | None
    last_seq: int | None
    open: list[str]
    states: dict[str, int]
    findings: list[Finding]
    more_findings: int


class CellSummary(BaseModel):
    """A cell in a list."""

    cell_id: str
    status: Status
    created_at: datetime
    ended_at: datetime | None
    turn_id: str | None
    tool_call_id: str | None


class NestedCall(BaseModel):
    """A nested call and where it came from."""

    runtime_tool_call_id: str
    tool_use_id: str
    tool_name: str
    tool_source: dict[str, Any]
    tool_status: dict[str, Any]
    started_at: datetime | None
    ended_at: datetime | None


class CellView(CellSummary):
    """One cell, with its record of nested calls."""

    error: ScriptError | None
    usage: Usage
    calls: list[NestedCall]


# What the routes answer with are plain dictionaries: there may be thousands of cells and calls, and models would hold
# up the event loop five times as long.


def cell_summary(cell: CellFacts) -> dict[str, Any]:
    """A CellSummary."""
    return {
        "cell_id": cell.cell_id,
        "status": cell.status,
        "created_at": _time(cell.created_at),
        "ended_at": None if cell.ended_at is None else _time(cell.ended_at),
        "turn_id": cell.turn_id,
        "tool_call_id": cell.tool_call_id,
    }


def cell_view(cell: CellFacts) -> dict[str, Any]:
    """A CellView."""
    error = None if cell.outcome is None else cell.outcome.error
    calls = [_nested_call(cell, call) for call in cell.ledger()]
    return {**cell_summary(cell), "error": error, "usage": cell.usage, "calls": calls}


def _nested_call(cell: CellFacts, call: LedgerEntry) -> dict[str, Any]:
    return {
        "runtime_tool_call_id": runtime_tool_call_id(call.number),
        "tool_use_id": call.tool_use_id,
        "tool_name": call.tool_name,
        "tool_source": code_mode_source(cell.parent_tool_use_id, cell.cell_id, call.number),
        "tool_status": tool_status(call.state, call.exit_code),
        "started_at": None if call.started_at is None else _time(call.started_at),
        "ended_at": None if call.ended_at is None else _time(call.ended_at),
    }


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
