"""The events of one session: numbered from 1, never changed, readable again from any number.

The newest are kept here, within a bound; earlier ones may be had from the journal. Readers pull at
their own pace: one that is slow holds up nobody and is held in no queue.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from pydantic_core import to_json

EventType = Literal[
    "session/created",
    "session/deleted",
    "cell/started",
    "cell/output",
    "cell/notification",
    "cell/ended",
    "tool_call/started",
    "tool_call/progress",
    "tool_call/yielded",
    "tool_call/ended",
    "item/started",
    "item/completed",
    "item/commandExecution/delta",
    "item/commandExecution/requestApproval",
    "item/toolCall/requestApproval",
    "approval/resolved",
    "turn/ended",
]
LOST: Final = "events/lost"  # stands in a stream for events that are no longer kept, with the number of the last one

_EVENT_BYTES: Final = 400  # what an event takes beside that, about


# What an event says beyond what every event says: as it is, as JSON, or as what makes it when somebody reads it.
Fields = Mapping[str, Any] | bytes | Callable[[], Mapping[str, Any]]


class Event(NamedTuple):
    """One event. `size` is about the length of its fields."""

    seq: int
    type: str
    at: float  # seconds since 1970
    cell_id: str | None
    fields: Fields
    size: int = 0

    def data(self, session_id: str) -> bytes:
        """The event as a JSON object on one line."""
        head = {"seq": self.seq, "type": self.type, "at": timestamp(self.at), "session_id": session_id}
        if self.cell_id is not None:
            head["cell_id"] = self.cell_id
        inner = encoded(self.fields)[1:-1]
        return to_json(head)[:-1] + (b"," + inner if inner else b"") + b"}"


def timestamp(seconds: float) -> str:
    """A moment as events tell it: ISO 8601, UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def encoded(fields: Fields) -> bytes:
    """Fields as JSON; a lone surrogate, which a library's caller may have put into an id, becomes a question mark."""
    if isinstance(fields, bytes):
        return fields
    if callable(fields):
        fields = fields()
    try:
        return to_json(fields, inf_nan_mode="null")
    except ValueError:
        return to_json(_spoken(fields), inf_nan_mode="null")


def _spoken(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case bytes():  # from a process that does not keep to UTF-8
            return value.decode("utf-8", "replace")
        case Mapping():
            return {_spoken(key): _spoken(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_spoken(inner) for inner in value]
    return value


class EventLog:
    """Appends to a session's events. `most_bytes` bounds what is kept here, about; the newest is always kept."""

    def __init__(self, most_bytes: int, last: int = 0, added: Callable[[Event], None] = lambda _: None) -> None:
        self.last = last  # the number of the newest event
        self._most_bytes = most_bytes
        self._added = added
        self._recent: deque[Event] = deque()
        self._bytes = 0
        self._closed = False
        self._waiting: set[asyncio.Future[None]] = set()

    def add(self, type_: EventType, at: float, cell_id: str | None, fields: Fields, size: int = 0) -> None:
        """Append one. `fields`, about `size` bytes long if that may be much, must not change afterwards."""
        self.last += 1
        event = Event(self.last, type_, at, cell_id, fields, size)
        self._recent.append(event)
        self._bytes += _EVENT_BYTES + size
        while self._bytes > self._most_bytes and len(self._recent) > 1:
            self._bytes -= _EVENT_BYTES + self._recent.popleft().size
        self._added(event)
        if self._waiting:
            self._wake()

    @property
    def first_kept(self) -> int:
        """The number of the oldest event that is kept here; one more than the newest if none is."""
        return self._recent[0].seq if self._recent else self.last + 1

    def recent(self, after: int, most: int) -> list[Event]:
        """Up to `most` events after a number, of those that are kept here."""
        start = max(0, after + 1 - self.first_kept)
        return [self._recent[at] for at in range(start, min(len(self._recent), start + most))]

    @property
    def is_closed(self) -> bool:
        """Whether there will be no further one."""
        return self._closed

    def close(self) -> None:
        """There will be no further one: whoever waits is told."""
        self._closed = True
        self._wake()

    async def wait_for_more(self, after: int, timeout: float) -> None:
        """Return when there is an event after a number, when there will be none, or after `timeout` seconds."""
        if self.last > after or self._closed:
            return
        more = asyncio.get_running_loop().create_future()
        self._waiting.add(more)
        try:
            await asyncio.wait((more,), timeout=timeout)
        finally:
            self._waiting.discard(more)

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
