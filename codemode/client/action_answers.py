"""Reads answers about direct calls, turns, approvals, commands and the lifecycle: typed values.

Fields that this version does not know are ignored, as in `answers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from codemode.client.answers import known, times
from codemode.lifecycle.findings import Finding
from codemode.sessions.turns import TurnEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """What became of a direct call: its `output`, or an `error` as a script would get it, `{message, code}`."""

    tool_use_id: str
    output: Any = None
    error: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalInfo:
    """A call that waits for a person's decision, or has it: then `resolution` says what was decided.

    `item` shows the call as events do, `arguments_hash` is what a decision counts for.
    """

    approval_id: str
    reason: str
    arguments_hash: str
    tool_name: str
    tool_use_id: str
    tool_source: dict[str, Any]
    asked_at: datetime
    expires_at: datetime
    item: dict[str, Any]
    resolution: Literal["accepted", "declined", "cancelled", "expired", "withdrawn"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInfo:
    """A command of a call that runs. Its `session_id` is no session's, but what the tool write_stdin takes."""

    session_id: int
    command: str
    workdir: str  # relative to the workspace
    tty: bool
    turn_id: str | None
    cell_id: str | None
    tool_use_id: str  # of the call that started it
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandInfo:
    """A command of a person. While it runs, `exit_code` and `duration_ms` are None; after it, the code is too if ended.

    `parsed` is what the command seems to do, for display.
    """

    command_id: str
    command: str
    cwd: str  # relative to the workspace
    parsed: list[dict[str, Any]]
    status: Literal["inProgress", "completed", "failed", "declined"]
    output: str | None
    exit_code: int | None
    duration_ms: int | None
    source: Literal["agent", "userShell"]

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.status == "inProgress"


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleReport:
    """Whether the events that are kept tell of each start and end once, and in order: `ok`, else `findings`.

    `complete`: they are all from the first one on. `open` are the tool_use_ids of calls of which no end was seen,
    `states` how many calls ended how, `more_findings` those beyond the findings that are shown.
    """

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


def call(body: Any) -> CallAnswer:
    """What became of a direct call."""
    return known(CallAnswer, body)


def turn_end(body: Any) -> TurnEnd:
    """The end of a turn, or why it goes on."""
    return TurnEnd(body["needs_follow_up"], body.get("running") or [], body.get("warning"))


def approval(body: Any) -> ApprovalInfo:
    """A call that waits, or waited, for a decision."""
    return known(ApprovalInfo, body, **times(body, "asked_at", "expires_at"))


def process(body: Any) -> ProcessInfo:
    """A command that runs."""
    return known(ProcessInfo, body, **times(body, "started_at"))


def command(body: Any) -> CommandInfo:
    """A command of a person."""
    return known(
        CommandInfo,
        body,
        command_id=body["id"],
        parsed=body["parsedCmd"],
        output=body["aggregatedOutput"],
        exit_code=body["exitCode"],
        duration_ms=body["durationMs"],
    )


def lifecycle(body: Any) -> LifecycleReport:
    """What an auditor made of the events."""
    findings = [Finding(**{name: each[name] for name in Finding._fields if name in each}) for each in body["findings"]]
    return known(LifecycleReport, body, findings=findings)
