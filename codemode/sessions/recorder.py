"""Writes down what happens in a session: as events for whoever follows them, and in the journal, so that it lasts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from codemode.cells.facts import CellFacts
from codemode.cells.observation import Notification, Observation, ScriptError
from codemode.cells.truncation import Item
from codemode.journal.journal import Journal
from codemode.journal.reading import CellContents
from codemode.journal.rows import CallRow, CellRow, EventRow, SessionRow
from codemode.lifecycle.events import Event, EventLog, encoded
from codemode.lifecycle.provenance import code_mode_source
from codemode.tools.call import ENDED, Call, State

_LOST_IN_A_CRASH: Final = "{}: what this says would not survive a crash of the server"

# How much of a session's events stays in memory: all there is without a journal, else what followers read next.
_ONLY_HERE: Final = 2 * 1024 * 1024
_ALSO_IN_JOURNAL: Final = 1024 * 1024


class Recorder:
    """Of one session. `number` is the session's in the journal."""

    def __init__(self, journal: Journal, number: int, last_event: int = 0) -> None:
        self.number = number
        self.journal = journal
        self.followers = 0  # of its events, at this moment
        self._lasts = journal.is_durable
        self.events = EventLog(_ALSO_IN_JOURNAL if self._lasts else _ONLY_HERE, last_event, self._added)

    def _added(self, event: Event) -> None:
        if self._lasts:
            cell = None if event.cell_id is None else int(event.cell_id)
            self.journal.event(EventRow(self.number, event.seq, cell, event.type, event.at, event.fields, event.size))

    # The session

    def session_created(self, row: Callable[[], SessionRow]) -> None:
        """It was made."""
        self.events.add("session/created", time.time(), None, {})
        self.session_changed(row)

    def session_changed(self, row: Callable[[], SessionRow]) -> None:
        """Something about it that lasts has changed."""
        self.journal.put(("session", self.number), row)

    def session_deleted(self) -> None:
        """It is no more, and neither are its events but for those who follow them now."""
        self.events.add("session/deleted", time.time(), None, {})
        self.events.close()
        self.journal.drop_session(self.number)

    def values_written(self, written: Mapping[str, str | None]) -> None:
        """Values were stored, or deleted with None."""
        if self._lasts:
            self.journal.values(self.number, written)

    # Its cells

    def cell_started(self, cell: CellFacts) -> None:
        """A script was taken in."""
        cell.first_event = self.events.last + 1
        fields = {"turn_id": cell.turn_id, "tool_call_id": cell.tool_call_id}
        self.events.add("cell/started", cell.created_at, cell.cell_id, fields)
        self.cell_changed(cell)

    def put_out(self, cell: CellFacts, entry: Item | Notification) -> None:
        """An item of output or a notification was added to the cell's output."""
        cursor, now = cell.output.cursor, time.time()
        if isinstance(entry, Notification):
            told = {"cursor": cursor, "text": entry.text, "at_ms": entry.at_ms}
            self.events.add("cell/notification", now, cell.cell_id, told, len(entry.text))
        elif isinstance(entry, bytes):
            text = {"cursor": cursor, "item": {"type": "text", "text": entry}}
            self.events.add("cell/output", now, cell.cell_id, text, len(entry))
        else:
            size = len(entry.get("image_url") or entry.get("audio_url") or "")
            self.events.add("cell/output", now, cell.cell_id, {"cursor": cursor, "item": entry}, size)

    def call_changed(self, cell: CellFacts, call: Call) -> None:
        """A nested call waits, has begun or has ended."""
        if self._lasts:
            self.journal.put(("call", self.number, cell.cell_id, call.number), lambda: self._call_row(cell, call))
        if call.started_at is None:
            return  # it has not reached its tool, or never did
        fields = partial(_told_of, cell.parent_tool_use_id, cell.cell_id, call, call.state)
        if call.state in ENDED:
            self.events.add("tool_call/ended", call.ended_at or time.time(), cell.cell_id, fields)
        else:
            self.events.add("tool_call/started", call.started_at, cell.cell_id, fields)

    def cell_ended(self, cell: CellFacts) -> None:
        """A script runs no more."""
        fields = {
            "status": cell.status,
            "error": _error(cell),
            "warnings": list(cell.warnings),
            "usage": cell.usage,
            "tool_calls": cell.counts,
            "safe_to_retry": cell.safe_to_retry,
        }
        told = encoded(fields)
        self.events.add("cell/ended", cell.ended_at or time.time(), cell.cell_id, told, len(told))
        cell.last_event = self.events.last
        self.cell_changed(cell)
        self.journal.hurry()  # while the answer is made

    def cell_changed(self, cell: CellFacts) -> None:
        """Something about it that lasts has changed. Of one that was forgotten meanwhile, nothing lasts."""
        if self._lasts and not cell.forgotten:
            self.journal.put(("cell", self.number, cell.cell_id), lambda: self._cell_row(cell))

    def cell_forgotten(self, cell: CellFacts) -> None:
        """Nobody can ask about it any more."""
        self.journal.drop_cell(self.number, int(cell.cell_id))

    async def told(self, answer: Awaitable[Observation], cell: CellFacts | None = None) -> Observation:
        """An answer, when what it hands over would survive a crash of the server; else with a warning.

        Who leaves before that takes no output of `cell` along: it was handed over to nobody.
        """
        before = None if cell is None else (cell.output.taken, cell.collected)
        observation = await answer
        try:
            trouble = await self.settled()
        except asyncio.CancelledError:
            if cell is not None and before is not None and cell.output.taken == observation.cursor:
                cell.output.taken, cell.collected = before
                self.cell_changed(cell)
            raise
        if trouble is None:
            return observation
        return replace(observation, warnings=[*observation.warnings, _LOST_IN_A_CRASH.format(trouble)])

    async def settled(self) -> str | None:
        """Return when all that happened so far will survive a crash of the server, or else why it would not."""
        return await self.journal.settled()

    async def read_cell(self, row: CellRow) -> CellContents:
        """The calls and the output of a cell of an earlier run. Raises JournalUnavailable."""
        return await self.journal.read_cell(self.number, row.cell, row.first_event, row.last_event)

    def _cell_row(self, cell: CellFacts) -> CellRow:
        key, digest = cell.idempotency or (None, None)
        ending = None
        if cell.status != "running":
            ending = encoded({"error": _error(cell), "warnings": cell.warnings, "usage": cell.usage})
        return CellRow(
            session=self.number,
            cell=int(cell.cell_id),
            status=cell.status,
            created_at=cell.created_at,
            ended_at=cell.ended_at,
            turn_id=storable(cell.turn_id),
            tool_call_id=storable(cell.tool_call_id),
            parent_tool_use_id=storable(cell.parent_tool_use_id) or "",
            idempotency_key=storable(key),
            source_digest=digest,
            first_event=cell.first_event,
            last_event=cell.last_event,
            cursor=cell.output.cursor,
            output_bytes=cell.kept_bytes,
            taken=cell.output.taken,
            collected=cell.collected,
            calls=cell.calls,
            ending=ending,
        )

    def _call_row(self, cell: CellFacts, call: Call) -> CallRow:
        return CallRow(
            self.number,
            int(cell.cell_id),
            call.number,
            call.tool_use_id,
            call.registered.tool.name,
            call.state,
            call.started_at,
            call.ended_at,
        )


def _told_of(parent_tool_use_id: str, cell_id: str, call: Call, state: State) -> dict[str, Any]:
    """What the event of a call says that stood so. Made when it is read: scripts make thousands of calls."""
    fields: dict[str, Any] = {
        "tool_use_id": call.tool_use_id,
        "runtime_tool_call_id": call.runtime_tool_call_id,
        "tool_name": call.registered.tool.name,
        "tool_source": code_mode_source(parent_tool_use_id, cell_id, call.number),
    }
    if state in ENDED:
        fields["tool_status"] = {"state": state, "exit_code": None}
    return fields


def _error(cell: CellFacts) -> ScriptError | None:
    return None if cell.outcome is None else cell.outcome.error


def storable(text: str | None) -> str | None:
    """A text that UTF-8 can hold: what callers of the library hand in may have a lone surrogate."""
    return None if text is None else text.encode("utf-8", "replace").decode()
