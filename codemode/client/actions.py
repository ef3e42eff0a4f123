"""What a session can be asked beside running scripts, by programs that block."""

from __future__ import annotations

from typing import Any

from codemode.client.action_answers import ApprovalInfo, CallAnswer, CommandInfo, LifecycleReport, ProcessInfo
from codemode.client.action_flows import Verdict
from codemode.client.flows import SessionFlows
from codemode.client.senders import Sender
from codemode.sessions.turns import TurnEnd


class Actions:
    """A part of what a session can be asked. All methods may raise httpx.TransportError when no answer could be had."""

    _sender: Sender
    _flows: SessionFlows

    def call_tool(
        self, name: str, value: Any = None, *, tool_use_id: str | None = None, turn_id: str | None = None
    ) -> CallAnswer:
        """Use a tool directly, through the checks, hooks and approvals that the calls of scripts go through.

        `value` is one object (the default is an empty one), or for a freeform tool one string. Waits as long as the
        tool takes, and a person who has to decide; no margin ends that. A call that fails or is denied raises nothing:
        see the answer's `error`. It is made once at most: when the answer is lost this raises AnswerLost, an
        httpx.TransportError, with the `tool_use_id`, which is made here if none is given. A call whose client is gone
        is cancelled. Raises InvalidRequest, ToolNotFound, ToolUseIdTaken for an id that was used before,
        PayloadTooLarge, SessionNotFound, ShuttingDown; ValueError or TypeError for what JSON cannot hold.
        """
        return self._sender.run(self._flows.call_tool(name, value, tool_use_id=tool_use_id, turn_id=turn_id))

    def end_turn(self, turn_id: str, *, detach: bool = False) -> TurnEnd:
        """End a turn, unless a cell, a command or a direct call of it still runs; with `detach` all the same.

        After a lost answer it is asked again, and the answer is how it stands then; there may be two events
        `turn/ended`. Raises InvalidRequest, SessionNotFound.
        """
        return self._sender.run(self._flows.end_turn(turn_id, detach=detach))

    def approvals(self) -> list[ApprovalInfo]:
        """The calls that wait for a person's decision, in the order they were asked about. Raises SessionNotFound."""
        return self._sender.run(self._flows.approvals())

    def decide(
        self, approval_id: str, verdict: Verdict, *, for_session: bool = False, arguments_hash: str | None = None
    ) -> ApprovalInfo:
        """A person's decision: "accept" lets the call go on, "decline" fails it, "cancel" ends its cell.

        `for_session` accepts the same tool with the same arguments from now on. With `arguments_hash`, only if that is
        what is asked about. It counts once: asked again after a lost answer, it may raise ApprovalAlreadyResolved
        because of itself; `fields["resolution"]` says what was decided. Raises InvalidRequest, SessionNotFound,
        ApprovalNotFound, ApprovalAlreadyResolved, ApprovalMismatch.
        """
        return self._sender.run(
            self._flows.decide(approval_id, verdict, for_session=for_session, arguments_hash=arguments_hash)
        )

    def processes(self) -> list[ProcessInfo]:
        """The commands of its calls that run, the oldest first. Raises SessionNotFound."""
        return self._sender.run(self._flows.processes())

    def end_process(self, process_id: int) -> None:
        """End a command of a call; it may run for a moment after that. `process_id` is the `session_id` in `processes`.

        After a lost answer it is asked again; then a command that has ended is as it should be. Raises
        SessionNotFound, ProcessNotFound.
        """
        self._sender.run(self._flows.end_process(process_id))

    def user_shell(
        self, command: str, *, workdir: str | None = None, turn_id: str | None = None, timeout_ms: int | None = None
    ) -> CommandInfo:
        """Run a command of a person beside all else, in a directory of the workspace; it goes on when this returns.

        Its output is in events and in `user_command`, never in what a model is shown. It is ended after `timeout_ms`,
        by default the limit `user_shell_ms`. It is not started twice: when the answer to a request that was sent is
        lost, this raises, and `user_commands` shows whether it runs. Raises ExecNotAllowed, InvalidRequest,
        PayloadTooLarge, SessionNotFound, ShuttingDown.
        """
        return self._sender.run(
            self._flows.user_shell(command, workdir=workdir, turn_id=turn_id, timeout_ms=timeout_ms)
        )

    def user_commands(self) -> list[CommandInfo]:
        """The commands of people that run, and the newest 100 that have ended. Raises SessionNotFound."""
        return self._sender.run(self._flows.user_commands())

    def user_command(self, command_id: str) -> CommandInfo:
        """One of them, with its output so far. Raises SessionNotFound, ProcessNotFound."""
        return self._sender.run(self._flows.user_command(command_id))

    def cancel_user_command(self, command_id: str) -> CommandInfo:
        """End one of them, and answer when it has ended; one that had ended answers its real end.

        Raises SessionNotFound, ProcessNotFound.
        """
        return self._sender.run(self._flows.cancel_user_command(command_id))

    def lifecycle(self) -> LifecycleReport:
        """Whether the events that are kept tell of each start and end once, and in order.

        Raises SessionNotFound, JournalUnavailable.
        """
        return self._sender.run(self._flows.lifecycle())
