"""Tools that another server fulfils: we POST the call to a URL that the operator allows."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import httpx

from codemode.errors import InvalidRequest, ToolError, ToolTimedOut
from codemode.tools.clients import Clients
from codemode.tools.encoding import NotJson, decode, encode
from codemode.tools.tool import HttpHandler

SIGNATURE_HEADER: Final = "Codemode-Signature"
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_ENCODED_SLASH: Final = re.compile("%2f|%5c", re.IGNORECASE)
_HOST_AND_PORT: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/?#]+)(:[0-9]*)?")


@dataclass(frozen=True, slots=True)
class _Prefix:
    scheme: str
    host: str
    port: int
    path: str


class AllowedUrls:
    """The URL prefixes that tools may be called at. None by default.

    A URL is compared by its parsed scheme, host, port and path, never as text: `http://a.example`
    does not allow `http://a.example.evil`, and `/tools` allows `/tools/x` but not `/tools2`.
    """

    def __init__(self, prefixes: Iterable[str] = ()) -> None:
        """Raises InvalidRequest for what is no http or https URL."""
        self._prefixes = [_parse(prefix) for prefix in prefixes]

    def check(self, url: str) -> None:
        """Raises InvalidRequest, saying why, for a URL that is not allowed."""
        wanted = _parse(url)
        if not any(_covers(prefix, wanted) for prefix in self._prefixes):
            raise InvalidRequest(
                f"the URL {wanted.scheme}://{wanted.host}:{wanted.port}{wanted.path[:100]} is not allowed "
                "here; the operator allows prefixes with --allow-tool-url"
            )


def check_url(url: Any) -> None:
    """Raises InvalidRequest for what is no plain http or https URL."""
    if not isinstance(url, str):
        raise InvalidRequest("url: expected an http:// or https:// URL")
    _parse(url)


def _covers(prefix: _Prefix, wanted: _Prefix) -> bool:
    same_server = (prefix.scheme, prefix.host, prefix.port) == (wanted.scheme, wanted.host, wanted.port)
    inside = wanted.path == prefix.path or wanted.path.startswith(prefix.path.rstrip("/") + "/")
    return same_server and inside


def _parse(url: str) -> _Prefix:
    shown = url[:200]
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidRequest(f"{shown!r} is no URL") from None
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise InvalidRequest(f"{shown!r}: expected an http:// or https:// URL with a host")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise InvalidRequest("a URL with a user name or password is not accepted")
    if any(character <= " " or character == "\\" or character == "\x7f" for character in url):
        raise InvalidRequest(f"{shown!r}: a URL with blanks, backslashes or control characters is not accepted")
    default = _DEFAULT_PORTS[parts.scheme]
    path = unquote(parts.path) or "/"
    if _ENCODED_SLASH.search(parts.path) or not _HOST_AND_PORT.fullmatch(parts.netloc):
        raise InvalidRequest(f"{shown!r}: a URL with an encoded slash, or an odd host, is not accepted")
    if any(segment in (".", "..") for segment in path.split("/")) or "\\" in path:
        raise InvalidRequest(f"{shown!r}: a URL whose path has . or .. in it is not accepted")
    return _Prefix(parts.scheme, parts.hostname.rstrip(".").lower(), default if port is None else port, path)


class TooLong(ToolError):
    """The result of a tool is longer than may be."""


class HttpTools:
    """The HTTP client that http tools are called with; use as an async context manager.

    With a `secret`, each request is signed: the header `Codemode-Signature: t=UNIX_TIME,v1=HEX` holds
    the HMAC-SHA256 of `UNIX_TIME.BODY`.
    """

    def __init__(self, allowed: AllowedUrls, secret: str | None = None) -> None:
        self.allowed = allowed
        self._secret = secret
        self._clients = Clients()

    async def __aenter__(self) -> HttpTools:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._clients.aclose()

    async def call(self, handler: HttpHandler, call: dict[str, Any], most_bytes: int) -> Any:
        """POST a call and return its output. Cancelling closes the connection. Raises ToolError."""
        name = call["tool_name"]
        try:
            status, body = await self.post(handler.url, encode(call), handler.timeout_ms, most_bytes)
        except TimeoutError:
            raise ToolTimedOut(f"{name}: its server did not answer within {handler.timeout_ms} ms") from None
        except (httpx.HTTPError, httpx.InvalidURL, NotJson) as problem:
            raise ToolError(f"{name}: its server could not be called ({type(problem).__name__})") from None
        if status != 200:
            raise ToolError(f"{name}: its server answered with HTTP status {status}")
        return _output(name, body)

    async def post(self, url: str, body: bytes, timeout_ms: int, most_bytes: int) -> tuple[int, bytes]:
        """POST JSON; the status of the answer and, of a good one, its body.

        Raises TimeoutError, httpx.HTTPError, httpx.InvalidURL, and ToolError for a body that is too long.
        """
        async with asyncio.timeout(timeout_ms / 1000), self._clients.lent() as client:
            return await self._post(client, url, body, most_bytes)

    async def _post(self, client: httpx.AsyncClient, url: str, body: bytes, most_bytes: int) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if self._secret is not None:
            stamp = str(int(time.time()))
            digest = hmac.new(self._secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
            headers[SIGNATURE_HEADER] = f"t={stamp},v1={digest}"
        async with client.stream("POST", url, content=body, headers=headers, timeout=None) as response:
            if response.status_code != 200:
                return response.status_code, b""
            if response.headers.get("content-encoding", "identity") != "identity":  # a bomb would go off in our loop
                raise ToolError("the answer of its server is compressed, which is not accepted")
            whole = bytearray()  # a list of its parts could take fifty times the memory
            async for part in response.aiter_raw():
                whole += part
                if len(whole) > most_bytes + 1024:  # of what surrounds the output
                    raise TooLong(f"the result is longer than {most_bytes} bytes")
            return response.status_code, bytes(whole)


def _output(name: str, body: bytes) -> Any:
    try:
        answer = decode(body)
    except NotJson:
        raise ToolError(f"{name}: its server answered with what is no JSON") from None
    if isinstance(answer, dict):
        if "error" in answer and answer["error"] is not None:
            raise ToolError(str(answer["error"]))
        if "output" in answer:
            return answer["output"]
    raise ToolError(f"{name}: its server answered with neither `output` nor `error`")
