"""An MCP server over streamable HTTP: one URL, no redirects, no compression, bounded answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Final

import httpx2
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client
from mcp_types import INTERNAL_ERROR

from codemode.mcp.config import McpServer

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_GET_EVERY_S: Final = 1.0  # the stream of notifications is opened so often at most, whatever the server asks for
_MOST_CONNECTIONS: Final = 128
_TIMES: Final = httpx2.Timeout(30.0, connect=10.0, read=None, pool=None)  # calls are bounded where they are made
_GOODBYE_S: Final = 2.0
_GATEWAY: Final = 502
_REDIRECTS: Final = "it redirects, which is not followed"


@cache
def _certificates() -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=False)


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer, up to a length."""

    def __init__(self, stream: httpx2.AsyncByteStream, most_bytes: int) -> None:
        self._stream = stream
        self._most_bytes = most_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        seen = 0
        async for part in self._stream:
            seen += len(part)
            if seen > self._most_bytes:
                raise httpx2.StreamError(f"the answer is longer than {self._most_bytes} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class OneUrl(httpx2.AsyncBaseTransport):
    """Sends requests to one URL alone. What goes wrong with one is its own answer, and ends no other."""

    def __init__(self, url: str, most_bytes: int) -> None:
        self.session_lost = False  # the server does not know our session (any more)
        self._url = httpx2.URL(url)
        self._most_bytes = most_bytes
        self._last_get = -_GET_EVERY_S
        self._session: str | None = None
        limits = httpx2.Limits(max_connections=_MOST_CONNECTIONS, keepalive_expiry=2.0)
        verify = _certificates() if self._url.scheme == "https" else False
        self._inner = httpx2.AsyncHTTPTransport(verify=verify, limits=limits, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The answer, its body bounded. Raises nothing."""
        if request.url != self._url:
            return _failure(_REDIRECTS)
        if request.method == "GET":
            loop = asyncio.get_running_loop()
            await asyncio.sleep(max(0.0, self._last_get + _GET_EVERY_S - loop.time()))
            self._last_get = loop.time()
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as problem:
            return _failure(f"it could not be reached ({type(problem).__name__})")
        if response.is_redirect:
            await response.aclose()
            return _failure(_REDIRECTS)
        if response.status_code == 404 and MCP_SESSION_ID in request.headers:
            self.session_lost = True
        self._session = response.headers.get(MCP_SESSION_ID, self._session)
        if response.headers.get("content-encoding", "identity") != "identity":  # a bomb would go off in our loop
            await response.aclose()
            return _failure("its answer is compressed, which is not accepted")
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
        stream = response.stream if is_stream else _Bounded(response.stream, self._most_bytes)
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=stream, extensions=response.extensions
        )

    async def end_session(self, headers: dict[str, str]) -> None:
        """Tell the server that its session is over, if it listens."""
        if self._session is not None and not self.session_lost:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GOODBYE_S):
                    request = httpx2.Request("DELETE", self._url, headers={**headers, MCP_SESSION_ID: self._session})
                    await (await self.handle_async_request(request)).aclose()

    async def aclose(self) -> None:
        await self._inner.aclose()


def _failure(why: str) -> httpx2.Response:
    """An answer of our own, which fails one request with this text."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": INTERNAL_ERROR, "message": why}}
    return httpx2.Response(_GATEWAY, headers={"content-type": "application/json"}, content=json.dumps(body))


@asynccontextmanager
async def http_streams(server: McpServer, way: OneUrl, most_bytes: int) -> AsyncIterator[TransportStreams]:
    """The streams of a server that is spoken with by `way`. At the end its session is deleted."""
    assert server.url is not None
    headers = {**server.sent_headers(), "Accept-Encoding": "identity"}
    async with httpx2.AsyncClient(
        transport=way, headers=headers, timeout=_TIMES, trust_env=False, follow_redirects=False
    ) as client:
        streams = streamable_http_client(
            server.url, http_client=client, max_sse_event_size=most_bytes, terminate_on_close=False
        )
        try:
            async with streams as (read, write):
                yield read, write
        finally:
            await way.end_session(headers)
