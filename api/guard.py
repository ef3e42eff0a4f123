"""What is refused before any route sees it: bodies that are too long, and web pages of elsewhere."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codemode.errors import PayloadTooLarge

from .problems import problem

_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class Guard:
    """Plain ASGI middleware, so that routes still hear of clients that hang up.

    `most_body` is the length that a body may have; a longer one is refused by its Content-Length
    before it is read, or when so many bytes have come. Requests of web pages from another origin are
    refused: without keys whoever reaches the port may use it, and with keys no page has to have one. With
    `local_only` those for a host that is not this machine are refused as well: a name that was pointed
    at this machine (DNS rebinding) makes a page one of our origin, which without keys would be enough.
    """

    def __init__(self, app: ASGIApp, most_body: int, local_only: bool) -> None:
        self._app = app
        self._most_body = most_body
        self._local_only = local_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if _is_of_another_origin(headers) or (self._local_only and not _is_local(headers)):
            refusal = problem(
                "forbidden_origin",
                "this service answers programs, not web pages of other origins; without keys, those of its own machine",
            )
            await refusal(scope, receive, send)
            return
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._most_body:
            refusal = problem("payload_too_large", self._too_large(f"the body has {int(length)} bytes"))
            await refusal(scope, receive, send)
            return
        await self._app(scope, self._bounded(receive), send)

    def _bounded(self, receive: Receive) -> Receive:
        seen = 0

        async def receive_bounded() -> Message:
            nonlocal seen
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                if seen > self._most_body:
                    raise PayloadTooLarge(self._too_large("the body is too long"))
            return message

        return receive_bounded

    def _too_large(self, what: str) -> str:
        return f"{what}; at most {self._most_body} bytes are accepted"


def _is_of_another_origin(headers: dict[bytes, bytes]) -> bool:
    """Whether a browser sends this on behalf of a page that came from elsewhere."""
    if headers.get(b"sec-fetch-site", b"none") not in (b"none", b"same-origin"):
        return True
    origin = headers.get(b"origin", b"").decode("latin-1")
    try:
        return bool(origin) and urlsplit(origin).netloc != headers.get(b"host", b"").decode("latin-1")
    except ValueError:
        return True


def _is_local(headers: dict[bytes, bytes]) -> bool:
    host = headers.get(b"host", b"localhost").decode("latin-1")
    try:
        return urlsplit(f"//{host}").hostname in _LOCAL_NAMES
    except ValueError:
        return False
