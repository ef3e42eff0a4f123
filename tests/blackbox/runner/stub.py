"""The stub server: tools and hooks that the service under test calls back."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import re
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WEIRD = r'{"output": {"__proto__":{"polluted":1},"constructor":{"x":1},"big":9007199254740993,"nested":[null,1.5,"\u2028"]}}'


@dataclasses.dataclass
class Call:
    """One request that reached the stub."""

    group: str  # tool, raw or hook
    name: str
    request: dict[str, Any]
    started: float
    ended: float | None = None
    cancelled: bool = False


class Odd(Exception):
    """An answer of the stub other than 200 with JSON."""

    def __init__(self, status: int, body: str = "", content_type: str = "application/json", **headers: str) -> None:
        self.status, self.body, self.headers = status, body, {"content-type": content_type, **headers}


class Stub:
    """Serves POST /run/TOKEN/tool/NAME, …/raw/HOW and …/hook/HOW on a thread of its own. TOKEN keeps the logs of cases apart."""

    def __init__(self, files: dict[str, str], port: int) -> None:
        self.files = files
        self.calls: dict[str, list[Call]] = {}
        self.counts: dict[str, int] = {}
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", port))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        config = uvicorn.Config(self.app, interface="asgi3", lifespan="off", log_level="critical", access_log=False, backlog=4096)
        config.timeout_keep_alive = 3600  # never close an idle connection under a caller that is about to use it again
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]}, daemon=True)

    def __enter__(self) -> Stub:
        self.thread.start()
        while not self.server.started and self.thread.is_alive():
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = self.server.force_exit = True
        self.thread.join(5)
        self.socket.close()

    async def app(self, scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]) -> None:
        body = b""
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        match = re.fullmatch(r"/run/([^/]+)/(tool|raw|hook)/([^/]+)", scope["path"])
        if match is None:
            return await self.send(send, 404, {"content-type": "text/plain"}, b"no such stub")
        token, group, name = match.groups()
        request = json.loads(body or b"{}")
        call = Call(group, name, request if isinstance(request, dict) else {}, time.monotonic())
        self.calls.setdefault(token, []).append(call)

        async def client_gone() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass

        work, gone = asyncio.ensure_future(self.answer(token, call)), asyncio.ensure_future(client_gone())
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        call.ended = time.monotonic()
        call.cancelled = not work.done()
        if call.cancelled:
            work.cancel()
        else:
            await self.send(send, *work.result())

    async def send(self, send: Callable[[Any], Awaitable[None]], status: int, headers: dict[str, str], body: bytes) -> None:
        fields = [(name.encode(), value.encode()) for name, value in {**headers, "content-length": str(len(body))}.items()]
        await send({"type": "http.response.start", "status": status, "headers": fields})
        await send({"type": "http.response.body", "body": body})

    async def answer(self, token: str, call: Call) -> tuple[int, dict[str, str], bytes]:
        try:
            if call.group == "tool":
                value = await self.tool(token, call.name, call.request.get("input"))
            elif call.group == "hook":
                value = await self.hook(call.name, str(call.request.get("hook_event_name")))
            else:
                value = await self.raw(token, call.name)
            return 200, {"content-type": "application/json"}, json.dumps(value).encode()
        except Odd as odd:
            return odd.status, odd.headers, odd.body.encode()
        except Exception as problem:  # the input was not what the tool declares
            return 200, {"content-type": "application/json"}, json.dumps({"error": f"the stub could not run: {problem!r}"}).encode()

    async def tool(self, token: str, name: str, given: Any) -> dict[str, Any]:
        match name:
            case "echo":
                return {"output": given}
            case "sleep":
                await asyncio.sleep(given["ms"] / 1000)
                return {"output": {"slept": given["ms"]}}
            case "count":
                self.counts[token] = self.counts.get(token, 0) + 1
                return {"output": {"n": self.counts[token]}}
            case "fail":
                return {"error": given["msg"]}
            case "hang":
                await asyncio.Event().wait()
            case "big":
                return {"output": "x" * given["bytes"]}
            case "add":
                return {"output": {"sum": given["a"] + given["b"]}}
            case "read_file":
                path = given["path"]
                return {"output": {"path": path, "content": self.files[path]}} if path in self.files else {"error": f"no such file: {path}"}
            case "mcp_ok":
                blocks = [{"type": "text", "text": "T-55"}, {"type": "resource_link", "uri": "file:///x", "name": "x"}]
                return {"output": {"content": blocks, "structuredContent": {"n": 7}}}
            case "mcp_err":
                said = {"code": "NEEDS_HUMAN", "hint": "h-3"}
                return {"output": {"content": [{"type": "text", "text": "bad"}], "structuredContent": said, "isError": True}}
            case "mcp_image":
                image = {"type": "image", "data": PNG, "mimeType": "image/png"}
                return {"output": {"content": [{"type": "text", "text": "one"}, image, {"type": "text", "text": "two"}]}}
            case "weird_json":
                raise Odd(200, WEIRD)
            case "note":
                return {"output": given[::-1]}
        return {"error": f"no such stub tool: {name}"}

    async def raw(self, token: str, how: str) -> Any:
        match how:
            case "status500":
                raise Odd(500, "Traceback: secret-500", "text/plain")
            case "redirect":
                raise Odd(302, location=f"{self.url}/run/{token}/tool/echo")
            case "notjson":
                raise Odd(200, "plain words", "text/plain")
            case "noshape":
                return {"foo": 1}
            case "slow":
                await asyncio.sleep(3)
                return {"output": "late"}
        raise Odd(404)

    async def hook(self, how: str, event: str) -> Any:
        answer: dict[str, Any] = {"hookEventName": event, "permissionDecision": "allow"}
        match how:
            case "record" | "allow":
                pass
            case "slow":
                await asyncio.sleep(0.4)
            case "deny":
                answer |= {"permissionDecision": "deny", "permissionDecisionReason": "policy R-17"}
            case "rewrite":
                answer["updatedInput"] = {"v": "new"}
            case "badinput":
                answer["updatedInput"] = 5
            case "badword":
                answer["permissionDecision"] = "maybe"
            case "nonsense":
                raise Odd(200, "certainly!", "text/plain")
            case "error":
                raise Odd(500, "boom", "text/plain")
            case "hang":
                await asyncio.Event().wait()
            case _:
                raise Odd(404)
        return {"hookSpecificOutput": answer} if event == "PreToolUse" else {}
