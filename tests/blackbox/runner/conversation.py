"""What a case says to the server and hears from it: its sessions, its requests, and the names its steps use."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import re
import time
from typing import Any

import httpx

from .answers import Answer
from .differences import Difference, brief, texts
from .expectations import check
from .rules import Rules
from .stub import Stub
from .target import Target


class StopCase(Exception):
    """The case cannot go on."""


class Conversation:
    """The state of one case that is being played. The kinds of steps, each in a module of its own, build on it."""

    count = 0
    client: httpx.AsyncClient

    def __init__(
        self, case: dict[str, Any], target: Target, stub: Stub, tools: dict[str, Any], rules: Rules, options: argparse.Namespace
    ) -> None:
        Conversation.count += 1
        self.token = f"r{Conversation.count}"
        self.case, self.target, self.stub, self.tools, self.rules, self.options = case, target, stub, tools, rules, options
        self.differences: list[Difference] = []
        self.transcript: list[str] = []
        self.sessions: dict[str, str] = {}
        self.opening = asyncio.Lock()
        self.cells: dict[str, str] = {}
        self.call_ids: dict[str, str] = {}
        self.saved_cursors: dict[str, int] = {}
        self.saved: dict[str, Any] = {}
        self.rss = 0.0
        self.cursors: dict[tuple[str, str], int] = {}
        self.observation: dict[str, Any] = {}

    def differ(self, where: str, text: str, *, timing: bool = False) -> None:
        self.differences.append(Difference(f"{where}: {text}" if where else text, timing))

    # Sessions and names

    async def session(self, name: str) -> str:
        async with self.opening:
            if name not in self.sessions:
                setup = self.case.get("setup", {})
                body = self.filled(setup.get("session", {}))
                body["tools"] = [self.declared(tool) for tool in setup.get("tools", [])] + body.get("tools", [])
                self.sessions[name] = await self.open_session(body)
        return self.sessions[name]

    def declared(self, name: str) -> dict[str, Any]:
        handler = {"type": "http", "url": f"{self.stub.url}/run/{self.token}/tool/{name}"}
        return {"name": name, **self.tools[name], "handler": handler}

    async def open_session(self, body: dict[str, Any]) -> str:
        answer = await self.request("POST", "/v1/sessions", body)
        sid = answer.body.get("session_id") if isinstance(answer.body, dict) else None
        if answer.http_status != 201 or not isinstance(sid, str):
            raise StopCase(f"POST /v1/sessions: want 201 with a session_id got {answer.http_status} {brief(answer.text, 300)}")
        return sid

    async def close_session(self, sid: str) -> None:
        try:
            answer = await self.request("DELETE", f"/v1/sessions/{sid}")
            if answer.http_status not in (204, 404):
                self.differ("DELETE of the session", f"{answer.http_status} {brief(answer.text)}")
        except StopCase as stop:
            self.differ("DELETE of the session", str(stop))

    def filled(self, value: Any) -> Any:
        """{sid}, {sid:NAME}, {cell}, {cell:NAME}, {var:NAME} and {stub} in the strings of a case become what they stand for."""
        if isinstance(value, dict):
            return {key: self.filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.filled(inner) for inner in value]
        if not isinstance(value, str):
            return value
        names = {f"sid:{name}": sid for name, sid in self.sessions.items()} | {f"cell:{name}": cell for name, cell in self.cells.items()}
        names |= {f"var:{name}": str(saved) for name, saved in self.saved.items()}
        names |= {
            "stub": f"{self.stub.url}/run/{self.token}",
            "sid": self.sessions.get("main", "{sid}"),
            "cell": self.cells.get("last", "{cell}"),
        }
        return re.sub(r"\{(stub|var:\w+|(?:sid|cell)(?::\w+)?)\}", lambda match: names.get(match[1], match[0]), value)

    # Requests and what is made of their answers

    async def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, patience_ms: float = 10_000
    ) -> Answer:
        headers = dict(headers or {})
        content = body.encode(errors="surrogatepass") if isinstance(body, str) else None
        if body is not None and content is None:
            content = json.dumps(body).encode()  # ASCII, so that lone surrogates can be sent
            headers.setdefault("Content-Type", "application/json")
        asked = body if isinstance(body, dict) else {}
        known = None if "after" in asked else self.cursors.get((path, str(asked.get("cell_id"))))
        self.transcript.append(f"> {method} {path} {(content or b'')[:4000].decode(errors='replace')}")
        begun = time.perf_counter()
        try:
            async with asyncio.timeout(patience_ms / 1000 + 1 + self.options.answer_timeout):
                response = await self.client.request(method, path, content=content, headers=headers, timeout=None)
        except TimeoutError:
            raise StopCase(f"{method} {path}: no answer in {time.perf_counter() - begun:.1f} s") from None
        except httpx.HTTPError as problem:
            raise StopCase(f"{method} {path}: {type(problem).__name__} {problem}") from None
        answer = Answer(response.status_code, response.headers, response.text, (time.perf_counter() - begun) * 1000, cursor_before=known)
        self.transcript.append(f"< {answer.http_status} after {answer.ms:.0f} ms: {answer.text[:4000]}")
        with contextlib.suppress(ValueError):
            answer.body = json.loads(answer.text)
        if answer.is_observation and isinstance(answer.body.get("cursor"), int):
            place = (re.sub(r"/(exec|tool_results)$", "/wait", path), str(answer.body.get("cell_id")))
            self.cursors[place] = max(answer.body["cursor"], self.cursors.get(place, 0))
        self.rules.look(answer, self.case["id"])
        return answer

    def remember(self, answer: Answer, step: dict[str, Any], *names: str) -> None:
        if answer.is_observation:
            self.observation = answer.body
            for name in (*names, *([step["as"]] if "as" in step else [])):
                self.cells[name] = str(answer.body.get("cell_id"))
            if "save_cursor" in step:
                self.saved_cursors[step["save_cursor"]] = answer.body.get("cursor", 0)

    async def judge(self, answer: Answer, step: dict[str, Any], where: str) -> None:
        expect = self.filled(step.get("expect", {}))
        if answer.http_status >= 400 and not expect.keys() & {"http_status", "http_class", "code", "one_of"}:
            self.differ(where, f"refused: {answer.http_status} {brief(answer.text, 300)}")
            return
        self.differences += [
            Difference(f"{where}: {found.text}", found.timing) for found in check(expect, answer, self.cells, self.options.slack)
        ]
        if expect.get("host_alive"):
            await self.check_alive(where)

    async def check_alive(self, where: str) -> None:
        """The service still serves: it is healthy, and a new session runs a script."""
        health = await self.request("GET", "/healthz")
        if health.http_status != 200 or self.target.dead:
            self.differ(where, f"the server is not alive: /healthz says {health.http_status} {brief(health.text)}")
            return
        sid = await self.open_session({})
        answer = await self.request("POST", f"/v1/sessions/{sid}/exec", {"source": "text('alive')"})
        await self.close_session(sid)
        if not answer.is_observation or texts(answer.body["output"]) != ["alive"]:
            self.differ(where, f"the server does not serve a new session: {answer.http_status} {brief(answer.text)}")


def patience_of(step: dict[str, Any]) -> float:
    """How long an answer may rightly take; cases give bad yield times too."""
    given = step.get("yield_time_ms")
    return min(max(given, 10_000), 600_000) if isinstance(given, (int, float)) else 10_000


def picked(step: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: step[key] for key in keys if key in step}
