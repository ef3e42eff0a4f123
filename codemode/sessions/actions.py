"""What may be done in a session beside scripts: direct calls, decisions, ends of turns; what a model is told."""

from __future__ import annotations

from typing import Any

from codemode.calls.approvals import Approval, Verdict
from codemode.calls.direct import ToolAnswer
from codemode.errors import SessionNotFound
from codemode.lifecycle.events import timestamp
from codemode.mcp.servers import SessionTools
from codemode.processes.process import Process
from codemode.sessions.calling import SessionCalls
from codemode.sessions.commands import UserCommand
from codemode.sessions.following import audited
from codemode.sessions.host import SessionHost
from codemode.sessions.recorder import Recorder
from codemode.sessions.shelf import CellShelf
from codemode.sessions.turns import RunningThing, TurnEnd, Turns
from codemode.tools.registry import ToolRegistry
from codemode.tools.specs import tool_specs


def process_told(process: Process) -> dict[str, Any]:
    """A command that runs, as lists name it."""
    return {
        "type": "process",
        "session_id": process.process_id,
        "command": process.command,
        "workdir": process.workdir,
        "tty": process.tty,
        "turn_id": process.turn_id,
        "cell_id": process.cell_id,
        "tool_use_id": process.tool_use_id,
        "started_at": timestamp(process.started_at),
    }


class SessionActions:
    """A part of `Session`."""

    session_id: str
    calls: SessionCalls
    recorder: Recorder
    _host: SessionHost
    _shelf: CellShelf
    _turns: Turns
    _closed: bool
    tools: SessionTools

    @property
    def registry(self) -> ToolRegistry:
        """The tools that a script which starts now can call."""
        return self.tools.registry

    async def tools_ready(self) -> ToolRegistry:
        """Its tools, when MCP servers that did not run are started, and those are listed that have changed.

        What cannot be had within half a minute is left out. Raises SessionNotFound, ShuttingDown.
        """
        if not self.tools.is_current:
            self._check_open()
            self._host.check_open()
            await self.tools.refresh()
        return self.registry

    async def call_tool(
        self, name: str, value: Any = None, *, tool_use_id: str | None = None, turn_id: str | None = None
    ) -> ToolAnswer:
        """Use a tool directly, through the checks and hooks that the calls of scripts go through; what became of it.

        `value` is one object (the default is an empty one), or for a freeform tool one string. Raises ToolNotFound,
        ToolUseIdTaken for an id that was used before, InvalidRequest, ShuttingDown.
        """
        self._check_open()
        self._host.check_open()
        if name.startswith("mcp__"):
            await self.tools_ready()
        given = {} if value is None else value
        return await self.calls.direct.call(name, given, tool_use_id=tool_use_id, turn_id=turn_id)

    def tool_specs(self, api: str) -> list[dict[str, Any]]:
        """`exec` and `wait` for a model, which are told of the session's tools: (a part of) the `tools` of a request.

        `api` is "openai_responses", "openai_chat", "anthropic" or "mcp"; raises InvalidRequest for another. Of a
        thousand tools it takes a second, once.
        """
        return tool_specs(self.registry, api)

    def approvals(self) -> list[Approval]:
        """The calls that wait for a person's decision, in the order they were asked about."""
        self._check_open()
        return self.calls.approvals.pending()

    def decide(
        self, approval_id: str, verdict: Verdict, *, for_session: bool = False, arguments_hash: str | None = None
    ) -> Approval:
        """A person's decision: "accept" lets the call go on, "decline" fails it, "cancel" ends its cell.

        `for_session` accepts the same tool with the same arguments from now on. With `arguments_hash`, only if that is
        what is asked about. Raises ApprovalNotFound, ApprovalAlreadyResolved, ApprovalMismatch.
        """
        self._check_open()
        return self.calls.approvals.decide(approval_id, verdict, for_session=for_session, digest=arguments_hash)

    def end_turn(self, turn_id: str, *, detach: bool = False) -> TurnEnd:
        """End a turn, unless a cell, a process or a direct call of it still runs; with `detach` all the same."""
        self._check_open()
        ended = self._turns.end(turn_id, self._running_things(), detach=detach)
        if not ended.needs_follow_up:
            self.recorder.tell("turn/ended", None, {"turn_id": turn_id, "detach": detach})
        return ended

    async def lifecycle(self) -> dict[str, Any]:
        """Whether the events that are kept tell of each start and end once, and in order; see `LifecycleAuditor`.

        Raises JournalUnavailable.
        """
        self._check_open()
        return await audited(self.recorder, self.session_id)

    def processes(self) -> list[Process]:
        """The commands of its calls that run."""
        self._check_open()
        return self.calls.commands.processes()

    def end_process(self, process_id: int) -> None:
        """End a command that runs. Raises ProcessNotFound."""
        self._check_open()
        self.calls.commands.end_process(process_id)

    async def user_shell(
        self, command: str, *, workdir: str = ".", turn_id: str | None = None, timeout_ms: int | None = None
    ) -> UserCommand:
        """Run a command of a person, beside whatever runs; it goes on when this returns.

        Its output is in events and in `user_command`, never in what a model is shown. It is ended after `timeout_ms`,
        by default the limit `user_shell_ms`. Raises ExecNotAllowed, InvalidRequest, ShuttingDown.
        """
        self._check_open()
        self._host.check_open()
        return await self.calls.commands.user_shell(command, workdir=workdir, turn_id=turn_id, timeout_ms=timeout_ms)

    def user_commands(self) -> list[UserCommand]:
        """The commands of people that run, and the newest that have ended."""
        self._check_open()
        return self.calls.commands.user_commands()

    def user_command(self, command_id: str) -> UserCommand:
        """One of them. Raises ProcessNotFound."""
        self._check_open()
        return self.calls.commands.user_command(command_id)

    async def cancel_user_command(self, command_id: str) -> UserCommand:
        """End one of them. Raises ProcessNotFound."""
        self._check_open()
        return await self.calls.commands.cancel_user_command(command_id)

    def _running_things(self) -> list[RunningThing]:
        cells = [
            RunningThing(cell.turn_id, {"type": "cell", "cell_id": cell.cell_id}) for cell in self._shelf.running()
        ]
        calls = [
            RunningThing(
                call.origin.turn_id, {"type": "tool_call", "tool_use_id": call.tool_use_id, "tool_name": call.name}
            )
            for call in self.calls.direct.live()
            if call.running is None
        ]
        return cells + calls + [RunningThing(each.turn_id, process_told(each)) for each in self.processes()]

    def _check_open(self) -> None:
        if self._closed:
            raise SessionNotFound(self.session_id)
