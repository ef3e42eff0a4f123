"""Host tools for the servers under test: some that behave, and some that do not."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from typing import Any

from codemode import tool


@tool
async def echo(value: Any = None) -> Any:
    """Give a value back."""
    return value


@tool
async def sleep(ms: int) -> int:
    """Wait for some time."""
    await asyncio.sleep(ms / 1000)
    return ms


@tool
async def never() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


@tool
def blocked(seconds: float = 3600) -> str:
    """Block a thread."""
    time.sleep(seconds)
    return "awake"


@tool
def threads() -> int:
    """Count the threads of the server."""
    return threading.active_count()


@tool
async def tasks() -> int:
    """Count the tasks of the server's event loop."""
    return len(asyncio.all_tasks())


@tool
async def big(size: int) -> str:
    """Return a long text."""
    return "x" * size


@tool
async def leave() -> None:
    """End the program, as a tool must not."""
    sys.exit(3)


@tool
def leave_from_a_thread() -> None:
    """The same, not in the event loop."""
    sys.exit(3)


@tool
async def cancelled() -> None:
    """Raise what looks like a cancellation of ours."""
    raise asyncio.CancelledError


tools = [echo, sleep, never, blocked, threads, tasks, big, leave, leave_from_a_thread, cancelled]
