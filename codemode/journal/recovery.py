"""What a server that was killed left behind: cells that ran then have ended now, and are told so."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any, Final

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
_STATES: Final = ("completed", "failed", "in_flight", "queued", "cancelled")

_OUTPUT: Final = """
FROM events WHERE session = ? AND cell = ? AND type IN ('cell/output', 'cell/notification')
AND seq >= (SELECT first_event FROM cells WHERE session = ? AND cell = ?)
"""


def end_lost_cells(connection: sqlite3.Connection) -> int:
    """End each cell that ran: failed, `server_restarted`. Its calls under way are `lost`, queued ones `cancelled`.

    Each end is an event, as that of any cell and call. Returns the number of cells. All or nothing.
    """
    connection.execute("BEGIN IMMEDIATE")
    rows = connection.execute("SELECT session, cell FROM cells WHERE status = 'running' ORDER BY session, cell")
    lost = rows.fetchall()
    for session, cell in lost:
        _end(connection, session, cell, time.time())
    connection.execute("COMMIT")
    return len(lost)


def _end(connection: sqlite3.Connection, session: int, cell: int, now: float) -> None:
    key = (session, cell)
    (seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM events WHERE session = ?", (session,)).fetchone()

    def tell(type_: str, fields: dict[str, Any]) -> None:
        nonlocal seq
        seq += 1
        row = (session, seq, cell, type_, now, encoded(fields))
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)", row)

    parent, created_at = connection.execute(
        "SELECT parent_tool_use_id, created_at FROM cells WHERE session = ? AND cell = ?", key
    ).fetchone()
    flying = connection.execute(
        "SELECT number, tool_use_id, tool_name FROM calls"
        " WHERE session = ? AND cell = ? AND state = 'in_flight' ORDER BY number",
        key,
    ).fetchall()
    for number, tool_use_id, tool_name in flying:
        fields = {
            "tool_use_id": tool_use_id,
            "runtime_tool_call_id": runtime_tool_call_id(number),
            "tool_name": tool_name,
            "tool_source": code_mode_source(parent, str(cell), number),
            "tool_status": {"state": "lost", "exit_code": None},
        }
        tell("tool_call/ended", fields)
    for before, after in (("in_flight", "lost"), ("queued", "cancelled")):
        connection.execute(
            "UPDATE calls SET state = ?, ended_at = ? WHERE session = ? AND cell = ? AND state = ?",
            (after, now, *key, before),
        )
    started, calls = connection.execute(
        "SELECT count(started_at), count(*) FROM calls WHERE session = ? AND cell = ?", key
    ).fetchone()
    states = dict(
        connection.execute("SELECT state, count(*) FROM calls WHERE session = ? AND cell = ? GROUP BY state", key)
    )
    usage = dict.fromkeys(_USAGE, 0) | {"wall_ms": max(0, round((now - created_at) * 1000))}
    ending = {"error": _ERROR, "warnings": [], "usage": usage}
    counts = {state: states.get("lost" if state == "in_flight" else state, 0) for state in _STATES}
    tell("cell/ended", {"status": "failed", **ending, "tool_calls": counts, "safe_to_retry": started == 0})
    (size,) = connection.execute(f"SELECT coalesce(sum(length(fields)), 0) {_OUTPUT}", (*key, *key)).fetchone()
    last = connection.execute(f"SELECT fields {_OUTPUT} ORDER BY seq DESC LIMIT 1", (*key, *key)).fetchone()
    cursor = json.loads(last[0])["cursor"] if last else 0
    connection.execute(
        "UPDATE cells SET status = 'failed', ended_at = ?, last_event = ?, cursor = ?, output_bytes = ?,"
        " calls = ?, ending = ?"
        " WHERE session = ? AND cell = ?",
        (now, seq, cursor, size, calls, encoded(ending), *key),
    )
