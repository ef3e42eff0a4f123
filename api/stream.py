"""Server-sent events: an answer that goes on until there is no more to tell, or nobody listens."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from codemode.errors import CodeModeError
from codemode.lifecycle.events import Event

from . import caller

_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy that collects answers would hold events back
]
_HEARTBEAT = b": nothing new\n\n"


class EventStream(Response):
    """Events are taken one by one, when the client has taken those before: nothing piles up here.

    `place` is held meanwhile; what it raises is the answer.
    """

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncIterator[Event | None], session_id: str, place: AbstractContextManager[None]
    ) -> None:
        super().__init__()
        self._events = events
        self._session_id = session_id
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await self._stream(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        telling = asyncio.ensure_future(self._tell(send, caller.enter(scope).may_stay))
        leaving = asyncio.ensure_future(_disconnect(receive))
        try:
            await asyncio.wait((telling, leaving), return_when=asyncio.FIRST_COMPLETED)
            if telling.done():
                telling.result()
        finally:
            for task in (telling, leaving):
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await telling

    async def _tell(self, send: Send, may_stay: Callable[[], bool]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await _part(send, b"retry: 1000\n\n")
        with contextlib.suppress(CodeModeError):  # the journal cannot be read: the client comes back from where it is
            async for event in self._events:
                if not may_stay():  # the key was revoked meanwhile
                    break
                await _part(send, _HEARTBEAT if event is None else self._encoded(event))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _encoded(self, event: Event) -> bytes:
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.seq, event.type.encode(), event.data(self._session_id))


async def _part(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
