"""The way of a call: hooks, a person's consent, the tool, its result, hooks again. The same for every caller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

import anyio.to_thread

from codemode.calls.approvals import Approvals, CallListener
from codemode.calls.background import Background
from codemode.calls.call import Call, tool_status
from codemode.calls.checks import input_fault
from codemode.calls.contained import Raised, contained
from codemode.calls.hook_answers import NOTHING, Decision, HookFailed
from codemode.calls.hook_runs import HookRunner, Use
from codemode.calls.hooks import Hook, Hooks
from codemode.calls.result import (
    APPROVAL_DECLINED,
    APPROVAL_EXPIRED,
    CANCELLED,
    HOOK_DENIED,
    RESULT_TOO_LARGE,
    RESULT_WITHHELD,
    TIMED_OUT,
    Result,
    failed,
    of_output,
    refused,
    said,
)
from codemode.calls.slots import ToolThreads
from codemode.errors import ToolError, ToolTimedOut
from codemode.lifecycle.deadline import Deadline, DeadlineEnded
from codemode.limits import Limits
from codemode.tools.command import CommandCall, CommandHandler
from codemode.tools.encoding import NotJson
from codemode.tools.http import HttpTools, TooLong
from codemode.tools.tool import ClientHandler, HttpHandler, McpHandler, PythonHandler

_log = logging.getLogger(__name__)

_LEFT_S: Final = 5.0  # that hooks have to answer about a call that was cancelled meanwhile
_ESCALATED: Final = "with_escalated_permissions"


class CallOwner(Protocol):
    """Who has made a call."""

    async def noted(self, call: Call) -> None:
        """Return when a call that is about to reach its tool would be known after a crash of the server."""

    def asked(self, call: Call, is_asked: bool) -> None:
        """A person is asked about the call, or no more."""

    def fulfilled_by_client(self, call: Call) -> Awaitable[Result]:
        """The result that the caller hands in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRunner:
    """Of one session."""

    limits: Limits
    http: HttpTools
    threads: ToolThreads
    hooks: Hooks
    approvals: Approvals
    listener: CallListener
    background: Background
    settled: Callable[[], Awaitable[Any]]  # returns when what was told so far would survive a crash of the server

    def begin(self, call: Call) -> None:
        """A call has its place: ask the hooks. They are all asked and told, whatever becomes of the call meanwhile."""
        hooks = self.hooks.of("PreToolUse", call.name)
        if hooks:
            call.was_escalated = call.is_command and call.input.get(_ESCALATED) is True
            use = self._use(call, call.text)
            call.before = self.background.start(self._before(hooks, use))

    async def run(self, call: Call, owner: CallOwner) -> Result:
        """Bring it to its tool. Raises nothing, but CancelledError."""
        policy = call.registered.tool.policy
        try:
            if call.before is not None or policy.requires_approval or call.is_command:
                refusal = await self._admitted(call, owner)
                if refusal is not None:
                    return refusal
            if policy.timeout_ms is not None:
                return await Deadline(policy.timeout_ms).over(self._fulfilled(call, owner))
            return await self._fulfilled(call, owner)
        except ToolTimedOut as problem:
            return refused("timed_out", TIMED_OUT, said(problem, call.name))
        except DeadlineEnded:
            return refused("timed_out", TIMED_OUT, f"{call.name}: it took longer than {policy.timeout_ms} ms")
        except TooLong as problem:
            return failed(said(problem, call.name), RESULT_TOO_LARGE)
        except ToolError as problem:
            return failed(said(problem, call.name))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return failed(f"{call.name}: it failed with CancelledError")
        except BaseException as problem:  # sys.exit() in a tool is a failure of that call too
            where = call.origin.cell_id
            raised = problem.__cause__ if isinstance(problem, Raised) else problem
            _log.warning("tool %s failed in call %s of cell %s", call.name, call.number, where, exc_info=raised)
            name = str(problem) if isinstance(problem, Raised) else type(problem).__name__
            return failed(f"{call.name}: it failed with {name}")

    def after(self, call: Call, text: bytes, result: Result) -> asyncio.Task[Result] | None:
        """Tell the hooks of a call that has ended, `text` having been its input; the result that they leave.

        None if there are no hooks. Whoever waits for it may go: they are told all the same.
        """
        if call.is_shown:
            self.listener.command_ended(call, text, result)
        hooks = self.hooks.of("PostToolUse", call.name)
        return self.background.start(self._after(call, hooks, text, result)) if hooks else None

    def tell_lost(self, told: Mapping[str, Any]) -> None:
        """Tell the hooks of a call whose end nobody knows: its server was lost."""
        hooks = self.hooks.of("PostToolUse", str(told["tool_name"]))
        if hooks:
            use = Use(told, b"", lambda _, __: None, is_command=False, is_freeform=False)
            self.background.start(self._tell_lost(hooks, use))

    async def _admitted(self, call: Call, owner: CallOwner) -> Result | None:
        """Ask the hooks and, where it is needed, a person; the result of a call that may not be."""
        asks: tuple[str, ...] = ()
        if call.before is not None:
            decision = await asyncio.shield(call.before)
            if decision.denied is not None:
                is_own_text = decision.denied.startswith("hook returned")
                return refused(
                    "denied", HOOK_DENIED, decision.denied if is_own_text else f"{call.name}: {decision.denied}"
                )
            call.text, call.waits_for_end, asks = decision.text, decision.waits_for_end, decision.asks
        if call.is_command:
            call.is_shown = True
            self.listener.command_began(call)
        reasons = [*asks, *self._own_reasons(call)]
        return await self._consent(call, reasons, owner) if reasons else None

    def _own_reasons(self, call: Call) -> list[str]:
        reasons = ["the tool requires approval"] if call.registered.tool.policy.requires_approval else []
        if call.is_command:
            given = call.input
            if given.get(_ESCALATED) is True:
                reasons.append(f"escalated permissions: {given.get('justification') or 'no justification was given'}")
            elif call.was_escalated:  # a hook that wrote the input anew decides nothing about this
                reasons.append("escalated permissions were asked for")
        return reasons

    async def _consent(self, call: Call, reasons: Sequence[str], owner: CallOwner) -> Result | None:
        if self.approvals.policy == "never":
            text = f"{call.name}: it needs a person's approval ({'; '.join(reasons)}), and this session asks nobody"
            return refused("denied", APPROVAL_DECLINED, text)
        resolution = await self.approvals.ask(call, reasons, lambda is_asked: owner.asked(call, is_asked))
        if resolution == "accepted":
            return None
        if resolution == "expired":
            return refused("denied", APPROVAL_EXPIRED, f"{call.name}: nobody decided about it in time")
        if resolution == "cancelled":
            return refused("cancelled", CANCELLED, f"{call.name}: it was cancelled by a person")
        return refused("denied", APPROVAL_DECLINED, f"{call.name}: it was declined by a person")

    async def _fulfilled(self, call: Call, owner: CallOwner) -> Result:
        tool = call.registered.tool
        if isinstance(tool.handler, ClientHandler):
            return await owner.fulfilled_by_client(call)
        await owner.noted(call)
        return of_output(call.name, await self._handled(call), self.limits, tool.policy)

    def _handled(self, call: Call) -> Awaitable[Any]:
        match call.registered.tool.handler:
            case PythonHandler(run=run, is_async=True):
                return run(call.input)
            case PythonHandler(run=run, is_heavy=is_heavy):
                limiter = self.threads.few if is_heavy else self.threads.many
                work = partial(contained, run, call.input)
                return anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)
            case HttpHandler() as handler:
                return self.http.call(handler, call.request(), self.limits.max_tool_result_bytes)
            case McpHandler(run=mcp):
                return mcp(call.input, partial(self.listener.call_progressed, call))
            case CommandHandler(run=command):
                origin = call.origin
                about = (call.tool_use_id, origin.turn_id, origin.cell_id, call.waits_for_end)
                return command(CommandCall(call.input, *about))
            case ClientHandler():
                raise AssertionError("the caller fulfils it")

    async def _before(self, hooks: Sequence[Hook], use: Use) -> Decision:
        """Ask them, when the next server would know of the call, and tell them that it was lost."""
        await self.settled()
        return await self._hook_runner.before(hooks, use)

    async def _after(self, call: Call, hooks: Sequence[Hook], text: bytes, result: Result) -> Result:
        if call.before is not None:  # who was asked is told how it ended after that
            await asyncio.wait((call.before,), timeout=_LEFT_S if result.state == "cancelled" else None)
            call.before.cancel()
        await self.settled()  # else the next server might tell them of another end
        status = tool_status(result.state, result.exit_code)
        response, result = _shown(call, result)
        try:
            updated = await self._hook_runner.after(hooks, self._use(call, text), response, status)
        except HookFailed as problem:
            if result.state == "denied":  # there is nothing to withhold
                return result
            return refused(
                result.state, RESULT_WITHHELD, f"{call.name}: its result is withheld, because a hook failed: {problem}"
            )
        if updated is NOTHING:
            return result
        if result.code is None:
            made = of_output(call.name, updated, self.limits, call.registered.tool.policy)
            return made._replace(state=result.state, exit_code=result.exit_code, running=result.running)
        if isinstance(updated, str):
            return refused(result.state, result.code, updated)
        return refused(result.state, RESULT_WITHHELD, f"{call.name}: its error is withheld by a hook")

    async def _tell_lost(self, hooks: Sequence[Hook], use: Use) -> None:
        try:
            await self._hook_runner.after(hooks, use, None, tool_status("lost"))
        except HookFailed:
            pass  # there is no result to withhold

    @property
    def _hook_runner(self) -> HookRunner:
        limits = self.limits
        return HookRunner(self.http, self.threads, limits.max_tool_input_bytes, limits.max_tool_result_bytes)

    def _use(self, call: Call, text: bytes) -> Use:
        told: Mapping[str, Any] = {
            "session_id": call.origin.session_id,
            "turn_id": call.origin.turn_id,
            "tool_use_id": call.tool_use_id,
            "tool_name": call.name,
            "tool_source": call.source,
        }
        fault = lambda text, value: input_fault(call.registered, text, value, self.limits)  # noqa: E731
        return Use(told, text, fault, call.is_command, call.registered.tool.kind == "freeform")


def _shown(call: Call, result: Result) -> tuple[Any, Result]:
    """What hooks are shown of a result, and what becomes of one that cannot be shown."""
    try:
        return result.response, result
    except NotJson as problem:
        text = f"{call.name}: its result is withheld, because hooks cannot be shown it: {problem}"
        return None, refused(result.state, RESULT_WITHHELD, text)
