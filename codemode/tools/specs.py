"""`exec` and `wait` as tools of a model's request, in the form that an API takes."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args
from weakref import WeakKeyDictionary

from codemode.errors import InvalidRequest
from codemode.tools.describing import EXEC_AS_ARGUMENTS, EXEC_AS_TEXT, WAIT, described_tools
from codemode.tools.registry import RegisteredTool, ToolRegistry
from codemode.typescript.declaring import Signature, block_of, declaration
from codemode.typescript.naming import TypeNames
from codemode.typescript.work import Work

Format = Literal["openai_responses", "openai_chat", "anthropic", "mcp"]
FORMATS: Final[tuple[str, ...]] = get_args(Format)
MOST_TOKENS: Final = 3_900  # of the description of exec; four bytes each
_BYTES: Final = 4
# What was said of the tools of a registry, which never change: of 1000 it takes a second.
_TOLD: Final[WeakKeyDictionary[ToolRegistry, dict[tuple[int, bool], str]]] = WeakKeyDictionary()

_MILLISECONDS: Final = {"type": "integer", "minimum": 0}
_EXEC_INPUT: Final = {
    "type": "object",
    "properties": {
        "source": {"type": "string", "description": "JavaScript"},
        "yield_time_ms": _MILLISECONDS | {"description": "Answer after this time even if it still runs (10000)"},
        "max_output_tokens": _MILLISECONDS | {"description": "Longer output is cut in its middle (10000)"},
    },
    "required": ["source"],
    "additionalProperties": False,
}
_WAIT_INPUT: Final = {
    "type": "object",
    "properties": {
        "cell_id": {"type": "string"},
        "yield_time_ms": _MILLISECONDS | {"description": "Answer after this time even if it still runs (10000)"},
        "max_tokens": _MILLISECONDS | {"description": "Longer output is cut in its middle (10000)"},
        "terminate": {"type": "boolean", "description": "End the script"},
    },
    "required": ["cell_id"],
    "additionalProperties": False,
}


def tool_specs(
    registry: ToolRegistry, api: str, *, most_tokens: int = MOST_TOKENS, has_search: bool = False
) -> list[dict[str, Any]]:
    """`exec` and `wait`, ready to be (a part of) a request's `tools`.

    The description of `exec` declares the tools that scripts may call, as many as there is room for in `most_tokens`,
    and names the others; `has_search` says that scripts have the global `search_tools`. For `openai_responses` exec is
    a custom tool whose input is the source; elsewhere its arguments, as those of `wait` everywhere, are the body of
    the request of that name. `api` is one of FORMATS. Raises InvalidRequest for another.
    """
    if api not in FORMATS:
        raise InvalidRequest(f"format: expected one of {', '.join(FORMATS)}; got {api[:40]!r}")
    intro = EXEC_AS_TEXT if api == "openai_responses" else EXEC_AS_ARGUMENTS
    told = _TOLD.setdefault(registry, {})
    room = _BYTES * most_tokens - len(intro.encode()) - 2
    if (room, has_search) not in told:
        tools = [signature(each) for each in registry if "programmatic" in each.tool.policy.allowed_callers]
        told[room, has_search] = described_tools(tools, room, has_search=has_search)
    text = f"{intro}\n\n{told[room, has_search]}"
    return [_function(api, *each) for each in (("exec", text, _EXEC_INPUT), ("wait", WAIT, _WAIT_INPUT))]


def declaration_of(registered: RegisteredTool) -> str:
    """The TypeScript declaration of one tool, complete in itself."""
    return block_of([declaration(signature(registered), TypeNames(), Work())])


def signature(registered: RegisteredTool) -> Signature:
    """What of a tool its declaration says."""
    tool = registered.tool
    is_freeform = tool.kind == "freeform"
    return Signature(registered.js_name, tool.description, is_freeform, tool.input_schema, tool.output_schema)


def _function(api: str, name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    said = {"name": name, "description": description}
    match api:
        case "openai_responses" if name == "exec":
            return {"type": "custom", **said}
        case "openai_responses":
            return {"type": "function", **said, "parameters": schema, "strict": False}
        case "openai_chat":
            return {"type": "function", "function": {**said, "parameters": schema}}
        case "anthropic":
            return {**said, "input_schema": schema}
    return {**said, "inputSchema": schema}
