"""A real HTTP server that hooks and tools are called at. It writes down each payload as it came, in order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from tests.faults.rig import until_found

Payload = dict[str, Any]
Answer = Callable[[Payload], Any]
ALLOW: Payload = {}
SIGNED = "codemode-signature:"


class Received(NamedTuple):
    """One request of a hook: `at` on the clock of time.monotonic."""

    path: str
    body: bytes
    payload: Payload
    at: float
    signature: str = ""


def decision(said: str, reason: str = "because", **more: Any) -> Payload:
    """The answer of a PreToolUse hook."""
    return {"hookSpecificOutput": {"permissionDecision": said, "permissionDecisionReason": reason, **more}}


class Receiver:
    """`/hook` answers as `answers` says, by default that it minds nothing; `/tool/NAME` is a tool.

    `/gate` is a hook too, and not written down. `/tool/echo` gives its input back, `/tool/fail` an error, `/tool/hang` never answers. All is in one thread, so
    that `hooks` is in the order in which the payloads came, over whatever connections.
    """

    def __init__(self) -> None:
        self.hooks: list[Received] = []
        self._of: dict[str, list[Payload]] = {}  # the same, by session
        self.tools: list[Payload] = []
        self.answers: Answer = lambda _: ALLOW
        self.gate: Any = ALLOW  # what `/gate` answers; if it is a function, that is called, and there is no answer
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def clear(self) -> None:
        """It has received nothing, and minds nothing."""
        self.hooks.clear()
        self.tools.clear()
        self._of.clear()
        self.answers = lambda _: ALLOW

    def of(self, session: str) -> list[Payload]:
        """What hooks were told of a session."""
        return list(self._of.get(session, ()))

    def told(self, session: str, event: str, **fields: Any) -> Payload | None:
        """The first payload with these fields."""
        wanted = {"hook_event_name": event, **fields}
        fits = (each for each in self.of(session) if all(each.get(name) == value for name, value in wanted.items()))
        return next(fits, None)

    def until_told(self, session: str, event: str, **fields: Any) -> Payload:
        """The same, waited for."""
        found: Payload = until_found(lambda: self.told(session, event, **fields), f"{event} with {fields}")
        return found

    def tool(self, name: str, path: str | None = None, **more: Any) -> Payload:
        """A tool to declare, which calls `/tool/PATH`, by default that of its name."""
        return {"name": name, "handler": {"type": "http", "url": f"{self.url}/tool/{path or name}"}, **more}

    def hook(self, event: str, **more: Any) -> Payload:
        """A hook to declare."""
        return {"event": event, "type": "http", "url": f"{self.url}/hook", **more}

    # The server

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1000))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = next(
                    int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:")
                )
                body = await reader.readexactly(length)
                signature = next(
                    (each[20:].strip() for each in head.split("\r\n") if each.lower().startswith(SIGNED)), ""
                )
                answer = self._answer(head.split(" ", 2)[1], body, signature)
                if answer is None:
                    await reader.read(1)  # until the caller is gone
                    break
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer))
                await writer.drain()
        writer.close()

    def _answer(self, path: str, body: bytes, signature: str) -> bytes | None:
        payload = json.loads(body)
        if path.startswith("/hook"):
            self.hooks.append(Received(path, body, payload, time.monotonic(), signature))
            self._of.setdefault(payload["session_id"], []).append(payload)
            answer = self.answers(payload)
            return None if answer is None else json.dumps(answer).encode()
        if path == "/gate":
            return self.gate() if callable(self.gate) else json.dumps(self.gate).encode()
        self.tools.append(payload)
        match path.removeprefix("/tool/"):
            case "hang":
                return None
            case "fail":
                return b'{"error":"it failed"}'
        return json.dumps({"output": payload["input"]}).encode()


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver for the time of a `with`."""
    receiver = Receiver()
    receiver._thread.start()
    assert receiver._ready.wait(10)
    try:
        yield receiver
    finally:
        receiver._loop.call_soon_threadsafe(receiver._loop.stop)
        receiver._thread.join(10)
