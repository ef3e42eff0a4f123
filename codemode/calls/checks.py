"""What is checked of a call before anything happens: who may make it, and its input."""

from __future__ import annotations

from typing import Any

from codemode.limits import Limits
from codemode.tools.encoding import NotJson, decode
from codemode.tools.policy import Caller
from codemode.tools.registry import RegisteredTool


def caller_fault(registered: RegisteredTool, caller: Caller) -> str | None:
    """Why this caller may not use a tool; None if it may."""
    if caller in registered.tool.policy.allowed_callers:
        return None
    where = "directly, not by a script" if caller == "programmatic" else "by a script, not directly"
    return f"{registered.tool.name}: it may only be called {where}"


def read_input(registered: RegisteredTool, text: bytes, limits: Limits) -> str | None:
    """What is wrong with the JSON text of an input; None if nothing is."""
    name = registered.tool.name
    if len(text) > limits.max_tool_input_bytes:
        return f"{name}: the input has {len(text)} bytes; at most {limits.max_tool_input_bytes} are accepted"
    try:
        value = decode(text)
    except NotJson as problem:
        return f"{name}: the input cannot be read as JSON: {problem}"
    return input_fault(registered, text, value, limits)


def input_fault(registered: RegisteredTool, text: bytes, value: Any, limits: Limits) -> str | None:
    """The same for one that was read."""
    if len(text) > limits.max_tool_input_bytes:
        return f"{registered.tool.name}: the input has {len(text)} bytes; at most {limits.max_tool_input_bytes}"
    return None if registered.schema is None else registered.schema.fault(value, len(text))
