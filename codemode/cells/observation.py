"""What one exec, wait or tool_results answer hands over, and how a model is shown it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

Status = Literal["running", "completed", "failed", "terminated"]
ErrorKind = Literal[
    "script_error",
    "syntax_error",
    "out_of_memory",
    "cpu_limit",
    "deadline",
    "output_limit",
    "tool_call_limit",
    "deadlock",
    "worker_crashed",
    "server_restarted",
]

_MOST_ERROR_TEXT: Final = 64 * 1024  # bytes; a message beyond is cut


@dataclass(frozen=True, slots=True)
class ScriptError:
    """Why a cell failed. `line` and `column` are those of the text the caller sent, from 1."""

    kind: ErrorKind
    name: str | None
    message: str
    line: int | None = None
    column: int | None = None
    stack: str | None = None
    hint: str | None = None

    @property
    def text(self) -> str:
        """What a model is shown, its last line being the hint."""
        shown = bounded(self.message if self.stack is None else self.stack)
        return f"Script error:\n{shown}" + (f"\n{self.hint}" if self.hint else "")


def bounded(text: str) -> str:
    """A text of at most 64 KiB, head and tail kept, that UTF-8 can hold."""
    data = text.encode("utf-8", "replace")
    if len(data) <= _MOST_ERROR_TEXT:
        return data.decode()
    half = _MOST_ERROR_TEXT // 2
    head, tail = data[:half].decode("utf-8", "ignore"), data[-half:].decode("utf-8", "ignore")
    return f"{head}…{len(data) - _MOST_ERROR_TEXT} bytes omitted…{tail}"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a cell has used so far.

    `tool_wait_ms` is the time with a nested call under way, `queue_ms` the time before the start,
    `heap_peak_bytes` the largest JavaScript heap seen at the end of a turn of the isolate.
    """

    cpu_ms: int = 0
    wall_ms: int = 0
    tool_wait_ms: int = 0
    queue_ms: int = 0
    heap_peak_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ToolCallCounts:
    """The nested calls of a cell so far, by how they stand."""

    completed: int = 0
    failed: int = 0
    in_flight: int = 0
    queued: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class PendingToolCall:
    """A call that the caller has to fulfil."""

    runtime_tool_call_id: str
    tool_name: str
    input: Any
    cell_id: str


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a pending call, from the caller: `output` (any JSON, None included) unless `error` is a text."""

    cell_id: str
    runtime_tool_call_id: str
    output: Any = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """A message of notify(); `at_ms` counts from the cell's start."""

    text: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One answer. `model_output` is ready to be passed to a model as the result of its tool call."""

    session_id: str
    cell_id: str
    status: Status
    output: list[dict[str, Any]]
    cursor: int
    truncated: bool
    original_token_count: int
    wall_time_ms: int
    error: ScriptError | None
    warnings: list[str]
    notifications: list[Notification]
    usage: Usage
    tool_calls: ToolCallCounts
    safe_to_retry: bool | None
    pending_tool_calls: list[PendingToolCall]
    model_output: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        """Whether there is more to wait for."""
        return self.status == "running"

    @property
    def text(self) -> str:
        """All of `model_output` that is text, as one string: what a model reads."""
        return "\n".join(item["text"] for item in self.model_output if item["type"] == "input_text")


def model_output(
    status: Status,
    cell_id: str,
    wall_time_ms: int,
    output: list[dict[str, Any]],
    error: ScriptError | None,
    warnings: list[str] | None,
) -> list[dict[str, Any]]:
    """The items for the model: the header, each output item, the error of a failed script, then warnings if wanted."""
    state = f"running with cell ID {cell_id}" if status == "running" else status
    header = f"Script {state}\nWall time {wall_time_ms / 1000:.1f} seconds\nOutput:\n"
    items = [_text(header), *map(_model_item, output)]
    if error is not None and status == "failed":
        items.append(_text(error.text))
    if warnings:
        items.append(_text("Warnings:\n" + "\n".join(warnings)))
    return items


def _text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _model_item(item: dict[str, Any]) -> dict[str, Any]:
    shown = {key: value for key, value in item.items() if not (key == "detail" and value is None)}
    return shown | {"type": f"input_{item['type']}"}
