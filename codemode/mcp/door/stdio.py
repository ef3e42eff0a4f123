"""An MCP client that has started us and speaks on our standard input and output."""

from __future__ import annotations

from mcp.server.stdio import stdio_server

from codemode.mcp.door.serving import METADATA, server_of
from codemode.service import CodeMode


async def serve_stdio(service: CodeMode) -> None:
    """Serve the client with a session of its own, until its end of the input. What else is printed goes to stderr.

    The thread that reads cannot be interrupted: a program that is told to stop ends without awaiting this.
    """
    session = service.create_session(metadata=METADATA)
    server = server_of(session)
    async with session, stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
