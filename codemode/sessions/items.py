"""Commands and calls as people are shown them: the `item` of events."""

from __future__ import annotations

from typing import Any, Literal

from codemode.calls.call import Call
from codemode.calls.result import Result
from codemode.processes.parsed import parsed
from codemode.tools.command import CommandHandler

ItemStatus = Literal["inProgress", "completed", "failed", "declined"]


def command_item(
    item_id: str,
    command: str,
    cwd: str,
    status: ItemStatus = "inProgress",
    *,
    output: str | None = None,
    exit_code: int | None = None,
    duration_ms: int | None = None,
    source: Literal["agent", "userShell"] = "agent",
) -> dict[str, Any]:
    """A command. `cwd` is relative to the workspace; what is not known yet is null."""
    return {
        "type": "commandExecution",
        "id": item_id,
        "command": command,
        "cwd": cwd,
        "parsedCmd": parsed(command),
        "status": status,
        "aggregatedOutput": output,
        "exitCode": exit_code,
        "durationMs": duration_ms,
        "source": source,
    }


def item_of(call: Call, value: Any) -> dict[str, Any]:
    """A call with this input, as it begins."""
    handler = call.registered.tool.handler
    if isinstance(handler, CommandHandler) and handler.command_of is not None:
        return command_item(call.tool_use_id, *handler.command_of(value))
    return {"type": "toolCall", "id": call.tool_use_id, "tool": call.name, "input": value, "status": "inProgress"}


def ended_item(call: Call, value: Any, result: Result) -> dict[str, Any]:
    """The same of a command that has ended."""
    status: ItemStatus = "completed" if result.exit_code == 0 else "failed"
    if result.state == "denied":
        status = "declined"
    output = result.value.get("output") if isinstance(result.value, dict) else None
    duration = None
    if call.started_at is not None and call.ended_at is not None:
        duration = round((call.ended_at - call.started_at) * 1000)
    told = {"status": status, "aggregatedOutput": output, "exitCode": result.exit_code, "durationMs": duration}
    return item_of(call, value) | told
