"""What a server that was killed left behind: cells that ran then have ended now, and are told so."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any, Final

from codemode.journal.rows import LostCall, OpenCallRow
from codemode.lifecycle.events import encoded
from codemode.lifecycle.provenance import code_mode_source, runtime_tool_call_id

KIND: Final = "server_restarted"
MESSAGE: Final = (
    "the server that ran the cell has ended, and another one took over; what the script put out before is kept, what "
    "it had stored is not"
)
# As of any cell that failed; what it has used is not known, but for the time.
_ERROR: Final = {
    "kind": KIND,
    "name": None,
    "message": MESSAGE,
    "line": None,
    "column": None,
    "stack": None,
    "hint": None,
}
_USAGE: Final = ("cpu_ms", "wall_ms", "tool_wait_ms", "queue_ms", "heap_peak_bytes")
_COUNTED: Final = {  # what an observation counts as what
    "completed": ("completed", "exited", "running"),
    "failed": ("failed", "denied", "timed_out"),
    "in_flight": ("lost",),
    "queued": ("queued",),
    "cancelled": ("cancelled",),
}

_OUTPUT: Final = """
FROM events WHERE session = ? AND cell = ? AND type IN ('cell/output', 'cell/notification')
AND seq >= (SELECT first_event FROM cells WHERE session = ? AND cell = ?)
"""


def end_lost(connection: sqlite3.Connection) -> dict[int, list[LostCall]]:
    """End what ran: each cell has failed, `server_restarted`; calls under way are `lost`, queued ones `cancelled`.

    So are direct calls, and those whose processes went on without their cell. Each end is an event, as that of any cell
    and call. Returns the calls that were lost, by session. All or nothing.
    """
    lost: dict[int, list[LostCall]] = {}
    connection.execute("BEGIN IMMEDIATE")
    running = connection.execute("SELECT session, cell FROM cells WHERE status = 'running' ORDER BY session, cell")
    for session, cell in running.fetchall():
        told = _Events(connection, session)
        lost.setdefault(session, []).extend(_end_cell(connection, told, session, cell))
    rows = connection.execute("SELECT * FROM open_calls WHERE NOT ended ORDER BY session, cell, number").fetchall()
    for row in map(OpenCallRow._make, rows):
        call = LostCall(row.turn_id, json.loads(row.told))
        _Events(connection, row.session).tell_lost(row.cell, call)
        lost.setdefault(row.session, []).append(call)
        connection.execute(
            "UPDATE calls SET state = 'lost', ended_at = ? WHERE session = ? AND cell = ? AND number = ?",
            (time.time(), row.session, row.cell, row.number),
        )
    connection.execute("DELETE FROM open_calls WHERE NOT ended AND number > 0")
    connection.execute("UPDATE open_calls SET ended = 1")
    connection.execute("COMMIT")
    return lost


class _Events:
    """Appends to the events of a session."""

    def __init__(self, connection: sqlite3.Connection, session: int) -> None:
        self._connection = connection
        self._session = session
        found = connection.execute("SELECT coalesce(max(seq), 0) FROM events WHERE session = ?", (session,))
        (self.last,) = found.fetchone()

    def tell(self, cell: int | None, type_: str, fields: dict[str, Any]) -> None:
        self.last += 1
        row = (self._session, self.last, cell, type_, time.time(), encoded(fields))
        self._connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", row)

    def tell_lost(self, cell: int | None, call: LostCall) -> None:
        status = {"tool_status": {"state": "lost", "exit_code": None}}
        turn = {} if "runtime_tool_call_id" in call.told else {"turn_id": call.turn_id}
        self.tell(cell, "tool_call/ended", call.told | turn | status)


def _end_cell(connection: sqlite3.Connection, events: _Events, session: int, cell: int) -> list[LostCall]:
    """End a cell that ran; the calls that were lost with it."""
    key, now = (session, cell), time.time()
    parent, created_at, turn_id = connection.execute(
        "SELECT parent_tool_use_id, created_at, turn_id FROM cells WHERE session = ? AND cell = ?", key
    ).fetchone()
    flying = connection.execute(
        "SELECT number, tool_use_id, tool_name FROM calls"
        " WHERE session = ? AND cell = ? AND state = 'in_flight' ORDER BY number",
        key,
    ).fetchall()
    lost = []
    for number, tool_use_id, tool_name in flying:
        told = {
            "tool_use_id": tool_use_id,
            "runtime_tool_call_id": runtime_tool_call_id(number),
            "tool_name": tool_name,
            "tool_source": code_mode_source(parent, str(cell), number),
        }
        lost.append(LostCall(turn_id, told))
        events.tell_lost(cell, lost[-1])
    for before, after in (("in_flight", "lost"), ("queued", "cancelled")):
        connection.execute(
            "UPDATE calls SET state = ?, ended_at = ? WHERE session = ? AND cell = ? AND state = ?",
            (after, now, *key, before),
        )
    started, calls = connection.execute(
        "SELECT sum(started_at IS NOT NULL AND state != 'denied'), count(*) FROM calls WHERE session = ? AND cell = ?",
        key,
    ).fetchone()
    states = dict(
        connection.execute("SELECT state, count(*) FROM calls WHERE session = ? AND cell = ? GROUP BY state", key)
    )
    usage = dict.fromkeys(_USAGE, 0) | {"wall_ms": max(0, round((now - created_at) * 1000))}
    ending = {"error": _ERROR, "warnings": [], "usage": usage}
    counts = {name: sum(states.get(state, 0) for state in of) for name, of in _COUNTED.items()}
    events.tell(cell, "cell/ended", {"status": "failed", **ending, "tool_calls": counts, "safe_to_retry": not started})
    (size,) = connection.execute(f"SELECT coalesce(sum(length(fields)), 0) {_OUTPUT}", (*key, *key)).fetchone()
    last = connection.execute(f"SELECT fields {_OUTPUT} ORDER BY seq DESC LIMIT 1", (*key, *key)).fetchone()
    cursor = json.loads(last[0])["cursor"] if last else 0
    connection.execute(
        "UPDATE cells SET status = 'failed', ended_at = ?, last_event = ?, cursor = ?, output_bytes = ?,"
        " calls = ?, ending = ?"
        " WHERE session = ? AND cell = ?",
        (now, events.last, cursor, size, calls, encoded(ending), *key),
    )
    return lost
