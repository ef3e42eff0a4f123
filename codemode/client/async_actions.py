"""What else a session of the client for async programs can be asked; what it does and raises is said in `actions`."""

from __future__ import annotations

from typing import Any

from codemode.client.action_answers import ApprovalInfo, CallAnswer, CommandInfo, LifecycleReport, ProcessInfo
from codemode.client.action_flows import Verdict
from codemode.client.flows import SessionFlows
from codemode.client.senders import AsyncSender
from codemode.sessions.turns import TurnEnd


class AsyncActions:
    """A part of what a session can be asked."""

    _sender: AsyncSender
    _flows: SessionFlows

    async def call_tool(
        self, name: str, value: Any = None, *, tool_use_id: str | None = None, turn_id: str | None = None
    ) -> CallAnswer:
        """As `CodeModeClient.call_tool`. Cancelling it cancels the call."""
        return await self._sender.run(self._flows.call_tool(name, value, tool_use_id=tool_use_id, turn_id=turn_id))

    async def end_turn(self, turn_id: str, *, detach: bool = False) -> TurnEnd:
        """As `CodeModeClient.end_turn`."""
        return await self._sender.run(self._flows.end_turn(turn_id, detach=detach))

    async def approvals(self) -> list[ApprovalInfo]:
        """As `CodeModeClient.approvals`."""
        return await self._sender.run(self._flows.approvals())

    async def decide(
        self, approval_id: str, verdict: Verdict, *, for_session: bool = False, arguments_hash: str | None = None
    ) -> ApprovalInfo:
        """As `CodeModeClient.decide`."""
        return await self._sender.run(
            self._flows.decide(approval_id, verdict, for_session=for_session, arguments_hash=arguments_hash)
        )

    async def processes(self) -> list[ProcessInfo]:
        """As `CodeModeClient.processes`."""
        return await self._sender.run(self._flows.processes())

    async def end_process(self, process_id: int) -> None:
        """As `CodeModeClient.end_process`."""
        await self._sender.run(self._flows.end_process(process_id))

    async def user_shell(
        self, command: str, *, workdir: str | None = None, turn_id: str | None = None, timeout_ms: int | None = None
    ) -> CommandInfo:
        """As `CodeModeClient.user_shell`."""
        return await self._sender.run(
            self._flows.user_shell(command, workdir=workdir, turn_id=turn_id, timeout_ms=timeout_ms)
        )

    async def user_commands(self) -> list[CommandInfo]:
        """As `CodeModeClient.user_commands`."""
        return await self._sender.run(self._flows.user_commands())

    async def user_command(self, command_id: str) -> CommandInfo:
        """As `CodeModeClient.user_command`."""
        return await self._sender.run(self._flows.user_command(command_id))

    async def cancel_user_command(self, command_id: str) -> CommandInfo:
        """As `CodeModeClient.cancel_user_command`."""
        return await self._sender.run(self._flows.cancel_user_command(command_id))

    async def lifecycle(self) -> LifecycleReport:
        """As `CodeModeClient.lifecycle`."""
        return await self._sender.run(self._flows.lifecycle())
