"""The MCP server of one client: its two tools act on one session, which is the client's own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import secrets
import time
from collections.abc import Coroutine
from typing import Any, Final

import mcp_types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError

import codemode
from codemode.cells.cell import Cell
from codemode.cells.observation import Observation
from codemode.cells.outcome import TERMINATED
from codemode.errors import CodeModeError
from codemode.mcp.door.describing import CHECKS, EXEC_SCHEMA, WAIT_SCHEMA
from codemode.mcp.door.results import refusal, result_of
from codemode.sessions.session import Session
from codemode.tools.specs import tool_specs

_log = logging.getLogger(__name__)
_PROGRESS_EVERY_S: Final = 1.0
METADATA: Final = {"made_by": "mcp"}  # of the sessions of MCP clients


def server_of(session: Session) -> Server[Any]:
    """A server whose tools run scripts in this session."""
    door = _Door(session)
    return Server(
        "codemode",
        version=codemode.__version__,
        instructions="exec runs a JavaScript program that calls tools; wait waits for one that goes on.",
        on_list_tools=door.list_tools,
        on_call_tool=door.call_tool,
    )


class _Door:
    def __init__(self, session: Session) -> None:
        self._session = session

    async def list_tools(self, _: ServerRequestContext[Any, Any], __: Any) -> mcp_types.ListToolsResult:
        """exec and wait."""
        try:
            registry = await self._session.tools_ready()
        except CodeModeError as problem:
            raise MCPError(mcp_types.INTERNAL_ERROR, problem.detail) from None
        run, wait = await asyncio.to_thread(tool_specs, registry, "mcp")
        return mcp_types.ListToolsResult(
            tools=[
                mcp_types.Tool(name="exec", description=run["description"], input_schema=EXEC_SCHEMA),
                mcp_types.Tool(name="wait", description=wait["description"], input_schema=WAIT_SCHEMA),
            ]
        )

    async def call_tool(
        self, context: ServerRequestContext[Any, Any], params: mcp_types.CallToolRequestParams
    ) -> mcp_types.CallToolResult:
        """Run or wait. A request that is cancelled ends its cell."""
        check = CHECKS.get(params.name)
        if check is None:
            raise MCPError(mcp_types.INVALID_PARAMS, f"there is no tool {params.name[:100]}; there are exec and wait")
        given = params.arguments or {}
        fault = check.fault(given, len(json.dumps(given)))
        if fault is not None:
            return refusal(fault)
        name = f"mcp_{secrets.token_hex(12)}"  # so that its cell is found again
        try:
            return result_of(await self._reported(context, self._work(params.name, given, name)))
        except CodeModeError as problem:
            return refusal(problem.model_text or problem.detail)
        except asyncio.CancelledError:
            self._end(given.get("cell_id"), name)
            raise
        except Exception:
            _log.exception("%s of an MCP client failed", params.name)
            raise MCPError(mcp_types.INTERNAL_ERROR, "the service failed to handle this call") from None

    def _work(self, tool: str, given: dict[str, Any], name: str) -> Coroutine[Any, Any, Observation]:
        if tool == "exec":
            return self._session.exec(tool_call_id=name, **given)
        return self._session.wait(**given)

    async def _reported(
        self, context: ServerRequestContext[Any, Any], work: Coroutine[Any, Any, Observation]
    ) -> Observation:
        """Await it, and tell a client that wants to know that it still goes on."""
        task = asyncio.ensure_future(work)
        began = time.monotonic()
        try:
            while not (await asyncio.wait((task,), timeout=_PROGRESS_EVERY_S))[0]:
                seconds = round(time.monotonic() - began, 1)
                await context.session.report_progress(seconds, None, f"running for {seconds:.0f} s")
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((task,))

    def _end(self, cell_id: str | None, name: str) -> None:
        for cell in self._session.cells():
            if isinstance(cell, Cell) and (cell.cell_id == cell_id or cell.tool_call_id == name):
                cell.end(TERMINATED)
