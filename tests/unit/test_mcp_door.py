"""MCP clients that run scripts: the official client, over standard input and output and over HTTP."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.unit.cli_helpers import CODEMODE, ROOT, codemode, pipe_of, started
from tests.unit.mcp_helpers import SERVER, service

pytest.importorskip("mcp")

import httpx2
import mcp_types
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

PIXEL = "iVBORw0KGgo="


def stdio(*options: str) -> StdioServerParameters:
    """`codemode mcp` as a client starts it."""
    return StdioServerParameters(command=sys.executable, args=[*CODEMODE[1:], "mcp", *options], cwd=str(ROOT))


def texts(result: mcp_types.CallToolResult) -> list[str]:
    """Its texts, without how long it took."""
    return [block.text.partition("\n")[0] for block in result.content if isinstance(block, mcp_types.TextContent)]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A service without keys."""
    with service("--workspace", str(ROOT)) as found:
        yield f"{found}/mcp"


async def exercise(client: Client) -> None:
    """What every client can do, whatever it came by."""
    listed = (await client.list_tools()).tools
    assert [each.name for each in listed] == ["exec", "wait"]
    assert "read_file(args: {" in (listed[0].description or "")

    seen = await client.call_tool("exec", {"source": f"text({{a: 1}}); image('data:image/png;base64,{PIXEL}')"})
    assert (texts(seen), seen.is_error) == (["Script completed", '{"a":1}'], False)
    assert seen.content[2] == mcp_types.ImageContent(mime_type="image/png", data=PIXEL)

    told: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(done)

    source = "text('a'); await new Promise((r) => setTimeout(r, 60000))"
    running = await client.call_tool("exec", {"source": source, "yield_time_ms": 1300}, progress_callback=progress)
    assert texts(running) == ["Script running with cell ID 2", "a"]
    assert told == [1.0]
    assert texts(await client.call_tool("wait", {"cell_id": "2", "yield_time_ms": 0})) == [
        "Script running with cell ID 2"
    ]
    assert texts(await client.call_tool("wait", {"cell_id": "2", "terminate": True})) == ["Script terminated"]

    failed = await client.call_tool("exec", {"source": "throw new Error('no')"})
    assert (texts(failed), failed.is_error) == (["Script failed", "Script error:"], True)
    for tool, wrong in (("exec", {}), ("exec", {"source": "1", "x": 1}), ("wait", {"cell_id": "77"})):
        assert (await client.call_tool(tool, wrong)).is_error

    busy = asyncio.create_task(client.call_tool("exec", {"source": "while (true) {}", "yield_time_ms": 60_000}))
    await asyncio.sleep(0.3)
    busy.cancel()
    with pytest.raises(asyncio.CancelledError):
        await busy
    assert texts(await client.call_tool("wait", {"cell_id": "4", "yield_time_ms": 2000})) == ["Script terminated"]


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_that_starts_us(mode: str) -> None:
    """exec, wait, terminate, images, failures, progress and cancellation, in both eras of the protocol."""
    async with Client(stdio("--workspace", str(ROOT)), mode=mode) as client:
        await exercise(client)


@pytest.mark.parametrize("mode", [pytest.param("legacy", marks=pytest.mark.slow), "auto"])
async def test_a_client_over_http(url: str, mode: str) -> None:
    """The same. It has a session of its own, which is gone when it has said goodbye."""
    async with httpx.AsyncClient(base_url=url.removesuffix("/mcp")) as plain:
        async with Client(url, mode=mode) as client:
            await exercise(client)
            sessions = (await plain.get("/v1/sessions")).json()
            assert [each["metadata"] for each in sessions] == [{"made_by": "mcp"}]
        while (await plain.get("/v1/sessions")).json() != []:
            await asyncio.sleep(0.01)


async def test_clients_see_nothing_of_each_other(url: str) -> None:
    """Neither cells nor stored values."""
    async with Client(url) as one, Client(url) as other:
        await one.call_tool("exec", {"source": "store('a', 1)"})
        seen = await other.call_tool("exec", {"source": "text(load('a'))"})
        assert texts(seen) == ["Script completed", "undefined"]


@pytest.mark.slow
async def test_tools_of_an_mcp_server_are_there_for_an_mcp_client(tmp_path: Path) -> None:
    """The operator's file names it."""
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"odd": {"command": sys.executable, "args": [str(SERVER)]}}}))
    async with Client(stdio("--mcp-config", str(file))) as client:
        assert "mcp__odd__double(args" in ((await client.list_tools()).tools[0].description or "")
        source = "content((await tools.mcp__odd__picture()).content)"
        seen = await client.call_tool("exec", {"source": source})
    assert [block.type for block in seen.content] == ["text", "image", "audio", "text"]


@asynccontextmanager
async def with_key(url: str, key: str) -> AsyncIterator[Client]:
    """A client that sends a key."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http:
        async with Client(streamable_http_client(url, http_client=http)) as client:
            yield client


def initialize(client: httpx.Client, key: str, **headers: str) -> httpx.Response:
    """The first request of a client."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    accept = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {key}"}
    return client.post("/mcp", json=body, headers={**accept, **headers})


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """A service with keys of two tenants, which may have two sessions each."""
    keys = ["a" * 40, "b" * 40]
    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text("\n".join(keys))
    with service("--key-file", str(file), "--limit", "max_sessions_key=2") as found:
        yield found, keys


async def test_keys_apply(keyed: tuple[str, list[str]]) -> None:
    """Without one nobody gets in, and the session of another tenant is not there."""
    url, (mine, theirs) = keyed
    async with with_key(f"{url}/mcp", mine) as client:
        assert texts(await client.call_tool("exec", {"source": "text(1)"})) == ["Script completed", "1"]
    with httpx.Client(base_url=url) as plain:
        assert initialize(plain, "wrong").status_code == 401
        session = initialize(plain, mine).headers["mcp-session-id"]
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        for key, status in ((theirs, 404), (mine, 200)):
            headers = {
                "Mcp-Session-Id": session,
                "Authorization": f"Bearer {key}",
                "Accept": "application/json, text/event-stream",
            }
            assert plain.post("/mcp", json=listing, headers=headers).status_code == status
        headers = {"Mcp-Session-Id": session, "Authorization": f"Bearer {mine}"}
        assert plain.delete("/mcp", headers=headers).status_code == 200
        assert plain.delete("/mcp", headers=headers).status_code == 404


def test_the_bounds_of_the_service_hold(keyed: tuple[str, list[str]]) -> None:
    """On sessions, bodies, methods and versions; what is refused leaves no session behind."""
    url, (_, key) = keyed
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}) as plain:
        assert initialize(plain, key, Accept="application/json").status_code == 406
        assert initialize(plain, key, Origin="http://elsewhere.example").status_code == 403
        later = initialize(plain, key, **{"MCP-Protocol-Version": "2026-07-28"})
        assert (later.status_code, later.json()["error"]["code"]) == (400, -32022)
        assert "2025-11-25" in later.json()["error"]["data"]["supported"]
        assert plain.post("/mcp", content=b"{").status_code == 400
        assert plain.post("/mcp", content=b" " * 40_000_000).status_code == 413
        assert (plain.get("/mcp").status_code, plain.put("/mcp").status_code) == (405, 405)
        assert plain.get("/v1/sessions").json() == []
        assert [initialize(plain, key).status_code for _ in range(3)] == [200, 200, 429]


@pytest.mark.slow
def test_it_can_be_left_out() -> None:
    """By --no-mcp."""
    with service("--no-mcp") as found, httpx.Client(base_url=found) as plain:
        assert initialize(plain, "none").status_code == 404


def test_a_signal_ends_it_and_so_does_the_end_of_its_input() -> None:
    """With exit status 0, also while a client waits."""
    assert codemode("mcp").returncode == 0
    with started(*CODEMODE, "mcp") as process:
        request: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        }
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["serverInfo"]["name"] == "codemode"
        process.terminate()
        assert process.wait(10) == 0


@pytest.mark.slow
def test_a_killed_service_leaves_no_session_of_a_client_and_no_server_behind(tmp_path: Path) -> None:
    """Nobody could come back to the session, and the server sees the end of its input."""
    log = tmp_path / "log"
    servers = {"odd": {"command": sys.executable, "args": [str(SERVER)], "env": {"MCP_TEST_LOG": str(log)}}}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    options = ("serve", "--port", "0", "--data-dir", str(tmp_path / "data"), "--mcp-config", str(tmp_path / "mcp.json"))
    with started(*CODEMODE, *options) as process:
        with httpx.Client(base_url=pipe_of(process.stdout).readline().decode().split()[-1]) as plain:
            assert initialize(plain, "none").status_code == 200
            source = "text((await tools.mcp__odd__environment()).structuredContent.PID)"
            seen = plain.post("/v1/exec", json={"source": source}, timeout=20).json()
            assert len(plain.get("/v1/sessions").json()) == 2
        process.kill()
        process.wait()
    server = Path(f"/proc/{seen['output'][0]['text']}")
    while server.exists() and ") Z " not in (server / "stat").read_text():
        time.sleep(0.01)
    with started(*CODEMODE, *options) as process:
        with httpx.Client(base_url=pipe_of(process.stdout).readline().decode().split()[-1]) as plain:
            while [each["session_id"] for each in plain.get("/v1/sessions").json()] != ["default"]:
                time.sleep(0.01)
