"""Writes down what happens in a session: as events for whoever follows them, and in the journal, so that it lasts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from codemode.calls.call import ENDED, Call, State, tool_status
from codemode.cells.facts import CellFacts
from codemode.cells.observation import Notification, Observation, ScriptError
from codemode.cells.truncation import Item
from codemode.journal.journal import Journal
from codemode.journal.reading import CellContents
from codemode.journal.rows import CallRow, CellRow, EventRow, OpenCallRow, SessionRow
from codemode.lifecycle.events import Event, EventLog, EventType, encoded

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
        """A nested call waits, has begun, goes on without us or has ended."""
        if self._lasts and not cell.forgotten:
            self.journal.put(("call", self.number, cell.cell_id, call.number), lambda: self._call_row(cell, call))
        if call.started_at is not None:  # else it has not reached its tool, or never did
            self._tell_of(call)
            if call.running is not None:
                self._open_changed(call)

    def direct_changed(self, call: Call) -> None:
        """A direct call has begun, goes on without us or has ended."""
        self._tell_of(call)
        self._open_changed(call)

    def _tell_of(self, call: Call) -> None:
        """What the event says is made when it is read: scripts make thousands of calls."""
        fields = partial(_told_of, call, call.state, call.exit_code)
        if call.state in ENDED:
            self.events.add("tool_call/ended", call.ended_at or time.time(), call.origin.cell_id, fields)
        elif call.state == "running":
            self.events.add("tool_call/yielded", time.time(), call.origin.cell_id, fields)
        else:
            self.events.add("tool_call/started", call.started_at or time.time(), call.origin.cell_id, fields)

    def _open_changed(self, call: Call) -> None:
        """A call that is not over with its cell: its end is told by the next server, if this one cannot."""
        if self._lasts:
            if call.state in ENDED and not call.is_named:
                self.direct_forgotten(call.tool_use_id)
            else:
                self.journal.put(("open_call", self.number, call.tool_use_id), lambda: self._open_row(call))

    def direct_forgotten(self, tool_use_id: str) -> None:
        """A call that has ended needs to be known no more."""
        if self._lasts:
            self.journal.drop_open_call(self.number, storable(tool_use_id) or "")

    def tell(self, type_: EventType, cell_id: str | None, fields: Mapping[str, Any], size: int = 0) -> None:
        """An event that is of no other kind; `fields` are about `size` bytes long and must not change."""
        self.events.add(type_, time.time(), cell_id, fields, size)

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
            call.name,
            call.state,
            call.started_at,
            call.ended_at,
            call.exit_code,
        )

    def _open_row(self, call: Call) -> OpenCallRow:
        cell_id = call.origin.cell_id
        return OpenCallRow(
            self.number,
            storable(call.tool_use_id) or "",
            None if cell_id is None else int(cell_id),
            call.number,
            storable(call.origin.turn_id),
            encoded(call.identity()),
            call.state in ENDED,
        )


def _told_of(call: Call, state: State, exit_code: int | None) -> dict[str, Any]:
    """What the event of a call says that stood so."""
    fields = call.identity()
    if not call.number:
        fields["turn_id"] = call.origin.turn_id
    if state in ENDED:
        fields["tool_status"] = tool_status(state, exit_code)
    if state == "running" and call.running is not None:
        fields["process_id"] = call.running.process_id
    return fields


def _error(cell: CellFacts) -> ScriptError | None:
    return None if cell.outcome is None else cell.outcome.error


def storable(text: str | None) -> str | None:
    """A text that UTF-8 can hold: what callers of the library hand in may have a lone surrogate."""
    return None if text is None else text.encode("utf-8", "replace").decode()
