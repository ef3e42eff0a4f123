"""A server's list of tools, as tools of ours: bounded, and without those that cannot be taken."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from codemode.tools.encoding import NotJson, encode
from codemode.tools.policy import ToolPolicy
from codemode.tools.tool import McpHandler, Progress, Tool

_LONGEST_NAME: Final = 256
_LONGEST_DESCRIPTION: Final = 16 * 1024  # characters; more is cut
_LARGEST_SCHEMA: Final = 256 * 1024  # bytes of JSON
_MOST_OF_ALL: Final = 2 * 1024 * 1024  # bytes that the tools of one server take, descriptions and schemas
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

Call = Callable[[str, Any, Callable[[Progress], None]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Listing:
    """`tools` under the names that their server gave them, and why others are left out."""

    tools: tuple[Tool, ...] = ()
    left_out: tuple[str, ...] = ()


class _Refused(Exception):
    """A tool that cannot be taken."""


def read_listing(described: Iterable[Any], *, has_more: bool, call: Call) -> Listing:
    """The tools that a server describes. `call` calls one, by its server's name for it. Raises nothing."""
    tools: dict[str, Tool] = {}
    left_out = []
    total = 0
    for each in described:
        try:
            tool, size = _read_tool(each, call)
            if tool.name in tools:
                raise _Refused(f"there are two tools {tool.name!r}")
            total += size
            if total > _MOST_OF_ALL:
                raise _Refused(f"the descriptions of its tools take more than {_MOST_OF_ALL} bytes")
        except _Refused as problem:
            left_out.append(str(problem))
        else:
            tools[tool.name] = tool
    if has_more:
        left_out.append(f"it lists more than {len(tools) + len(left_out)} tools; the others are left out")
    return Listing(tuple(tools.values()), tuple(left_out))


def _read_tool(said: Any, call: Call) -> tuple[Tool, int]:
    name = said.get("name") if isinstance(said, dict) else None
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise _Refused(f"a tool without a name of 1 to {_LONGEST_NAME} characters")
    description = said.get("description") or said.get("title") or ""
    if not isinstance(description, str):
        raise _Refused(f"the tool {name!r} has a description that is no text")
    description = description[:_LONGEST_DESCRIPTION].encode("utf-8", "replace").decode()
    schema, size = _schema(name, "inputSchema", said)
    output, output_size = _schema(name, "outputSchema", said)

    async def run(given: Any, progress: Callable[[Progress], None]) -> Any:
        return await call(name, given, progress)

    tool = Tool(
        name=name,
        description=description,
        input_schema=schema,
        output_schema=output,
        handler=McpHandler(run),
        policy=ToolPolicy(annotations=_annotations(said)),
    )
    return tool, len(description.encode()) + size + output_size


def _schema(name: str, key: str, said: dict[str, Any]) -> tuple[dict[str, Any] | None, int]:
    schema = said.get(key)
    if schema is None:
        return None, 0
    try:
        size = len(encode(schema))
    except NotJson:
        raise _Refused(f"the tool {name!r} has an {key} that is nested too deeply") from None
    if not isinstance(schema, dict) or size > _LARGEST_SCHEMA:
        raise _Refused(f"the tool {name!r} has an {key} that is no object, or larger than {_LARGEST_SCHEMA} bytes")
    return schema, size


def _annotations(said: dict[str, Any]) -> dict[str, Any]:
    """Those of MCP, as far as they are what they should be."""
    given = said.get("annotations")
    if not isinstance(given, dict):
        given = {}
    found: dict[str, Any] = {hint: given[hint] for hint in _HINTS if isinstance(given.get(hint), bool)}
    title = given.get("title") or said.get("title")
    if isinstance(title, str) and title:
        found["title"] = title[:_LONGEST_NAME]
    return found
