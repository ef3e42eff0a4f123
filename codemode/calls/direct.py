"""Calls that no script makes: the caller of the API uses a tool itself, through the same checks and hooks."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NoReturn, Protocol

from codemode.calls.call import Call, CallOrigin, State, is_made_here, new_tool_use_id
from codemode.calls.checks import caller_fault, read_input
from codemode.calls.result import CALLER_NOT_ALLOWED, CANCELLED, INVALID_INPUT, Result, failed, refused
from codemode.calls.runner import CallRunner
from codemode.calls.slots import CallPlaces
from codemode.errors import InvalidRequest, ToolNotFound, ToolUseIdTaken
from codemode.limits import Limits
from codemode.tools.command import Ending
from codemode.tools.encoding import NotJson, decode, encode
from codemode.tools.registry import RegisteredTool, ToolRegistry

_MOST_KNOWN: Final = 10_000  # ids that callers gave to calls that have ended
_LONGEST_ID: Final = 512


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What became of a direct call: its output, or an error as a script would get it."""

    tool_use_id: str
    result: Result

    @property
    def output(self) -> Any:
        """What the tool gave, JSON read again; None of a call that failed."""
        return decode(self.result.payload) if self.result.code is None else None

    @property
    def error(self) -> dict[str, str] | None:
        """`{message, code}` of a call that failed."""
        if self.result.code is None:
            return None
        return {"message": self.result.payload.decode("utf-8", "replace"), "code": self.result.code}


class DirectRecorder(Protocol):
    """Told of what happens to direct calls."""

    def direct_changed(self, call: Call) -> None:
        """A call has begun, goes on without us or has ended."""

    def direct_forgotten(self, tool_use_id: str) -> None:
        """The name of a call that has ended need not be known any more."""

    async def settled(self) -> str | None:
        """Return when all that it was told of will survive a crash of the server, or else why it would not."""


class DirectCalls:
    """Those of one session."""

    def __init__(
        self,
        session_id: str,
        registry: Callable[[], ToolRegistry],
        limits: Limits,
        places: CallPlaces,
        runner: CallRunner,
        recorder: DirectRecorder,
    ) -> None:
        self._session_id = session_id
        self._registry = registry
        self._limits = limits
        self._places = places
        self._runner = runner
        self._recorder = recorder
        self._live: dict[str, Call] = {}
        self._queued: dict[str, asyncio.Future[bool]] = {}
        self._known: OrderedDict[str, None] = OrderedDict()  # ids of calls that have ended

    async def call(self, tool_name: str, value: Any, *, tool_use_id: str | None, turn_id: str | None) -> ToolAnswer:
        """Use a tool; what became of it.

        Cancelling it cancels the call. Raises ToolNotFound, ToolUseIdTaken, and InvalidRequest for an id that is none.
        """
        registered = self._registry().find(tool_name)
        if registered is None:
            raise ToolNotFound(f"the session has no tool {tool_name[:100]}", tool_name=tool_name[:100])
        call = self._made(registered, tool_use_id, turn_id)
        try:
            call.text = encode(value)
        except NotJson as problem:
            fault = f"{tool_name}: the input cannot be written as JSON: {problem}"
            return ToolAnswer(call.tool_use_id, failed(fault, INVALID_INPUT))
        refusal = self._refusal(call, call.text)
        if refusal is not None:
            return ToolAnswer(call.tool_use_id, refusal)
        self._live[call.tool_use_id] = call
        try:
            result = await self._run(call)
        finally:
            if call.state != "running":
                self._forget(call)
        await self._recorder.settled()
        return ToolAnswer(call.tool_use_id, result)

    def live(self) -> list[Call]:
        """Those that are under way, or whose processes go on."""
        return list(self._live.values())

    async def settled(self, seconds: float) -> None:
        """Wait until those that are under way have ended, so long at most."""
        under_way = [call.task for call in self.live() if call.task is not None and call.running is None]
        if under_way:
            await asyncio.wait(under_way, timeout=seconds)

    def cancel(self, call: Call) -> None:
        """End one that is under way."""
        queued = self._queued.get(call.tool_use_id)
        if queued is not None and not queued.done():
            queued.set_result(False)
        if call.task is not None and call.state in ("queued", "in_flight"):
            call.task.cancel()

    def cancel_all(self) -> None:
        """End all of them."""
        for call in self.live():
            self.cancel(call)

    # What the runner asks of the calls' owner

    async def noted(self, call: Call) -> None:
        """Let its beginning survive a crash."""
        await self._recorder.settled()

    def asked(self, call: Call, is_asked: bool) -> None:
        """Nothing else stands still meanwhile."""

    def fulfilled_by_client(self, call: Call) -> NoReturn:
        """Refused before."""
        raise AssertionError("a direct call of a client tool")

    def _made(self, registered: RegisteredTool, tool_use_id: str | None, turn_id: str | None) -> Call:
        if tool_use_id is not None and not 0 < len(tool_use_id) <= _LONGEST_ID:
            raise InvalidRequest(f"tool_use_id: expected 1 to {_LONGEST_ID} characters")
        name = tool_use_id or new_tool_use_id()
        if name in self._live or name in self._known or (tool_use_id is not None and is_made_here(name)):
            raise ToolUseIdTaken(f"there was a call {name[:100]} in this session: it is not made again")
        origin = CallOrigin(self._session_id, None, turn_id)
        return Call(0, registered, name, origin, is_named=tool_use_id is not None)

    def _refusal(self, call: Call, text: bytes) -> Result | None:
        if call.is_client:
            return failed(f"{call.name}: you fulfil it yourself; there is nobody here to call it", CALLER_NOT_ALLOWED)
        fault = caller_fault(call.registered, "direct")
        if fault is not None:
            return failed(fault, CALLER_NOT_ALLOWED)
        if call.registered.tool.kind == "function" and text[:1] != b"{":
            return failed(f"{call.name}: expected one object as the input", INVALID_INPUT)
        if call.registered.tool.kind == "freeform" and text[:1] != b'"':
            return failed(f"{call.name}: expected one string as the input", INVALID_INPUT)
        fault = read_input(call.registered, text, self._limits)
        return None if fault is None else failed(fault, INVALID_INPUT)

    async def _run(self, call: Call) -> Result:
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._queued[call.tool_use_id] = turn
        self._places.enter(call, partial(_take, turn))
        try:
            if not await turn:
                return _cancelled(call)
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self._places.leave(call)
            raise
        finally:
            del self._queued[call.tool_use_id]
        task = call.task = asyncio.get_running_loop().create_task(self._in_its_place(call))
        task.add_done_callback(partial(self._leave, call))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # before it began
                return _cancelled(call)
            task.cancel()
            raise

    async def _in_its_place(self, call: Call) -> Result:
        call.started_at = time.time()
        self._move(call, "in_flight")
        self._runner.begin(call)
        try:
            result = await self._runner.run(call, self)
        except asyncio.CancelledError:
            result = _cancelled(call)
        text, call.exit_code = call.text, result.exit_code
        if result.running is not None:
            call.running = result.running
            self._move(call, "running")
            result.running.when_ended(partial(self._process_ended, call, text))
            return result
        self._move(call, result.state)
        call.after = self._runner.after(call, text, result)
        return result if call.after is None else await asyncio.shield(call.after)

    def _leave(self, call: Call, _: object) -> None:
        """Give its place back, when the hooks were told: what they take is bounded so."""
        if call.after is not None and not call.after.done():
            call.after.add_done_callback(partial(self._leave, call))
            return
        self._places.leave(call)
        call.text, call.task, call.before, call.after = b"", None, None, None

    def _process_ended(self, call: Call, text: bytes, ending: Ending, output: Any) -> None:
        call.exit_code = ending.exit_code
        self._move(call, ending.state)
        self._runner.after(call, text, Result(ending.state, b"", None, output, ending.exit_code))
        self._forget(call)

    def _move(self, call: Call, state: State) -> None:
        call.state = state
        if state not in ("in_flight", "running"):
            call.ended_at = time.time()
        self._recorder.direct_changed(call)

    def _forget(self, call: Call) -> None:
        self._live.pop(call.tool_use_id, None)
        if call.is_named:
            self.remember([call.tool_use_id])

    def remember(self, names: Iterable[str]) -> None:
        """These names were given to calls that have ended; of all that are known, the newest are kept."""
        self._known.update(dict.fromkeys(names))
        while len(self._known) > _MOST_KNOWN:
            name, _ = self._known.popitem(last=False)
            self._recorder.direct_forgotten(name)


def _take(turn: asyncio.Future[bool]) -> bool:
    """Take a place, unless its call was cancelled while it waited."""
    if turn.done():
        return False
    turn.set_result(True)
    return True


def _cancelled(call: Call) -> Result:
    return refused("cancelled", CANCELLED, f"{call.name}: it was cancelled")
