"""Steps that are about HTTP itself."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from typing import Any

from .answers import Answer
from .conversation import Conversation
from .differences import brief, strings, without


class HttpSteps(Conversation):
    """http, sse and abort_client_after."""

    async def do_http(self, step: dict[str, Any], where: str) -> None:
        await self.judge(await self.http(step), step, where)

    async def http(self, step: dict[str, Any]) -> Answer:
        headers = self.filled(step.get("headers", {}))
        answer = await self.request(step["method"], self.filled(step["path"]), self.filled(step.get("body")), headers, 30_000)
        self.remember(answer, step, *(["last"] if step["path"].endswith("/exec") else []))
        for name, field in step.get("save", {}).items():
            self.saved[name] = answer.body.get(field) if isinstance(answer.body, dict) else None
        return answer

    async def do_sse(self, step: dict[str, Any], where: str) -> None:
        """Read a stream of server-sent events for a while."""
        path, expect = self.filled(step["path"]), self.filled(step.get("expect", {}))
        headers = {"Accept": "text/event-stream", **self.filled(step.get("headers", {}))}
        lines: list[str] = []
        self.transcript.append(f"> GET {path} {headers}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(step["for_ms"] / 1000):
                async with self.client.stream("GET", path, headers=headers, timeout=None) as response:
                    if response.status_code != 200 or not response.headers.get("content-type", "").startswith("text/event-stream"):
                        self.differ(where, f"want an event stream got {response.status_code} {response.headers.get('content-type')}")
                        return
                    async for line in response.aiter_lines():
                        lines.append(line)
        raw = "\n".join(lines)
        self.transcript.append(f"< {raw[:4000]}")
        ids = [line[3:].strip() for line in lines if line.startswith("id:")]
        numbers = [int(each) for each in ids if each.isdigit()]
        if len(numbers) != len(ids):
            self.differ(where, f"event ids are to be numbers: {brief(ids)}")
        if len(numbers) < expect.get("min_events", 0):
            self.differ(where, f"{len(numbers)} events, at least {expect['min_events']} expected: {brief(raw)}")
        if expect.get("ids_increase") and any(a >= b for a, b in itertools.pairwise(numbers)):
            self.differ(where, f"the ids do not increase: {brief(numbers)}")
        if "ids_above" in expect and numbers and min(numbers) <= (least := int(self.saved[expect["ids_above"]])):
            self.differ(where, f"the ids are not above {least}: {brief(numbers)}")
        for text in without("stream", expect.get("contains", []), raw):
            self.differ(where, text)
        for part in strings(expect.get("not_contains", [])):
            if part in raw:
                self.differ(where, f"stream: there is {brief(part)} in {brief(raw, 300)}")
        if "save_last_id" in step:
            self.saved[step["save_last_id"]] = numbers[-1] if numbers else 0

    async def do_abort_client_after(self, step: dict[str, Any], where: str) -> None:
        """Send a request and hang up on it: its connection is closed before it is answered."""
        sending = asyncio.ensure_future(getattr(self, step["step"]["do"])(step["step"]))
        await asyncio.wait({sending}, timeout=step["ms"] / 1000)
        if sending.done():
            self.differ(where, f"the request had been answered before the client hung up: {brief(sending.result().text)}")
        else:
            sending.cancel()
            await asyncio.wait({sending})
            self.transcript.append(f"(hung up after {step['ms']} ms)")
            await asyncio.sleep(0.1)  # the server has to notice before the next request can count on it
