"""codemode: runs JavaScript that calls many tools, each script in a V8 isolate and a process of its own.

    from codemode import CodeMode, tool

The names below are the library; they are imported when they are first used, since the process that
cells are forked from loads this package too and has to stay small.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codemode.cells.observation import Observation, PendingToolCall, ScriptError, ToolCallCounts, ToolResult, Usage
    from codemode.client import AsyncCodeModeClient, CodeModeClient
    from codemode.errors import CodeModeError, ToolError
    from codemode.limits import Limits
    from codemode.service import CodeMode
    from codemode.session import Session
    from codemode.tools.tool import HttpHandler, Tool, tool

_HOMES = {
    "AsyncCodeModeClient": "codemode.client",
    "CodeMode": "codemode.service",
    "CodeModeClient": "codemode.client",
    "CodeModeError": "codemode.errors",
    "HttpHandler": "codemode.tools.tool",
    "Limits": "codemode.limits",
    "Observation": "codemode.cells.observation",
    "PendingToolCall": "codemode.cells.observation",
    "ScriptError": "codemode.cells.observation",
    "Session": "codemode.session",
    "Tool": "codemode.tools.tool",
    "ToolCallCounts": "codemode.cells.observation",
    "ToolError": "codemode.errors",
    "ToolResult": "codemode.cells.observation",
    "Usage": "codemode.cells.observation",
    "tool": "codemode.tools.tool",
}

__version__ = "0.1.0"

__all__ = [
    "AsyncCodeModeClient",
    "CodeMode",
    "CodeModeClient",
    "CodeModeError",
    "HttpHandler",
    "Limits",
    "Observation",
    "PendingToolCall",
    "ScriptError",
    "Session",
    "Tool",
    "ToolCallCounts",
    "ToolError",
    "ToolResult",
    "Usage",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'codemode' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
