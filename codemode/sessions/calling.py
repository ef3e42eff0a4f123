"""The calls of a session, by its scripts and direct: what they share, and who is told of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from codemode.calls.approvals import Approval, ApprovalPolicy, Approvals, CallListener
from codemode.calls.background import Background
from codemode.calls.bridge import BridgeOwner, ToolBridge
from codemode.calls.call import Call, CallOrigin
from codemode.calls.direct import DirectCalls
from codemode.calls.hooks import Hook, Hooks
from codemode.calls.result import Result
from codemode.calls.runner import CallRunner
from codemode.calls.slots import CallPlaces
from codemode.journal.reading import SessionState
from codemode.lifecycle.events import EventType, timestamp
from codemode.limits import Limits
from codemode.sessions.commands import SessionCommands
from codemode.sessions.host import SessionHost
from codemode.sessions.items import item_of
from codemode.sessions.recorder import Recorder
from codemode.tools.registry import ToolRegistry
from codemode.tools.tool import Progress

_HOOKS_S: Final = 5.0  # that hooks have to be told of ends when the session ends


class CallsOwner(Protocol):
    """The session that the calls belong to."""

    session_id: str
    limits: Limits
    approval_policy: ApprovalPolicy
    recorder: Recorder

    @property
    def registry(self) -> ToolRegistry:
        """Its tools at this moment."""


class SessionCalls(CallListener):
    """Of one session. `end_cell` ends a cell whose call a person has cancelled."""

    def __init__(
        self,
        owner: CallsOwner,
        host: SessionHost,
        hooks: Sequence[Hook],
        commands: SessionCommands,
        end_cell: Callable[[str], None],
    ) -> None:
        self._owner = owner
        self.commands = commands
        self._end_cell = end_cell
        self._places = CallPlaces(owner.limits.max_in_flight)
        self._background = Background()
        self._http = host.http.own()
        self.approvals = Approvals(owner.approval_policy, owner.limits.approval_ms, self)
        self._runner = CallRunner(
            limits=owner.limits,
            http=self._http,
            threads=host.threads,
            hooks=Hooks(host.hooks, hooks),
            approvals=self.approvals,
            listener=self,
            background=self._background,
            settled=owner.recorder.settled,
        )
        self.direct = DirectCalls(
            owner.session_id, lambda: owner.registry, owner.limits, self._places, self._runner, owner.recorder
        )

    def bridge(self, owner: BridgeOwner, cell_id: str, turn_id: str | None, parent_tool_use_id: str) -> ToolBridge:
        """The nested calls of a new cell."""
        mine = self._owner
        origin = CallOrigin(mine.session_id, cell_id, turn_id, parent_tool_use_id)
        return ToolBridge(owner, origin, mine.registry, mine.limits, self._places, self._runner)

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way that no script waits for."""
        return bool(self.direct.live()) or self.commands.is_busy

    def restore(self, state: SessionState) -> None:
        """Tell the hooks of calls that were under way when an earlier server was lost, and know the direct ones."""
        self.direct.remember(state.direct_calls)
        for call in state.lost:
            told = {"session_id": self._owner.session_id, "turn_id": call.turn_id, **call.told}
            told.pop("runtime_tool_call_id", None)  # it is in the source
            self._runner.tell_lost(told)

    async def close(self) -> None:
        """End direct calls and commands, and wait until the hooks were told of all ends, within a bound."""
        self.direct.cancel_all()
        await self.direct.settled(_HOOKS_S)
        await self.commands.close()
        await self._background.settled(_HOOKS_S)
        await self._http.aclose()

    # What people are shown

    def command_began(self, call: Call) -> None:
        self.commands.began(call)

    def command_ended(self, call: Call, text: bytes, result: Result) -> None:
        self.commands.ended(call, text, result)

    def call_progressed(self, call: Call, progress: Progress) -> None:
        if call.state == "in_flight":  # else it has its end already
            told = {name: value for name, value in progress._asdict().items() if value is not None}
            size = len(progress.message or "")
            self._owner.recorder.tell("tool_call/progress", call.origin.cell_id, {**call.identity(), **told}, size)

    def approval_asked(self, approval: Approval) -> None:
        call = approval.call
        told = approval_told(approval)
        type_: EventType = "item/toolCall/requestApproval"
        if call.is_command:
            type_ = "item/commandExecution/requestApproval"
        self._owner.recorder.tell(type_, call.origin.cell_id, told, 3 * len(call.text) + len(told["reason"]))

    def approval_resolved(self, approval: Approval, *, for_session: bool) -> None:
        told = {**approval.told(), "resolution": approval.resolution, "by_earlier_decision": for_session}
        self._owner.recorder.tell("approval/resolved", approval.call.origin.cell_id, told, len(told["reason"]))

    def call_cancelled(self, call: Call) -> None:
        if call.origin.cell_id is not None:
            self._end_cell(call.origin.cell_id)


def approval_told(approval: Approval) -> dict[str, Any]:
    """All that a person needs to decide."""
    return {
        **approval.told(),
        "asked_at": timestamp(approval.asked_at),
        "expires_at": timestamp(approval.expires_at),
        "item": item_of(approval.call, approval.input),
    }
