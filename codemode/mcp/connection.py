"""One connection to an MCP server, from its start to its end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

import mcp_types
from mcp.client.session import ClientSession, IncomingMessage
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

import codemode
from codemode.errors import ToolError, ToolTimedOut
from codemode.limits import MIB, Limits
from codemode.mcp.config import McpServer
from codemode.mcp.http import OneUrl, http_streams
from codemode.mcp.sieve import Sieve
from codemode.mcp.stdio import stdio_streams
from codemode.mcp.trouble import ServerTrouble
from codemode.tools.tool import Progress

_log = logging.getLogger(__name__)

START_S: Final = 30.0  # to start, and to list all tools
MOST_TOOLS: Final = 512
_MOST_PAGES: Final = 100
_MOST_ERROR: Final = 4096  # characters of an error that a server tells


class Connection:
    """Open it before use, and close it, also when it has ended by itself."""

    def __init__(self, server: McpServer, limits: Limits, tools_changed: Callable[[], None]) -> None:
        self._server = server
        self._most_bytes = 2 * limits.max_tool_result_bytes + MIB  # what is too long for a script fails one call alone
        self._tools_changed = tools_changed
        self._close = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._dispatcher: JSONRPCDispatcher[Any] | None = None
        self._way: OneUrl | None = None
        self._sieve: Sieve | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        is_over = self._sieve is None or self._sieve.ended.is_set() or self._close.is_set()
        return self._dispatcher is not None and not is_over and not self.has_forgotten_us

    @property
    def ended_at(self) -> float:
        """When it has ended, by time.monotonic; now if that is not known."""
        known = None if self._sieve is None else self._sieve.ended_at
        return time.monotonic() if known is None else known

    @property
    def has_forgotten_us(self) -> bool:
        """Whether the server has said that it does not know our session; what it was asked then was not done."""
        return self._way is not None and self._way.session_lost

    async def open(self) -> None:
        """Start the server, or reach it, and shake hands. Raises ServerTrouble. Cancelled, it closes it."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._live(opened))
        try:
            async with asyncio.timeout(START_S):
                await asyncio.shield(opened)
        except TimeoutError:
            await self.close()
            raise ServerTrouble(f"it did not answer within {START_S:.0f} s") from None
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End it; what is under way fails."""
        self._close.set()
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def _live(self, opened: asyncio.Future[None]) -> None:
        try:
            async with AsyncExitStack() as stack:
                sieve = self._sieve = Sieve(*await stack.enter_async_context(self._streams()))
                dispatcher = JSONRPCDispatcher[Any](sieve, sieve.write)
                session = ClientSession(
                    dispatcher=dispatcher,
                    message_handler=self._heard,
                    client_info=mcp_types.Implementation(name="codemode", version=codemode.__version__),
                )
                await stack.enter_async_context(session)
                await self._until_end(session.initialize(), sieve)
                self._dispatcher = dispatcher
                if not opened.done():
                    opened.set_result(None)
                await self._until_end(asyncio.Event().wait(), sieve)
        except BaseException as problem:
            said = _explained(problem, self._sieve)
            if not isinstance(problem, ServerTrouble):
                _log.info("MCP server %s: %s", self._server.name, said, exc_info=problem)
            if not opened.done():
                opened.set_exception(ServerTrouble(said))
                opened.exception()  # whoever waited may have gone
        finally:
            self._close.set()

    async def _until_end(self, work: Awaitable[Any], sieve: Sieve) -> None:
        """Await something, unless the connection ends first. Raises ServerTrouble then."""
        task = asyncio.ensure_future(work)
        ends = [asyncio.ensure_future(each.wait()) for each in (sieve.ended, self._close)]
        try:
            await asyncio.wait((task, *ends), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ServerTrouble(sieve.trouble or "it has ended")
            task.result()
        finally:
            for each in (task, *ends):
                each.cancel()
            await asyncio.wait((task, *ends))

    def _streams(self) -> Any:
        if self._server.url is None:
            return stdio_streams(self._server, self._most_bytes)
        self._way = OneUrl(self._server.url, self._most_bytes)
        return http_streams(self._server, self._way, self._most_bytes)

    async def _heard(self, message: IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            self._tools_changed()

    # What is asked of the server. Answers are taken as they are: checking a result against a schema that the server
    # brings along, as the package does, could hold up everybody.

    async def list_tools(self) -> tuple[list[Any], bool]:
        """All tools as the server describes them, and whether there are more than are taken. Raises ServerTrouble."""
        found: list[Any] = []
        cursor: Any = None
        try:
            async with asyncio.timeout(START_S):
                for _ in range(_MOST_PAGES):
                    page = await self._request("tools/list", {} if cursor is None else {"cursor": cursor})
                    tools, cursor = page.get("tools"), page.get("nextCursor")
                    if not isinstance(tools, list):
                        raise ServerTrouble("its list of tools cannot be read")
                    found += tools[: MOST_TOOLS - len(found)]
                    if not isinstance(cursor, str):
                        return found, len(tools) > MOST_TOOLS
                    if len(found) >= MOST_TOOLS:
                        return found, True
        except TimeoutError:
            raise ServerTrouble(f"it did not list its tools within {START_S:.0f} s") from None
        except MCPError as problem:
            raise ServerTrouble(f"it did not list its tools: {problem.message[:200]}") from None
        return found, True

    async def call(self, tool: str, arguments: Any, progress: Callable[[Progress], None]) -> Any:
        """The result of a call, an object. Cancelling tells the server. Raises ToolError, ToolTimedOut."""

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            progress(Progress(done, total, message))

        name = self._server.name
        try:
            async with asyncio.timeout(self._server.timeout_ms / 1000):
                params = {"name": tool, "arguments": arguments}
                return await self._request("tools/call", params, {"on_progress": on_progress})
        except TimeoutError:
            raise ToolTimedOut(f"MCP server {name} did not answer within {self._server.timeout_ms} ms") from None
        except MCPError as problem:
            if problem.code == mcp_types.CONNECTION_CLOSED and not self.is_open:
                raise ToolError(f"MCP server {name} ended while the call was under way") from None
            raise ToolError(problem.message[:_MOST_ERROR] or f"MCP server {name} refused the call") from None

    async def _request(self, method: str, params: dict[str, Any], options: Any = None) -> dict[str, Any]:
        assert self._dispatcher is not None
        return await self._dispatcher.send_raw_request(method, params, options)


def _explained(problem: BaseException, sieve: Sieve | None) -> str:
    """Why a server cannot be used, in words that give nothing of this machine away."""
    while isinstance(problem, BaseExceptionGroup) and problem.exceptions:
        problem = problem.exceptions[0]
    if isinstance(problem, ServerTrouble):
        return str(problem)
    if sieve is not None and sieve.trouble is not None:
        return sieve.trouble
    if isinstance(problem, MCPError):
        if problem.code == mcp_types.CONNECTION_CLOSED and (sieve is None or sieve.ended.is_set()):
            return "it has ended"
        return f"it refused: {problem.message[:200]}"
    return f"it cannot be spoken with ({type(problem).__name__})"
