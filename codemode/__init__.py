"""codemode: runs JavaScript that calls many tools, each script in a V8 isolate and a process of its own.

    from codemode import CodeMode, tool

The names below are the library; they are imported when they are first used, since the process that
cells are forked from loads this package too and has to stay small.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codemode.calls.approvals import Approval
    from codemode.calls.direct import ToolAnswer
    from codemode.calls.hooks import Hook
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
        AnswerLost,
        ApprovalInfo,
        AsyncClientSession,
        AsyncCodeModeClient,
        CallAnswer,
        CellDetail,
        CellInfo,
        ClientSession,
        CodeModeClient,
        CommandInfo,
        LifecycleReport,
        NestedCall,
        ProcessInfo,
        SessionInfo,
        SessionSummary,
        SessionTool,
    )
    from codemode.errors import (
        ApprovalAlreadyResolved,
        ApprovalMismatch,
        ApprovalNotFound,
        CellBusy,
        CellNotFound,
        CodeModeError,
        ExecNotAllowed,
        InvalidRequest,
        InvalidSource,
        IsolationUnavailable,
        JournalUnavailable,
        PayloadTooLarge,
        ProcessNotFound,
        SandboxUnavailable,
        SessionNotFound,
        ShuttingDown,
        ToolCallAlreadyResolved,
        ToolCallNotFound,
        ToolError,
        ToolNameCollision,
        ToolNotFound,
        ToolTimedOut,
        ToolUseIdTaken,
        TooManyCells,
        TooManyExecs,
        TooManyFollowers,
        TooManySessions,
        Unauthorized,
    )
    from codemode.lifecycle.auditor import LifecycleAuditor
    from codemode.lifecycle.findings import Finding
    from codemode.lifecycle.hook_auditor import HookAuditor
    from codemode.limits import Limits
    from codemode.mcp.config import McpServer
    from codemode.service import CodeMode
    from codemode.sessions.session import Session
    from codemode.sessions.turns import TurnEnd
    from codemode.tools.policy import ToolPolicy
    from codemode.tools.tool import HttpHandler, Tool, tool

_HOMES = {
    "AnswerLost": "codemode.client",
    "Approval": "codemode.calls.approvals",
    "ApprovalAlreadyResolved": "codemode.errors",
    "ApprovalInfo": "codemode.client",
    "ApprovalMismatch": "codemode.errors",
    "ApprovalNotFound": "codemode.errors",
    "AsyncClientSession": "codemode.client",
    "AsyncCodeModeClient": "codemode.client",
    "CallAnswer": "codemode.client",
    "CellBusy": "codemode.errors",
    "CellDetail": "codemode.client",
    "CellInfo": "codemode.client",
    "CellNotFound": "codemode.errors",
    "ClientSession": "codemode.client",
    "CodeMode": "codemode.service",
    "CodeModeClient": "codemode.client",
    "CodeModeError": "codemode.errors",
    "CommandInfo": "codemode.client",
    "ExecNotAllowed": "codemode.errors",
    "Finding": "codemode.lifecycle.findings",
    "Hook": "codemode.calls.hooks",
    "HookAuditor": "codemode.lifecycle.hook_auditor",
    "HttpHandler": "codemode.tools.tool",
    "InvalidRequest": "codemode.errors",
    "InvalidSource": "codemode.errors",
    "IsolationUnavailable": "codemode.errors",
    "JournalUnavailable": "codemode.errors",
    "LifecycleAuditor": "codemode.lifecycle.auditor",
    "LifecycleReport": "codemode.client",
    "Limits": "codemode.limits",
    "McpServer": "codemode.mcp.config",
    "NestedCall": "codemode.client",
    "Notification": "codemode.cells.observation",
    "Observation": "codemode.cells.observation",
    "PayloadTooLarge": "codemode.errors",
    "PendingToolCall": "codemode.cells.observation",
    "ProcessInfo": "codemode.client",
    "ProcessNotFound": "codemode.errors",
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
    "ToolAnswer": "codemode.calls.direct",
    "ToolCallAlreadyResolved": "codemode.errors",
    "ToolCallCounts": "codemode.cells.observation",
    "ToolCallNotFound": "codemode.errors",
    "ToolError": "codemode.errors",
    "ToolNameCollision": "codemode.errors",
    "ToolNotFound": "codemode.errors",
    "ToolPolicy": "codemode.tools.policy",
    "ToolResult": "codemode.cells.observation",
    "ToolTimedOut": "codemode.errors",
    "ToolUseIdTaken": "codemode.errors",
    "TurnEnd": "codemode.sessions.turns",
    "Unauthorized": "codemode.errors",
    "Usage": "codemode.cells.observation",
    "tool": "codemode.tools.tool",
}

__version__ = "0.1.0"

__all__ = [
    "AnswerLost",
    "Approval",
    "ApprovalAlreadyResolved",
    "ApprovalInfo",
    "ApprovalMismatch",
    "ApprovalNotFound",
    "AsyncClientSession",
    "AsyncCodeModeClient",
    "CallAnswer",
    "CellBusy",
    "CellDetail",
    "CellInfo",
    "CellNotFound",
    "ClientSession",
    "CodeMode",
    "CodeModeClient",
    "CodeModeError",
    "CommandInfo",
    "ExecNotAllowed",
    "Finding",
    "Hook",
    "HookAuditor",
    "HttpHandler",
    "InvalidRequest",
    "InvalidSource",
    "IsolationUnavailable",
    "JournalUnavailable",
    "LifecycleAuditor",
    "LifecycleReport",
    "Limits",
    "McpServer",
    "NestedCall",
    "Notification",
    "Observation",
    "PayloadTooLarge",
    "PendingToolCall",
    "ProcessInfo",
    "ProcessNotFound",
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
    "ToolAnswer",
    "ToolCallAlreadyResolved",
    "ToolCallCounts",
    "ToolCallNotFound",
    "ToolError",
    "ToolNameCollision",
    "ToolNotFound",
    "ToolPolicy",
    "ToolResult",
    "ToolTimedOut",
    "ToolUseIdTaken",
    "TurnEnd",
    "Unauthorized",
    "Usage",
    "tool",
]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'codemode' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
