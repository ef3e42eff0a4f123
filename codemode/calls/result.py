"""What became of a call."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from codemode.calls.call import State
from codemode.errors import ToolError
from codemode.limits import Limits
from codemode.tools.command import CommandAnswer, RunningCommand
from codemode.tools.encoding import NotJson, decode, encode, error_text
from codemode.tools.policy import ToolPolicy

# The `code` of a ToolError, and of the error of a direct call. Stable, see docs/errors.md.
TOOL_FAILED: Final = "tool_failed"
INVALID_INPUT: Final = "invalid_input"
RESULT_TOO_LARGE: Final = "result_too_large"
RESULT_WITHHELD: Final = "result_withheld"
TIMED_OUT: Final = "timed_out"
HOOK_DENIED: Final = "hook_denied"
APPROVAL_DECLINED: Final = "approval_declined"
APPROVAL_EXPIRED: Final = "approval_expired"
CALLER_NOT_ALLOWED: Final = "caller_not_allowed"
CALL_LIMIT: Final = "call_limit"
CANCELLED: Final = "cancelled"


class Result(NamedTuple):
    """`payload` is JSON, or with a `code` the text of an error. `value` is what the tool gave, for who is told of it.

    `running` is the process that goes on.
    """

    state: State
    payload: bytes
    code: str | None = None
    value: Any = None
    exit_code: int | None = None
    running: RunningCommand | None = None
    is_error: bool = False  # the value is an MCP result that says so

    @property
    def response(self) -> Any:
        """As hooks are shown it. Raises NotJson for one that is nested too deeply."""
        if self.code is None:
            return decode(self.payload) if self.payload else self.value
        if self.state in ("denied", "cancelled"):
            return None
        return {"error": {"message": self.payload.decode("utf-8", "replace"), "code": self.code}}


def refused(state: State, code: str, text: str) -> Result:
    """One that is an error, its text bounded."""
    return Result(state, error_text(text.encode("utf-8", "replace")), code)


def failed(text: str, code: str = TOOL_FAILED) -> Result:
    """One of a tool that failed."""
    return refused("failed", code, text)


def of_output(name: str, output: Any, limits: Limits, policy: ToolPolicy) -> Result:
    """The result of a tool that gave this."""
    if isinstance(output, CommandAnswer):
        return _of_command(name, output, limits, policy)
    return _encoded(name, output, "completed", limits, policy)


def _of_command(name: str, answer: CommandAnswer, limits: Limits, policy: ToolPolicy) -> Result:
    if answer.running is not None:
        made = _encoded(name, answer.output, "running", limits, policy)
        return made._replace(state="running", running=answer.running)
    if answer.ending is None:
        return _encoded(name, answer.output, "completed", limits, policy)
    made = _encoded(name, answer.output, answer.ending.state, limits, policy)
    return made._replace(state=answer.ending.state, exit_code=answer.ending.exit_code)


def _encoded(name: str, output: Any, state: State, limits: Limits, policy: ToolPolicy) -> Result:
    try:
        payload = encode(output)
    except NotJson as problem:
        return failed(f"{name}: its result cannot be written as JSON: {problem}")
    most = limits.max_tool_result_bytes
    if policy.max_result_bytes is not None:
        most = min(most, policy.max_result_bytes)
    if len(payload) > most:
        return failed(f"{name}: its result has {len(payload)} bytes; at most {most} are accepted", RESULT_TOO_LARGE)
    is_error = isinstance(output, dict) and output.get("isError") is True
    return Result(state, payload, None, output, is_error=is_error)


def said(problem: ToolError, name: str) -> str:
    """The text of a tool's error; one that cannot even say that is described by its type."""
    try:
        return str(problem)
    except BaseException:  # a SystemExit here would end the service
        return f"{name}: it failed with {type(problem).__name__}"
