"""The commands of a session: those that its calls start, and those that a person runs beside them."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

from codemode.calls.call import Call
from codemode.calls.result import Result
from codemode.errors import ExecNotAllowed, InvalidRequest, ProcessNotFound, ToolError
from codemode.lifecycle.deadline import Deadline
from codemode.limits import Limits
from codemode.processes.process import Process
from codemode.processes.table import FIRST_ID, Processes
from codemode.processes.tools import command_tools
from codemode.sessions.items import ItemStatus, command_item, ended_item, item_of
from codemode.sessions.recorder import Recorder
from codemode.tools.command import Ending
from codemode.tools.encoding import decode
from codemode.tools.tool import Tool
from codemode.workspace.paths import Root

_BASES: Final = 1000
_MOST_KNOWN: Final = 100  # ended commands of people
_LONGEST_COMMAND: Final = 64 * 1024


@dataclass
class UserCommand:
    """A command that a person runs. Its output is in events and here, in no answer that a model is shown."""

    command_id: str
    process: Process

    @property
    def output(self) -> str:
        """What it has printed so far, in at most 64 KiB."""
        return self.process.aggregated

    @property
    def exit_code(self) -> int | None:
        """Of one that has ended by itself; None while it runs, and of one that was ended."""
        return self.process.exit_code

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.ending is None

    @property
    def item(self) -> dict[str, Any]:
        """As events show it."""
        process = self.process
        status: ItemStatus = "inProgress"
        if process.ending is not None:
            status = "completed" if process.exit_code == 0 else "failed"
        return command_item(
            self.command_id,
            process.command,
            process.workdir,
            status,
            output=process.aggregated,
            exit_code=process.exit_code,
            duration_ms=None if process.ending is None else round(process.wall_time_seconds * 1000),
            source="userShell",
        )


class SessionCommands:
    """Of one session. Without a `root` there are none."""

    def __init__(self, root: Root | None, limits: Limits, recorder: Recorder) -> None:
        self._limits = limits
        self._recorder = recorder
        # So that a number of an earlier run hardly means a command of this one.
        first = FIRST_ID * (
            1 + secrets.randbelow(_BASES)
        )  # a number of an earlier run hardly means a command of this one
        self._of_calls = None if root is None else Processes(root, limits, self._told, first)
        self._of_people = None if root is None else Processes(root, limits, self._told)
        self._user_commands: OrderedDict[str, UserCommand] = OrderedDict()

    def tools(self) -> list[Tool]:
        """exec_command, write_stdin and shell_command, where the operator allows them."""
        return [] if self._of_calls is None else command_tools(self._of_calls)

    @property
    def is_busy(self) -> bool:
        """Whether a command runs."""
        return bool(self.processes()) or any(each.process.ending is None for each in self._user_commands.values())

    # Those of calls

    def processes(self) -> list[Process]:
        """Those that run."""
        return [] if self._of_calls is None else self._of_calls.running()

    def end_process(self, process_id: int) -> None:
        """End one that runs. Raises ProcessNotFound."""
        found = next((each for each in self.processes() if each.process_id == process_id), None)
        if found is None:
            raise ProcessNotFound(f"no process {process_id} runs in this session")
        found.kill()

    def began(self, call: Call) -> None:
        """A call is about to run a command, if nobody minds."""
        told = {"item": item_of(call, call.input)}
        self._recorder.tell("item/started", call.origin.cell_id, told, 2 * len(call.text))

    def ended(self, call: Call, text: bytes, result: Result) -> None:
        """It has ended, or never ran."""
        item = ended_item(call, decode(text), result)
        size = 2 * len(text) + len(item["aggregatedOutput"] or "")
        self._recorder.tell("item/completed", call.origin.cell_id, {"item": item}, size)

    # Those of people

    async def user_shell(
        self, command: str, *, workdir: str, turn_id: str | None, timeout_ms: int | None
    ) -> UserCommand:
        """Run a command of a person; it goes on when this returns. Raises ExecNotAllowed, InvalidRequest."""
        if self._of_people is None:
            raise ExecNotAllowed
        if not command.strip() or len(command) > _LONGEST_COMMAND or "\0" in command:
            raise InvalidRequest(f"command: expected 1 to {_LONGEST_COMMAND} characters, none of them NUL")
        most = self._limits.user_shell_ms
        if timeout_ms is not None and timeout_ms > most:
            raise InvalidRequest(f"timeout_ms: at most the session's user_shell_ms, {most}")
        command_id = f"us_{secrets.token_hex(12)}"
        try:
            process = await self._of_people.start(command, workdir=workdir, turn_id=turn_id, tool_use_id=command_id)
        except ToolError as problem:
            raise InvalidRequest(str(problem)) from None
        made = self._user_commands[command_id] = UserCommand(command_id, process)
        self._recorder.tell("item/started", None, {"turn_id": turn_id, "item": made.item})
        deadline = Deadline(timeout_ms or most, lambda _: process.kill("timed_out"))
        process.when_ended(lambda ending, _: self._user_command_ended(made, ending, deadline))
        return made

    def user_commands(self) -> list[UserCommand]:
        """Those that run, and the newest that have ended."""
        return list(self._user_commands.values())

    def user_command(self, command_id: str) -> UserCommand:
        """One of them. Raises ProcessNotFound."""
        found = self._user_commands.get(command_id)
        if found is None:
            raise ProcessNotFound(f"there is no command {command_id[:100]} of a person in this session")
        return found

    async def cancel_user_command(self, command_id: str) -> UserCommand:
        """End one; it has ended when this returns, or cannot be ended. Raises ProcessNotFound."""
        found = self.user_command(command_id)
        found.process.kill()
        await found.process.wait(None)
        return found

    def _user_command_ended(self, command: UserCommand, ending: Ending, deadline: Deadline) -> None:
        deadline.close()
        item = command.item
        told = {"turn_id": command.process.turn_id, "reason": ending.state, "item": item}
        self._recorder.tell("item/completed", None, told, len(item["aggregatedOutput"]))
        ended = [each for each in self._user_commands.values() if each.process.ending is not None]
        for old in ended[:-_MOST_KNOWN]:
            del self._user_commands[old.command_id]

    def _told(self, process: Process, text: str) -> None:
        told = {"item_id": process.tool_use_id, "delta": text}
        self._recorder.tell("item/commandExecution/delta", process.cell_id, told, len(text))

    async def close(self) -> None:
        """End all of them, and whatever they left behind."""
        tables = [each for each in (self._of_calls, self._of_people) if each is not None]
        await asyncio.gather(*(each.close() for each in tables))
