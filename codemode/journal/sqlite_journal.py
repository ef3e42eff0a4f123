"""A journal in a data directory, written off the event loop in batches."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping
from typing import Any, Final

from codemode.errors import JournalUnavailable
from codemode.journal import reading, retention
from codemode.journal.batch import Batch, Row
from codemode.journal.folder import DataFolder
from codemode.journal.journal import Journal
from codemode.journal.reading import CellContents
from codemode.journal.recovery import end_lost_cells
from codemode.journal.rows import EventRow
from codemode.journal.schema import connect
from codemode.journal.writer import Work, Writer, patiently

_log = logging.getLogger(__name__)

_DELAY: Final = 0.01  # seconds that a change may wait for others, unless somebody waits for it
_RETRY: Final = 1.0  # seconds until a failed batch is tried again
_PATIENCE: Final = 5.0  # seconds that an answer waits for a disk that does not answer
_CHECKPOINT_EVERY: Final = 500  # batches, of some 30 kB each
_LONG_LOG: Final = 64 * 1024 * 1024  # bytes
_MOST_HELD: Final = 64 * 1024 * 1024  # bytes of changes that wait for a disk that refuses them


class SqliteJournal(Journal):
    """Writes to a file in a data directory, on a thread of its own, all changes of a moment in one transaction.

    While the disk refuses to be written, changes wait in memory, up to a bound, and `trouble` says why.
    """

    is_durable = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Take the directory. Raises InvalidRequest, saying what is wrong with it."""
        self._folder = DataFolder(path)
        try:
            connection = self._folder.open()
            try:
                end_lost_cells(connection)
                self.sessions = reading.sessions(connection)
                self._last_session = reading.last_session(connection)
            finally:
                connection.close()
        except BaseException:
            self._folder.close()
            raise
        self._writer = Writer(lambda: connect(self._folder.file))
        self._next = Batch()  # collects changes
        self._held: Batch | None = None  # is being written, or waits to be tried again
        self._waiting: list[asyncio.Future[None]] = []  # for what is in `_next`
        self._waiting_held: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._trouble: str | None = None
        self._lost = 0
        self._batches = 0
        self._checkpointing: asyncio.Task[None] | None = None
        self._started = False

    def start(self) -> None:
        """Begin to write; the event loop runs by now."""
        self._writer.start()
        self._started = True

    # Changes

    @property
    def trouble(self) -> str | None:
        return self._trouble

    def new_session(self) -> int:
        self._last_session += 1
        return self._last_session

    def put(self, key: tuple[Any, ...], make: Callable[[], Row | None]) -> None:
        self._next.put(key, make)
        self._soon()

    def event(self, row: EventRow) -> None:
        self._next.event(row)
        self._soon()

    def values(self, session: int, written: Mapping[str, str | None]) -> None:
        self._next.values(session, written)
        self._soon()

    def drop_cell(self, session: int, cell: int) -> None:
        self._next.drop_cell(session, cell)
        self._soon()

    def drop_session(self, session: int) -> None:
        self._next.drop_session(session)
        self._soon()

    def hurry(self) -> None:
        self._hand_over()

    async def settled(self) -> None:
        if self._trouble is not None or not (self._next or self._held):
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._waiting if self._next else self._waiting_held).append(done)
        self._hand_over()
        await asyncio.wait((done,), timeout=_PATIENCE)
        if not done.done():
            self._in_trouble(f"the disk has not answered for {_PATIENCE:g} s")

    # Writing: one batch at a time; what changes meanwhile is the next one

    def _soon(self) -> None:
        if self._timer is None and self._held is None:
            self._timer = asyncio.get_running_loop().call_later(_DELAY, self._hand_over)

    def _hand_over(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held is not None or not self._next or not self._started:
            return
        self._next.seal()
        self._held, self._next = self._next, Batch()
        self._waiting_held, self._waiting = self._waiting, []
        self._write_held()

    def _write_held(self) -> None:
        assert self._held is not None
        self._writer.run(self._held.write).add_done_callback(self._written)

    def _written(self, done: asyncio.Future[Any]) -> None:
        problem = done.exception()
        if problem is None:
            self._over()
        elif isinstance(problem, sqlite3.OperationalError):  # a full disk, a read-only one: later perhaps not any more
            self._in_trouble(str(problem))
            self._bound_held()
            asyncio.get_running_loop().call_later(_RETRY, self._write_held)
        else:
            _log.error("a batch of changes cannot be written to the journal: %s", problem)
            assert self._held is not None
            self._writer.run(self._held.write_what_can_be).add_done_callback(self._partly_written)

    def _partly_written(self, done: asyncio.Future[Any]) -> None:
        problem = done.exception()
        if problem is None:
            _log.error("%s rows were left out of the journal", done.result())
            self._lost += done.result()
            self._over()
        else:
            self._in_trouble(str(problem))
            self._bound_held()
            asyncio.get_running_loop().call_later(_RETRY, self._write_held)

    def _over(self) -> None:
        if self._trouble is not None:
            _log.warning("the journal is written again")
            self._trouble = None
        self._held = None
        self._batches += 1
        if self._batches % _CHECKPOINT_EVERY == 0 and (self._checkpointing is None or self._checkpointing.done()):
            self._checkpointing = asyncio.get_running_loop().create_task(self._checkpoint())
        _release(self._waiting_held)
        if self._waiting:
            self._hand_over()
        elif self._next:
            self._soon()

    def _in_trouble(self, reason: str) -> None:
        """Nobody waits for a disk that refuses to be written: answers go on, and say so."""
        if self._trouble is None:
            _log.error("the journal %s cannot be written: %s; the service goes on without", self._folder.file, reason)
        self._trouble = f"the journal cannot be written ({reason})"
        _release(self._waiting_held)
        _release(self._waiting)

    def _bound_held(self) -> None:
        """Let go of events when too many wait; how things stand now is kept."""
        self._next.seal()
        for batch in (self._held, self._next):
            if batch is not None and batch.weight > _MOST_HELD:
                dropped = batch.drop_events()
                self._lost += dropped
                _log.error("%s events were left out of the journal, which cannot be written", dropped)

    # Reading

    async def read_cell(self, session: int, cell: int, first: int, last: int | None) -> CellContents:
        contents: CellContents = await self._read(lambda each: reading.cell(each, session, cell, first, last))
        return contents

    async def read_events(self, session: int, after: int, before: int, cell: int | None) -> list[EventRow]:
        rows: list[EventRow] = await self._read(lambda each: reading.events(each, session, after, before, cell))
        return rows

    async def _read(self, work: Work) -> Any:
        """On a connection and a thread of its own, so that no answer waits for a long read."""

        def read() -> Any:
            connection = connect(self._folder.file)
            try:
                return work(connection)
            finally:
                connection.close()

        await self.settled()
        try:
            return await asyncio.to_thread(read)
        except sqlite3.Error as problem:
            _log.error("the journal %s cannot be read: %s", self._folder.file, problem)
            raise JournalUnavailable from None

    # Keeping house

    async def trim(self, oldest: float, most_bytes: int) -> retention.Trimmed:
        """On the writer's thread, in small steps between batches; the checkpoint on one of its own."""
        total = 0
        step = retention.Trimmed(retention.STEP, 0)
        while step.rows >= retention.STEP:
            step = await self._writer.run(lambda each: retention.step(each, oldest, most_bytes))
            total += step.rows
        await self._checkpoint()
        return retention.Trimmed(total, step.excess_bytes)

    async def _checkpoint(self) -> None:
        """Keep the log short. Under constant writing only the writer itself can begin it anew."""
        try:
            if await self._read(retention.checkpoint) > _LONG_LOG:
                await self._writer.run(retention.restart_log)
        except (JournalUnavailable, sqlite3.Error):
            _log.warning("the log of the journal could not be carried into its file; it is tried again")

    def statistics(self) -> dict[str, Any]:
        return {
            "kept_in": "data directory",
            "trouble": self._trouble,
            "rows_left_out": self._lost,
            "writer_restarts": self._writer.restarts,
        }

    async def close(self) -> None:
        if self._started:
            await self.settled()
            self._started = False
            if self._held or self._next:
                _log.error("the journal is closed with changes that could not be written")
            else:
                patiently(self._writer.run(retention.checkpoint))
            if self._checkpointing is not None:
                await asyncio.wait((self._checkpointing,))
            await self._writer.close()
        if self._timer is not None:
            self._timer.cancel()
        self._folder.close()


def _release(waiting: list[asyncio.Future[None]]) -> None:
    for each in waiting:
        if not each.done():
            each.set_result(None)
    waiting.clear()
