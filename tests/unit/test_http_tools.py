"""Tools that another server fulfils: what is posted, what is taken for an answer, and every way it can fail."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import hmac
import socket
from typing import Any

import pytest

from codemode.errors import ToolError
from codemode.tools.http import SIGNATURE_HEADER, AllowedUrls, HttpTools
from codemode.tools.tool import HttpHandler
from tests.unit.tool_server import ToolServer, answer, tool_server

CALL = {
    "tool_name": "t",
    "input": {"a": "é"},
    "session_id": "s",
    "turn_id": None,
    "cell_id": "1",
    "runtime_tool_call_id": "call-1",
    "tool_use_id": "tu_1",
}
MOST = 10_000


async def called(server: ToolServer, *, secret: str | None = None, timeout_ms: int = 10_000, most: int = MOST) -> Any:
    """The output of one call."""
    async with HttpTools(AllowedUrls([server.url]), secret) as tools:
        return await tools.call(HttpHandler(server.url, timeout_ms), CALL, most)


async def failure(server: ToolServer, **options: Any) -> str:
    """The text of the ToolError that a call ends with."""
    with pytest.raises(ToolError) as caught:
        await called(server, **options)
    return str(caught.value)


async def test_a_call_is_posted_as_json_and_its_output_comes_back() -> None:
    """The body is exactly the call."""
    async with tool_server(answer({"output": [1, None]})) as server:
        output = await called(server)
    headers, _ = server.requests[0]
    assert (output, server.bodies, headers["content-type"], SIGNATURE_HEADER.lower() in headers) == (
        [1, None],
        [CALL],
        "application/json",
        False,
    )


async def test_a_call_is_signed_with_the_secret() -> None:
    """The header holds the time and the HMAC of time and body, so that a server can tell old and forged calls."""
    async with tool_server(answer({"output": 1})) as server:
        await called(server, secret="of the operator")
    headers, body = server.requests[0]
    stamp, _, digest = headers[SIGNATURE_HEADER.lower()].removeprefix("t=").partition(",v1=")
    expected = hmac.new(b"of the operator", f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert digest == expected


@pytest.mark.parametrize("output", [None, False, 0, "", [], {}, {"error": "x"}, "é😀"])
async def test_any_json_is_an_output(output: Any) -> None:
    """Falsy ones too, and one that looks like an error."""
    async with tool_server(answer({"output": output})) as server:
        assert await called(server) == output


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (answer({"error": "nope-9"}), "nope-9"),
        (answer({"error": "", "output": 1}), ""),
        (answer({"output": 1, "error": "both"}), "both"),
        (answer({"error": 5}), "5"),
        (answer({"error": None}), "t: its server answered with neither `output` nor `error`"),
        (answer({"result": 1}), "t: its server answered with neither `output` nor `error`"),
        (answer([1]), "t: its server answered with neither `output` nor `error`"),
        (answer(b""), "t: its server answered with what is no JSON"),
        (answer(b"<html>"), "t: its server answered with what is no JSON"),
        (answer(b"\xff\xfe"), "t: its server answered with what is no JSON"),
        (answer(b"[" * 5000), "t: its server answered with what is no JSON"),
        (answer({"output": 1}, "201 Created"), "t: its server answered with HTTP status 201"),
        (answer({"output": "secret"}, "500 Oops"), "t: its server answered with HTTP status 500"),
        (answer({"output": 1}, "404 Not Found"), "t: its server answered with HTTP status 404"),
        (answer(b"", "204 No Content"), "t: its server answered with HTTP status 204"),
        (answer(b"", "302 Found", "Location: /other\r\n"), "t: its server answered with HTTP status 302"),
        (answer(b"", "307 Other", "Location: http://127.0.0.1:1/\r\n"), "t: its server answered with HTTP status 307"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_another_answer_is_a_failure(response: bytes, said: str) -> None:
    """The script is told what was wrong with it, and nothing of a body that is no answer; no redirect is followed."""
    async with tool_server(response) as server:
        assert (await failure(server), len(server.requests)) == (said, 1)


@pytest.mark.parametrize(
    "response",
    [
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"",
    ],
    ids=lambda value: str(value)[:30],
)
async def test_a_broken_response_is_a_failure(response: bytes) -> None:
    """A server that speaks no HTTP, stops in the middle or encodes wrongly."""
    async with tool_server(response, closes_after_answer=True) as server:
        assert (await failure(server)).startswith("t: its server could not be called (")


async def test_a_server_that_is_not_there_is_a_failure() -> None:
    """The text names neither address nor the client's insides."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        server = ToolServer([b""], port=probe.getsockname()[1])
        assert await failure(server) == "t: its server could not be called (ConnectError)"


async def test_a_result_of_exactly_the_limit_is_taken() -> None:
    """What surrounds the output in the answer does not count."""
    output = "x" * (MOST - 2)
    async with tool_server(answer({"output": output})) as server:
        assert await called(server) == output


async def test_a_result_that_is_too_long_is_given_up() -> None:
    """While it is read."""
    async with tool_server(answer(b'{"output": "' + b"x" * 5_000_000 + b'"}')) as server:
        assert f"longer than {MOST} bytes" in await failure(server)


async def test_a_compressed_answer_is_not_unpacked() -> None:
    """A few bytes could become gigabytes, in the event loop."""
    bomb = gzip.compress(b'{"output": "' + b"x" * 5_000_000 + b'"}')
    async with tool_server(answer(bomb, headers="Content-Encoding: gzip\r\n")) as server:
        assert "compressed" in await failure(server)


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    """After the handler's time, and the connection is closed."""
    async with tool_server(None) as server:
        said = await failure(server, timeout_ms=50)
        await asyncio.wait_for(server.gone.wait(), 5)
    assert said == "t: its server did not answer within 50 ms"


async def test_a_server_that_answers_in_drops_is_given_up() -> None:
    """The time is that of the whole call, not of each read."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"
    async with tool_server(head) as server:
        assert await failure(server, timeout_ms=100) == "t: its server did not answer within 100 ms"


async def test_cancelling_closes_the_connection() -> None:
    """The server hears at once that nobody waits any more."""
    async with tool_server(None) as server, HttpTools(AllowedUrls([server.url])) as tools:
        task = asyncio.ensure_future(tools.call(HttpHandler(server.url), CALL, MOST))
        await asyncio.wait_for(server.got_one.wait(), 5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.gone.wait(), 5)


async def test_a_kept_connection_that_the_server_closed_is_no_failure() -> None:
    """The next call takes another one."""
    async with (
        tool_server(answer({"output": 1}), closes_after_answer=True) as server,
        HttpTools(AllowedUrls([server.url])) as tools,
    ):
        outputs = []
        for _ in range(5):
            outputs.append(await tools.call(HttpHandler(server.url), CALL, MOST))
            server.gone.clear()
    assert (outputs, len(server.requests)) == ([1] * 5, 5)


async def test_an_input_that_only_json_can_write_is_sent() -> None:
    """A lone surrogate goes as its escape."""
    call = CALL | {"input": {"a": "\ud83d"}}
    async with tool_server(answer({"output": 1})) as server, HttpTools(AllowedUrls([server.url])) as tools:
        await tools.call(HttpHandler(server.url), call, MOST)
    assert server.bodies == [call]


async def test_a_hundred_calls_at_once() -> None:
    """All are made and each gets its own answer."""
    answers = [answer({"output": number}) for number in range(100)]
    async with tool_server(*answers) as server, HttpTools(AllowedUrls([server.url])) as tools:
        outputs = await asyncio.gather(*[tools.call(HttpHandler(server.url), CALL, MOST) for _ in range(100)])
    assert sorted(outputs) == list(range(100))
