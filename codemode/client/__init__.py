"""The service's HTTP API for Python programs: one client that blocks, and one for async programs.

    with CodeModeClient("http://127.0.0.1:8000") as client:
        print(client.run("text(1 + 1)").text)

It needs nothing but httpx and the standard library. `requests` says what is sent, `flows` what is asked
in which order and what happens after a lost answer, `answers` what comes back; `blocking` and
`asynchronous` only send. The modules with `action` in their names are the same for what is not about scripts.
"""

from codemode.cells.observation import ToolResult
from codemode.client.action_answers import ApprovalInfo, CallAnswer, CommandInfo, LifecycleReport, ProcessInfo
from codemode.client.action_flows import AnswerLost
from codemode.client.answers import CellDetail, CellInfo, NestedCall, SessionInfo, SessionSummary, SessionTool
from codemode.client.asynchronous import AsyncClientSession, AsyncCodeModeClient
from codemode.client.blocking import ClientSession, CodeModeClient
from codemode.client.requests import ClientTool, ExecOptions, RunOptions, SessionOptions, WaitOptions

__all__ = [
    "AnswerLost",
    "ApprovalInfo",
    "AsyncClientSession",
    "AsyncCodeModeClient",
    "CallAnswer",
    "CellDetail",
    "CellInfo",
    "ClientSession",
    "ClientTool",
    "CodeModeClient",
    "CommandInfo",
    "ExecOptions",
    "LifecycleReport",
    "NestedCall",
    "ProcessInfo",
    "RunOptions",
    "SessionInfo",
    "SessionOptions",
    "SessionSummary",
    "SessionTool",
    "ToolResult",
    "WaitOptions",
]
