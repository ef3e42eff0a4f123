"""A small MCP server for tests, with the official package: `python tests/unit/mcp_server.py MODE`.

It does well and badly, as its tools say; MODE makes the whole server odd.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
OBJECT = {"type": "object"}


def tool(name: str, **fields: Any) -> types.Tool:
    return types.Tool(name=name, input_schema=fields.pop("schema", OBJECT), **fields)


def text(said: str, **fields: Any) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=said)], **fields)


class Odd:
    """What it offers, and how it answers."""

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.extra: list[str] = []
        self.log = os.environ.get("MCP_TEST_LOG")

    def note(self, what: str) -> None:
        if self.log:
            with Path(self.log).open("a", encoding="utf-8") as file:
                file.write(what + "\n")

    def tools(self) -> list[types.Tool]:
        numbers = {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}
        found = [
            tool("echo", description="Says it again.", annotations=types.ToolAnnotations(read_only_hint=True)),
            tool("double", schema=numbers, output_schema={"type": "object"}),
            tool("picture"),
            tool("fail"),
            tool("refuse"),
            tool("slow"),
            tool("crash"),
            tool("add_tool"),
            tool("environment"),
            tool("flood"),
            tool("big"),
            *([tool("headers")] if self.mode == "http" else []),
            tool("get-it"),
            tool("get.it"),
            *(tool(name) for name in self.extra),
        ]
        if self.mode == "schemas":
            found += [
                tool("bad_schema", schema={"type": "object", "properties": {"a": {"type": "no such type"}}}),
                tool("far_schema", schema={"type": "object", "$ref": "http://127.0.0.1:1/schema"}),
                tool("wide_schema", schema={"type": "object", "description": "x" * 300_000}),
            ]
        return found

    async def list_tools(self, ctx: Any, params: Any) -> types.ListToolsResult:
        self.note("list")
        found = self.tools()
        if self.mode == "many":
            start = int(params.cursor) if params is not None and params.cursor else 0
            more = [tool(f"t{number}") for number in range(start, start + 100)]
            return types.ListToolsResult(tools=more, next_cursor=str(start + 100) if start < 9_900 else None)
        if self.mode == "pages":
            start = int(params.cursor) if params is not None and params.cursor else 0
            following = str(start + 5) if start + 5 < len(found) else None
            return types.ListToolsResult(tools=found[start : start + 5], next_cursor=following)
        return types.ListToolsResult(tools=found)

    async def call_tool(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = params.arguments or {}
        self.note(f"call {params.name}")
        match params.name:
            case "echo":
                return text(str(given.get("said")))
            case "double":
                return text("done", structured_content={"a": given["a"] * 2})
            case "picture":
                return types.CallToolResult(
                    content=[
                        types.ImageContent(data=PIXEL, mime_type="image/png"),
                        types.AudioContent(data="UklGRg==", mime_type="audio/wav"),
                        types.ResourceLink(uri="file:///a.txt", name="a"),
                    ]
                )
            case "fail":
                return text("it did not work", is_error=True)
            case "refuse":
                raise ValueError("no such thing")
            case "slow":
                try:
                    for step in range(int(given.get("steps", 100))):
                        await ctx.session.report_progress(step, 100, f"step {step}")
                        await anyio.sleep(0.1)
                except anyio.get_cancelled_exc_class():
                    self.note("cancelled")
                    raise
                return text("at last")
            case "crash":
                os._exit(3)
            case "add_tool":
                self.extra.append(f"added_{len(self.extra)}")
                await ctx.session.send_tool_list_changed()
                return text("added")
            case "environment":
                return text(
                    "",
                    structured_content=dict(os.environ)
                    | {"PID": os.getpid(), "DESCRIPTORS": len(list(Path("/proc/self/fd").iterdir()))},
                )
            case "flood":
                for number in range(600):
                    await ctx.session.report_progress(number, None, "x")
                return text("flooded")
            case "headers":
                return text("", structured_content=dict(ctx.request.headers))
            case "big":
                return text("x" * int(given["size"]))
        return text(params.name)


def serve_http(odd: Odd, server: Server[Any]) -> None:
    """Prints its URL. A folder that is called away answers with a redirect."""
    app = server.streamable_http_app()

    async def redirect(scope: Any, receive: Any, send: Any) -> None:
        place = {"/away": b"http://127.0.0.1:9/mcp", "/near": b"/mcp"}.get(scope.get("path", ""))
        if place is None:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 307, "headers": [(b"location", place)]})
        await send({"type": "http.response.body", "body": b""})

    listener = socket.create_server(("127.0.0.1", int(os.environ.get("MCP_TEST_PORT", "0"))))
    sys.stdout.write(f"http://127.0.0.1:{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    config = uvicorn.Config(redirect, log_level="error", lifespan="on", ws="none", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run([listener])


def server_of(odd: Odd) -> Server[Any]:
    return Server("odd", on_list_tools=odd.list_tools, on_call_tool=odd.call_tool)


async def serve(mode: str) -> None:
    odd = Odd(mode)
    server = server_of(odd)
    async with stdio_server() as (read, write):
        odd.note("start")
        await server.run(read, write, server.create_initialization_options(NotificationOptions(tools_changed=True)))


def main(mode: str) -> None:
    match mode:
        case "http":
            serve_http(odd := Odd(mode), server_of(odd))
            return
        case "deaf":
            time.sleep(3600)
        case "nonsense":
            while True:
                sys.stdout.write("hello, this is a log line\n")
                sys.stdout.flush()
        case "long":
            while True:
                sys.stdout.write("x" * 65536)
        case "ends":
            sys.stderr.write("secret path /etc/nowhere\n")
            sys.exit(1)
        case "stubborn":  # leaves a child behind, and minds no signal but one
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            child = subprocess.Popen(["sleep", "3600"], stdin=subprocess.DEVNULL)
            Path(os.environ["MCP_TEST_LOG"]).write_text(f"{os.getpid()} {child.pid}", encoding="utf-8")
            try:
                anyio.run(serve, mode)
            finally:
                time.sleep(3600)
    anyio.run(serve, mode)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
