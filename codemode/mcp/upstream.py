"""One MCP server of one session: started when it is needed, again when it has crashed, listed again when it says so."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from codemode.errors import ToolError
from codemode.limits import Limits
from codemode.mcp.config import McpServer
from codemode.mcp.extra import loaded
from codemode.mcp.listing import Listing, read_listing
from codemode.mcp.trouble import ServerTrouble
from codemode.tools.tool import Progress

if TYPE_CHECKING:
    from codemode.mcp.connection import Connection

_log = logging.getLogger(__name__)

_LONGEST_PAUSE_S: Final = 60.0
_PATIENCE_S: Final = 1.0
_WELL_AFTER_S: Final = 60.0  # a server that lived so long starts with a clean record
_PROGRESS_EVERY_S: Final = 0.1
_MOST_PROGRESS: Final = 100  # events of one call
_LONGEST_MESSAGE: Final = 1000
_MOST_LISTINGS: Final = 2


class Upstream:
    """Its `listing` is that of the last time. All methods are for the event loop's thread."""

    def __init__(self, server: McpServer, limits: Limits) -> None:
        self.server = server
        self.listing = Listing()
        self.trouble: str | None = None  # why it has no tools at this moment
        self._limits = limits
        self._connection: Connection | None = None
        self._ended: list[Connection] = []  # by themselves, and not closed yet
        self._changing: asyncio.Task[None] | None = None  # it is being started or listed
        self._is_listed = False
        self._failures = 0
        self._not_before = 0.0
        self._opened_at = 0.0
        self._closed = False

    @property
    def is_current(self) -> bool:
        """Whether there is nothing to wait for before a script starts: it is listed, or not to be tried again yet."""
        if self._closed:
            return True
        if self._is_connected and self._is_listed:
            return True
        if self._changing is not None:
            return self._failures > 0  # nobody waits for a server that has failed before
        return time.monotonic() < self._not_before

    async def refresh(self, *, is_needed: bool = False) -> None:
        """Start it if it does not run, and list its tools if they may have changed. Raises nothing.

        For a server that has failed before this takes a second at most, unless it `is_needed`; it goes on then.
        """
        for _ in range(_MOST_LISTINGS):  # a server may say at each listing that it has changed
            if self.is_current and not (is_needed and self._changing is not None):
                break
            if self._changing is None:
                self._changing = asyncio.create_task(self._change())
            changing = self._changing
            patience = None if is_needed or not self._failures else _PATIENCE_S
            await asyncio.wait((changing,), timeout=patience)
            if self.trouble is not None or not changing.done():
                break

    async def call(self, tool: str, given: Any, progress: Callable[[Progress], None]) -> Any:
        """The result of a tool, as MCP gives it. Raises ToolError, ToolTimedOut."""
        told = _Bounded(progress)
        try:
            connection = await self._ready()
            try:
                return await connection.call(tool, given, told)
            except ToolError:
                if not connection.has_forgotten_us:
                    raise
            return await (await self._ready()).call(tool, given, told)  # it was not done: the session was unknown
        finally:
            told.is_over = True

    async def _ready(self) -> Connection:
        if not self._is_connected:
            await self.refresh(is_needed=True)
        if not self._is_connected or self._connection is None:
            wait = max(0.0, self._not_before - time.monotonic())
            when = f"; it is tried again in {wait:.0f} s" if wait >= 1 else ""
            raise ToolError(f"MCP server {self.server.name} is not there: {self.trouble or 'it has ended'}{when}")
        return self._connection

    async def close(self) -> None:
        """End it for good."""
        self._closed = True
        if self._changing is not None:
            self._changing.cancel()
            await asyncio.wait((self._changing,))
        await self._disconnect()

    async def _change(self) -> None:
        began = time.monotonic()
        try:
            if not self._is_connected:
                await self._connect()
            assert self._connection is not None
            self._is_listed = True  # what changes from now on is for the next time
            described, has_more = await self._connection.list_tools()
            self.listing = read_listing(described, has_more=has_more, call=self.call)
            self.trouble = None
        except ServerTrouble as problem:
            self._failed(str(problem), began)
            await self._disconnect()
        except Exception:
            _log.exception("MCP server %s", self.server.name)
            self._failed("it cannot be spoken with", began)
            await self._disconnect()
        finally:
            self._changing = None

    async def _connect(self) -> None:
        await self._disconnect()
        module = await loaded("codemode.mcp.connection")
        connection: Connection = module.Connection(self.server, self._limits, self._tools_changed)
        await connection.open()
        self._connection, self._opened_at, self._is_listed = connection, time.monotonic(), False

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        old, self._ended = self._ended, []
        for each in (*old, *([] if connection is None else [connection])):
            await each.close()

    @property
    def _is_connected(self) -> bool:
        """Whether calls can be made; one that has ended by itself is counted."""
        connection = self._connection
        if connection is None or connection.is_open:
            return connection is not None
        self._connection = None
        self._ended.append(connection)
        ended_at = connection.ended_at
        if ended_at - self._opened_at > _WELL_AFTER_S:
            self._failures = 0
        self._pause(ended_at)
        return False

    def _tools_changed(self) -> None:
        self._is_listed = False

    def _failed(self, why: str, began: float) -> None:
        _log.warning("MCP server %s has no tools: %s", self.server.name, why)
        self.listing, self.trouble, self._is_listed = Listing(), why, False
        now = time.monotonic()
        self._pause(now)
        self._not_before = max(self._not_before, now + 2 * (now - began))  # what hangs is tried seldom

    def _pause(self, since: float) -> None:
        """After the first failure it may be tried again at once, then after 1 s, 2 s, 4 s and so on."""
        self._failures += 1
        pause = 0.0 if self._failures == 1 else min(_LONGEST_PAUSE_S, 2.0 ** (self._failures - 2))
        self._not_before = since + pause


class _Bounded:
    """Hands progress on: not too often, not without end, and not after the call."""

    def __init__(self, tell: Callable[[Progress], None]) -> None:
        self.is_over = False
        self._tell = tell
        self._left = _MOST_PROGRESS
        self._last = 0.0

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if self.is_over or self._left == 0 or now - self._last < _PROGRESS_EVERY_S:
            return
        self._left -= 1
        self._last = now
        message = None if progress.message is None else progress.message[:_LONGEST_MESSAGE]
        with contextlib.suppress(Exception):
            self._tell(progress._replace(message=message))
