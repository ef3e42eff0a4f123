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
from functools import cache
from http.cookiejar import DefaultCookiePolicy
from typing import Final

import httpx

_MOST_CONNECTIONS: Final = 256  # of one session; more of its calls do not run at once


class _Shared:
    """A client, and how many calls are under way on it."""

    def __init__(self, certificates: ssl.SSLContext) -> None:
        # A connection is for one call: a server may send two answers to one request, and the second one would be taken
        # for that to the next call, which may be one of another session, or a question to an operator's hook.
        limits = httpx.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=0)
        self.client = httpx.AsyncClient(verify=certificates, limits=limits, trust_env=False, follow_redirects=False)
        self.client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # sessions share nothing
        self.calls = 0


@cache
def _certificates() -> ssl.SSLContext:
    """Those that the system trusts; at the first call, since reading them takes a while."""
    return httpx.create_ssl_context(trust_env=False)


class Clients:
    """Lends the client for calls. After one that was cut off, new calls get a new client.

    The old one is closed when its last call has ended. Close this at the end.
    """

    def __init__(self) -> None:
        self._current: _Shared | None = None
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[httpx.AsyncClient]:
        """The client for one call."""
        shared = self._current
        if shared is None:
            shared = self._current = _Shared(_certificates())
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
