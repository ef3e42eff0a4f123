"""A verifier as a tool of its own: one command, which the operator has fixed, and no arguments.

VERIFIER_COMMAND='make test' codemode serve --tools examples.verifier_tool:tools

The name of a tool is all that a receiver of minimal payloads learns of what was run, see verifier_collector.py: with
exec_command that could be any command. `tool_status` of a use is `exited` with the command's exit code. A service that
is killed cannot end it: give the command an end of its own, say with `timeout 600`.
"""

import asyncio
import contextlib
import os
import shlex
import signal

from codemode import Tool, ToolError
from codemode.tools.command import CommandAnswer, CommandCall, CommandHandler, Ending

MOST = 64 * 1024  # bytes of output that the script gets: the last ones


async def run(_: CommandCall) -> CommandAnswer:
    """Run the command to its end; it ends with whoever waits for it."""
    command = shlex.split(os.environ.get("VERIFIER_COMMAND", ""))
    if not command:
        raise ToolError("run_verifier: the operator has set no VERIFIER_COMMAND")
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,  # so that all that it starts can be ended with it
    )
    assert process.stdout is not None
    output = b""
    try:
        while part := await process.stdout.read(MOST):
            output = (output + part)[-MOST:]
        status = await process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    code = status if status >= 0 else 128 - status  # after signal N, as shells have it
    return CommandAnswer({"exit_code": code, "output": output.decode("utf-8", "replace")}, Ending("exited", code))


tools = [
    Tool(
        name="run_verifier",
        description="Run the verifier of this project; it passed if exit_code is 0.",
        input_schema={"type": "object", "properties": {}, "additionalProperties": False},
        handler=CommandHandler(run),
    )
]
