"""A tool server for tests: answers each request with the bytes that a test gives, and tells what it got."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class ToolServer:
    """`answers` are taken in turn, the last one again and again; None means never to answer.

    `gone` is set when a connection was closed by the caller, before or after its answer.
    """

    answers: list[bytes | None]
    port: int = 0
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    got_one: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    closes_after_answer: bool = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.requests]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                lines = head.split("\r\n")[1:-2]
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                self.requests.append((headers, await reader.readexactly(int(headers.get("content-length", "0")))))
                self.got_one.set()
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if answer is None:
                    await reader.read()
                    break
                writer.write(answer)
                await writer.drain()
                if self.closes_after_answer:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.gone.set()
            writer.close()


def answer(body: Any, status: str = "200 OK", headers: str = "") -> bytes:
    """A whole response; what is no bytes is sent as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n{headers}\r\n".encode() + data


@asynccontextmanager
async def tool_server(*answers: bytes | None, closes_after_answer: bool = False) -> AsyncIterator[ToolServer]:
    stub = ToolServer(list(answers), closes_after_answer=closes_after_answer)
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0)
    stub.port = server.sockets[0].getsockname()[1]
    async with server:
        yield stub
