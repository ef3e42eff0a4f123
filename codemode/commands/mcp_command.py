"""`codemode mcp`: scripts for one MCP client, which has started this program and speaks on its standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from dataclasses import replace

from codemode.commands.config import Settings
from codemode.commands.serving import leave
from codemode.errors import CodeModeError, InvalidRequest, SandboxUnavailable
from codemode.mcp.extra import check_installed, loaded
from codemode.service import CodeMode


def serve_mcp(settings: Settings) -> int:
    """Serve until the client closes our input, or SIGTERM or SIGINT; the exit status.

    Raises InvalidRequest without the package that it takes, or for a wrong setting, and SandboxUnavailable.
    """
    check_installed()
    if sys.stdin is None or sys.stdout is None:
        raise InvalidRequest("standard input or output is closed")
    spares = 1 if settings.spares is None else settings.spares
    service = replace(settings, spares=spares).service()
    try:
        asyncio.run(_serve(service))
    except CodeModeError as problem:
        if problem.code != "isolation_unavailable" or isinstance(problem, SandboxUnavailable):
            raise
        sys.stderr.write(f"codemode: {problem.detail}\n")
        return 1
    return 0


async def _serve(service: CodeMode) -> None:
    door = await loaded("codemode.mcp.door.stdio")
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with service:
        serving = asyncio.create_task(door.serve_stdio(service))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            stopped.cancel()
            serving.result()
    if not serving.done():
        leave(0)  # a thread waits for input that may never come
    with contextlib.suppress(asyncio.CancelledError):
        await stopped
