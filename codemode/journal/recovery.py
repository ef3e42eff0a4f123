"""What a server that was killed left behind: cells that ran then have ended now, and are told so."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from typing import Any, Final

from codemode.lifecycle.events import encoded
from codemode.lifecycle.provenance import code_mode_source, runtime_tool_call_id

KIND: Final = "server_restarted"
MESSAGE: Final = (
    "the server that ran the cell has ended, and another one took over; what the script put out before is kept, what "
    "it had stored is not"
)

_USAGE: Final = ("cpu_ms", "wall_ms", "tool_wait_ms", "queue_ms", "heap_peak_bytes")  # what the process knew is gone
_OUTPUT: Final = """
SELECT count(*), coalesce(sum(length(fields)), 0) FROM events
WHERE session = ? AND cell = ? AND type IN ('cell/output', 'cell/notification')
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
    rows = connection.execute("SELECT state, started_at FROM calls WHERE session = ? AND cell = ?", key).fetchall()
    states = Counter(state for state, _ in rows)
    counts = {name: states[name] for name in ("completed", "failed", "in_flight", "queued", "cancelled")}
    error = dict.fromkeys(("kind", "name", "message", "line", "column", "stack", "hint"))
    said = {
        "error": error | {"kind": KIND, "message": MESSAGE},
        "warnings": [],
        "usage": dict.fromkeys(_USAGE, 0) | {"wall_ms": max(0, round((now - created_at) * 1000))},
    }
    more = {
        "tool_calls": counts | {"in_flight": states["lost"]},
        "safe_to_retry": all(started_at is None for _, started_at in rows),
    }
    tell("cell/ended", {"status": "failed"} | said | more)
    cursor, size = connection.execute(_OUTPUT, (*key, *key)).fetchone()
    ending, calls = encoded(said), len(rows)
    connection.execute(
        "UPDATE cells SET status = 'failed', ended_at = ?, last_event = ?, cursor = ?, output_bytes = ?,"
        " calls = ?, ending = ?"
        " WHERE session = ? AND cell = ?",
        (now, seq, cursor, size, calls, ending, *key),
    )
