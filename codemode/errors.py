"""Every error that codemode raises on purpose.

    CodeModeError                 has a stable `code` and a `detail` fit for a caller
    ├── InvalidRequest            a field is missing, unknown, of the wrong type or out of range
    ├── InvalidSource             the script cannot be run at all (empty, bad first-line directive)
    ├── PayloadTooLarge           a body or source is longer than the limit
    ├── ToolNameCollision         two tools would get the same JavaScript name
    ├── ToolNotFound, SessionNotFound, CellNotFound, ToolCallNotFound
    ├── CellBusy                  somebody else is waiting for this cell
    ├── ToolCallAlreadyResolved   a result was given twice
    ├── ApprovalNotFound, ApprovalAlreadyResolved, ApprovalMismatch
    ├── ToolUseIdTaken            a direct call was sent twice
    ├── ExecNotAllowed, ProcessNotFound
    ├── Unauthorized              the key is missing or wrong
    ├── TooManyCells, TooManySessions, TooManyExecs, TooManyFollowers
    ├── IsolationUnavailable      no cell process can be started
    │   └── SandboxUnavailable    the kernel does not give what `require_sandbox` asks for
    ├── JournalUnavailable        what is asked for lies in the journal, which cannot be read
    └── ShuttingDown              no new work is taken
    ToolError                     raised by a tool: fails that one call, the script sees the text

None of them carries a traceback, a path of the host or another session's id.
"""

from __future__ import annotations

from typing import Any, ClassVar


class CodeModeError(Exception):
    """Base of all errors that are answers to a caller.

    `code` is stable and documented, `detail` says what was wrong and what to do, `fields` holds
    further JSON values for the caller's program.
    """

    code: ClassVar[str] = "internal_error"

    def __init__(self, detail: str, **fields: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.fields = fields

    @property
    def model_text(self) -> str | None:
        """The text for the model, for problems that a model can cause and mend; else None."""
        return None


class InvalidRequest(CodeModeError):
    """A request that is wrong in its form; `field` names the place."""

    code = "invalid_request"


class InvalidSource(CodeModeError):
    """A source that cannot be run at all: nothing ran and no cell id was used up."""

    code = "invalid_source"

    @property
    def model_text(self) -> str | None:
        return f"Script error:\n{self.detail}"


class PayloadTooLarge(CodeModeError):
    """A body or source over its limit; refused before it is looked at. A model can shorten a source."""

    code = "payload_too_large"
    _is_source = False

    def __init__(self, detail: str, *, is_source: bool = False, **fields: Any) -> None:
        super().__init__(detail, **fields)
        self._is_source = is_source

    @property
    def model_text(self) -> str | None:
        of_source = self._is_source or "model_output" in self.fields  # as a client has it from the service
        return f"Script error:\n{self.detail}" if of_source else None


class ToolNameCollision(CodeModeError):
    """Two tools of a session would get the same JavaScript name."""

    code = "tool_name_collision"


class ToolNotFound(CodeModeError):
    """A direct call named a tool that the session does not have."""

    code = "tool_not_found"


class SessionNotFound(CodeModeError):
    """No such session, or one of another tenant."""

    code = "session_not_found"

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"session {session_id} not found: it was never made, it was deleted, or nobody used it for so long that it "
            "was forgotten (session_idle_ms)"
        )


class CellNotFound(CodeModeError):
    """An id that was never given, or that is forgotten by now."""

    code = "cell_not_found"

    def __init__(self, cell_id: str) -> None:
        super().__init__(f"exec cell {cell_id} not found", cell_id=cell_id[:100])

    @property
    def model_text(self) -> str | None:
        return f"Script error:\n{self.detail}"


class CellBusy(CodeModeError):
    """Another wait on this cell is pending; one observer at a time."""

    code = "cell_busy"

    def __init__(self, cell_id: str) -> None:
        super().__init__(
            f"exec cell {cell_id} is being waited for by another call; wait for its answer, or terminate the cell"
        )

    @property
    def model_text(self) -> str | None:
        return f"Script error:\n{self.detail}"


class ToolCallNotFound(CodeModeError):
    """A result for a call that was never made, or that no client has to answer; `cell_id`, `runtime_tool_call_id`."""

    code = "tool_call_not_found"


class ToolCallAlreadyResolved(CodeModeError):
    """A second result for the same call, or one for a call that was cancelled; fields as those of ToolCallNotFound."""

    code = "tool_call_already_resolved"


class Unauthorized(CodeModeError):
    """The request has no key, or one that the service does not know."""

    code = "unauthorized"


class TooManyCells(CodeModeError):
    """The session, the tenant or the server has as many live cells as it may."""

    code = "too_many_cells"


class TooManySessions(CodeModeError):
    """The tenant has as many sessions as it may."""

    code = "too_many_sessions"


class TooManyExecs(CodeModeError):
    """The tenant has started as many scripts as it may in a minute; `retry_after_s` says when the next may start."""

    code = "too_many_execs"

    def __init__(self, most: int, retry_after_s: int) -> None:
        super().__init__(
            f"the tenant has started as many scripts as it may, {most} a minute; the next in {retry_after_s} s",
            retry_after_s=retry_after_s,
        )


class IsolationUnavailable(CodeModeError):
    """No cell process can be started."""

    code = "isolation_unavailable"


class TooManyFollowers(CodeModeError):
    """As many follow the events of the session, or of the tenant, as may."""

    code = "too_many_followers"


class JournalUnavailable(CodeModeError):
    """What is asked for is in the journal alone, which cannot be read at this moment."""

    code = "journal_unavailable"

    def __init__(self) -> None:
        super().__init__("the journal cannot be read at this moment; try again, and see the service's log")


class SandboxUnavailable(IsolationUnavailable):
    """The kernel does not give the walls that `require_sandbox` asks for, so nothing was started."""


class ShuttingDown(CodeModeError):
    """The service is stopping and takes no new work."""

    code = "shutting_down"

    def __init__(self) -> None:
        super().__init__("the service is shutting down and takes no new work; try another instance, or again later")


class ApprovalNotFound(CodeModeError):
    """An approval that was never asked for, or whose call is forgotten by now."""

    code = "approval_not_found"


class ApprovalAlreadyResolved(CodeModeError):
    """The decision was made, or is needed no more: the call has ended, or waited too long."""

    code = "approval_already_resolved"


class ApprovalMismatch(CodeModeError):
    """A decision about another tool or other arguments than those that are asked about; nothing was decided."""

    code = "approval_mismatch"


class ToolUseIdTaken(CodeModeError):
    """A direct call with an id that another call of the session has: that call is not made again."""

    code = "tool_use_id_taken"


class ExecNotAllowed(CodeModeError):
    """A command, where the operator allows none (`--allow-exec`)."""

    code = "exec_not_allowed"

    def __init__(self) -> None:
        super().__init__("commands are not allowed here; the operator allows them with --workspace DIR --allow-exec")


class ProcessNotFound(CodeModeError):
    """A command that was never started in this session, or is forgotten by now."""

    code = "process_not_found"


class ToolError(Exception):
    """Raise this in a tool to fail that one call: the script's promise rejects with this text.

    Any other exception in a tool rejects with a text that names its type only, so that nothing of
    the host's inside reaches a script.
    """


class ToolTimedOut(ToolError):
    """The same, for a call that was given up because it took too long."""
