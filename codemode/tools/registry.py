"""The tools of a session, by the names that a script calls them by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic_core import to_json

from codemode.errors import InvalidRequest, ToolNameCollision
from codemode.tools.schema import InputSchema
from codemode.tools.schema_work import MOST_COMPILING
from codemode.tools.tool import ClientHandler, Tool

MOST_NAME: Final = 128


def js_name(name: str) -> str:
    """The JavaScript name of a tool: what no identifier may hold becomes `_`, a leading digit too."""
    shown = "".join(character if _is_part(character) else "_" for character in name)
    if not shown:
        return "_"
    return shown if _is_start(shown[0]) else f"_{shown[1:]}"


def _is_start(character: str) -> bool:
    return character in "$_" or character.isidentifier()


def _is_part(character: str) -> bool:
    return character in "$_" or f"a{character}".isidentifier()


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool under its JavaScript name, its schema compiled."""

    tool: Tool
    js_name: str
    schema: InputSchema | None

    @property
    def compiling(self) -> int:
        """What its schema adds to those of all tools."""
        return 0 if self.schema is None else self.schema.work.compiling


class ToolRegistry:
    """The tools of one session, sorted by JavaScript name. Immutable.

    Raises ToolNameCollision, naming both, if two tools would get one JavaScript name, and
    InvalidRequest for a name or schema that cannot be used. `guests` are further tools, which nobody here has
    declared: those that cannot be had beside the others are `left_out`, each with the reason.
    """

    def __init__(self, tools: Iterable[Tool | RegisteredTool], guests: Iterable[RegisteredTool] = ()) -> None:
        by_name: dict[str, RegisteredTool] = {}
        compiling = 0
        for tool in tools:
            registered = tool if isinstance(tool, RegisteredTool) else register(tool)
            compiling += registered.compiling
            if compiling > MOST_COMPILING:
                raise InvalidRequest(
                    "the patterns in the schemas of all tools are too long, their repetitions written out"
                )
            other = by_name.get(registered.js_name)
            if other is not None:
                raise ToolNameCollision(
                    f"tools {other.tool.name!r} and {registered.tool.name!r} would both be tools.{registered.js_name} "
                    "in a script; rename one of them (the service may have tools of its own)",
                    names=[other.tool.name, registered.tool.name],
                    js_name=registered.js_name,
                )
            by_name[registered.js_name] = registered
        self.left_out: list[tuple[str, str]] = []
        for guest in guests:
            if guest.js_name in by_name:
                self.left_out.append((guest.tool.name, "there is another tool of its name"))
            elif compiling + guest.compiling > MOST_COMPILING:
                self.left_out.append((guest.tool.name, "the patterns in the schemas of all tools are too long"))
            else:
                by_name[guest.js_name] = guest
                compiling += guest.compiling
        self._tools: Sequence[RegisteredTool] = tuple(by_name[name] for name in sorted(by_name))
        self._by_declared_name = {registered.tool.name: registered for registered in self._tools}
        declared = [[each.js_name, each.tool.kind, each.tool.description] for each in self._tools]
        self.declarations = to_json(declared)

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, index: int) -> RegisteredTool:
        return self._tools[index]

    def find(self, name: str) -> RegisteredTool | None:
        """The tool that was declared with this name."""
        return self._by_declared_name.get(name)

    def __iter__(self) -> Iterator[RegisteredTool]:
        return iter(self._tools)

    @property
    def js_names(self) -> list[str]:
        """The names under which a script finds its tools, sorted."""
        return [registered.js_name for registered in self._tools]


def register(tool: Tool) -> RegisteredTool:
    """A tool with its schema compiled. Raises InvalidRequest for a name or schema that cannot be used."""
    if len(tool.name) > MOST_NAME:
        raise InvalidRequest(
            f"the tool name {tool.name[:40]!r}… has {len(tool.name)} characters; at most {MOST_NAME} are accepted"
        )
    if not _is_text(tool.name) or not _is_text(tool.description):
        raise InvalidRequest("a tool's name or description holds a lone surrogate, which no UTF-8 text can")
    if tool.kind == "freeform" and tool.input_schema is not None:
        raise InvalidRequest(f"tool {tool.name}: a freeform tool takes a string and has no input_schema")
    if isinstance(tool.handler, ClientHandler) and "programmatic" not in tool.policy.allowed_callers:
        raise InvalidRequest(
            f"tool {tool.name}: you fulfil it yourself, so only scripts can call it; allow programmatic"
        )
    schema = None if tool.input_schema is None else InputSchema(tool.name, tool.input_schema)
    return RegisteredTool(tool, js_name(tool.name), schema)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
