"""How tools of MCP servers are called: `mcp__SERVER__TOOL`, made so that no two get one name."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Sequence
from typing import Final

from codemode.tools.registry import MOST_NAME, js_name

_DIGITS: Final = 8


def tool_names(tools: Sequence[tuple[str, str]], taken: Container[str] = ()) -> list[str]:
    """The names of (server, tool) pairs, each pair being there once.

    Characters that no identifier may hold become `_`. Those that would share a name then, or have one of the `taken`,
    or one that is too long, get a suffix made of server and tool: the same one whatever else there is.
    """
    plain = [js_name(f"mcp__{server}__{tool}") for server, tool in tools]
    count = Counter(plain)
    return [
        name if count[name] == 1 and name not in taken and len(name) <= MOST_NAME else _suffixed(name, *tool)
        for name, tool in zip(plain, tools, strict=True)
    ]


def _suffixed(name: str, server: str, tool: str) -> str:
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "replace")).hexdigest()[:_DIGITS]
    return f"{name[: MOST_NAME - _DIGITS - 1]}_{digest}"
