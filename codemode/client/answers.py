"""Reads answers: typed values, or the exception of a problem.

Fields that this version does not know are ignored, so that a newer service can be talked to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import httpx

from codemode import errors
from codemode.cells.observation import (
    Notification,
    Observation,
    PendingToolCall,
    ScriptError,
    Status,
    ToolCallCounts,
    Usage,
)
from codemode.errors import CodeModeError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
D = TypeVar("D", bound="DataclassInstance")

_ERRORS: Final[dict[str, type[CodeModeError]]] = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, CodeModeError)
}
_OF_EVERY_PROBLEM: Final = ("type", "title", "status", "detail", "code")


@dataclass(frozen=True, slots=True)
class SessionTool:
    """A tool of a session; scripts call it `tools.<js_name>`."""

    name: str
    js_name: str
    kind: Literal["function", "freeform"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInfo:
    """A session as the service shows it. `limits` are those in force, by their names in the documentation."""

    session_id: str
    created_at: datetime
    tools: list[SessionTool]
    limits: dict[str, int]
    metadata: dict[str, Any]
    approval_policy: str
    model_warnings: bool = False
    lenient_source: bool = False
    typescript: bool = False
    last_event: int = 0  # the number of the newest event


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session in a list."""

    session_id: str
    created_at: datetime
    metadata: dict[str, Any]
    live_cells: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CellInfo:
    """A cell in a list."""

    cell_id: str
    status: Status
    created_at: datetime
    ended_at: datetime | None
    turn_id: str | None
    tool_call_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedCall:
    """A tool call that a script made. `tool_status["state"]` says how it stands, `tool_source` where it came from."""

    runtime_tool_call_id: str
    tool_use_id: str
    tool_name: str
    tool_source: dict[str, Any]
    tool_status: dict[str, Any]
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellDetail(CellInfo):
    """One cell, with its record of nested calls."""

    error: ScriptError | None
    usage: Usage
    calls: list[NestedCall]


def read(response: httpx.Response, parse: Callable[[Any], T]) -> T:
    """What `parse` makes of an answer's JSON. Raises the CodeModeError of a problem, or of an unexpected answer."""
    if not response.is_success:
        raise problem(response)
    try:
        return parse(response.json())
    except (ValueError, KeyError, TypeError, AttributeError) as cause:
        raise _unexpected(response) from cause


def problem_code(response: httpx.Response) -> str | None:
    """The `code` of a problem; None for an answer that is none."""
    return None if response.is_success else problem(response).code


def problem(response: httpx.Response) -> CodeModeError:
    """The exception of a problem: the class that has its code, CodeModeError with that code if none has.

    Whatever the problem holds beyond its detail is in `fields`; `retry_after_s` too, if the service named it.
    """
    try:
        body = response.json()
        code, detail = str(body["code"]), str(body["detail"])
    except (ValueError, KeyError, TypeError):
        return _unexpected(response)
    more = {name: value for name, value in body.items() if name not in _OF_EVERY_PROBLEM}
    wait = response.headers.get("retry-after", "")
    return _error(code, detail, more | ({"retry_after_s": int(wait)} if wait.isdecimal() else {}))


def _unexpected(response: httpx.Response) -> CodeModeError:
    """For answers that the service does not give: something between may have, or it is no codemode at all."""
    return _error(
        "unexpected_answer",
        f"{response.request.url} answered {response.status_code} with something that codemode would not: "
        f"{response.text[:200]!r}",
        {},
    )


def _error(code: str, detail: str, more: dict[str, Any]) -> CodeModeError:
    kind = _ERRORS.get(code, CodeModeError)
    error = kind.__new__(kind, detail)
    CodeModeError.__init__(error, detail)  # the constructors of some make their text themselves
    error.fields = more
    if code != kind.code:
        vars(error)["code"] = code
    return error


def observation(body: Any) -> Observation:
    """The observation that exec, wait and tool_results answer."""
    return known(
        Observation,
        body,
        error=_script_error(body["error"]),
        usage=known(Usage, body["usage"]),
        tool_calls=known(ToolCallCounts, body["tool_calls"]),
        notifications=[known(Notification, each) for each in body["notifications"]],
        pending_tool_calls=[known(PendingToolCall, each) for each in body["pending_tool_calls"]],
    )


def session(body: Any) -> SessionInfo:
    """A session."""
    tools = [known(SessionTool, each) for each in body["tools"]]
    return known(SessionInfo, body, tools=tools, created_at=_time(body["created_at"]))


def session_summary(body: Any) -> SessionSummary:
    """A session of a list."""
    return known(SessionSummary, body, created_at=_time(body["created_at"]))


def cell(body: Any) -> CellInfo:
    """A cell of a list."""
    return known(CellInfo, body, **times(body, "created_at", "ended_at"))


def cell_detail(body: Any) -> CellDetail:
    """One cell."""
    return known(
        CellDetail,
        body,
        error=_script_error(body["error"]),
        usage=known(Usage, body["usage"]),
        calls=[known(NestedCall, each, **times(each, "started_at", "ended_at")) for each in body["calls"]],
        **times(body, "created_at", "ended_at"),
    )


def _script_error(body: Any) -> ScriptError | None:
    return None if body is None else known(ScriptError, body)


def known(kind: type[D], body: dict[str, Any], **parsed: Any) -> D:
    """An instance with the fields that it knows; `parsed` ones as given."""
    names = [field.name for field in fields(kind)]
    return kind(**{name: body[name] for name in names if name in body} | parsed)


def times(body: dict[str, Any], *names: str) -> dict[str, datetime | None]:
    return {name: None if body[name] is None else _time(body[name]) for name in names}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
