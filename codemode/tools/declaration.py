"""A tool as JSON, so that a session can be made again by a later run of the server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from codemode.errors import ToolError
from codemode.tools.policy import ToolPolicy
from codemode.tools.tool import HttpHandler, PythonHandler, Tool

_FIELDS: Final = ("name", "description", "kind", "input_schema", "output_schema", "namespace")


def declared(tool: Tool) -> dict[str, Any]:
    """What there is to say of a tool; of a Python function, all but the function."""
    handler: dict[str, Any] = {"type": tool.handler_type}
    if isinstance(tool.handler, HttpHandler):
        handler |= {"url": tool.handler.url, "timeout_ms": tool.handler.timeout_ms}
    return {
        "name": tool.name,
        "description": tool.description,
        "kind": tool.kind,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "namespace": tool.namespace,
        "handler": handler,
        **tool.policy.declared(),
    }


def from_declared(said: dict[str, Any]) -> Tool:
    """The tool again. One that was a Python function of a session's own fails every call: the function is gone."""
    about = said["handler"]
    policy = ToolPolicy.from_declared(said)
    tool = Tool(**{name: said[name] for name in _FIELDS}, policy=policy)
    match about["type"]:
        case "http":
            return replace(tool, handler=HttpHandler(about["url"], about["timeout_ms"]))
        case "client":
            return tool
    return unavailable(tool, "the program that had its function has ended")


def unavailable(tool: Tool, why: str) -> Tool:
    """The same tool, whose calls all fail."""

    async def run(_: Any) -> Any:
        raise ToolError(f"{tool.name}: {why}; make a new session with the tool")

    return replace(tool, handler=PythonHandler(run=run, is_async=True))
