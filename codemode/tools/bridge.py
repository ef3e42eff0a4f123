"""Runs the nested calls of one cell: checks, queues, hands to the tool, reports back, keeps the record."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable
from typing import Any, Final, Protocol

import anyio.to_thread

from codemode.errors import ToolCallAlreadyResolved, ToolError
from codemode.limits import Limits
from codemode.tools.call import ENDED, Call, CallOrigin, LedgerEntry, State, new_tool_use_id
from codemode.tools.encoding import NotJson, decode, encode, error_text
from codemode.tools.http import HttpTools
from codemode.tools.registry import ToolRegistry
from codemode.tools.slots import CallSlots, ToolThreads
from codemode.tools.tool import ClientHandler, HttpHandler, PythonHandler

_MOST_PENDING: Final = 64 * 1024 * 1024
_MOST_DIGITS: Final = 9
_log = logging.getLogger(__name__)


class BridgeOwner(Protocol):
    """The cell whose calls these are."""

    def call_resolved(self, number: int, well: bool, payload: bytes) -> None:
        """The result of a call, for the script: JSON if it went well, else the error's text."""

    def call_changed(self, call: Call) -> None:
        """A call waits for a place, has begun or has ended."""

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
        slots: CallSlots,
        http: HttpTools,
        threads: ToolThreads,
    ) -> None:
        self._owner = owner
        self.origin = origin
        self._registry = registry
        self._limits = limits
        self._slots = slots
        self._http = http
        self._threads = threads
        self._open = True
        self._noted = False  # that a call has begun
        self._has_room = True
        self._held: list[Call] = []  # until the process has taken in earlier results
        self.calls: list[Call] = []
        self.counts: dict[State, int] = dict.fromkeys(("queued", "in_flight", "completed", "failed", "cancelled"), 0)
        self._pending_bytes = 0  # of the inputs of calls that have not ended
        self.started = 0  # calls that reached their tool
        self.error_results: list[str] = []  # tools whose result was an MCP result with isError
        self.resolved = 0  # results given to the script
        self._client_calls: dict[int, Call] = {}  # those in flight, by number
        self._waiting_since: float | None = None
        self._waited = 0.0

    # From the script

    def call(self, index: int, text: bytes) -> None:
        """A call of tool `index` with an input of JSON text; the numbers of calls count from 1."""
        call = Call(len(self.calls) + 1, self._registry[index], new_tool_use_id())
        self.calls.append(call)
        self.counts["queued"] += 1
        fault = self._check(call, text)
        if fault is not None:
            self._end(call, "failed", fault.encode("utf-8", "replace"))
        else:
            self._slots.enter(lambda: self._begin(call))
            if call.state == "queued":
                self._owner.call_changed(call)

    def make_room(self, has_room: bool) -> None:
        """Begin no more calls while the results of earlier ones wait to be taken in: what they hold is bounded so."""
        self._has_room = has_room
        if has_room:
            held, self._held = self._held, []
            for call in held:
                self._slots.enter(lambda call=call: self._begin(call))  # type: ignore[misc]  # mypy cannot infer it

    def _check(self, call: Call, text: bytes) -> str | None:
        name = call.registered.tool.name
        if len(text) > self._limits.max_tool_input_bytes:
            return f"{name}: the input has {len(text)} bytes; at most {self._limits.max_tool_input_bytes} are accepted"
        if self._pending_bytes + len(text) > _MOST_PENDING:
            return f"{name}: the inputs of the calls that wait would take more than {_MOST_PENDING} bytes"
        try:
            value = decode(text)
        except NotJson as problem:
            return f"{name}: the input cannot be read as JSON: {problem}"
        schema = call.registered.schema
        fault = None if schema is None else schema.fault(value, len(text))
        if fault is None:
            call.text = text
            self._pending_bytes += len(text)
        return fault

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
        if call.is_client:
            self._client_calls[call.number] = call
            self._owner.client_call_began()
        else:
            call.task = asyncio.get_running_loop().create_task(self._run(call))
        return True

    async def _run(self, call: Call) -> None:
        name = call.registered.tool.name
        try:
            await self._write_ahead(call)
            output = await self._invoke(call)
            well, payload = self._encoded(name, output)
        except ToolError as problem:
            well, payload = False, _said(problem, name).encode("utf-8", "replace")
        except asyncio.CancelledError:
            if not self._open:
                raise
            well, payload = False, f"{name}: it failed with CancelledError".encode()
        except BaseException as problem:  # sys.exit() in a tool is a failure of that call too
            _log.warning("tool %s failed in call %s of cell %s", name, call.number, self.origin.cell_id, exc_info=True)
            well, payload = False, f"{name}: it failed with {type(problem).__name__}".encode()
        if self._open:
            self._end(call, "completed" if well else "failed", payload)

    async def _write_ahead(self, call: Call) -> None:
        """Let it be known that a tool is reached, so that it is never told wrongly whether a cell may run again.

        Further calls of functions in this process do not wait, as they cost less than a write.
        """
        if not self._noted or isinstance(call.registered.tool.handler, HttpHandler):
            await self._owner.noted()
            self._noted = True

    def _invoke(self, call: Call) -> Awaitable[Any]:
        match call.registered.tool.handler:
            case PythonHandler(run=run, is_async=True):
                return run(call.input)
            case PythonHandler(run=run, is_heavy=is_heavy):
                limiter = self._threads.few if is_heavy else self._threads.many
                return anyio.to_thread.run_sync(run, call.input, abandon_on_cancel=True, limiter=limiter)
            case HttpHandler() as handler:
                return self._http.call(handler, self.origin.request(call), self._limits.max_tool_result_bytes)
            case ClientHandler():
                raise AssertionError("a client call has no task")

    def _encoded(self, name: str, output: Any) -> tuple[bool, bytes]:
        try:
            payload = encode(output)
        except NotJson as problem:
            return False, f"{name}: its result cannot be written as JSON: {problem}".encode("utf-8", "replace")
        most = self._limits.max_tool_result_bytes
        if len(payload) > most:
            return False, f"{name}: its result has {len(payload)} bytes; at most {most} are accepted".encode()
        if isinstance(output, dict) and output.get("isError") is True:
            self.error_results.append(name)
        return True, payload

    def ledger(self) -> list[LedgerEntry]:
        """All calls, in order."""
        return [
            LedgerEntry(
                call.number, call.tool_use_id, call.registered.tool.name, call.state, call.started_at, call.ended_at
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
        self.check_open(call)
        if error is not None:
            self._end(call, "failed", error.encode("utf-8", "replace"))
        else:
            well, payload = self._encoded(call.registered.tool.name, output)
            self._end(call, "completed" if well else "failed", payload)

    def check_open(self, call: Call) -> None:
        """Raises ToolCallAlreadyResolved if a client call has its result, or was cancelled."""
        if call.state != "in_flight":
            raise ToolCallAlreadyResolved(
                f"call {call.runtime_tool_call_id} of cell {self.origin.cell_id} is {call.state}: it takes no result",
                cell_id=self.origin.cell_id,
                runtime_tool_call_id=call.runtime_tool_call_id,
            )

    def pending_client_calls(self) -> list[Call]:
        """Calls that wait for a result from the caller, in order."""
        return list(self._client_calls.values())

    def announce_again(self) -> None:
        """Let pending calls cause an early answer once more."""
        for call in self._client_calls.values():
            call.announced = False

    @property
    def waits_for_client_alone(self) -> bool:
        """Whether no call of this cell can end without the caller, and one that it was not told of cannot either."""
        pending = self._client_calls
        return len(pending) == self.counts["in_flight"] and any(not call.announced for call in pending.values())

    # The end

    def close(self) -> list[str]:
        """Cancel what is queued or under way; the names of those tools, in order of the calls."""
        self._open = False
        cancelled = [call for call in self.calls if call.state not in ENDED]
        for call in cancelled:
            if call.state == "in_flight":
                self._slots.leave()
            call.ended_at = time.time()
            self._move(call, "cancelled")
            if call.task is not None:
                call.task.cancel()
        self._stop_waiting()
        return [call.registered.tool.name for call in cancelled]

    @property
    def tool_wait_ms(self) -> int:
        """How long at least one call was under way, in all."""
        running = 0.0 if self._waiting_since is None else time.monotonic() - self._waiting_since
        return round((self._waited + running) * 1000)

    def _end(self, call: Call, state: State, payload: bytes) -> None:
        was_in_flight = call.state == "in_flight"
        call.ended_at = time.time()
        self._move(call, state)
        call.task = None
        self.resolved += 1
        if was_in_flight and not self.counts["in_flight"]:
            self._stop_waiting()
        well = state == "completed"
        self._owner.call_resolved(call.number, well, payload if well else error_text(payload))
        if was_in_flight:
            self._slots.leave()

    def _stop_waiting(self) -> None:
        if self._waiting_since is not None:
            self._waited += time.monotonic() - self._waiting_since
            self._waiting_since = None

    def _move(self, call: Call, state: State) -> None:
        self.counts[call.state] -= 1
        self.counts[state] += 1
        call.state = state
        if state in ENDED:
            self._client_calls.pop(call.number, None)
            self._pending_bytes -= len(call.text)
            call.text = b""
        self._owner.call_changed(call)


def _said(problem: ToolError, name: str) -> str:
    """Its text; an error that cannot even say that is described by its type."""
    try:
        return str(problem)
    except BaseException:  # a SystemExit here would end the service
        return f"{name}: it failed with {type(problem).__name__}"
