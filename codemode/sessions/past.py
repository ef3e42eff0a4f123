"""A cell of an earlier run of the server, as the journal has it: it has ended, and may still be asked about."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, cast

from codemode.calls.call import LedgerEntry
from codemode.cells.facts import CellFacts, counts_of
from codemode.cells.observation import Notification, Observation, ScriptError, Status, ToolCallCounts, Usage
from codemode.cells.outcome import Outcome
from codemode.cells.output import OutputBuffer
from codemode.cells.owner import CellOwner
from codemode.cells.report import observation
from codemode.cells.truncation import Item
from codemode.cells.waiting import Observer
from codemode.errors import CellNotFound
from codemode.journal.reading import CellContents
from codemode.journal.rows import CellRow, EventRow
from codemode.lifecycle.provenance import runtime_tool_call_id

Read = Callable[[CellRow], Awaitable[CellContents]]
_log = logging.getLogger(__name__)

_MISSING: Final = "{} items of its output are missing: the disk could not be written for a while"


class PastCell(CellFacts):
    """Its output and calls are read from the journal when they are asked for the first time, see `load`."""

    def __init__(self, row: CellRow, owner: CellOwner, read: Read) -> None:
        super().__init__(str(row.cell), row.turn_id, row.tool_call_id, row.parent_tool_use_id, row.created_at)
        ending = json.loads(row.ending or b"{}")
        error = ending.get("error")
        self.status = cast("Status", row.status)
        self.ended_at = row.ended_at
        self.outcome = Outcome(self.status, None if error is None else ScriptError(**error))
        self.warnings = ending.get("warnings", [])
        self.collected = bool(row.collected)
        self.first_event, self.last_event = row.first_event, row.last_event
        if row.idempotency_key is not None and row.source_digest is not None:
            self.idempotency = (row.idempotency_key, row.source_digest)
        self.row = row
        self.output.taken = row.taken
        self._usage = Usage(**(ending.get("usage") or {}))
        self._owner = owner
        self._read = read
        self._ledger: list[LedgerEntry] | None = None
        self._loading = asyncio.Lock()

    async def load(self) -> None:
        """Read what is needed to answer. Raises JournalUnavailable, and CellNotFound if it is forgotten meanwhile."""
        async with self._loading:
            if self._ledger is None:
                contents = await self._read(self.row)
                if self.forgotten:  # and what was read may have been a part
                    raise CellNotFound(self.cell_id)
                self.output = OutputBuffer.of(self._whole(contents.output), self.row.taken)
                self._ledger = [LedgerEntry(*call[2:]) for call in contents.calls]

    def _whole(self, rows: list[EventRow]) -> Iterator[Item | Notification]:
        """What was put out, each entry at the cursor it was told with; what is missing is empty, and warned of."""
        entries = missing = 0
        for row in rows:
            cursor, entry = _entry(row)
            gap = max(0, cursor - entries - 1)
            yield from [b""] * gap
            yield entry
            entries, missing = cursor, missing + gap
        gap = max(0, self.row.cursor - entries)
        yield from [b""] * gap
        warning = _MISSING.format(missing + gap)
        if missing + gap and warning not in self.warnings:
            self.warnings.append(warning)

    async def observe(
        self,
        yield_time_ms: int | None = None,
        max_tokens: int | None = None,
        after: int | None = None,
        *,
        terminate: bool = False,
    ) -> Observation:
        """What `Cell.observe` answers for a cell that has ended. Raises JournalUnavailable."""
        observer = Observer(max_tokens, after)
        await self.load()
        return observation(self, self._owner, observer)

    @property
    def counts(self) -> ToolCallCounts:
        return counts_of(Counter(entry.state for entry in self.ledger()))

    @property
    def calls(self) -> int:
        return self.row.calls

    def has_made(self, name: str) -> bool:
        """Whether it has made the call of this name."""
        number = name.removeprefix("call-")
        return (
            number.isascii()
            and number.isdecimal()
            and runtime_tool_call_id(int(number[:9])) == name
            and (1 <= int(number[:9]) <= self.row.calls)
        )

    @property
    def has_started_calls(self) -> bool:
        return any(entry.started_at is not None and entry.state != "denied" for entry in self.ledger())

    @property
    def usage(self) -> Usage:
        return self._usage

    @property
    def kept_bytes(self) -> int:
        return self.row.output_bytes

    def ledger(self) -> list[LedgerEntry]:
        """To be had after `load`."""
        return self._ledger or []


def past_cells(rows: Iterable[CellRow], owner: CellOwner, read: Read) -> Iterator[PastCell]:
    """The cells of these rows; one that cannot be made out is left in the journal, and the others are there."""
    for row in rows:
        try:
            yield PastCell(row, owner, read)
        except (ValueError, TypeError, AttributeError):
            _log.exception("cell %s of session %s cannot be read; it stays in the journal", row.cell, owner.session_id)


def _entry(row: EventRow) -> tuple[int, Item | Notification]:
    """What an event tells that was put out, and the cursor after it."""
    told: dict[str, Any] = json.loads(row.fields)  # type: ignore[arg-type]  # it came from the journal
    if row.type == "cell/notification":
        return told["cursor"], Notification(told["text"], told["at_ms"])
    item: dict[str, Any] = told["item"]
    return told["cursor"], item["text"].encode() if item["type"] == "text" else item
