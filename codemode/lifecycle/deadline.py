"""When something has to be over: after a time, when it is called off, or whichever comes first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal, TypeVar

End = Literal["timed_out", "cancelled"]
T = TypeVar("T")


class DeadlineEnded(Exception):
    """What a deadline was for was not over in time, or was called off; `end` says which."""

    def __init__(self, end: End) -> None:
        super().__init__(end)
        self.end = end


class Deadline:
    """A timeout in milliseconds, a cancellation, or both; `then` is called once, when it has ended.

    It stands still between `pause` and the `resume` that belongs to it, which may be nested: nobody's time runs out
    while a person is being asked. For the event loop's thread.
    """

    def __init__(self, milliseconds: float | None = None, then: Callable[[End], None] | None = None) -> None:
        self.end: End | None = None
        self._then = then
        self._left = None if milliseconds is None else milliseconds / 1000
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._pauses = 0
        self._closed = False
        self._waiting: asyncio.Future[None] | None = None
        self._run()

    def pause(self) -> None:
        """Stand still."""
        self._pauses += 1
        if self._timer is not None and self._left is not None:
            self._timer.cancel()
            self._timer = None
            self._left = max(0.0, self._left - (asyncio.get_running_loop().time() - self._since))

    def resume(self) -> None:
        """Go on, if nobody else wants it to stand still."""
        self._pauses -= 1
        self._run()

    def cancel(self) -> None:
        """Call off what it is for."""
        self._ended("cancelled")

    def close(self) -> None:
        """What it was for is over: it will not end any more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def wait(self) -> End:
        """Return when it has ended."""
        if self.end is None:
            if self._waiting is None:
                self._waiting = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._waiting)
        assert self.end is not None
        return self.end

    async def over(self, work: Awaitable[T]) -> T:
        """The result of `work`, if it comes before the end; else the work is cancelled. Raises DeadlineEnded.

        It is closed then.
        """
        task = asyncio.ensure_future(work)
        ended = asyncio.ensure_future(self.wait())
        try:
            await asyncio.wait((task, ended), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise DeadlineEnded(ended.result())
        finally:
            self.close()
            ended.cancel()
            task.cancel()
            task.add_done_callback(_taken)

    def _run(self) -> None:
        if self._left is None or self._pauses or self._closed or self.end is not None or self._timer is not None:
            return
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        self._timer = loop.call_later(self._left, self._ended, "timed_out")

    def _ended(self, end: End) -> None:
        if self.end is not None or self._closed:
            return
        self.end = end
        self.close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
        if self._then is not None:
            self._then(end)


def _taken(task: asyncio.Future[T]) -> None:
    """Nobody is left who would take what it raises while it is cancelled."""
    if not task.cancelled():
        task.exception()
