"""Makes the observation of a cell as it stands."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from codemode.cells.observation import Observation, PendingToolCall, ToolCallCounts, Usage, model_output
from codemode.cells.truncation import cut
from codemode.cells.waiting import DEFAULT_BUDGET, Observer

if TYPE_CHECKING:
    from codemode.cells.cell import Cell
    from codemode.cells.owner import CellOwner

ALREADY_COLLECTED: Final = "already collected"


def observation(cell: Cell, owner: CellOwner, observer: Observer) -> Observation:
    """Hand over what is new, or all after the observer's cursor; marks it as handed over."""
    budget = DEFAULT_BUDGET if observer.budget is None else observer.budget
    ended = cell.status != "running"
    error = cell.outcome.error if ended and cell.outcome is not None else None
    handed = cell.output.take() if observer.after is None else cell.output.after(observer.after)
    warnings = cell.warnings if ended else []
    if ended and cell.collected and observer.after is None:
        warnings = [ALREADY_COLLECTED]
    shown = cut(handed.items, None if error is None else error.text, min(budget, owner.limits.max_output_tokens))
    wall_time_ms = round((time.monotonic() - observer.began) * 1000)
    cell.collected = cell.collected or ended
    return Observation(
        session_id=owner.session_id,
        cell_id=cell.cell_id,
        status=cell.status,
        output=shown.items,
        cursor=cell.output.cursor,
        truncated=shown.truncated,
        original_token_count=shown.original_token_count,
        wall_time_ms=wall_time_ms,
        error=error,
        warnings=list(warnings),
        notifications=handed.notifications,
        usage=usage(cell),
        tool_calls=ToolCallCounts(**cell.bridge.counts),
        safe_to_retry=cell.bridge.started == 0 if cell.status in ("failed", "terminated") else None,
        pending_tool_calls=_pending(cell),
        model_output=model_output(
            cell.status, cell.cell_id, wall_time_ms, shown.items, error, warnings if owner.model_warnings else None
        ),
    )


def usage(cell: Cell) -> Usage:
    """What the cell has used so far."""
    until = time.monotonic() if cell.ended is None else cell.ended
    return Usage(
        cpu_ms=round(cell.state.cpu_us / 1000),
        wall_ms=round((until - cell.created) * 1000),
        tool_wait_ms=cell.bridge.tool_wait_ms,
        queue_ms=round((cell.started - cell.created) * 1000),
        heap_peak_bytes=cell.state.heap_bytes,
    )


def _pending(cell: Cell) -> list[PendingToolCall]:
    pending = cell.bridge.pending_client_calls()
    for call in pending:
        call.announced = True
    return [
        PendingToolCall(call.runtime_tool_call_id, call.registered.tool.name, call.input, cell.cell_id)
        for call in pending
    ]
