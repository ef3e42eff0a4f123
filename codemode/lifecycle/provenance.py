"""Where a call of a tool came from. Made by the runtime, never by a script."""

from __future__ import annotations


def runtime_tool_call_id(number: int) -> str:
    """The name of a nested call within its cell; its error carries the same in the script."""
    return f"call-{number}"


def code_mode_source(parent_tool_use_id: str, cell_id: str, number: int) -> dict[str, str]:
    """The `tool_source` of a nested call."""
    return {
        "type": "code_mode",
        "parent_tool": "exec",
        "parent_tool_use_id": parent_tool_use_id,
        "cell_id": cell_id,
        "runtime_tool_call_id": runtime_tool_call_id(number),
    }


def direct_source() -> dict[str, str]:
    """The `tool_source` of a call that no script made."""
    return {"type": "direct"}
