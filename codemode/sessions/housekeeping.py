"""What has to be done now and then: forget unused sessions, take away old events, keep the journal within its size."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from typing import Final

from codemode.errors import CodeModeError
from codemode.journal.journal import Journal
from codemode.limits import MIB, Limits
from codemode.sessions.registry import Sessions

_log = logging.getLogger(__name__)

_LOOK_S: Final = 1.0
_LOOKS: Final = 30  # until it is due in any case
_GROWN: Final = 4  # the part of max_journal_mb after which it is looked at earlier


class Housekeeping:
    """Runs in the background while its `async with` is open."""

    def __init__(self, journal: Journal, sessions: Sessions, limits: Limits) -> None:
        self._journal = journal
        self._sessions = sessions
        self._limits = limits

    async def __aenter__(self) -> Housekeeping:
        self._task = asyncio.get_running_loop().create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _run(self) -> None:
        while True:
            await self._until_due()
            try:
                await self.once()
            except (CodeModeError, sqlite3.Error, OSError):
                _log.exception("keeping house failed; it is tried again")

    async def _until_due(self) -> None:
        """Half a minute, or until so much was written that the journal may be far beyond its size by then."""
        enough = self._journal.written + self._limits.max_journal_mb * MIB // _GROWN
        for _ in range(_LOOKS):
            await asyncio.sleep(_LOOK_S)
            if self._journal.written > enough:
                break

    async def once(self) -> None:
        """Do all of it."""
        for session in self._sessions.unused_since(time.time() - self._limits.session_idle_ms / 1000):
            await session.close()
        oldest = time.time() - self._limits.keep_events_ms / 1000
        most = self._limits.max_journal_mb * MIB
        trimmed = await self._journal.trim(oldest, most)
        if trimmed.excess_bytes > 0:
            await self._make_room(trimmed.excess_bytes)
            await self._journal.trim(oldest, most)

    async def _make_room(self, excess: int) -> None:
        """Forget ended cells before their time, the oldest first: what they put out may be taken away then."""
        freed = self._sessions.forget_oldest_cells(excess)
        _log.warning("the journal is over max_journal_mb: ended cells with %s bytes were forgotten early", freed)
        await self._journal.settled()
