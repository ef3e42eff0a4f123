"""The HTTP client of http tools, replaced when a call on it was cut off.

httpx may keep a connection for ever whose call was cancelled at the moment of an answer (seen: 3 of 256 calls that ran
into their timeout in a busy event loop). Such connections hold descriptors, and when there are as many as may be,
every further call waits for nothing. Closing the client closes them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookiejar import DefaultCookiePolicy
from typing import Final

import httpx

# Shorter than servers keep idle connections (uvicorn: 5 s), so that none closes under a call.
_KEEPALIVE_S: Final = 2.0
_MOST_CONNECTIONS: Final = 1024
_MOST_IDLE: Final = 64  # an expired one is closed at the next call only, and holds a descriptor until then


class _Shared:
    """A client, and how many calls are under way on it."""

    def __init__(self, certificates: ssl.SSLContext) -> None:
        limits = httpx.Limits(
            max_connections=_MOST_CONNECTIONS, max_keepalive_connections=_MOST_IDLE, keepalive_expiry=_KEEPALIVE_S
        )
        self.client = httpx.AsyncClient(verify=certificates, limits=limits, trust_env=False, follow_redirects=False)
        self.client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # sessions share nothing
        self.calls = 0


class Clients:
    """Lends the client for calls. After one that was cut off, new calls get a new client.

    The old one is closed when its last call has ended. Close this at the end.
    """

    def __init__(self) -> None:
        self._certificates: ssl.SSLContext | None = None
        self._current: _Shared | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[httpx.AsyncClient]:
        """The client for one call."""
        shared = self._current
        if shared is None:
            if self._certificates is None:  # at the first call: reading them takes a while
                self._certificates = httpx.create_ssl_context(trust_env=False)
            shared = self._current = _Shared(self._certificates)
        shared.calls += 1
        try:
            yield shared.client
        except asyncio.CancelledError:
            if self._current is shared:
                self._current = None
            raise
        finally:
            shared.calls -= 1
            if shared.calls == 0 and shared is not self._current:
                task = asyncio.get_running_loop().create_task(shared.client.aclose())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Close all connections."""
        if self._current is not None:
            await self._current.client.aclose()
        if self._closing:
            await asyncio.wait(self._closing)
