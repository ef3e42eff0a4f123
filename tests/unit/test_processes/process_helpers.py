"""What the tests of commands share: the tools as functions, and looking at the machine's processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codemode.processes.table import Processes
from codemode.processes.tools import command_tools
from codemode.tools.command import CommandAnswer, CommandCall, CommandHandler
from codemode.tools.schema import InputSchema

PATIENCE = 8.0


async def call(
    processes: Processes, name: str, /, *, wait_until_completion: bool = False, **given: Any
) -> CommandAnswer:
    """Call one of the tools, its input checked as a session does."""
    tool = next(each for each in command_tools(processes) if each.name == name)
    assert isinstance(tool.handler, CommandHandler)
    assert InputSchema(name, tool.input_schema).fault(given) is None
    return await tool.handler.run(CommandCall(given, "toolu_1", "turn_1", "cell_1", wait_until_completion))


async def until(condition: Callable[[], Any], what: str = "what was waited for") -> None:
    """Poll until something is so; fails after some seconds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come"
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs: one that ended and was not reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def numbers(path: Path, count: int) -> list[int]:
    """The numbers in a file, once it has so many of them."""
    found = path.read_text(encoding="utf-8").split() if path.exists() else []
    return [int(each) for each in found] if len(found) >= count else []
