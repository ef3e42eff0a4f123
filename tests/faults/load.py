"""Two hundred clients at once with scripts of every kind, each with its own mark in all that it writes."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from tests.faults.damage import request

SLEEP = "const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));"
Seen = tuple[int, dict[str, Any]]


class Refused(Exception):
    """429: there are as many cells as may be."""


@dataclass
class Counts:
    """What came of it all."""

    begun: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def table(self) -> str:
        kinds = ", ".join(f"{kind} {number}" for kind, number in sorted(self.begun.items()))
        return f"{self.begun.total()} scripts ({kinds}), {self.refused} refused with 429, {len(self.wrong)} wrong"


class Client:
    """One of them, on a connection of its own."""

    def __init__(self, port: int, session: str, number: int, counts: Counts) -> None:
        self._port = port
        self._session = session
        self._number = number
        self._counts = counts
        self._turn = 0
        self._random = random.Random(number)
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, until: float, only: str | None = None) -> None:
        """Go on until a time of the event loop; a script that was begun is followed to its end."""
        kinds: list[Callable[[str], Awaitable[None]]] = (
            [getattr(self, only)]
            if only
            else [
                self.trivial,
                self.much_output,
                self.nested_calls,
                self.calls_of_the_caller,
                self.sleeps,
                self.yields,
                self.errors,
                self.stored_values,
                self.terminated,
                self.hang_up,
            ]
        )
        try:
            while asyncio.get_running_loop().time() < until:
                kind = self._random.choice(kinds)
                self._turn += 1
                try:
                    await kind(f"<{self._number}.{self._turn}>")
                    self._counts.begun[kind.__name__.replace("_", " ")] += 1
                except Refused:
                    self._counts.refused += 1
                    await asyncio.sleep(0.05 + 0.1 * self._random.random())
        finally:
            self._close()

    # Kinds of scripts

    async def trivial(self, mark: str) -> None:
        await self._ends(f"text('{mark}')", [mark])

    async def much_output(self, mark: str) -> None:
        await self._ends(f"for (let i = 0; i < 300; i++) text('{mark}' + i)", [f"{mark}{i}" for i in range(300)])

    async def nested_calls(self, mark: str) -> None:
        source = f"""
            const calls = Array.from({{length: 20}}, (_, i) => tools.echo({{value: '{mark}' + i}}));
            for (const each of await Promise.all(calls)) text(each);
        """
        await self._ends(source, [f"{mark}{i}" for i in range(20)])

    async def calls_of_the_caller(self, mark: str) -> None:
        _, seen = await self._post("exec", source=f"text(await tools.caller({{mark: '{mark}'}}))")
        pending = seen["pending_tool_calls"]
        self._expect(mark, [call["input"] for call in pending], [{"mark": mark}])
        results = [
            {"cell_id": call["cell_id"], "runtime_tool_call_id": call["runtime_tool_call_id"], "output": f"{mark}out"}
            for call in pending
        ]
        _, seen = await self._post("tool_results", results=results, cell_id=seen["cell_id"], yield_time_ms=60_000)
        self._expect(mark, (seen["status"], texts(seen)), ("completed", [f"{mark}out"]))

    async def sleeps(self, mark: str) -> None:
        await self._ends(f"{SLEEP} await sleep(30); text('{mark}'); await tools.sleep({{ms: 10}})", [mark])

    async def yields(self, mark: str) -> None:
        source = f"{SLEEP} for (let i = 0; i < 3; i++) {{ text('{mark}' + i); yield_control(); await sleep(10) }}"
        _, seen = await self._post("exec", source=source)
        cell_id, output = seen["cell_id"], texts(seen)
        while seen["status"] == "running":
            _, seen = await self._post("wait", cell_id=cell_id)
            output += texts(seen)
        self._expect(
            mark, (seen["status"], seen["cell_id"], output), ("completed", cell_id, [f"{mark}{i}" for i in range(3)])
        )

    async def errors(self, mark: str) -> None:
        _, seen = await self._post(
            "exec", source=f"text('{mark}'); throw new TypeError('{mark}')", yield_time_ms=60_000
        )
        told = (seen["status"], texts(seen), seen["error"] and seen["error"]["message"])
        self._expect(mark, told, ("failed", [mark], mark))

    async def stored_values(self, mark: str) -> None:
        await self._ends(f"store('{mark}', ['{mark}']); text(load('{mark}')[0])", [mark])
        await self._ends(f"text(load('{mark}')[0] + '{mark}'); store('{mark}', undefined)", [mark + mark])

    async def terminated(self, mark: str) -> None:
        source = f"text('{mark}'); for (;;) {{}}" if self._turn % 2 else f"text('{mark}'); {SLEEP} await sleep(60_000)"
        _, seen = await self._post("exec", source=source, yield_time_ms=10)
        cell_id, output = seen["cell_id"], texts(seen)
        _, seen = await self._post("wait", cell_id=cell_id, terminate=True)
        output += texts(seen)
        self._expect(mark, (seen["status"], output in ([], [mark])), ("terminated", True))

    async def hang_up(self, mark: str) -> None:
        """In the middle of an exec; the next one on a new connection has all of it."""
        key = f"Idempotency-Key: {mark}"
        source = f"text('{mark}'); {SLEEP} await sleep(20)"
        path = f"/v1/sessions/{self._session}/exec"
        _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(request(path, {"source": source}, key))
        await writer.drain()
        await asyncio.sleep(0.01 * self._random.random())
        writer.transport.abort()
        _, seen = await self._post("exec", key, source=source)
        cell_id, output = seen["cell_id"], texts(seen)
        while seen["status"] == "running":
            _, seen = await self._post("wait", cell_id=cell_id, after=0)
            output = texts(seen)
        self._expect(mark, (seen["status"], output), ("completed", [mark]))

    # Requests

    async def _ends(self, source: str, expected: list[str]) -> None:
        _, seen = await self._post("exec", source=source, yield_time_ms=60_000)
        self._expect(expected[0], (seen["status"], texts(seen), seen["error"]), ("completed", expected, None))

    async def _post(self, path: str, *headers: str, **body: Any) -> Seen:
        status, seen = await self._ask(request(f"/v1/sessions/{self._session}/{path}", body, *headers))
        if status == 429:
            raise Refused
        if status not in (200, 202):
            self._counts.wrong.append(f"{path}: {status} {seen}")
            raise Refused
        self._expect(path, (seen["session_id"], status == 202), (self._session, seen["status"] == "running"))
        return status, seen

    async def _ask(self, data: bytes) -> Seen:
        if self._stream is None:
            self._stream = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._stream
        writer.write(data)
        async with asyncio.timeout(30):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            return int(head.split()[1]), json.loads(await reader.readexactly(length))

    def _expect(self, what: str, seen: Any, expected: Any) -> None:
        if seen != expected:
            self._counts.wrong.append(f"{what}: {str(seen)[:300]} instead of {str(expected)[:300]}")

    def _close(self) -> None:
        if self._stream is not None:
            self._stream[1].transport.abort()


def texts(observation: dict[str, Any]) -> list[str]:
    return [item["text"] for item in observation["output"]]


async def load(
    port: int, sessions: list[str], clients: int, seconds: float, counts: Counts, only: str | None = None
) -> None:
    """So many clients for so long, with all kinds of scripts or `only` one; what came of it is added to `counts`."""
    until = asyncio.get_running_loop().time() + seconds
    every = [Client(port, sessions[number % len(sessions)], number, counts) for number in range(clients)]
    await asyncio.gather(*(client.run(until, only) for client in every))
