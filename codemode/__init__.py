"""codemode: runs JavaScript that calls many tools, each script in a V8 isolate and a process of its own.

    from codemode import CodeMode, tool

The names below are the library; they are imported when they are first used, since the process that
cells are forked from loads this package too and has to stay small.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codemode.cells.observation import (
        Notification,
        Observation,
        PendingToolCall,
        ScriptError,
        ToolCallCounts,
        ToolResult,
        Usage,
    )
    from codemode.client import (
        AsyncClientSession,
        AsyncCodeModeClient,
        CellDetail,
        CellInfo,
        ClientSession,
        CodeModeClient,
        NestedCall,
        SessionInfo,
        SessionSummary,
        SessionTool,
    )
    from codemode.errors import (
        CellBusy,
        CellNotFound,
        CodeModeError,
        InvalidRequest,
        InvalidSource,
        IsolationUnavailable,
        JournalUnavailable,
        PayloadTooLarge,
        SandboxUnavailable,
        SessionNotFound,
        ShuttingDown,
        ToolCallAlreadyResolved,
        ToolCallNotFound,
        ToolError,
        ToolNameCollision,
        ToolNotFound,
        TooManyCells,
        TooManyExecs,
        TooManyFollowers,
        TooManySessions,
        Unauthorized,
    )
    from codemode.limits import Limits
    from codemode.service import CodeMode
    from codemode.sessions.session import Session
    from codemode.tools.tool import HttpHandler, Tool, tool

_HOMES = {
    "AsyncClientSession": "codemode.client",
    "AsyncCodeModeClient": "codemode.client",
    "CellBusy": "codemode.errors",
    "CellDetail": "codemode.client",
    "CellInfo": "codemode.client",
    "CellNotFound": "codemode.errors",
    "ClientSession": "codemode.client",
    "CodeMode": "codemode.service",
    "CodeModeClient": "codemode.client",
    "CodeModeError": "codemode.errors",
    "HttpHandler": "codemode.tools.tool",
    "InvalidRequest": "codemode.errors",
    "InvalidSource": "codemode.errors",
    "IsolationUnavailable": "codemode.errors",
    "JournalUnavailable": "codemode.errors",
    "Limits": "codemode.limits",
    "NestedCall": "codemode.client",
    "Notification": "codemode.cells.observation",
    "Observation": "codemode.cells.observation",
    "PayloadTooLarge": "codemode.errors",
    "PendingToolCall": "codemode.cells.observation",
    "SandboxUnavailable": "codemode.errors",
    "ScriptError": "codemode.cells.observation",
    "Session": "codemode.sessions.session",
    "SessionInfo": "codemode.client",
    "SessionNotFound": "codemode.errors",
    "SessionSummary": "codemode.client",
    "SessionTool": "codemode.client",
    "ShuttingDown": "codemode.errors",
    "TooManyCells": "codemode.errors",
    "TooManyExecs": "codemode.errors",
    "TooManyFollowers": "codemode.errors",
    "TooManySessions": "codemode.errors",
    "Tool": "codemode.tools.tool",
    "ToolCallAlreadyResolved": "codemode.errors",
    "ToolCallCounts": "codemode.cells.observation",
    "ToolCallNotFound": "codemode.errors",
    "ToolError": "codemode.errors",
    "ToolNameCollision": "codemode.errors",
    "ToolNotFound": "codemode.errors",
    "ToolResult": "codemode.cells.observation",
    "Unauthorized": "codemode.errors",
    "Usage": "codemode.cells.observation",
    "tool": "codemode.tools.tool",
}

__version__ = "0.1.0"

__all__ = [
    "AsyncClientSession",
    "AsyncCodeModeClient",
    "CellBusy",
    "CellDetail",
    "CellInfo",
    "CellNotFound",
    "ClientSession",
    "CodeMode",
    "CodeModeClient",
    "CodeModeError",
    "HttpHandler",
    "InvalidRequest",
    "InvalidSource",
    "IsolationUnavailable",
    "JournalUnavailable",
    "Limits",
    "NestedCall",
    "Notification",
    "Observation",
    "PayloadTooLarge",
    "PendingToolCall",
    "SandboxUnavailable",
    "ScriptError",
    "Session",
    "SessionInfo",
    "SessionNotFound",
    "SessionSummary",
    "SessionTool",
    "ShuttingDown",
    "TooManyCells",
    "TooManyExecs",
    "TooManyFollowers",
    "TooManySessions",
    "Tool",
    "ToolCallAlreadyResolved",
    "ToolCallCounts",
    "ToolCallNotFound",
    "ToolError",
    "ToolNameCollision",
    "ToolNotFound",
    "ToolResult",
    "Unauthorized",
    "Usage",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'codemode' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
