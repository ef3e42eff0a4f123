"""What is refused before any route sees it: web pages of elsewhere, and bodies that are too long."""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from codemode._bundled import bundled
from codemode.errors import PayloadTooLarge

bundled("api")
Guard = importlib.import_module("codemode.api.guard").Guard

MOST = 1000
Header = tuple[str, str]


async def app(_: Any, receive: Any, send: Any) -> None:
    """Reads the whole body and says how long it was."""
    size = 0
    while True:
        message = await receive()
        size += len(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body"):
            break
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


async def sent(headers: list[Header], chunks: list[bytes] | None = None, *, local_only: bool = True) -> tuple[int, Any]:
    """Status and body of the answer to a request with these headers and chunks of a body."""
    parts = iter(chunks or [b""])
    left = len(chunks or [b""])

    async def receive() -> dict[str, Any]:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": next(parts), "more_body": left > 0}

    messages: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/exec",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
    }
    await Guard(app, most_body=MOST, local_only=local_only)(scope, receive, send)
    body = b"".join(message.get("body", b"") for message in messages)
    return messages[0]["status"], json.loads(body)


PROGRAMS: list[list[Header]] = [
    [],
    [("Host", "127.0.0.1:8000")],
    [("Host", "localhost:8000")],
    [("Host", "localhost")],
    [("Host", "LOCALHOST:8000")],
    [("Host", "[::1]:8000")],
    [("Host", "[::1]")],
    [("Host", "127.0.0.1:8000"), ("Sec-Fetch-Site", "none")],
    [("Host", "127.0.0.1:8000"), ("Sec-Fetch-Site", "same-origin"), ("Origin", "http://127.0.0.1:8000")],
    [("Host", "localhost:8000"), ("Origin", "http://localhost:8000")],
]

PAGES: list[list[Header]] = [
    [("Host", "127.0.0.1:8000"), ("Origin", "https://evil.example")],
    [("Host", "127.0.0.1:8000"), ("Origin", "http://127.0.0.1:9000")],
    [("Host", "127.0.0.1:8000"), ("Origin", "http://localhost:8000")],
    [("Host", "127.0.0.1:8000"), ("Origin", "null")],
    [("Host", "127.0.0.1:8000"), ("Origin", "http://127.0.0.1:8000.evil.example")],
    [("Host", "127.0.0.1:8000"), ("Origin", "http://127.0.0.1:8000@evil.example")],
    [("Host", "127.0.0.1:8000"), ("Origin", "http://evil.example/127.0.0.1:8000")],
    [("Host", "127.0.0.1:8000"), ("Origin", "http://[")],
    [("Host", "127.0.0.1:8000"), ("Origin", "chrome-extension://abcdef")],
    [("Host", "127.0.0.1:8000"), ("Sec-Fetch-Site", "cross-site")],
    [("Host", "127.0.0.1:8000"), ("Sec-Fetch-Site", "same-site")],
    [("Host", "127.0.0.1:8000"), ("Sec-Fetch-Site", "")],
    [("Host", "127.0.0.1:8000"), ("Sec-Fetch-Site", "nonsense")],
    [("Host", "evil.example")],
    [("Host", "evil.example:8000")],
    [("Host", "localhost.evil.example:8000")],
    [("Host", "127.0.0.1.evil.example")],
    [("Host", "notlocalhost")],
    [("Host", "10.0.0.1:8000")],
    [("Host", "0.0.0.0:8000")],
    [("Host", "[::2]:8000")],
    [("Host", "[")],
    [("Host", "")],
    [("Host", "evil.example"), ("Origin", "http://evil.example")],
    [("Host", "evil.example"), ("Sec-Fetch-Site", "same-origin")],
]


@pytest.mark.parametrize("headers", PROGRAMS, ids=str)
async def test_programs_on_the_machine_get_through(headers: list[Header]) -> None:
    """They send no Origin, and the page that the service itself shows sends its own."""
    assert await sent(headers) == (200, 0)


@pytest.mark.parametrize("headers", PAGES, ids=str)
async def test_pages_of_elsewhere_are_refused(headers: list[Header]) -> None:
    """By origin, by what the browser says of the request, or by a host name that somebody pointed at this machine."""
    status, problem = await sent(headers)
    assert (status, problem["code"], problem["status"]) == (403, "forbidden_origin", 403)


@pytest.mark.parametrize("headers", PAGES, ids=str)
async def test_elsewhere_pages_are_refused_too(headers: list[Header]) -> None:
    """On every address a browser's page of another origin is; there any host name may stand for the service."""
    is_of_a_page = any(name in ("Origin", "Sec-Fetch-Site") for name, _ in headers)
    is_of_this_origin = dict(headers).get("Host") == "evil.example"
    status, _ = await sent(headers, local_only=False)
    assert status == (403 if is_of_a_page and not is_of_this_origin else 200)


@pytest.mark.parametrize("length", [0, 1, MOST])
async def test_a_body_up_to_the_limit_is_read(length: int) -> None:
    """In one piece or in many."""
    body = b"x" * length
    assert await sent([("Content-Length", str(length))], [body]) == (200, length)
    assert await sent([], [body[start : start + 100] for start in range(0, length, 100)] or [b""]) == (200, length)


@pytest.mark.parametrize("length", [str(MOST + 1), "9" * 18, "9" * 400])
async def test_a_longer_body_is_refused_by_its_length(length: str) -> None:
    """Before any of it is read."""

    class Unread(list[bytes]):
        def __iter__(self) -> Any:
            return iter([])

    status, problem = await sent([("Content-Length", length)], Unread([b""]))
    assert (status, problem["code"], str(MOST) in problem["detail"]) == (413, "payload_too_large", True)


@pytest.mark.parametrize("length", ["-5", "x", "", "1.5", "²"])
async def test_a_length_that_is_none_does_no_harm(length: str) -> None:
    """What the server in front lets through is a refusal or no length at all."""
    status, _ = await sent([("Content-Length", length)], [b"x"])
    assert status in (200, 413)


async def test_a_body_in_pieces_is_refused_when_it_gets_too_long() -> None:
    """Whatever length it had announced; no more of it is asked for."""
    asked = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal asked
        while True:
            asked += 1
            yield b"x" * 300

    source = pieces()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": await anext(source), "more_body": True}

    async def send(_: dict[str, Any]) -> None:
        pass

    with pytest.raises(PayloadTooLarge):
        await Guard(app, most_body=MOST, local_only=True)(
            {"type": "http", "headers": [(b"content-length", b"5")]}, receive, send
        )
    assert asked == 4


async def test_what_is_no_request_goes_through() -> None:
    """The application's start and end."""
    seen = []

    async def inner(scope: Any, _: Any, __: Any) -> None:
        seen.append(scope["type"])

    await Guard(inner, most_body=MOST, local_only=True)({"type": "lifespan"}, None, None)
    assert seen == ["lifespan"]
