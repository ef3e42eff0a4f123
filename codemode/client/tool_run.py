"""Takes a script to its end while functions of this program fulfil its client calls."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, Literal

import httpx

from codemode.cells.observation import Notification, Observation, PendingToolCall, ToolResult, model_output
from codemode.cells.truncation import Item, cut
from codemode.client.flows import SessionFlows
from codemode.client.requests import DEFAULT_BUDGET, ClientTool, Flow, directive_of, encode_result
from codemode.errors import (
    CellNotFound,
    CodeModeError,
    InvalidRequest,
    PayloadTooLarge,
    SessionNotFound,
    ToolCallAlreadyResolved,
    ToolCallNotFound,
    ToolError,
)

_log = logging.getLogger(__name__)

_ALL: Final = 2**53 - 1  # tokens: as much as the service gives
MOST_PARALLEL: Final = 64  # calls of blocking functions at once, each on a thread


class ToolRun:
    """One run. Functions run beside the flow that waits; each result is handed in as soon as it is there.

    Whoever sends calls `call` for each call that `follow` starts, puts what comes of it into
    `finished`, and sends `hand_in` afterwards, one at a time. `is_over` is set at the end: what
    functions give after it is dropped.
    """

    def __init__(self, flows: SessionFlows, tools: Mapping[str, ClientTool]) -> None:
        self.finished: deque[ToolResult] = deque()  # a thread may add while another takes
        self.is_over = False
        self.running_cell: str | None = None
        self._flows = flows
        self._tools = tools
        self._failure: Exception | None = None
        self._started: set[str] = set()
        self._output: list[dict[str, Any]] = []
        self._notifications: list[Notification] = []
        self._began = time.monotonic()
        self._was_cut = False

    # The script

    def execute(
        self,
        start: Callable[[PendingToolCall], object],
        source: str,
        *,
        max_output_tokens: int | None = None,
        tool_call_id: str | None = None,
        turn_id: str | None = None,
        idempotency_key: str | Literal[False] | None = None,
    ) -> Flow[Observation]:
        """exec, then `follow`."""
        observation = yield from self._flows.exec(
            source,
            max_output_tokens=_ALL,
            tool_call_id=tool_call_id,
            turn_id=turn_id,
            idempotency_key=idempotency_key,
        )
        directive = directive_of(source)
        asked = None if directive is None else directive.max_output_tokens
        if observation.truncated and asked is not None:  # it beat our budget, in this answer only
            with suppress(CellNotFound):
                whole = yield from self._flows.wait(observation.cell_id, after=0, max_tokens=_ALL)
                self._note(observation)
                observation = whole
        return (yield from self._to_the_end(start, observation, max_output_tokens if asked is None else asked))

    def follow(
        self, start: Callable[[PendingToolCall], object], cell_id: str, *, budget: int | None = None
    ) -> Flow[Observation]:
        """Wait until a cell ends, with `start` called for each of its client calls; its observation with all output."""
        observation = yield from self._flows.wait(cell_id, after=0, max_tokens=_ALL)
        return (yield from self._to_the_end(start, observation, budget))

    def _to_the_end(
        self, start: Callable[[PendingToolCall], object], observation: Observation, budget: int | None
    ) -> Flow[Observation]:
        while True:
            self._note(observation)
            self._output += observation.output
            self._was_cut |= observation.truncated
            if not observation.is_running:
                return self._whole(observation, DEFAULT_BUDGET if budget is None else budget)
            for call in observation.pending_tool_calls:
                if call.runtime_tool_call_id not in self._started:
                    self._started.add(call.runtime_tool_call_id)
                    start(call)
            observation = yield from self._flows.wait(observation.cell_id, after=observation.cursor, max_tokens=_ALL)
            if self._failure is not None and observation.is_running:
                raise self._failure

    def _note(self, observation: Observation) -> None:
        self.running_cell = observation.cell_id if observation.is_running else None
        self._notifications += observation.notifications

    def _whole(self, last: Observation, budget: int) -> Observation:
        wall_time_ms = round((time.monotonic() - self._began) * 1000)
        shown = cut([*map(_item, self._output)], None if last.error is None else last.error.text, budget)
        warnings = last.warnings if self._flows.model_warnings else None
        return replace(
            last,
            output=self._output,
            truncated=self._was_cut or shown.truncated,
            original_token_count=shown.original_token_count,
            wall_time_ms=wall_time_ms,
            notifications=self._notifications,
            model_output=model_output(last.status, last.cell_id, wall_time_ms, shown.items, last.error, warnings),
        )

    def abandon(self) -> Flow[None]:
        """End the cell of a run that was given up: nobody would fulfil its calls. One attempt only."""
        if self.running_cell is not None:
            yield from self._flows.wait(self.running_cell, terminate=True, patience_s=0.0)

    # Its calls

    def function(self, call: PendingToolCall) -> ClientTool:
        """What fulfils a call. Raises ToolError, for the script, if nothing does."""
        try:
            return self._tools[call.tool_name]
        except KeyError:
            raise ToolError(f"{call.tool_name}: the caller has no function that fulfils it") from None

    def gave(self, call: PendingToolCall, output: object) -> ToolResult:
        """The result of a call whose function returned."""
        result = ToolResult(call.cell_id, call.runtime_tool_call_id, output)
        try:
            encode_result(result)
        except (ValueError, TypeError, RecursionError) as problem:
            return replace(
                result, output=None, error=f"{call.tool_name}: its result cannot be written as JSON: {problem}"
            )
        return result

    def raised(self, call: PendingToolCall, problem: BaseException) -> ToolResult:
        """The result of a call whose function raised: a ToolError's text, of anything else its type only."""
        if isinstance(problem, ToolError):
            text = str(problem)
        else:
            _log.warning("tool %s failed in cell %s", call.tool_name, call.cell_id, exc_info=problem)
            text = f"{call.tool_name}: it failed with {type(problem).__name__}"
        return ToolResult(call.cell_id, call.runtime_tool_call_id, error=text)

    def hand_in(self) -> Flow[None]:
        """Send all results that are there. A failure to do so is raised by the flow that waits."""
        results = [self.finished.popleft() for _ in range(len(self.finished))]
        if results:
            try:
                yield from self._hand_in(results)
            except (CodeModeError, httpx.HTTPError) as problem:
                self._failure = problem

    def _hand_in(self, results: list[ToolResult]) -> Flow[None]:
        if self.is_over:
            return
        try:
            yield from self._while_needed(self._flows.hand_in(results))
        except (CellNotFound, SessionNotFound):
            pass  # nobody waits for them any more
        except (ToolCallAlreadyResolved, ToolCallNotFound, InvalidRequest, PayloadTooLarge) as problem:
            if len(results) > 1:  # all were refused for the sake of one
                for result in results:
                    yield from self._hand_in([result])
            elif isinstance(problem, InvalidRequest | PayloadTooLarge):
                if results[0].error is not None:
                    raise
                error = f"the result was refused: {problem.detail}"
                yield from self._hand_in([replace(results[0], output=None, error=error)])

    def _while_needed(self, flow: Flow[Any]) -> Flow[None]:
        """A flow that goes no further when the run is over: a service that is away would be asked on for a while."""
        with suppress(StopIteration):
            request = next(flow)
            while not self.is_over:
                try:
                    response = yield request
                except httpx.TransportError as lost:
                    request = flow.throw(lost)
                else:
                    request = flow.send(response)
            flow.close()


def _item(shown: dict[str, Any]) -> Item:
    return shown["text"].encode("utf-8", "replace") if shown["type"] == "text" else shown
