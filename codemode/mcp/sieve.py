"""What a server says, before anything is made of it: what we have no use for is dropped, a flood is slowed down."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, Self

import anyio
import mcp_types
from mcp.shared.message import SessionMessage

from codemode.mcp.trouble import ServerTrouble

if TYPE_CHECKING:
    from mcp.client._transport import ReadStream, WriteStream

# A message costs the event loop some 60 µs. Answers to our own requests are not counted: there are no more than those.
_MOST_A_SECOND: Final = 500
_MOST_REQUESTS: Final = 16  # of the server to us, unanswered: it may not be reading
_MOST_NONSENSE: Final = 100  # in a row, of a server that has never made sense
_WANTED: Final = ("notifications/progress", "notifications/tools/list_changed")


class Sieve:
    """The stream of what a server says. `ended` is set when there will be no more, or it is not worth hearing."""

    def __init__(self, stream: ReadStream[SessionMessage | Exception], write: WriteStream[SessionMessage]) -> None:
        self.ended = asyncio.Event()
        self.ended_at: float | None = None  # by time.monotonic
        self.trouble: str | None = None
        self.write = Answers(write)
        self._stream = stream
        self._second = 0.0
        self._count = 0
        self._nonsense: int | None = 0  # None once it has said something that makes sense

    async def receive(self) -> SessionMessage | Exception:
        """The next message that matters. Raises what the stream does at its end, and ServerTrouble."""
        try:
            while True:
                item = await self._stream.receive()
                if await self._matters(item):
                    return item
        except BaseException:
            self._end()
            raise

    async def _matters(self, item: SessionMessage | Exception) -> bool:
        if isinstance(item, ServerTrouble):
            self.trouble = str(item)
            raise item
        if isinstance(item, Exception):
            await self._pace()
            if self._nonsense is not None:
                self._nonsense += 1
                if self._nonsense >= _MOST_NONSENSE:
                    self.trouble = "what it says is no MCP"
                    raise ServerTrouble(self.trouble)
            return False
        self._nonsense = None
        message = item.message
        match message:
            case mcp_types.JSONRPCResponse() | mcp_types.JSONRPCError():
                return True
            case mcp_types.JSONRPCNotification():
                await self._pace()
                return message.method in _WANTED
        await self._pace()
        return self.write.expect_answer(_MOST_REQUESTS)

    async def _pace(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self._second >= 1:
            self._second, self._count = now, 0
        self._count += 1
        if self._count > _MOST_A_SECOND:
            await asyncio.sleep(self._second + 1 - now)

    async def aclose(self) -> None:
        """Hear no more."""
        self._end()
        await self._stream.aclose()

    def _end(self) -> None:
        if self.ended_at is None:
            self.ended_at = time.monotonic()
        self.ended.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, ServerTrouble):
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Answers:
    """The stream of what we say. It counts the requests of the server that wait for an answer."""

    def __init__(self, stream: WriteStream[SessionMessage]) -> None:
        self._stream = stream
        self._owed = 0

    def expect_answer(self, most: int) -> bool:
        """One more, unless there are so many already."""
        if self._owed >= most:
            return False
        self._owed += 1
        return True

    async def send(self, item: SessionMessage, /) -> None:
        """Say something."""
        await self._stream.send(item)
        if isinstance(item.message, mcp_types.JSONRPCResponse | mcp_types.JSONRPCError):
            self._owed -= 1

    async def aclose(self) -> None:
        """Say no more."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
