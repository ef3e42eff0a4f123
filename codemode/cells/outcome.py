"""How a cell ended: decided once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast, get_args

from codemode.calls.bridge import ToolBridge
from codemode.calls.call import Call
from codemode.cells.failures import failure
from codemode.cells.hints import hint_for
from codemode.cells.observation import ErrorKind, ScriptError, Status, bounded
from codemode.cells.plain_json import read_object
from codemode.cells.source import is_quoted_script
from codemode.isolation.wire import ProtocolError
from codemode.limits import Limits
from codemode.tools.registry import ToolRegistry

_KINDS: Final = get_args(ErrorKind)
_OF_SCRIPTS: Final = ("script_error", "syntax_error")
_MOST_REPORT: Final = 16 * 1024 * 1024  # bytes; the texts of an error that the runtime describes take less than two
_LARGEST: Final = 2**53 - 1
_MOST_COMMAND: Final = 200  # characters of a command in a warning


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a cell. `keeps_store` says whether what it stored is merged into its session."""

    status: Status
    error: ScriptError | None = None
    keeps_store: bool = False
    timers: int = 0  # still pending


TERMINATED: Final = Outcome("terminated")


def failed(error: ScriptError) -> Outcome:
    """The end of a cell that a limit or a loss brought."""
    return Outcome("failed", error)


def read_done(
    payload: bytes, source: str, registry: ToolRegistry, limits: Limits, typescript: bool = False
) -> Outcome | None:
    """The end that a cell process reports; None if it only says that it stopped as told. `typescript`: it is accepted.

    Raises ProtocolError for a report that no honest process makes.
    """
    if len(payload) > _MOST_REPORT:
        raise ProtocolError(f"a report of the end of {len(payload)} bytes")
    told = read_object(payload)
    status, kind, timers = told.get("status"), told.get("kind"), told.get("timers", 0)
    if status not in ("stopped", "completed", "failed") or "kind" not in told or not _is_count(timers):
        raise ProtocolError("a report of the end that cannot be read")
    if status == "stopped":
        return None
    if status == "completed":
        return Outcome("completed", keeps_store=True, timers=timers)
    if kind not in _KINDS:
        raise ProtocolError("a report of an end of no known kind")
    if kind not in _OF_SCRIPTS:
        said = told.get("message")
        message = bounded(said)[:500] if isinstance(said, str) else ""
        return failed(failure(cast("ErrorKind", kind), limits, message))
    error = _script_error(cast("ErrorKind", kind), told.get("error"), source, registry, typescript)
    return Outcome("failed", error, keeps_store=kind == "script_error")


def quoted_script(source: str) -> ScriptError | None:
    """The failure of a source that is one JSON string: valid JavaScript that does nothing, and never what was meant."""
    if not is_quoted_script(source):
        return None
    message = "the source is one JSON string, which would run and do nothing"
    start = source.index('"')
    line, column = source.count("\n", 0, start) + 1, start - source.rfind("\n", 0, start)
    text = f"SyntaxError: {message}\n    at exec_main.mjs:{line}:{column}"
    hint = hint_for("syntax_error", "SyntaxError", message, source, ())
    return ScriptError("syntax_error", "SyntaxError", message, line, column, text, hint)


def unfinished(outcome: Outcome, bridge: ToolBridge) -> list[str]:
    """Close the calls of a script that has ended, and say what its caller should know of them.

    Of a script that completed, what it had not finished; of any, which commands go on without it.
    """
    cancelled_tools = bridge.close()
    said = [_going_on(call) for call in bridge.going_on()]
    if outcome.status != "completed":
        return said
    said += [f"a result of {name} says isError" for name in bridge.error_results]
    said += [f"a call of {name} was not awaited; it was cancelled when the script ended" for name in cancelled_tools]
    if outcome.timers:
        said.append(f"{outcome.timers} pending timer(s) were dropped when the script ended")
    return said


def _going_on(call: Call) -> str:
    assert call.running is not None
    command = call.running.command
    shown = command if len(command) <= _MOST_COMMAND else f"{command[:_MOST_COMMAND]}…"
    return (
        f"the command {shown!r} that {call.name} started goes on as process {call.running.process_id}; "
        f"write_stdin with session_id {call.running.process_id} reads on"
    )


def _script_error(kind: ErrorKind, told: Any, source: str, registry: ToolRegistry, typescript: bool) -> ScriptError:
    if not isinstance(told, dict):
        raise ProtocolError("a failure without an error")
    name, message, text = told.get("name"), told.get("message"), told.get("text")
    line, column = told.get("line"), told.get("column")
    if not (isinstance(message, str) and isinstance(text, str) and isinstance(name, str | None)):
        raise ProtocolError("an error without its texts")
    if not all(place is None or _is_count(place) for place in (line, column)):
        raise ProtocolError("an error with an odd place")
    name, message, text = None if name is None else bounded(name), bounded(message), bounded(text)
    if kind == "syntax_error" and line is not None:
        text = f"{text}\n    at exec_main.mjs:{line}:{column}"
    hint = hint_for(kind, name, message, source, registry.js_names, typescript=typescript)
    return ScriptError(kind, name, message, line, column, text, hint)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST
