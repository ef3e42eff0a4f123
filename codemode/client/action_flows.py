"""What is asked of a session beside scripts, and what happens after a lost answer. Nothing here sends."""

from __future__ import annotations

import secrets
from contextlib import suppress
from typing import Any, Literal, TypeAlias

import httpx

from codemode.client import action_answers, answers
from codemode.client.action_answers import ApprovalInfo, CallAnswer, CommandInfo, LifecycleReport, ProcessInfo
from codemode.client.patience import LOST, NOT_SENT, Patience, always, get, persistently
from codemode.client.requests import Flow, Request, encode_given, session_path
from codemode.errors import ToolUseIdTaken
from codemode.sessions.turns import TurnEnd

Verdict: TypeAlias = Literal["accept", "decline", "cancel"]


class AnswerLost(httpx.TransportError):
    """No answer came to a direct call that was sent: it may have run, or not; the service cancels it when it notices.

    To call again with its `tool_use_id` is safe unless the service has started again: ToolUseIdTaken says then that the
    call was made. The session's events `tool_call/started` and `tool_call/ended` tell of it, also after a restart if
    the service has a data directory.
    """

    def __init__(self, message: str, tool_use_id: str) -> None:
        super().__init__(message)
        self.tool_use_id = tool_use_id


class ActionFlows:
    """The requests of one session that are not about scripts."""

    def __init__(self, session_id: str, patience_s: float) -> None:
        self.session_id = session_id
        self._patience_s = patience_s

    def call_tool(
        self, name: str, value: Any = None, *, tool_use_id: str | None = None, turn_id: str | None = None
    ) -> Flow[CallAnswer]:
        """Sent again only when it surely was not made: an id is forgotten when the service is started again."""
        own = f"tc_{secrets.token_hex(12)}" if tool_use_id is None else tool_use_id
        body = encode_given({"input": value, "tool_use_id": own, "turn_id": turn_id})
        request = Request("POST", session_path(self.session_id, "tools", name), body, wait_s=None)
        try:
            sent = yield from persistently(always(request), Patience(self._patience_s), lost=NOT_SENT)
        except NOT_SENT:
            raise
        except LOST as lost:
            raise _answer_lost(own, lost) from lost
        try:
            return answers.read(sent.response, action_answers.call)
        except ToolUseIdTaken as taken:
            if tool_use_id is not None:
                raise
            raise _answer_lost(own, taken) from taken  # it ran, and its answer was refused as `overloaded`

    def end_turn(self, turn_id: str, *, detach: bool = False) -> Flow[TurnEnd]:
        body = encode_given({"detach": detach or None})
        return answers.read(
            (yield from self._asked("POST", "turns", turn_id, "end", body=body)), action_answers.turn_end
        )

    def approvals(self) -> Flow[list[ApprovalInfo]]:
        response = yield from self._got("approvals")
        return answers.read(response, lambda body: [action_answers.approval(each) for each in body])

    def decide(
        self, approval_id: str, verdict: Verdict, *, for_session: bool = False, arguments_hash: str | None = None
    ) -> Flow[ApprovalInfo]:
        settings = {"for_session": True} if for_session else None
        wanted = {"decision": verdict, "accept_settings": settings, "arguments_hash": arguments_hash}
        response = yield from self._asked("POST", "approvals", approval_id, body=encode_given(wanted))
        return answers.read(response, action_answers.approval)

    def processes(self) -> Flow[list[ProcessInfo]]:
        response = yield from self._got("processes")
        return answers.read(response, lambda body: [action_answers.process(each) for each in body])

    def end_process(self, process_id: int) -> Flow[None]:
        request = Request("DELETE", session_path(self.session_id, "processes", str(process_id)))
        sent = yield from persistently(always(request), Patience(self._patience_s))
        is_gone = answers.problem_code(sent.response) == "process_not_found"
        if not sent.response.is_success and not (is_gone and sent.again):
            raise answers.problem(sent.response)

    def user_shell(
        self,
        command: str,
        *,
        workdir: str | None = None,
        turn_id: str | None = None,
        timeout_ms: int | None = None,
    ) -> Flow[CommandInfo]:
        """Not asked for twice after a lost answer: the command may have been started."""
        wanted = {"command": command, "workdir": workdir, "turn_id": turn_id, "timeout_ms": timeout_ms}
        request = Request("POST", session_path(self.session_id, "user_shell"), encode_given(wanted))
        sent = yield from persistently(always(request), Patience(self._patience_s), lost=NOT_SENT)
        return answers.read(sent.response, action_answers.command)

    def user_commands(self) -> Flow[list[CommandInfo]]:
        response = yield from self._got("user_shell")
        return answers.read(response, lambda body: [action_answers.command(each) for each in body])

    def user_command(self, command_id: str) -> Flow[CommandInfo]:
        return answers.read((yield from self._got("user_shell", command_id)), action_answers.command)

    def cancel_user_command(self, command_id: str) -> Flow[CommandInfo]:
        response = yield from self._asked("POST", "user_shell", command_id, "cancel")
        return answers.read(response, action_answers.command)

    def lifecycle(self) -> Flow[LifecycleReport]:
        return answers.read((yield from self._got("lifecycle")), action_answers.lifecycle)

    def _got(self, *place: str) -> Flow[httpx.Response]:
        return (yield from get(session_path(self.session_id, *place), self._patience_s))

    def _asked(self, method: str, *place: str, body: bytes | None = None) -> Flow[httpx.Response]:
        """For what may be done twice."""
        request = Request(method, session_path(self.session_id, *place), body)
        return (yield from persistently(always(request), Patience(self._patience_s))).response


def _answer_lost(tool_use_id: str, cause: Exception) -> AnswerLost:
    lost = AnswerLost(f"no answer came to the call {tool_use_id}, which may have run: {cause}", tool_use_id)
    if isinstance(cause, httpx.TransportError):
        with suppress(RuntimeError):  # it knows of no request
            lost.request = cause.request
    return lost
