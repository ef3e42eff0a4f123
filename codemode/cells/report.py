"""Makes the observation of a cell as it stands."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from codemode.cells.facts import CellFacts
from codemode.cells.observation import Observation, model_output
from codemode.cells.truncation import cut
from codemode.cells.waiting import DEFAULT_BUDGET, Observer

if TYPE_CHECKING:
    from codemode.cells.owner import CellOwner

ALREADY_COLLECTED: Final = "already collected"


def observation(cell: CellFacts, owner: CellOwner, observer: Observer) -> Observation:
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
    owner.recorder.cell_changed(cell)
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
        usage=cell.usage,
        tool_calls=cell.counts,
        safe_to_retry=cell.safe_to_retry,
        pending_tool_calls=cell.pending_calls(),
        model_output=model_output(
            cell.status, cell.cell_id, wall_time_ms, shown.items, error, warnings if owner.model_warnings else None
        ),
    )
