"""How the two tools are described to whoever may call them, a model in the end."""

from __future__ import annotations

from typing import Any, Final

from codemode.tools.registry import ToolRegistry
from codemode.tools.schema import InputSchema

_MOST_LISTED: Final = 24 * 1024  # characters of the list of tools
_MOST_OF_ONE: Final = 300
_COUNT: Final = {"type": "integer", "minimum": 0}

EXEC_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "source": {"type": "string", "description": "The JavaScript itself: no Markdown fence, no quotes around it."},
        "yield_time_ms": {
            **_COUNT,
            "description": "How long to wait for the end (default 10000). A script that takes longer goes on.",
        },
        "max_output_tokens": {**_COUNT, "description": "How much of the output is shown (default 10000)."},
    },
    "required": ["source"],
    "additionalProperties": False,
}
WAIT_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "cell_id": {"type": "string", "description": "The cell ID that exec told."},
        "yield_time_ms": {**_COUNT, "description": "How long to wait for the end (default 10000)."},
        "max_tokens": {**_COUNT, "description": "How much of the output is shown (default 10000)."},
        "terminate": {"type": "boolean", "description": "End the script now."},
    },
    "required": ["cell_id"],
    "additionalProperties": False,
}
CHECKS: Final = {"exec": InputSchema("exec", EXEC_SCHEMA), "wait": InputSchema("wait", WAIT_SCHEMA)}

_EXEC: Final = """\
Run a JavaScript program that calls tools. Write one program for all steps of a task, in place of a call for each.

- The source is raw JavaScript, the body of an async function: `await` works at the top level.
- `await tools.NAME({…})` calls a tool; a failed call throws. Calls run in parallel with Promise.all.
- `text(value)` hands something over, objects as JSON; `image(url)` an image, `content(result.content)` MCP content.
- `store(key, value)` and `load(key)` keep JSON values for later programs. `notify(text)` reports progress.
- There is no console, network, file system, import or require. `ALL_TOOLS` lists `{name, description}`.
- "Script running with cell ID N" means that it goes on: call `wait` with that cell_id.
"""
WAIT_DESCRIPTION: Final = (
    "Wait for a program of exec that goes on, and get its output since the last answer. With terminate it is ended."
)


def exec_description(registry: ToolRegistry) -> str:
    """With the tools that there are, as many as there is room for."""
    if not len(registry):
        return f"{_EXEC}\nThere are no tools."
    lines: list[str] = []
    room = _MOST_LISTED
    for each in registry:
        first = each.tool.description.strip().partition("\n")[0][:_MOST_OF_ONE]
        line = f"- tools.{each.js_name}({_parameters(each.tool.input_schema)})" + (f": {first}" if first else "")
        room -= len(line) + 1
        if room < 0:
            lines.append(f"- and {len(registry) - len(lines)} more: search in ALL_TOOLS")
            break
        lines.append(line)
    return f"{_EXEC}\nThe tools:\n" + "\n".join(lines)


def _parameters(schema: Any) -> str:
    """The names of what a tool takes, the optional ones with a question mark."""
    if schema is None:
        return "text"
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or not properties:
        return ""
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    names = ", ".join(name if name in needed else f"{name}?" for name in properties)
    return f"{{{names[:_MOST_OF_ONE]}}}"
