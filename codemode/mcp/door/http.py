"""An MCP client that speaks with us over streamable HTTP, from `initialize` until it says goodbye or is silent."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import anyio
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from codemode.mcp.door.serving import METADATA, server_of
from codemode.sessions.session import Session

_log = logging.getLogger(__name__)

# Those in which a client has a session. Later ones have none, and a cell belongs to one.
VERSIONS: Final = tuple(HANDSHAKE_PROTOCOL_VERSIONS)
IDLE_S: Final = 1800.0

__all__ = ["IDLE_S", "METADATA", "VERSIONS", "HttpClient"]

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]


class HttpClient:
    """One client. Its session of ours is closed when its own ends; `ended` is called then."""

    def __init__(self, session: Session, ended: Callable[[], None]) -> None:
        self.mcp_session_id = secrets.token_hex(16)
        self._session = session
        self._ended = ended
        self._transport = StreamableHTTPServerTransport(self.mcp_session_id, idle_timeout=IDLE_S)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Make ready for requests."""
        started = asyncio.Event()
        self._task = asyncio.create_task(self._serve(started))
        await started.wait()

    async def handle(self, scope: MutableMapping[str, Any], receive: _Receive, send: _Send) -> None:
        """Answer one request."""
        await self._transport.handle_request(scope, receive, send)

    async def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _serve(self, started: asyncio.Event) -> None:
        server = server_of(self._session)
        try:
            async with self._transport.connect() as (read, write):
                started.set()
                with self._transport.idle_scope or anyio.CancelScope():
                    await server.run(read, write, server.create_initialization_options())
        except Exception:
            _log.exception("the session of an MCP client failed")
        finally:
            started.set()
            self._ended()
            await self._transport.terminate()
            await asyncio.shield(self._session.close())
