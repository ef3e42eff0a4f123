"""The thread that writes the journal, one batch at a time."""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from typing import Any, Final

_log = logging.getLogger(__name__)

Waiter = asyncio.Future[str | None]  # its result is the trouble that stands against what it waits for
Work = Callable[[sqlite3.Connection], Any]
_END_S: Final = 10.0


class Writer:
    """Runs work on the journal's connection, in order. Every piece of it is answered, also when the thread dies.

    `connect` is called on the thread, when it is needed first; where that fails, again for the next piece of work. A
    thread that ends by anything but an error of the database is replaced by a new one, with a new connection.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._queue: queue.SimpleQueue[tuple[Work, asyncio.Future[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.restarts = 0

    def start(self) -> None:
        """Begin; to be called on the event loop's thread."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="codemode journal", daemon=True)
        self._thread.start()

    def run(self, work: Work) -> asyncio.Future[Any]:
        """Queue some work; the future has its result, or what it raised."""
        done: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put((work, done))
        return done

    async def close(self) -> bool:
        """Do what is queued, then end the thread; whether it has ended.

        Waits no longer than ten seconds for a disk that does not answer.
        """
        self._queue.put(None)
        if self._thread is None:
            return True
        await asyncio.to_thread(self._thread.join, _END_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        try:
            while (item := self._queue.get()) is not None:
                work, done = item
                try:
                    if connection is None:
                        connection = self._connect()
                    result = work(connection)
                except sqlite3.Error as problem:
                    self._answer(done, None, problem)
                except BaseException as problem:
                    self._answer(done, None, sqlite3.InterfaceError(f"{type(problem).__name__}: {problem}"))
                    _log.exception("the thread that writes the journal failed; another one takes over")
                    self._tell(self._start_again)
                    return
                else:
                    self._answer(done, result, None)
        finally:
            if connection is not None:
                connection.close()

    def _start_again(self) -> None:
        self.restarts += 1
        self.start()

    def _answer(self, done: asyncio.Future[Any], result: Any, problem: Exception | None) -> None:
        def answer() -> None:
            if done.done():
                return
            if problem is None:
                done.set_result(result)
            else:
                done.set_exception(problem)

        self._tell(answer)

    def _tell(self, action: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(action)
        except RuntimeError:
            pass  # the loop is closed: nobody waits any more


def patiently(done: asyncio.Future[Any]) -> None:
    """Let a future that nobody awaits have failed."""
    done.add_done_callback(lambda each: None if each.cancelled() else each.exception())


def release(waiting: list[Waiter], trouble: str | None) -> None:
    """Let them go, with what there is against it; nobody waits then."""
    for each in waiting:
        if not each.done():
            each.set_result(trouble)
    waiting.clear()
