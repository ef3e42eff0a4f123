"""A journal in a data directory, written off the event loop in batches."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from codemode.errors import JournalUnavailable
from codemode.journal import reading, retention
from codemode.journal.batch import Batch, Row
from codemode.journal.folder import DataFolder
from codemode.journal.journal import Journal
from codemode.journal.reading import CellContents
from codemode.journal.recovery import end_lost
from codemode.journal.rows import EventRow
from codemode.journal.writer import Waiter, Work, Writer, patiently, release

_log = logging.getLogger(__name__)

_DELAY: Final = 0.01  # seconds that a change may wait for others, unless somebody waits for it
_RETRY: Final = 1.0  # seconds until a failed batch is tried again
_PATIENCE: Final = 5.0  # seconds that an answer waits for a disk that does not answer
_CHECKPOINT_EVERY: Final = 16 * 1024 * 1024  # bytes
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
            self._folder.prepare(self._take_over)
        except BaseException:
            self._folder.close()
            raise
        self._writer = Writer(self._folder.connect)
        self._next = Batch()  # collects changes
        self._held: Batch | None = None  # is being written, or waits to be tried again
        self._waiting: list[Waiter] = []  # for what is in `_next`
        self._waiting_held: list[Waiter] = []
        self._timer: asyncio.TimerHandle | None = None
        self._retry: asyncio.TimerHandle | None = None
        self._trouble: str | None = None
        self._lost = 0
        self.written = 0
        self._checkpoint_at = _CHECKPOINT_EVERY
        self._checkpointing: asyncio.Task[None] | None = None
        self._started = False

    def _take_over(self, connection: sqlite3.Connection) -> None:
        lost = end_lost(connection)
        self.sessions = reading.sessions(connection, lost)
        self._last_session = reading.last_session(connection)

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
        if self._trouble is not None:
            self._bound(self._next)
        self._soon()

    def values(self, session: int, written: Mapping[str, str | None]) -> None:
        self._next.values(session, written)
        self._soon()

    def drop_cell(self, session: int, cell: int) -> None:
        self._next.drop_cell(session, cell)
        self._soon()

    def drop_open_call(self, session: int, tool_use_id: str) -> None:
        self._next.drop_open_call(session, tool_use_id)
        self._soon()

    def drop_session(self, session: int) -> None:
        self._next.drop_session(session)
        self._soon()

    def hurry(self) -> None:
        self._hand_over()

    async def settled(self) -> str | None:
        return await self._wait() if self._trouble is None else self._trouble

    async def _wait(self) -> str | None:
        if not (self._next or self._held):
            return None
        done: Waiter = asyncio.get_running_loop().create_future()
        (self._waiting if self._next else self._waiting_held).append(done)
        self._hand_over()
        await asyncio.wait((done,), timeout=_PATIENCE)
        if not done.done():
            self._in_trouble(f"the disk has not answered for {_PATIENCE:g} s")
        return done.result()

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
        self._left_out(self._next.seal(), self._waiting)
        self._held, self._next = self._next, Batch()
        self._waiting_held, self._waiting = self._waiting, []
        self._write_held()

    def _write_held(self, *, what_can_be: bool = False) -> None:
        assert self._held is not None
        held = self._held
        self._retry = None

        def write(connection: sqlite3.Connection) -> int:
            self._folder.check()
            if what_can_be:
                return held.write_what_can_be(connection)
            held.write(connection)
            return 0

        self._writer.run(write).add_done_callback(self._partly_written if what_can_be else self._written)

    def _written(self, done: asyncio.Future[Any]) -> None:
        problem = done.exception()
        if problem is None:
            self._over()
        elif isinstance(problem, sqlite3.OperationalError):  # a full disk, a read-only one: later perhaps not any more
            self._refused(problem)
        else:
            _log.error("a batch of changes cannot be written to the journal: %s", problem)
            self._write_held(what_can_be=True)

    def _partly_written(self, done: asyncio.Future[Any]) -> None:
        problem = done.exception()
        if problem is not None:
            self._refused(problem)
            return
        self._left_out(done.result(), self._waiting_held)
        self._over()

    def _left_out(self, rows: int, waiting: list[Waiter]) -> None:
        if rows:
            _log.error("%s rows were left out of the journal", rows)
            self._lost += rows
            release(waiting, "the journal left out what cannot be written")

    def _refused(self, problem: BaseException) -> None:
        self._in_trouble(str(problem))
        self._left_out(self._next.seal(), self._waiting)
        for batch in (self._held, self._next):
            if batch is not None:
                self._bound(batch)
        self._retry = asyncio.get_running_loop().call_later(_RETRY, self._write_held)

    def _over(self) -> None:
        if self._trouble is not None:
            _log.warning("the journal is written again")
            self._trouble = None
        assert self._held is not None
        self._wrote(self._held.weight)
        self._held = None
        release(self._waiting_held, None)
        if self._waiting:
            self._hand_over()
        elif self._next:
            self._soon()

    def _in_trouble(self, reason: str) -> None:
        """Nobody waits for a disk that refuses to be written: answers go on, and say so."""
        if self._trouble is None:
            _log.error("the journal %s cannot be written: %s; the service goes on without", self._folder.file, reason)
        self._trouble = f"the journal cannot be written ({reason})"
        release(self._waiting_held, self._trouble)
        release(self._waiting, self._trouble)

    def _bound(self, batch: Batch) -> None:
        """Let go of events when too many wait; how things stand now is kept."""
        if batch.weight > _MOST_HELD:
            dropped = batch.drop_events()
            self._lost += dropped
            if dropped > 1:
                _log.error("%s events were left out of the journal, which cannot be written", dropped)

    # Reading

    async def read_cell(self, session: int, cell: int, first: int, last: int | None) -> CellContents:
        await self.settled()
        contents: CellContents = await self._read(lambda each: reading.cell(each, session, cell, first, last))
        return contents

    async def read_events(self, session: int, after: int, before: int, cell: int | None) -> list[EventRow]:
        await self.settled()
        rows: list[EventRow] = await self._read(lambda each: reading.events(each, session, after, before, cell))
        return rows

    async def _read(self, work: Work) -> Any:
        """On a connection and a thread of its own, so that no answer waits for a long read."""

        def read() -> Any:
            with contextlib.closing(self._folder.connect()) as connection:
                return work(connection)

        try:
            return await asyncio.to_thread(read)
        except sqlite3.Error as problem:
            _log.error("the journal %s cannot be read: %s", self._folder.file, problem)
            raise JournalUnavailable from None

    # Keeping house

    async def trim(self, oldest: float, most_bytes: int) -> retention.Trimmed:
        """Looks beside the writer, and takes away on its thread, in small steps between batches."""
        total = retention.Trimmed(0, 0, True)
        while total.more:
            found: retention.Found = await self._read(lambda each: retention.find(each, oldest, most_bytes))
            step = await self._writer.run(partial(retention.step, found=found, most_bytes=most_bytes))
            self._wrote(step.log_bytes)
            total = step._replace(rows=total.rows + step.rows)
        await self._checkpoint()
        return total

    def _wrote(self, size: int) -> None:
        self.written += size
        if self.written >= self._checkpoint_at and (self._checkpointing is None or self._checkpointing.done()):
            self._checkpoint_at = self.written + _CHECKPOINT_EVERY
            self._checkpointing = asyncio.get_running_loop().create_task(self._checkpoint())

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
        """Write what is left, with one more attempt if the disk refused before."""
        ended = True
        if self._started:
            if self._retry is not None:
                self._retry.cancel()
                self._write_held()
            await self._wait()
            self._started = False
            if self._held or self._next:
                _log.error("the journal is closed with changes that could not be written")
            else:
                patiently(self._writer.run(retention.checkpoint))
            if self._checkpointing is not None:
                await asyncio.wait((self._checkpointing,))
            ended = await self._writer.close()
        for timer in (self._timer, self._retry):
            if timer is not None:
                timer.cancel()
        if ended:  # else the thread may still write
            self._folder.close()
