"""The rows of the journal's tables: what lasts of a session. The order of the fields is that of the columns."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from codemode.lifecycle.events import Fields


class SessionRow(NamedTuple):
    """A session. `number` is its name in the other tables and is never used again."""

    number: int
    session_id: str
    key: str  # whom it belongs to
    created_at: float
    used_at: float
    last_cell: int
    declaration: bytes  # JSON: tools, limits, metadata and the like


class ValueRow(NamedTuple):
    """A stored value, as JSON text."""

    session: int
    key: str
    value: str


class CellRow(NamedTuple):
    """A cell. `taken` and `collected` say what was handed over of it."""

    session: int
    cell: int
    status: str
    created_at: float
    ended_at: float | None
    turn_id: str | None
    tool_call_id: str | None
    parent_tool_use_id: str
    idempotency_key: str | None
    source_digest: bytes | None  # of the source, only with an idempotency key
    first_event: int  # the number of its first event
    last_event: int | None  # and of its last one
    cursor: int
    output_bytes: int
    taken: int
    collected: bool
    calls: int
    ending: bytes | None  # JSON, of an ended one: error, warnings, usage


class CallRow(NamedTuple):
    """A nested call."""

    session: int
    cell: int
    number: int
    tool_use_id: str
    tool_name: str
    state: str
    started_at: float | None
    ended_at: float | None
    exit_code: int | None


class OpenCallRow(NamedTuple):
    """A call whose end is not told with that of a cell: a direct one, or one whose process goes on.

    Direct ones that the caller has named stay when they have ended, so that no other one gets that name.
    """

    session: int
    tool_use_id: str
    cell: int | None
    number: int  # within the cell; 0 for a direct one
    turn_id: str | None
    told: bytes  # JSON: what every event of it says
    ended: bool


class LostCall(NamedTuple):
    """A call that was under way when its server was lost."""

    turn_id: str | None
    told: dict[str, Any]  # what every event of it says


class EventRow(NamedTuple):
    """An event. `fields` becomes JSON when it is written."""

    session: int
    seq: int
    cell: int | None
    type: str
    at: float
    fields: Fields
    size: int = 0  # about the length of the fields; no column


# The table of each kind of row, and the number of its columns.
TABLES: Final[dict[type, tuple[str, int]]] = {
    SessionRow: ("sessions", len(SessionRow._fields)),
    ValueRow: ("stored_values", len(ValueRow._fields)),
    CellRow: ("cells", len(CellRow._fields)),
    CallRow: ("calls", len(CallRow._fields)),
    OpenCallRow: ("open_calls", len(OpenCallRow._fields)),
    EventRow: ("events", len(EventRow._fields) - 1),
}
