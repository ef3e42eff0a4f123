"""What a session was asked to be, so that a later run of the server can make it again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from codemode.calls.approvals import ApprovalPolicy
from codemode.calls.hooks import Hook, hook_from_declared
from codemode.errors import InvalidRequest
from codemode.lifecycle.events import encoded
from codemode.limits import Limits
from codemode.mcp.config import McpServer
from codemode.tools.declaration import declared, from_declared
from codemode.tools.tool import Tool

_NOT_KEPT: Final = "neither credentials nor commands outlive a restart of the service; make a new session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A session's own tools and settings; the service's tools and limits come on top of them.

    Of an MCP server with credentials, or a command, only the name lasts.
    """

    limits: Limits
    tools: Sequence[Tool] = ()
    hooks: Sequence[Hook] = ()
    metadata: Mapping[str, Any]
    approval_policy: ApprovalPolicy = "never"
    model_warnings: bool = False
    lenient_source: bool = False
    typescript: bool = False
    mcp_servers: Sequence[McpServer] = ()
    is_transient: bool = False  # it belongs to somebody who cannot come back to it in a later run
    lost_mcp_servers: Sequence[tuple[str, str]] = ()  # of an earlier run, which cannot be had any more: name and reason

    def encode(self) -> bytes:
        """As JSON."""
        return encoded(
            {
                "tools": [declared(tool) for tool in self.tools],
                "hooks": [hook.declared() for hook in self.hooks],
                "limits": self.limits.as_dict(),
                "metadata": self.metadata,
                "approval_policy": self.approval_policy,
                "model_warnings": self.model_warnings,
                "lenient_source": self.lenient_source,
                "typescript": self.typescript,
                "is_transient": self.is_transient,
                "mcp_servers": [
                    {"name": each.name, "url": None if each.has_secrets else each.url, "timeout_ms": each.timeout_ms}
                    for each in self.mcp_servers
                ],
            }
        )

    @classmethod
    def decode(cls, text: bytes, server: Limits) -> Declaration:
        """The same again, under what are the server's limits now: each is at most as high as the server's."""
        said = json.loads(text)
        mine = server.as_dict()
        limits = {name: min(value, mine[name]) for name, value in said["limits"].items() if name in mine}
        servers = said.get("mcp_servers", ())
        return cls(
            limits=Limits.of(mine | limits),
            tools=[from_declared(tool) for tool in said["tools"]],
            hooks=[hook_from_declared(hook) for hook in said.get("hooks", ())],
            metadata=said["metadata"],
            approval_policy=said["approval_policy"],
            model_warnings=said["model_warnings"],
            lenient_source=said.get("lenient_source", False),  # not in those of earlier versions
            typescript=said.get("typescript", False),
            is_transient=said.get("is_transient", False),
            mcp_servers=[McpServer(**each) for each in servers if each["url"] is not None],
            lost_mcp_servers=[(each["name"], _NOT_KEPT) for each in servers if each["url"] is None],
        )


def checked_tools(tools: Iterable[Tool]) -> list[Tool]:
    """These tools. Raises InvalidRequest for what is none."""
    if isinstance(tools, Tool):
        raise InvalidRequest("tools: expected a list of tools, got one tool")
    found = list(tools)
    for each in found:
        if not isinstance(each, Tool):
            raise InvalidRequest(f"tools: {each!r} is no tool; make one of a function with the decorator codemode.tool")
    return found


def checked_hooks(hooks: Iterable[Hook]) -> list[Hook]:
    """These hooks. Raises InvalidRequest for what is none."""
    found = list(hooks)
    for each in found:
        if not isinstance(each, Hook):
            raise InvalidRequest(f"hooks: {each!r} is no hook; make one with codemode.Hook(event=…, function=…)")
    return found
