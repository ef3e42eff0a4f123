"""Starts the scripts of a session: each gets a process, tools and stored values, and gives back what it stored."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from pydantic_core import to_json

from codemode.cells.cell import Cell
from codemode.errors import CodeModeError
from codemode.isolation.pool import Pool
from codemode.limits import Limits
from codemode.sessions.store import StoredValues

_log = logging.getLogger(__name__)

_WORKER_LIMITS: Final = ("max_tool_input_bytes", "max_store_bytes", "max_output_bytes", "memory_mb", "cpu_ms")


class Launcher:
    """Of one session. The stored values are `store`."""

    def __init__(self, pool: Pool, limits: Limits, *, typescript: bool = False) -> None:
        self.store = StoredValues(limits.max_store_bytes)
        self._pool = pool
        self._limits = to_json({name: getattr(limits, name) for name in _WORKER_LIMITS})
        self._typescript = to_json(typescript)
        self._seen_merges: dict[str, int] = {}  # live cell → merges it has seen
        self._tasks: set[asyncio.Task[None]] = set()

    def launch(self, cell: Cell, source: str) -> None:
        """Let a cell begin, at once if a process is ready. Raises ShuttingDown."""
        config = self._config(source, cell.bridge.registry.declarations)
        self._seen_merges[cell.cell_id] = self.store.merges
        process = self._pool.lease_nowait()
        if process is not None:
            cell.begin(process, config)
        else:
            task = asyncio.get_running_loop().create_task(self._begin_when_leased(cell, config))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def commit(self, cell: Cell) -> list[str]:
        """Merge a cell's values, key by key; names the keys that another cell wrote while it ran."""
        return self.store.merge(cell.cell_id, cell.stored, self._seen_merges[cell.cell_id])

    def ended(self, cell: Cell) -> None:
        """The cell runs no more."""
        self._seen_merges.pop(cell.cell_id, None)

    def close(self) -> None:
        """Nobody waits for a process any more."""
        for task in list(self._tasks):
            task.cancel()

    async def _begin_when_leased(self, cell: Cell, config: bytes) -> None:
        try:
            cell.begin(await self._pool.lease(), config)
        except CodeModeError as problem:
            cell.fail("worker_crashed", problem.detail)
        except Exception:
            _log.exception("no process for cell %s", cell.cell_id)
            cell.fail("worker_crashed", "none could be started")

    def _config(self, source: str, declarations: bytes) -> bytes:
        return b'{"source":%b,"tools":%b,"stored":%b,"limits":%b,"typescript":%b,"rehearsal":false}' % (
            to_json(source),
            declarations,
            to_json(self.store.values),
            self._limits,
            self._typescript,
        )
