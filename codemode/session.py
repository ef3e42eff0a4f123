"""A session: the unit of trust. It owns its tools, limits, stored values and cells; sessions share nothing."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from pydantic_core import to_json

from codemode.cells.cell import Cell
from codemode.cells.observation import Observation, ToolResult
from codemode.cells.outcome import TERMINATED, failed, quoted_script
from codemode.cells.source import read_directive
from codemode.cells.waiting import check_numbers
from codemode.errors import (
    CellNotFound,
    CodeModeError,
    InvalidRequest,
    SessionNotFound,
    ToolCallAlreadyResolved,
    ToolCallNotFound,
    TooManyCells,
)
from codemode.limits import Limits
from codemode.session_host import AsyncClosing, SessionHost
from codemode.store import StoredValues
from codemode.tools.bridge import ToolBridge
from codemode.tools.call import Call, CallOrigin, new_tool_use_id
from codemode.tools.registry import ToolRegistry
from codemode.tools.slots import CallSlots
from codemode.tools.tool import Tool

_log = logging.getLogger(__name__)

ApprovalPolicy = Literal["never", "on_request"]
_ENDED_CELL_BYTES: Final = 4096  # without output; 3 700 measured with 10 000 of them
_CALL_BYTES: Final = 512  # of the record of a nested call
_WORKER_LIMITS: Final = ("max_tool_input_bytes", "max_store_bytes", "max_output_bytes", "memory_mb", "cpu_ms")


class Session(AsyncClosing):
    """Use `CodeMode.create_session` to make one. All methods are for the event loop's thread."""

    def __init__(
        self,
        host: SessionHost,
        session_id: str,
        tools: Iterable[Tool],
        limits: Limits,
        *,
        metadata: Mapping[str, Any] | None = None,
        approval_policy: ApprovalPolicy = "never",
        model_warnings: bool = False,
    ) -> None:
        self.session_id = session_id
        self.created_at = time.time()
        self.limits = limits
        self.registry = ToolRegistry(tools)
        self.metadata = dict(metadata or {})
        self.approval_policy = approval_policy
        self.model_warnings = model_warnings
        self._host = host
        self._slots = CallSlots(limits.max_in_flight)
        self._cells: dict[str, Cell] = {}
        self._last_cell = 0
        self._live = 0
        self._store = StoredValues(limits.max_store_bytes)
        self._seen_merges: dict[str, int] = {}  # live cell → merges it has seen
        self._keys: dict[str, tuple[bytes, Cell]] = {}  # idempotency key → (digest of the source, cell)
        self._tasks: set[asyncio.Task[None]] = set()
        self._key_of: dict[str, str] = {}  # cell → its idempotency key
        self._ended: dict[str, asyncio.TimerHandle] = {}  # in the order of their ends; the timer forgets the cell
        self._kept_bytes = 0
        self._closed = False
        self._worker_limits = to_json({name: getattr(limits, name) for name in _WORKER_LIMITS})

    # exec and wait

    async def exec(
        self,
        source: str,
        *,
        yield_time_ms: int | None = None,
        max_output_tokens: int | None = None,
        tool_call_id: str | None = None,
        turn_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Observation:
        """Run a script and answer when it ends, yields, or `yield_time_ms` (default 10 000) has passed.

        The source's first-line directive beats the arguments. With an `idempotency_key` the script runs
        once, however often this is repeated; a repeat answers with all output of that cell. Raises
        InvalidSource, PayloadTooLarge, TooManyCells, ShuttingDown; a script that fails raises nothing.
        """
        check_numbers(yield_time_ms=yield_time_ms, max_output_tokens=max_output_tokens)
        directive = read_directive(source, self.limits.max_source_bytes)
        yield_time = directive.yield_time_ms if directive.yield_time_ms is not None else yield_time_ms
        budget = directive.max_output_tokens if directive.max_output_tokens is not None else max_output_tokens
        digest = hashlib.sha256(source.encode()).digest()
        if idempotency_key is not None and idempotency_key in self._keys:
            return await self._repeat(idempotency_key, digest, yield_time, budget)
        cell = self._start(source, turn_id, tool_call_id)
        if idempotency_key is not None:
            self._keys[idempotency_key] = (digest, cell)
            self._key_of[cell.cell_id] = idempotency_key
        return await cell.observe(yield_time, budget, is_exec=True)

    async def _repeat(self, key: str, digest: bytes, yield_time: int | None, budget: int | None) -> Observation:
        known, cell = self._keys[key]
        if known != digest:
            raise InvalidRequest("the Idempotency-Key was used for another source; use a new key for a new script")
        joined = await cell.join()
        return joined if joined is not None else await cell.observe(yield_time, budget, after=0)

    async def wait(
        self,
        cell_id: str,
        *,
        yield_time_ms: int | None = None,
        max_tokens: int | None = None,
        after: int | None = None,
        terminate: bool = False,
    ) -> Observation:
        """What a cell has put out since the last answer, or its end; waits up to `yield_time_ms` for the end.

        `after` gives everything after that cursor again; `terminate` ends a running cell. Raises
        CellNotFound, and CellBusy while another wait is pending.
        """
        check_numbers(yield_time_ms=yield_time_ms, max_tokens=max_tokens, after=after)
        return await self.cell(cell_id).observe(yield_time_ms, max_tokens, after, terminate=terminate)

    async def terminate(self, cell_id: str) -> Observation:
        """End a cell and get its remaining output; a cell that had ended answers its real end."""
        return await self.wait(cell_id, terminate=True)

    def tool_results(self, results: Iterable[ToolResult]) -> int:
        """Hand in results of client calls; all of them or, if one cannot be taken, none. Returns their number.

        Raises CellNotFound, ToolCallNotFound, ToolCallAlreadyResolved.
        """
        found = [(result, *self._client_call(result)) for result in results]
        seen: set[tuple[str, int]] = set()
        for result, bridge, call in found:
            bridge.check_open(call)
            if (result.cell_id, call.number) in seen:
                raise ToolCallAlreadyResolved(
                    f"there are two results for call {call.runtime_tool_call_id} of cell {result.cell_id}",
                    cell_id=result.cell_id,
                    runtime_tool_call_id=call.runtime_tool_call_id,
                )
            seen.add((result.cell_id, call.number))
        for result, bridge, call in found:
            bridge.resolve(call, output=result.output, error=result.error)
        return len(found)

    def check_observable(self, cell_id: str) -> None:
        """Raises CellNotFound or CellBusy if a wait on this cell would, before anything has happened."""
        self.cell(cell_id).check_observable()

    def _client_call(self, result: ToolResult) -> tuple[ToolBridge, Call]:
        bridge = self.cell(result.cell_id).bridge
        call = bridge.client_call(result.runtime_tool_call_id)
        if call is None:
            raise ToolCallNotFound(
                f"cell {result.cell_id} has no call {result.runtime_tool_call_id[:100]} for the caller to fulfil"
            )
        return bridge, call

    # Cells

    def cells(self) -> list[Cell]:
        """All cells that are known, in the order they were started."""
        return list(self._cells.values())

    def cell(self, cell_id: str) -> Cell:
        """One cell. Raises CellNotFound, SessionNotFound."""
        if self._closed:
            raise SessionNotFound(self.session_id)
        cell = self._cells.get(cell_id)
        if cell is None:
            raise CellNotFound(cell_id)
        return cell

    def _start(self, source: str, turn_id: str | None, tool_call_id: str | None) -> Cell:
        if self._closed:
            raise SessionNotFound(self.session_id)
        if self._live >= self.limits.max_cells_session:
            raise TooManyCells(
                f"the session has {self._live} live cells, as many as it may; wait for one to end, or terminate one"
            )
        self._host.admit_cell()
        self._live += 1
        self._last_cell += 1
        cell = Cell(str(self._last_cell), self, source, turn_id, tool_call_id)
        self._cells[cell.cell_id] = cell
        origin = CallOrigin(self.session_id, cell.cell_id, turn_id, tool_call_id or new_tool_use_id())
        cell.bridge = ToolBridge(
            cell, origin, self.registry, self.limits, self._slots, self._host.http, self._host.threads
        )
        quoted = quoted_script(source)
        if quoted is not None:
            cell.end(failed(quoted))
            return cell
        cell.start_again = lambda: self._launch(cell, source)
        self._launch(cell, source)
        return cell

    def _launch(self, cell: Cell, source: str) -> None:
        config = self._config(source)
        self._seen_merges[cell.cell_id] = self._store.merges
        process = self._host.pool.lease_nowait()
        if process is not None:
            cell.begin(process, config)
        else:
            self._run_task(self._begin_when_leased(cell, config))

    async def _begin_when_leased(self, cell: Cell, config: bytes) -> None:
        try:
            cell.begin(await self._host.pool.lease(), config)
        except CodeModeError as problem:
            cell.fail("worker_crashed", problem.detail)
        except Exception:
            _log.exception("no process for cell %s", cell.cell_id)
            cell.fail("worker_crashed", "none could be started")

    def _config(self, source: str) -> bytes:
        return b'{"source":%b,"tools":%b,"stored":%b,"limits":%b,"rehearsal":false}' % (
            to_json(source),
            self.registry.declarations,
            to_json(self._store.values),
            self._worker_limits,
        )

    # What cells ask of their session

    def commit(self, cell: Cell) -> list[str]:
        """Merge a cell's values, key by key; names the keys that another cell wrote while it ran."""
        return self._store.merge(cell.cell_id, cell.stored, self._seen_merges[cell.cell_id])

    def cell_ended(self, cell: Cell) -> None:
        """Count it off, and forget it after `keep_ms`, or earlier if ended cells hold too much."""
        self._live -= 1
        self._host.release_cell()
        self._seen_merges.pop(cell.cell_id, None)
        if self._closed:
            return
        delay = self.limits.keep_ms / 1000
        self._ended[cell.cell_id] = asyncio.get_running_loop().call_later(delay, self._forget, cell)
        self._kept_bytes += _cost(cell)
        for cell_id in list(self._ended) if self._kept_bytes > self.limits.max_kept_bytes else ():
            if self._kept_bytes > self.limits.max_kept_bytes and cell_id != cell.cell_id:
                self._forget(self._cells[cell_id])

    def _forget(self, cell: Cell) -> None:
        del self._cells[cell.cell_id]
        self._ended.pop(cell.cell_id).cancel()
        self._kept_bytes -= _cost(cell)
        key = self._key_of.pop(cell.cell_id, None)
        if key is not None:
            del self._keys[key]

    # The end

    def answer_now(self) -> None:
        """Answer every pending call with what there is."""
        for cell in self._cells.values():
            cell.answer_now()

    async def end_cells(self) -> None:
        """Terminate all cells that run."""
        running = [cell for cell in self._cells.values() if cell.ended is None]
        for cell in running:
            cell.end(TERMINATED)
        for cell in running:
            await cell.wait_concluded()

    async def close(self) -> None:
        """End all cells and forget everything."""
        self._host.forget_session(self)
        self._closed = True
        await self.end_cells()
        for timer in self._ended.values():
            timer.cancel()
        for task in list(self._tasks):
            task.cancel()

    def _run_task(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _cost(cell: Cell) -> int:
    """About the bytes that an ended cell holds."""
    return _ENDED_CELL_BYTES + cell.output.total_bytes + _CALL_BYTES * len(cell.bridge.calls)
