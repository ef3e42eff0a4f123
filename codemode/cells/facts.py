"""What is told of a cell, whether it runs in this process or is known from the journal alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from codemode.calls.call import LedgerEntry
from codemode.cells.observation import PendingToolCall, Status, ToolCallCounts, Usage
from codemode.cells.outcome import Outcome
from codemode.cells.output import OutputBuffer


def counts_of(states: Mapping[Any, int]) -> ToolCallCounts:
    """How many calls stand so, as an observation tells it. Those whose process goes on were answered: completed."""
    return ToolCallCounts(
        completed=sum(states.get(state, 0) for state in ("completed", "exited", "running")),
        failed=sum(states.get(state, 0) for state in ("failed", "denied", "timed_out")),
        in_flight=states.get("in_flight", 0) + states.get("lost", 0),
        queued=states.get("queued", 0),
        cancelled=states.get("cancelled", 0),
    )


class CellFacts(ABC):
    """The base of `Cell` and `PastCell`. Everything public may be read at any time."""

    def __init__(
        self, cell_id: str, turn_id: str | None, tool_call_id: str | None, parent_tool_use_id: str, created_at: float
    ) -> None:
        self.cell_id = cell_id
        self.turn_id = turn_id
        self.tool_call_id = tool_call_id
        self.parent_tool_use_id = parent_tool_use_id
        self.created_at = created_at
        self.ended_at: float | None = None
        self.status: Status = "running"
        self.outcome: Outcome | None = None
        self.output = OutputBuffer()
        self.warnings: list[str] = []
        self.collected = False  # its end was handed over
        self.forgotten = False  # nobody can ask about it any more
        self.idempotency: tuple[str, bytes] | None = None  # the key, and the digest of the source it came with
        self.first_event = 0  # numbers of its events, the first one and, once it has ended, the last one
        self.last_event: int | None = None

    @property
    @abstractmethod
    def counts(self) -> ToolCallCounts:
        """Its nested calls by how they stand. For a cell whose server was lost: by how they stood then."""

    @property
    @abstractmethod
    def calls(self) -> int:
        """How many nested calls it has made."""

    @property
    @abstractmethod
    def has_started_calls(self) -> bool:
        """Whether a nested call has reached its tool."""

    @property
    @abstractmethod
    def usage(self) -> Usage:
        """What it has used so far."""

    @property
    def kept_bytes(self) -> int:
        """About the memory that its output takes, or would if it were read."""
        return self.output.total_bytes

    @property
    def safe_to_retry(self) -> bool | None:
        """Of a cell that failed or was terminated, whether no nested call had been started; else None."""
        return not self.has_started_calls if self.status in ("failed", "terminated") else None

    @abstractmethod
    def ledger(self) -> list[LedgerEntry]:
        """Its nested calls, in order."""

    def pending_calls(self) -> list[PendingToolCall]:
        """Calls that the caller has to fulfil; they count as told of."""
        return []
