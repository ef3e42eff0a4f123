"""Uses of tools, by a script and directly, in a real service; and hooks that note what they are told."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from codemode.calls.hooks import Hook, HookEvent
from codemode.journal.rows import SessionRow
from codemode.lifecycle.hook_auditor import HookAuditor
from codemode.limits import Limits
from codemode.sessions.declaration import Declaration
from codemode.sessions.session import Session
from codemode.tools.policy import NO_POLICY, ToolPolicy
from codemode.tools.tool import PythonHandler, Tool
from tests.unit.test_session import Host

How = Literal["direct", "nested"]
HOWS: tuple[How, ...] = ("direct", "nested")
PATIENCE_S = 10.0

_SCRIPT = """
try { text(JSON.stringify({output: await tools[%s](%s)})) }
catch (e) { text(JSON.stringify({code: e.code ?? null, message: e.message})) }
"""


class Used(NamedTuple):
    """What became of a use: its output, or the code and the message of the error."""

    output: Any = None
    code: str | None = None
    message: str = ""


async def use(session: Session, how: How, name: str = "t", value: Any = None, **ids: Any) -> Used:
    """Use a tool, and see what its caller sees."""
    given = {} if value is None else value
    if how == "direct":
        answer = await session.call_tool(name, given, **ids)
        error = answer.error
        return Used(answer.output) if error is None else Used(None, error["code"], error["message"])
    source = _SCRIPT % (json.dumps(name), json.dumps(given))
    observation = await session.exec(source, **ids)
    assert observation.status == "completed", observation
    (item,) = observation.output
    return Used(**json.loads(item["text"]))


async def until(holds: Callable[[], Any], what: str = "") -> Any:
    """Wait for a fact, and give it back."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what or holds}"
        await asyncio.sleep(0.002)
    return found


@dataclass
class Told:
    """What hooks were told, in order; `pre` and `post` are made into hooks that do so."""

    payloads: list[dict[str, Any]] = field(default_factory=list)

    def hook(self, event: HookEvent, answer: Any = None, **options: Any) -> Hook:
        """One that notes its payload, and answers with this or with what a function makes of the payload."""

        def function(payload: dict[str, Any]) -> Any:
            self.payloads.append(payload)
            return answer(payload) if callable(answer) else answer

        return Hook(event=event, function=function, **options)

    def both(self, **options: Any) -> list[Hook]:
        """Two that only note."""
        return [self.hook("PreToolUse", **options), self.hook("PostToolUse", **options)]

    def of(self, event: HookEvent) -> list[dict[str, Any]]:
        return [each for each in self.payloads if each["hook_event_name"] == event]

    @property
    def states(self) -> list[str]:
        """How the calls ended that were told of, in the order of the telling."""
        return [each["tool_status"]["state"] for each in self.of("PostToolUse")]

    def check(self) -> None:
        """Each Pre has its Post, once, after it, and of the same call."""
        assert audited(self.payloads) == []


def audited(payloads: Iterable[dict[str, Any]]) -> list[Any]:
    """What is wrong with what hooks were told."""
    auditor = HookAuditor()
    for payload in payloads:
        auditor.take(payload)
    auditor.finish()
    return auditor.findings


def wants(**said: Any) -> dict[str, Any]:
    """A hook's answer."""
    return {"hookSpecificOutput": said}


DENY = wants(permissionDecision="deny", permissionDecisionReason="because of X")


@dataclass
class Calls:
    """A tool that notes its inputs, and answers with them."""

    inputs: list[Any] = field(default_factory=list)

    def tool(self, name: str = "t", policy: ToolPolicy = NO_POLICY, **options: Any) -> Tool:
        async def run(given: Any) -> Any:
            self.inputs.append(given)
            return {"got": given}

        return python(run, name, policy=policy, **options)


def python(run: Callable[[Any], Any], name: str = "t", *, is_async: bool = True, **options: Any) -> Tool:
    return Tool(name=name, handler=PythonHandler(run=run, is_async=is_async), **options)


@dataclass
class Gate:
    """A tool that waits until it is let go on; `begun` counts its calls, `stopped` those that were cancelled."""

    begun: int = 0
    stopped: int = 0
    opened: asyncio.Event = field(default_factory=asyncio.Event)

    def has_begun(self, count: int) -> bool:
        return self.begun >= count

    def tool(self, name: str = "t", policy: ToolPolicy = NO_POLICY) -> Tool:
        async def run(given: Any) -> Any:
            self.begun += 1
            try:
                await self.opened.wait()
            except asyncio.CancelledError:
                self.stopped += 1
                raise
            return given

        return python(run, name, policy=policy)


def session_alone(tools: list[Tool], limits: Limits | None = None, **options: Any) -> Session:
    """A session without a service: direct calls need no process."""
    row = SessionRow(0, "s", "", 0.0, 0.0, 0, b"{}")
    session = Session(Host(), row, tools, Declaration(limits=limits or Limits(), metadata={}, **options))
    session.begin()
    return session


async def is_well(session: Session) -> None:
    """Its history is one that may be."""
    told = await session.lifecycle()
    assert told["ok"], told
