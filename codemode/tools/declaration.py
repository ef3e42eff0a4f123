"""A tool as JSON, so that a session can be made again by a later run of the server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from codemode.errors import ToolError
from codemode.tools.tool import ClientHandler, HttpHandler, PythonHandler, Tool


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
    }


def from_declared(said: dict[str, Any]) -> Tool:
    """The tool again. One that was a Python function of a session's own fails every call: the function is gone."""
    about = said["handler"]
    match about["type"]:
        case "http":
            return Tool(**said | {"handler": HttpHandler(about["url"], about["timeout_ms"])})
        case "client":
            return Tool(**said | {"handler": ClientHandler()})
    return unavailable(Tool(**said | {"handler": ClientHandler()}), "the program that had its function has ended")


def unavailable(tool: Tool, why: str) -> Tool:
    """The same tool, whose calls all fail."""

    async def run(_: Any) -> Any:
        raise ToolError(f"{tool.name}: {why}; make a new session with the tool")

    return replace(tool, handler=PythonHandler(run=run, is_async=True))
