"""`/mcp`: MCP clients over streamable HTTP, each with a session of its own."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any, Final

from pydantic_core import from_json, to_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from codemode.errors import CodeModeError
from codemode.mcp.extra import loaded
from codemode.service import CodeMode

from .. import caller
from ..problems import STATUS, problem

PATH: Final = "/mcp"
_METHODS: Final = [
    "DELETE",
    "POST",
]  # there is no stream of notifications to GET: tools are listed when they are asked for
_SESSION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"
# Codes of JSON-RPC and MCP.
_INVALID: Final = -32600
_REFUSED: Final = -32000
_NOT_SPOKEN: Final = -32022


class McpEndpoint:
    """A plain ASGI application, also an async context manager: at its end all clients' sessions end.

    What a client is refused is a JSON-RPC error, as the protocol has it, and noted for the audit by its code.
    """

    def __init__(self, service: CodeMode) -> None:
        self._service = service
        self._clients: dict[tuple[str, str], Any] = {}  # by tenant and MCP session

    async def __aenter__(self) -> McpEndpoint:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(client.close() for client in list(self._clients.values())))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method not in _METHODS:
            said = f"{request.method[:40]} is not what this path takes; it takes {', '.join(_METHODS)}"
            response = problem("method_not_allowed", said, allow=_METHODS)
            if request.method == "GET":  # clients ask for a stream of notifications as they like, which is no fault
                response = Response(response.body, 405, dict(response.headers))
            await response(scope, receive, send)
            return
        door = await loaded("codemode.mcp.door.http")
        version = request.headers.get(_VERSION)
        if version is not None and version not in door.VERSIONS:
            data = {"supported": list(door.VERSIONS), "requested": version[:40]}
            # How versions are agreed on, and no fault: the client goes on with one of these.
            await _error(400, _NOT_SPOKEN, "this version of MCP is not spoken here", data)(scope, receive, send)
            return
        tenant, known = caller.tenant(request), request.headers.get(_SESSION)
        if known is not None:
            client = self._clients.get((tenant, known))
            if client is None:
                await _refusal(scope, "session_not_found", "there is no such MCP session")(scope, receive, send)
            else:
                await client.handle(scope, receive, send)
            return
        body = await request.body()
        if not _is_initialize(body):
            await _refusal(scope, "malformed_request", "the header Mcp-Session-Id is missing")(scope, receive, send)
            return
        try:
            client = await self._admitted(door, tenant)
        except CodeModeError as error:
            await _refusal(scope, error.code, error.detail)(scope, receive, send)
            return
        await self._opened(client, scope, _again(body, receive), send)

    async def _admitted(self, door: ModuleType, tenant: str) -> Any:
        session = self._service.create_session(key=tenant, metadata=dict(door.METADATA), is_transient=True)
        client: Any = door.HttpClient(session, lambda: self._clients.pop((tenant, client.mcp_session_id), None))
        self._clients[tenant, client.mcp_session_id] = client
        await client.start()
        return client

    async def _opened(self, client: Any, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it answer the request that opens it; one that is refused leaves nothing behind."""
        status = 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await client.handle(scope, receive, watched)
        finally:
            if status >= 400:
                await asyncio.shield(client.close())


def _is_initialize(body: bytes) -> bool:
    try:
        said = from_json(body)
    except ValueError:
        return False
    return isinstance(said, dict) and said.get("method") == "initialize" and "id" in said


def _again(body: bytes, receive: Receive) -> Receive:
    """The same body once more, then what else there is to hear."""
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return whole.pop() if whole else await receive()

    return again


def _refusal(scope: Scope, code: str, said: str) -> Response:
    """The error for one of our codes, noted for the audit."""
    caller.enter(scope).refusal = code
    status = STATUS[code]
    return _error(status, _INVALID if status in (400, 404) else _REFUSED, said, {"code": code})


def _error(status: int, number: int, said: str, data: dict[str, Any]) -> Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": number, "message": said, "data": data}}
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return Response(to_json(body), status, headers, "application/json")
