"""The tools that run commands: exec_command, write_stdin, shell_command."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from codemode.errors import ToolError
from codemode.lifecycle.deadline import Deadline
from codemode.processes.head_tail import within_tokens
from codemode.processes.process import CTRL_C, Process
from codemode.processes.table import Processes
from codemode.tools.command import CommandAnswer, CommandCall, CommandHandler
from codemode.tools.tool import Tool

MOST_MS: Final = 3_600_000
DEFAULT_YIELD_MS: Final = 10_000
DEFAULT_TIMEOUT_MS: Final = 10_000
DEFAULT_TYPED_YIELD_MS: Final = 250
DEFAULT_POLL_MS: Final = 5000
DEFAULT_OUTPUT_TOKENS: Final = 10_000

_EXEC: Final = """Runs a command in a shell, within the workspace.

Answers when it has ended, with `exit_code`, or after `yield_time_ms` while it goes on, with a `session_id` for \
write_stdin. Without `tty` standard input is empty. What it leaves in the background ends with the session."""
_WRITE: Final = """Types into a running command, or polls it; answers with what it has printed since the last answer.

Typing needs a command that was started with `tty: true`; "\\u0003" is Ctrl-C and interrupts any."""
_SHELL: Final = """Runs a command in a shell, within the workspace, to its end.

After `timeout_ms` it is ended: `timed_out` is true and `exit_code` null. For what takes longer, or asks questions, \
use exec_command."""

_ASKING: Final = {
    "with_escalated_permissions": {"type": "boolean", "description": "ask for the command to run with more rights"},
    "justification": {"type": "string", "description": "why it needs them, in one sentence, for who decides"},
}
_WORKDIR: Final = {"type": "string", "description": "directory, relative to the workspace; default the workspace"}
_OUTPUT: Final = {"type": "string", "description": "what it printed, stdout and stderr together, possibly truncated"}
_WALL: Final = {"type": "number", "description": "seconds that this call took"}
_CODE: Final = {"type": ["integer", "null"], "description": "exit code; 128 + N after signal N; null if it was ended"}
_SESSION: Final = {"type": "integer", "description": "there while it goes on: what write_stdin takes"}


def command_tools(processes: Processes) -> list[Tool]:
    """exec_command, write_stdin and shell_command for the commands of one session.

    Their handlers take inputs that were checked against the schemas, and raise ToolError.
    """
    tools = _Tools(processes)
    answer = _object({"output": _OUTPUT, "wall_time_seconds": _WALL, "exit_code": _CODE, "session_id": _SESSION}, 2)
    result = _object(
        {
            "output": _OUTPUT,
            "wall_time_seconds": _WALL,
            "exit_code": _CODE,
            "timed_out": {"type": "boolean", "description": "true when it was ended after timeout_ms"},
        },
        3,
    )
    tokens = _number(0, None, f"most tokens of output to show; default {DEFAULT_OUTPUT_TOKENS}")
    executing = {
        "cmd": {"type": "string", "description": "the command, as the shell takes it"},
        "workdir": _WORKDIR,
        "shell": {"type": "string", "description": "shell to use: absolute path or name; default the user's"},
        "login": {"type": "boolean", "description": "run it as a login shell (-lc); default false"},
        "tty": {"type": "boolean", "description": "give it a terminal, to type into; default false"},
        "yield_time_ms": _number(0, MOST_MS, f"how long to wait for its end; default {DEFAULT_YIELD_MS}"),
        "max_output_tokens": tokens,
        **_ASKING,
    }
    typing = {
        "session_id": {"type": "integer", "description": "of a command that exec_command said is running"},
        "chars": {"type": "string", "description": "what to type, line ends included; nothing to poll"},
        "yield_time_ms": _number(
            0,
            MOST_MS,
            f"how long to wait for its end; default {DEFAULT_TYPED_YIELD_MS}, or {DEFAULT_POLL_MS} when polling",
        ),
        "max_output_tokens": tokens,
    }
    running = {
        "command": {"type": "string", "description": "the command, as the shell takes it"},
        "workdir": _WORKDIR,
        "timeout_ms": _number(1, MOST_MS, f"when to end it; default {DEFAULT_TIMEOUT_MS}"),
        **_ASKING,
    }
    return [
        Tool(
            name="exec_command",
            description=_EXEC,
            input_schema=_object(executing, 1),
            output_schema=answer,
            handler=CommandHandler(tools.exec_command, lambda given: (given["cmd"], given.get("workdir") or ".")),
        ),
        Tool(
            name="write_stdin",
            description=_WRITE,
            input_schema=_object(typing, 1),
            output_schema=answer,
            handler=CommandHandler(tools.write_stdin),
        ),
        Tool(
            name="shell_command",
            description=_SHELL,
            input_schema=_object(running, 1),
            output_schema=result,
            handler=CommandHandler(tools.shell_command, lambda given: (given["command"], given.get("workdir") or ".")),
        ),
    ]


class _Tools:
    """What the tools do."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes

    async def exec_command(self, call: CommandCall) -> CommandAnswer:
        given, began = call.input, time.monotonic()
        process = await self._start(call, given["cmd"], given.get("shell"), bool(given.get("login")))
        seconds = None if call.wait_until_completion else given.get("yield_time_ms", DEFAULT_YIELD_MS) / 1000
        await self._wait(process, seconds)
        return self._answer(process, given, began)

    async def write_stdin(self, call: CommandCall) -> CommandAnswer:
        given, began = call.input, time.monotonic()
        number = int(given["session_id"])
        process = self._processes.find(number)
        if process is None:
            raise ToolError(
                f"write_stdin: no process with session_id {number} runs or has unread output; exec_command starts one, "
                "and gives a session_id while it goes on"
            )
        chars = given.get("chars") or ""
        if chars and process.ending is None:
            if set(chars) == {CTRL_C} and not process.tty:
                process.interrupt()
            else:
                process.write(chars)
        seconds = given.get("yield_time_ms", DEFAULT_TYPED_YIELD_MS if chars else DEFAULT_POLL_MS) / 1000
        await process.wait(seconds)
        return CommandAnswer(self._answer(process, given, began).output)  # of its own; that of the process is another

    async def shell_command(self, call: CommandCall) -> CommandAnswer:
        given, began = call.input, time.monotonic()
        process = await self._start(call, given["command"], None, False)
        deadline = Deadline(given.get("timeout_ms", DEFAULT_TIMEOUT_MS), lambda _: process.kill("timed_out"))
        try:
            await self._wait(process, None)
        finally:
            deadline.close()
        return self._answer(process, given, began)

    async def _start(self, call: CommandCall, command: str, shell: str | None, login: bool) -> Process:
        return await self._processes.start(
            command,
            workdir=call.input.get("workdir") or ".",
            shell=shell,
            login=login,
            tty=bool(call.input.get("tty")),
            turn_id=call.turn_id,
            cell_id=call.cell_id,
            tool_use_id=call.tool_use_id,
        )

    async def _wait(self, process: Process, seconds: float | None) -> bool:
        """Wait for a process that nobody else knows yet; it ends with whoever waits."""
        try:
            return await process.wait(seconds)
        except asyncio.CancelledError:
            self._processes.forget(process)
            process.kill()
            raise

    def _answer(self, process: Process, given: Mapping[str, Any], began: float) -> CommandAnswer:
        asked = int(given.get("max_output_tokens", DEFAULT_OUTPUT_TOKENS))
        output: dict[str, Any] = {
            "output": within_tokens(process.take(), min(asked, self._processes.limits.max_output_tokens)),
            "wall_time_seconds": round(time.monotonic() - began, 3),
        }
        if process.ending is None:
            return CommandAnswer(output | {"session_id": process.process_id}, running=process)
        self._processes.forget(process)
        output["exit_code"] = process.ending.exit_code
        if process.ending.state == "timed_out":
            output["timed_out"] = True
        return CommandAnswer(output, ending=process.ending)


def _object(properties: Mapping[str, Any], required: int) -> dict[str, Any]:
    """A schema of an object, the first properties of which are required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties)[:required],
        "additionalProperties": False,
    }


def _number(least: int, most: int | None, description: str) -> dict[str, Any]:
    bounds = {"minimum": least} if most is None else {"minimum": least, "maximum": most}
    return {"type": "integer", **bounds, "description": description}
