"""What is told of a cell that runs, or ended, in this process: its numbers come from its process and its calls."""

from __future__ import annotations

import time

from codemode.calls.bridge import ToolBridge
from codemode.calls.call import LedgerEntry
from codemode.cells.facts import CellFacts, counts_of
from codemode.cells.observation import PendingToolCall, ToolCallCounts, Usage
from codemode.isolation.wire import State


class LiveFacts(CellFacts):
    """The base of `Cell`."""

    def __init__(
        self, cell_id: str, turn_id: str | None, tool_call_id: str | None, parent_tool_use_id: str, created_at: float
    ) -> None:
        super().__init__(cell_id, turn_id, tool_call_id, parent_tool_use_id, created_at)
        self.created = self.started = time.monotonic()
        self.ended: float | None = None
        self.state = State(False, False, 0, 0, 0)
        self.bridge: ToolBridge  # set by the session, which knows where calls come from

    @property
    def counts(self) -> ToolCallCounts:
        return counts_of(self.bridge.counts)

    @property
    def calls(self) -> int:
        return len(self.bridge.calls)

    @property
    def has_started_calls(self) -> bool:
        return self.bridge.started > 0

    @property
    def usage(self) -> Usage:
        until = time.monotonic() if self.ended is None else self.ended
        return Usage(
            cpu_ms=round(self.state.cpu_us / 1000),
            wall_ms=round((until - self.created) * 1000),
            tool_wait_ms=self.bridge.tool_wait_ms,
            queue_ms=round((self.started - self.created) * 1000),
            heap_peak_bytes=self.state.heap_bytes,
        )

    def ledger(self) -> list[LedgerEntry]:
        return self.bridge.ledger()

    def pending_calls(self) -> list[PendingToolCall]:
        pending = self.bridge.client_calls.pending()
        for call in pending:
            call.announced = True
        return [
            PendingToolCall(call.runtime_tool_call_id, call.registered.tool.name, call.input, self.cell_id)
            for call in pending
        ]
