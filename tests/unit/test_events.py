"""The log of a session's events, and following it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.cells.live import LiveFacts
from codemode.journal.journal import Journal
from codemode.lifecycle.events import LOST, Event, EventLog, encoded
from codemode.sessions.following import follow
from codemode.sessions.recorder import Recorder

SOON = 2.0


def recorder(most_bytes: int = 1_000_000) -> Recorder:
    made = Recorder(Journal(), 1)
    made.events = EventLog(most_bytes)
    return made


def add(log: EventLog, text: str = "", cell_id: str | None = "1") -> None:
    log.add("cell/output", 1.5, cell_id, {"cursor": 1, "item": {"type": "text", "text": text}})


async def take(events: AsyncIterator[Event | None], count: int) -> list[Any]:
    """The numbers of so many events; None for each heartbeat, and the bounds of what was lost."""
    found: list[Any] = []
    async with asyncio.timeout(SOON):
        async for event in events:
            found.append(event and ((event.type, event.fields) if event.type == LOST else event.seq))
            if len(found) == count:
                return found
    return found


def test_an_event_says_what_it_is_on_one_line() -> None:
    """The fields that every event has come first."""
    event = Event(7, "cell/output", 1.5, "3", {"cursor": 1, "item": {"type": "text", "text": b"a\nb"}})
    data = event.data("s")
    assert b"\n" not in data
    assert json.loads(data) == {
        "seq": 7,
        "type": "cell/output",
        "at": "1970-01-01T00:00:01.500000Z",
        "session_id": "s",
        "cell_id": "3",
        "cursor": 1,
        "item": {"type": "text", "text": "a\nb"},
    }
    assert list(json.loads(Event(1, "session/created", 0, None, {}).data("s"))) == ["seq", "type", "at", "session_id"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(st.characters()),
        lambda each: st.lists(each) | st.dictionaries(st.text(st.characters()), each),
    )
)
def test_whatever_an_event_holds_can_be_written(value: Any) -> None:
    """Lone surrogates, NaN and infinity too."""
    json.loads(encoded({"value": value}).decode())


async def test_a_follower_gets_what_there_is_and_then_what_comes() -> None:
    """In order, without a gap, from any number on."""
    told = recorder()
    for _ in range(3):
        add(told.events)
    events = follow(told, 1)
    assert await take(events, 2) == [2, 3]
    waiting = asyncio.ensure_future(take(events, 2))
    await asyncio.sleep(0)
    add(told.events)
    add(told.events)
    assert await waiting == [4, 5]


async def test_a_number_that_was_never_given_out_is_the_newest() -> None:
    """A client of a server that forgot everything does not wait for ever."""
    told = recorder()
    add(told.events)
    events = follow(told, 99)
    waiting = asyncio.ensure_future(take(events, 1))
    await asyncio.sleep(0)
    add(told.events)
    assert await waiting == [2]


async def test_a_follower_of_a_cell_hears_of_that_cell_until_its_end() -> None:
    """The stream ends with it."""
    told = recorder()
    cell = LiveFacts("2", None, None, "tu", 0.0)
    add(told.events, cell_id="1")
    cell.first_event = 2
    add(told.events, cell_id="2")
    add(told.events, cell_id="1")
    add(told.events, cell_id="2")
    cell.last_event = 4
    add(told.events, cell_id="1")
    assert await take(follow(told, 0, cell), 99) == [2, 4]
    assert await take(follow(told, 4, cell), 99) == []


async def test_silence_is_told() -> None:
    """So that both sides know that the other is there."""
    told = recorder()
    assert await take(follow(told, 0, heartbeat=0.01), 2) == [None, None]


async def test_what_is_no_longer_kept_is_told_of() -> None:
    """A slow reader learns which events it missed."""
    told = recorder(most_bytes=3000)
    for _ in range(10):
        add(told.events, "x" * 500)
    first = told.events.first_kept
    assert 1 < first <= 10
    assert await take(follow(told, 2), 2) == [(LOST, {"from": 3, "to": first - 1}), first]


async def test_an_event_that_is_larger_than_all_that_may_be_kept() -> None:
    """The newest is always there."""
    told = recorder(most_bytes=1000)
    add(told.events, "x" * 100_000)
    assert await take(follow(told, 0), 1) == [1]


async def test_a_closed_log_ends_the_stream() -> None:
    """After everything was handed over."""
    told = recorder()
    add(told.events)
    following = asyncio.ensure_future(take(follow(told, 0), 99))
    await asyncio.sleep(0)
    add(told.events)
    told.events.close()
    assert await following == [1, 2]


@pytest.mark.parametrize("leave_by", ["cancel", "close"])
async def test_who_leaves_is_not_counted_any_more(leave_by: str) -> None:
    """So its place is free."""
    told = recorder()
    add(told.events)
    events = follow(told, 0)
    assert await take(events, 1) == [1]
    assert told.followers == 1
    if leave_by == "close":
        await events.aclose()  # type: ignore[attr-defined]
    else:
        waiting = asyncio.ensure_future(take(events, 1))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,))
    assert told.followers == 0


class Refusing(Journal):
    """A disk that takes nothing, until it is mended."""

    is_broken = True

    async def settled(self) -> str | None:
        return "full" if self.is_broken else None


async def test_events_wait_while_the_disk_refuses_them() -> None:
    """Nobody is told what the next server would not know; then all of it comes, and a stop ends the stream."""
    told = recorder()
    told.journal = journal = Refusing()
    add(told.events)
    events = follow(told, 0, heartbeat=0.01)
    assert await take(events, 3) == [None, None, None]
    add(told.events)
    journal.is_broken = False
    assert await take(events, 2) == [1, 2]
    journal.is_broken = True
    add(told.events)
    told.events.close()
    assert await take(events, 9) == []
