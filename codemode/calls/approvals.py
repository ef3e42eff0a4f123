"""Calls that a person has to decide about: they wait, and a decision counts for exactly what was asked."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from codemode.calls.call import ENDED, Call
from codemode.errors import ApprovalAlreadyResolved, ApprovalMismatch, ApprovalNotFound
from codemode.lifecycle.deadline import Deadline
from codemode.tools.tool import Progress

ApprovalPolicy = Literal["never", "on_request"]
Verdict = Literal["accept", "decline", "cancel"]
Resolution = Literal["accepted", "declined", "cancelled", "expired", "withdrawn"]
_MOST_KNOWN: Final = 1000  # resolved ones, so that a second decision is told what became of the first
_MOST_GRANTS: Final = 10_000
_MOST_REASON: Final = 8000  # characters; a hundred hooks may give one each


def arguments_hash(tool_name: str, value: Any) -> str:
    """Of a tool and its arguments: what a decision counts for. SHA-256 of canonical JSON."""
    text = json.dumps({"tool": tool_name, "input": value}, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


@dataclass
class Approval:
    """A question to a person. `resolution` is None while it waits."""

    approval_id: str
    call: Call
    input: Any
    arguments_hash: str
    reasons: Sequence[str]
    asked_at: float
    expires_at: float
    resolution: Resolution | None = None
    decided: asyncio.Future[Resolution] = field(repr=False, kw_only=True)

    def told(self) -> dict[str, Any]:
        """What a person needs to decide."""
        return {
            "approval_id": self.approval_id,
            "reason": "; ".join(self.reasons)[:_MOST_REASON],
            "arguments_hash": self.arguments_hash,
            "tool_name": self.call.name,
            "tool_use_id": self.call.tool_use_id,
            "tool_source": self.call.source,
        }


class CallListener:
    """Told of what people are shown: questions, what became of them, and commands. Does nothing itself."""

    def command_began(self, call: Call) -> None:
        """A call is about to run a command, if nobody minds."""

    def command_ended(self, call: Call, text: bytes, result: Any) -> None:
        """It has ended, or never ran; `text` was its input."""

    def call_progressed(self, call: Call, progress: Progress) -> None:
        """The tool of a call that is under way tells how far it has come."""

    def approval_asked(self, approval: Approval) -> None:
        """A call waits for a person."""

    def approval_resolved(self, approval: Approval, *, for_session: bool) -> None:
        """It waits no more. With `for_session` nobody was asked, or will be again: the answer was given before."""

    def call_cancelled(self, call: Call) -> None:
        """A person wants the call and what made it to end."""


class Approvals:
    """Those of one session. Under the policy "never" nobody is asked, and what needs a person's consent is declined."""

    def __init__(self, policy: ApprovalPolicy, patience_ms: int, listener: CallListener) -> None:
        self.policy = policy
        self._patience_ms = patience_ms
        self._listener = listener
        self._pending: dict[str, Approval] = {}
        self._resolved: OrderedDict[str, Resolution] = OrderedDict()
        self._grants: set[str] = set()  # arguments' hashes that were accepted for the session

    def pending(self) -> list[Approval]:
        """Those that wait, in the order they were asked."""
        return list(self._pending.values())

    async def ask(self, call: Call, reasons: Sequence[str], asked: Callable[[bool], None]) -> Resolution:
        """Wait until a person has decided about a call, or has not for too long; at once if that was done before.

        `asked` is told True while a person is being asked, and False after it. Cancelling withdraws the question.
        """
        value = call.input
        digest = arguments_hash(call.name, value)
        now = time.time()
        approval = Approval(
            f"ap_{secrets.token_hex(12)}",
            call,
            value,
            digest,
            reasons,
            now,
            now + self._patience_ms / 1000,
            decided=asyncio.get_running_loop().create_future(),
        )
        if digest in self._grants:
            approval.resolution = "accepted"
            self._listener.approval_resolved(approval, for_session=True)
            return "accepted"
        self._pending[approval.approval_id] = approval
        self._listener.approval_asked(approval)
        asked(True)
        expiry = Deadline(self._patience_ms, lambda _: self._resolve(approval, "expired"))
        try:
            return await approval.decided
        finally:
            expiry.close()
            asked(False)
            self._resolve(approval, "withdrawn")

    def decide(
        self, approval_id: str, verdict: Verdict, *, for_session: bool = False, digest: str | None = None
    ) -> Approval:
        """A person's decision. With `digest`, only if that is what was asked about.

        Raises ApprovalNotFound, ApprovalAlreadyResolved, ApprovalMismatch.
        """
        approval = self._pending.get(approval_id)
        if approval is not None and approval.call.state in ENDED:  # its task is about to notice
            self._resolve(approval, "withdrawn")
            approval = None
        if approval is None:
            resolution = self._resolved.get(approval_id)
            if resolution is None:
                raise ApprovalNotFound(f"there is no approval {approval_id[:100]}")
            raise ApprovalAlreadyResolved(f"approval {approval_id} was {resolution} before", resolution=resolution)
        if digest is not None and digest != approval.arguments_hash:
            raise ApprovalMismatch(
                f"approval {approval_id} asks about another tool or other arguments; nothing was decided",
                arguments_hash=approval.arguments_hash,
            )
        if verdict == "accept" and for_session and len(self._grants) < _MOST_GRANTS:
            self._grants.add(approval.arguments_hash)
        told: dict[Verdict, Resolution] = {"accept": "accepted", "decline": "declined", "cancel": "cancelled"}
        self._resolve(approval, told[verdict])
        if verdict == "cancel":
            self._listener.call_cancelled(approval.call)
        return approval

    def _resolve(self, approval: Approval, resolution: Resolution) -> None:
        if approval.resolution is not None:
            return
        approval.resolution = resolution
        del self._pending[approval.approval_id]
        self._resolved[approval.approval_id] = resolution
        while len(self._resolved) > _MOST_KNOWN:
            self._resolved.popitem(last=False)
        if not approval.decided.done():
            approval.decided.set_result(resolution)
        self._listener.approval_resolved(approval, for_session=False)
