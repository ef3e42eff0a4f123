"""The nested calls of one cell: takes them from the script, brings them to their tools, and gives back the results."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from functools import partial
from typing import Any, Final, Protocol

from codemode.calls.call import ANSWERED, ENDED, Call, CallOrigin, LedgerEntry, State, new_tool_use_id
from codemode.calls.checks import caller_fault, read_input
from codemode.calls.client_calls import ClientCalls
from codemode.calls.result import (
    CALL_LIMIT,
    CALLER_NOT_ALLOWED,
    INVALID_INPUT,
    TOOL_FAILED,
    Result,
    failed,
    of_output,
)
from codemode.calls.runner import CallRunner
from codemode.calls.slots import CallPlaces
from codemode.limits import Limits
from codemode.tools.command import CommandHandler, Ending
from codemode.tools.registry import ToolRegistry
from codemode.tools.tool import HttpHandler, McpHandler

_MOST_PENDING: Final = 64 * 1024 * 1024
_MOST_DIGITS: Final = 9
_OUTLIVE_US: Final = (HttpHandler, CommandHandler, McpHandler)


class BridgeOwner(Protocol):
    """The cell whose calls these are."""

    def call_resolved(self, number: int, well: bool, payload: bytes, code: str = "") -> None:
        """The result of a call, for the script: JSON if it went well, else the error's text and code."""

    def call_changed(self, call: Call) -> None:
        """A call waits for a place, has begun, goes on without us or has ended."""

    def person_asked(self, is_asked: bool) -> None:
        """A person is asked about one more call, or about one less."""

    async def noted(self) -> None:
        """Return when the calls so far would be known after a crash of the server."""

    def client_call_began(self) -> None:
        """A call waits for a result from the caller now."""


class ToolBridge:
    """The nested calls of one cell. Nothing here waits: results come through the owner's methods."""

    def __init__(
        self,
        owner: BridgeOwner,
        origin: CallOrigin,
        registry: ToolRegistry,
        limits: Limits,
        places: CallPlaces,
        runner: CallRunner,
    ) -> None:
        self._owner = owner
        self.origin = origin
        self.registry = registry  # as it was when the cell began
        self._limits = limits
        self._places = places
        self._runner = runner
        self._open = True
        self._noted = False  # that a call has begun
        self._has_room = True
        self._held: list[Call] = []  # until the process has taken in earlier results
        self.calls: list[Call] = []
        self.counts: Counter[State] = Counter()
        self._made: Counter[str] = Counter()  # calls of tools that may be called so often only
        self._pending_bytes = 0  # of the inputs of calls that have not ended
        self.started = 0  # calls that reached their tool, or may have
        self.error_results: list[str] = []  # tools whose result was an MCP result with isError
        self.resolved = 0  # results given to the script
        self._finishing = 0  # calls that have ended, and whose results are on their way
        self.client_calls = ClientCalls()
        self._waiting_since: float | None = None
        self._waited = 0.0

    # From the script

    def call(self, index: int, text: bytes) -> None:
        """A call of tool `index` with an input of JSON text; the numbers of calls count from 1."""
        call = Call(len(self.calls) + 1, self.registry[index], new_tool_use_id(), self.origin)
        self.calls.append(call)
        self.counts["queued"] += 1
        refusal = self._refusal(call, text)
        if refusal is not None:
            self._move(call, "failed")
            self._deliver(call, refusal)
            return
        call.text, call.weight = text, len(text)
        self._pending_bytes += call.weight
        self._places.enter(call, lambda: self._begin(call))
        if call.state == "queued":
            self._owner.call_changed(call)

    def make_room(self, has_room: bool) -> None:
        """Begin no more calls while the results of earlier ones wait to be taken in: what they hold is bounded so."""
        self._has_room = has_room
        if has_room:
            held, self._held = self._held, []
            for call in held:
                self._places.enter(call, partial(self._begin, call))

    def _refusal(self, call: Call, text: bytes) -> Result | None:
        """Why a call does not even begin."""
        fault = caller_fault(call.registered, "programmatic")
        if fault is not None:
            return failed(fault, CALLER_NOT_ALLOWED)
        if self._pending_bytes + len(text) > _MOST_PENDING:
            said = f"{call.name}: the inputs of the calls that wait would take more than {_MOST_PENDING} bytes"
            return failed(said, INVALID_INPUT)
        fault = read_input(call.registered, text, self._limits)
        if fault is not None:
            return failed(fault, INVALID_INPUT)
        most = call.registered.tool.policy.max_calls
        if most is not None:
            if self._made[call.name] >= most:
                return failed(f"{call.name}: a script may call it {most} times", CALL_LIMIT)
            self._made[call.name] += 1
        return None

    def _begin(self, call: Call) -> bool:
        if not self._open:
            return False
        if not self._has_room:
            self._held.append(call)
            return False
        call.started_at = time.time()
        self.started += 1
        self._move(call, "in_flight")
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()
        self._runner.begin(call)
        call.task = asyncio.get_running_loop().create_task(self._run(call))
        return True

    async def _run(self, call: Call) -> None:
        result = await self._runner.run(call, self)
        if call.state == "cancelled":  # `close` has seen to it
            if result.running is not None:
                result.running.kill()
            return
        if call.state == "in_flight":  # else its result was handed in
            self._finished(call, result)
        result = call.result if call.after is None else await asyncio.shield(call.after)
        call.result = call.before = call.after = call.task = None
        self._finishing -= 1
        self._places.leave(call)
        if self._open:
            self._deliver(call, result)

    def _finished(self, call: Call, result: Result) -> None:
        """The end of a call, or its answer while its process goes on. The script gets it when the hooks were told."""
        text, call.exit_code, call.result = call.text, result.exit_code, result
        if result.state == "denied":
            self.started -= 1
        call.running = result.running
        self._finishing += 1
        self._move(call, result.state)
        if not self.counts["in_flight"]:
            self._stop_waiting()
        if result.running is not None:
            result.running.when_ended(partial(self._process_ended, call, text))
        else:
            call.after = self._runner.after(call, text, result)

    def _process_ended(self, call: Call, text: bytes, ending: Ending, output: Any) -> None:
        """The process of a call that was answered has ended, maybe long after its cell."""
        call.exit_code = ending.exit_code
        self._move(call, ending.state)
        self._runner.after(call, text, Result(ending.state, b"", None, output, ending.exit_code))

    def _deliver(self, call: Call, result: Result) -> None:
        self.resolved += 1
        if result.is_error:
            self.error_results.append(call.name)
        self._owner.call_resolved(call.number, result.code is None, result.payload, result.code or "")

    # What the runner asks of the calls' owner

    async def noted(self, call: Call) -> None:
        """Let it be known that a tool is reached, so that it is never told wrongly whether a cell may run again.

        Further calls of functions in this process do not wait, as they cost less than a write.
        """
        if not self._noted or isinstance(call.registered.tool.handler, _OUTLIVE_US):
            await self._owner.noted()
            self._noted = True

    def asked(self, call: Call, is_asked: bool) -> None:
        """A person is asked about a call, or no more."""
        self._owner.person_asked(is_asked)

    def fulfilled_by_client(self, call: Call) -> asyncio.Future[Result]:
        """What the caller will hand in."""
        result = self.client_calls.add(call)
        self._owner.client_call_began()
        return result

    def ledger(self) -> list[LedgerEntry]:
        """All calls, in order."""
        return [
            LedgerEntry(
                call.number, call.tool_use_id, call.name, call.state, call.started_at, call.ended_at, call.exit_code
            )
            for call in self.calls
        ]

    # From the caller

    def client_call(self, runtime_tool_call_id: str) -> Call | None:
        """The client call of this name, if there was one."""
        _, _, number = runtime_tool_call_id.partition("call-")
        if not number.isdecimal() or len(number) > _MOST_DIGITS or not 1 <= int(number) <= len(self.calls):
            return None
        call = self.calls[int(number) - 1]
        return call if call.is_client and call.runtime_tool_call_id == runtime_tool_call_id else None

    def resolve(self, call: Call, *, output: Any = None, error: str | None = None) -> None:
        """The result of a client call. Raises ToolCallAlreadyResolved."""
        handed_in = self.client_calls.take(call)
        policy = call.registered.tool.policy
        result = of_output(call.name, output, self._limits, policy) if error is None else failed(error, TOOL_FAILED)
        self._finished(call, result)
        handed_in.set_result(result)

    @property
    def waits_for_client_alone(self) -> bool:
        """Whether no call of this cell can end without the caller, and one that it was not told of cannot either."""
        pending = self.client_calls
        return not self._finishing and len(pending) == self.counts["in_flight"] and pending.has_unannounced

    # The end

    def close(self) -> list[str]:
        """Cancel what is queued or under way; the names of those tools, in order of the calls."""
        self._open = False
        cancelled = [call for call in self.calls if call.state not in ANSWERED]
        for call in cancelled:
            was_in_flight, text = call.state == "in_flight", call.text
            call.ended_at = time.time()
            self._move(call, "cancelled")
            if call.task is not None:
                call.task.cancel()
            if was_in_flight:
                after = self._runner.after(call, text, Result("cancelled", b"", "cancelled"))
                if after is not None:  # what hooks take is bounded by the places
                    after.add_done_callback(partial(self._leave, call))
                else:
                    if call.before is not None:
                        call.before.cancel()
                    self._places.leave(call)
        self._stop_waiting()
        return [call.name for call in cancelled]

    def _leave(self, call: Call, _: object) -> None:
        self._places.leave(call)
        call.before = call.after = call.task = None

    def going_on(self) -> list[Call]:
        """Calls whose processes go on, in order."""
        return [call for call in self.calls if call.state == "running"] if self.counts["running"] else []

    @property
    def tool_wait_ms(self) -> int:
        """How long at least one call was under way, in all."""
        running = 0.0 if self._waiting_since is None else time.monotonic() - self._waiting_since
        return round((self._waited + running) * 1000)

    def _stop_waiting(self) -> None:
        if self._waiting_since is not None:
            self._waited += time.monotonic() - self._waiting_since
            self._waiting_since = None

    def _move(self, call: Call, state: State) -> None:
        self.counts[call.state] -= 1
        self.counts[state] += 1
        call.state = state
        if state in ENDED and call.ended_at is None:
            call.ended_at = time.time()
        if state in ANSWERED:
            self.client_calls.drop(call)
            self._pending_bytes -= call.weight
            call.text, call.weight = b"", 0
        self._owner.call_changed(call)
