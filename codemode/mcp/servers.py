"""The MCP servers of a session, and its tools with theirs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from codemode.errors import InvalidRequest
from codemode.limits import Limits
from codemode.mcp.config import McpServer, check_servers
from codemode.mcp.extra import check_installed
from codemode.mcp.listing import Listing
from codemode.mcp.names import tool_names
from codemode.mcp.upstream import Upstream
from codemode.tools.registry import RegisteredTool, ToolRegistry, register
from codemode.tools.tool import Tool

_log = logging.getLogger(__name__)

_MOST_TOOLS: Final = 1024  # of all servers of a session
_SLICE_S: Final = 0.005  # that schemas are compiled without letting anybody else in
_MOST_NAMED: Final = 4  # tools of a server that are left out


def usable_servers(servers: Iterable[McpServer]) -> list[McpServer]:
    """These servers. Raises InvalidRequest for what is none, for two of one name, and without the package it takes."""
    found = check_servers(servers)
    if found:
        check_installed()
    return found


class SessionTools:
    """The `registry` holds what a script that starts now can call; `warnings` name what is missing from it.

    `own` tools are always there. `lost` names servers of an earlier run that cannot be had any more, with the reason.
    Raises InvalidRequest for servers that cannot be, and where there are some without the package that it takes.
    """

    def __init__(
        self, own: Iterable[Tool], servers: Iterable[McpServer], limits: Limits, lost: Sequence[tuple[str, str]] = ()
    ) -> None:
        found = usable_servers(servers)
        self._own = ToolRegistry(own)
        self.registry = self._own
        self._lost = [f"MCP server {name}: {why}" for name, why in lost]
        self.warnings = self._lost
        self._upstreams = [Upstream(server, limits) for server in found]
        self._shown: list[tuple[Listing, str | None]] = []  # what the registry was made of
        self._registered: dict[tuple[str, str], tuple[Tool, str, RegisteredTool]] = {}
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def is_current(self) -> bool:
        """Whether a script that starts now has all tools that can be had without waiting."""
        return self._refreshing is None and all(each.is_current for each in self._upstreams) and not self._is_stale

    @property
    def _is_stale(self) -> bool:
        return bool(self._upstreams) and self._shown != self._state()

    async def refresh(self) -> None:
        """Start servers that do not run, list tools that have changed. Raises nothing; it may be cancelled."""
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh())
        await asyncio.wait((self._refreshing,))

    def warn(self, tell: Callable[[str], None]) -> None:
        """Tell of what is missing."""
        for text in self.warnings:
            tell(text)

    async def close(self) -> None:
        """End all servers."""
        if self._refreshing is not None:
            self._refreshing.cancel()
        await asyncio.gather(*(each.close() for each in self._upstreams))

    def _state(self) -> list[tuple[Listing, str | None]]:
        return [(each.listing, each.trouble) for each in self._upstreams]

    async def _refresh(self) -> None:
        try:
            await asyncio.gather(*(each.refresh() for each in self._upstreams))
            shown = self._state()
            warnings = [*self._lost]
            pairs: list[tuple[Upstream, Tool]] = []
            for upstream in self._upstreams:
                name = upstream.server.name
                if upstream.trouble is not None:
                    warnings.append(f"MCP server {name} is left out: {upstream.trouble}")
                warnings += _named(name, upstream.listing.left_out)
                pairs += [(upstream, tool) for tool in upstream.listing.tools]
            if len(pairs) > _MOST_TOOLS:
                warnings.append(f"the MCP servers have {len(pairs)} tools; only the first {_MOST_TOOLS} are there")
            guests, refused = await self._register(pairs[:_MOST_TOOLS])
            self.registry = ToolRegistry(self._own, guests)
            refused += [f"{name}: {why}" for name, why in self.registry.left_out]
            self.warnings = warnings + _named("", refused)
            self._shown = shown
        except Exception:
            _log.exception("the tools of MCP servers were not listed")
        finally:
            self._refreshing = None

    async def _register(self, pairs: Sequence[tuple[Upstream, Tool]]) -> tuple[list[RegisteredTool], list[str]]:
        """Give each its name and compile its schema, unless that was done before."""
        names = tool_names([(upstream.server.name, tool.name) for upstream, tool in pairs], set(self._own.js_names))
        found, refused, known = [], [], {}
        began = time.monotonic()
        for (upstream, tool), name in zip(pairs, names, strict=True):
            key = (upstream.server.name, tool.name)
            before = self._registered.get(key)
            if before is not None and before[0] is tool and before[1] == name:
                known[key] = before
                found.append(before[2])
                continue
            if time.monotonic() - began > _SLICE_S:
                await asyncio.sleep(0)
                began = time.monotonic()
            try:
                made = register(replace(tool, name=name, namespace=upstream.server.name))
            except InvalidRequest as problem:
                refused.append(problem.detail)
            else:
                known[key] = (tool, name, made)
                found.append(made)
        self._registered = known
        return found, refused


def _named(server: str, left_out: Sequence[str]) -> list[str]:
    """Warnings of what is left out: the first few one by one, the rest by their number."""
    where = f"MCP server {server}: " if server else "MCP tools: "
    said = [f"{where}{why} (left out)" for why in left_out[:_MOST_NAMED]]
    more = len(left_out) - _MOST_NAMED
    return said if more <= 0 else [*said, f"{where}{more} more tools are left out"]
