"""Follows the events of a session, or of one cell of it, from any number on."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any, Final

from codemode.cells.facts import CellFacts
from codemode.errors import JournalUnavailable
from codemode.lifecycle.auditor import LifecycleAuditor
from codemode.lifecycle.events import LOST, Event, timestamp
from codemode.sessions.recorder import Recorder

HEARTBEAT_S: Final = 15.0
MOST_FOLLOWERS: Final = 64  # of one session: each holds a connection
_AGAIN_S: Final = 1.0  # until it is seen whether the disk takes them now
_AT_ONCE: Final = 100
_OF_LIFECYCLE: Final = ("session/", "cell/started", "cell/ended", "tool_call/", LOST)


async def follow(
    recorder: Recorder, after: int, cell: CellFacts | None = None, heartbeat: float = HEARTBEAT_S
) -> AsyncGenerator[Event | None, None]:
    """Every event after a number, as it comes; None when there was none for `heartbeat` seconds.

    An event is given out when it would survive a crash of the server, and waits while the disk refuses it. Where events
    are no longer kept, one of type `events/lost` says which. Ends with the session, or with the end of the cell. A
    reader that is slow falls back to what is in the journal, and holds nothing in memory. Raises JournalUnavailable.
    """
    recorder.followers += 1
    try:
        async for event in _follow(recorder, after, cell, heartbeat):
            yield event
    finally:
        recorder.followers -= 1


async def told(events: AsyncGenerator[Event | None, None], session_id: str) -> AsyncGenerator[dict[str, Any], None]:
    """The events as the HTTP API writes them, read again: plain values."""
    async with aclosing(events):
        async for event in events:
            if event is not None:
                yield json.loads(event.data(session_id))


async def audited(recorder: Recorder, session_id: str) -> dict[str, Any]:
    """What a `LifecycleAuditor` makes of the events that are kept. Raises JournalUnavailable."""
    auditor = LifecycleAuditor(session_id)
    log, position, last = recorder.events, 0, recorder.events.last
    while position < last:
        if position + 1 < log.first_kept:
            events, position = await _earlier(recorder, position, None)
        else:
            events = log.recent(position, _AT_ONCE)
            position = events[-1].seq
            await asyncio.sleep(0)
        for event in events:
            matters = event.type.startswith(_OF_LIFECYCLE)
            told = json.loads(event.data(session_id)) if matters else {"seq": event.seq, "type": event.type}
            auditor.take({"session_id": session_id, "at": timestamp(event.at), **told})
    return auditor.report()


async def _follow(
    recorder: Recorder, after: int, cell: CellFacts | None, heartbeat: float
) -> AsyncIterator[Event | None]:
    log = recorder.events
    position = min(after, log.last)  # a larger number is of events that no reader was ever given
    if cell is not None:
        position = max(position, cell.first_event - 1)
    while cell is None or cell.last_event is None or position < cell.last_event:
        if position + 1 < log.first_kept:
            events, position = await _earlier(recorder, position, cell)
            for event in _of(cell, events):
                yield event
            continue
        recent = log.recent(position, _AT_ONCE)
        if recent and await recorder.settled() is None:
            position = recent[-1].seq
            for event in _of(cell, recent):
                yield event
        elif recent and not log.is_closed:  # the disk refuses them: they are told when they would survive
            await asyncio.sleep(min(heartbeat, _AGAIN_S))
            yield None
        elif log.is_closed:
            return
        else:
            await log.wait_for_more(position, heartbeat)
            if log.last == position and not log.is_closed:
                yield None


async def _earlier(recorder: Recorder, position: int, cell: CellFacts | None) -> tuple[list[Event], int]:
    """Some of the events after `position` that are no longer in memory, or word of their loss; and how far that is."""
    before = recorder.events.first_kept
    wanted = None if cell is None else int(cell.cell_id)
    is_whole = await recorder.settled() is None  # else some of them are not written yet: who comes back has them
    rows = await recorder.journal.read_events(recorder.number, position, before, wanted)
    found = [Event(row.seq, row.type, row.at, None if row.cell is None else str(row.cell), row.fields) for row in rows]
    if cell is None or not recorder.journal.is_durable:  # else: the events of a cell that is known stay in the journal
        found = _with_gaps(position, found, before, told=is_whole)
        if not found:
            raise JournalUnavailable
    elif not is_whole:
        raise JournalUnavailable
    return found, found[-1].seq if found else before - 1


def _with_gaps(position: int, found: list[Event], before: int, *, told: bool) -> list[Event]:
    """These events, with word of those between them that are no longer kept: old ones go, output of known cells stays.

    Not `told`, they end at the first gap, which may not be one.
    """
    whole: list[Event] = []
    for at, number in enumerate([event.seq for event in found] or [before]):
        if number > position + 1:
            if not told:
                break
            lost = {"from": position + 1, "to": number - 1}
            whole.append(Event(number - 1, LOST, time.time(), None, lost))
        whole += found[at : at + 1]
        position = number
    return whole


def _of(cell: CellFacts | None, events: Iterable[Event]) -> Iterable[Event]:
    """Those of a cell: what its commands do after its end is told to followers of the session."""
    last = None if cell is None else cell.last_event
    return (
        event
        for event in events
        if cell is None or (event.cell_id == cell.cell_id and (last is None or event.seq <= last))
    )
