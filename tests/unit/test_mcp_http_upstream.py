"""MCP servers over HTTP, and a public one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from codemode import CodeMode, InvalidRequest, McpServer, Session
from tests.unit.mcp_helpers import everything, http_server, service

pytest.importorskip("mcp")


@asynccontextmanager
async def session_of(url: str, *servers: McpServer) -> AsyncIterator[Session]:
    """A session that has these servers of its own."""
    async with CodeMode(spares=1, allow_tool_urls=[url]) as made:
        yield made.create_session(mcp_servers=servers)


async def test_headers_and_the_bearer_token_go_with_every_call() -> None:
    """Calls work, structured content and images too; so do progress and cancellation."""
    with http_server() as url:
        server = McpServer(name="far", url=f"{url}/mcp", headers={"X-Key": "k"}, bearer_token="t0")
        async with session_of(url, server) as session:
            seen = await session.exec(
                """
                const h = (await tools.mcp__far__headers()).structuredContent;
                text([h.authorization, h['x-key'], h['accept-encoding']].join(' '));
                content((await tools.mcp__far__picture()).content);
                await tools.mcp__far__slow({steps: 2});
                """
            )
            assert seen.error is None
            assert seen.output[0]["text"] == "Bearer t0 k identity"
            assert seen.output[1]["type"] == "image"
            running = await session.exec("await tools.mcp__far__slow()", yield_time_ms=300)
            await session.terminate(running.cell_id)
            events = session.recorder.events.recent(0, 1000)
            assert [event.type for event in events].count("tool_call/progress") >= 2


async def test_a_server_that_was_started_again_is_spoken_with_again() -> None:
    """It does not know our session any more; what it was asked then was not done, and is asked again."""
    with http_server() as url:
        async with session_of(url, McpServer(name="far", url=f"{url}/mcp")) as session:
            await session.exec("await tools.mcp__far__echo()")
            port = int(url.rpartition(":")[2])
        async with session_of(url, McpServer(name="far", url=f"{url}/mcp")) as session:
            await session.exec("await tools.mcp__far__echo()")
            upstream = session.tools._upstreams[0]
            assert upstream._connection is not None
            way = upstream._connection._way
            assert way is not None
            client = httpx.Client()  # somebody else ends it, as a server does that is started again
            client.delete(f"{url}/mcp", headers={"mcp-session-id": str(way._session)})
            client.close()
            seen = await session.exec("text((await tools.mcp__far__echo({said: 1})).content[0].text)")
            assert (port > 0, seen.error, seen.output[0]["text"]) == (True, None, "1")


async def test_redirects_are_not_followed_and_nobody_there_is_said() -> None:
    """Not elsewhere, and not to another path of the same server, which is not what was allowed."""
    with http_server() as url:
        servers = [McpServer(name=name, url=f"{url}/{name}") for name in ("away", "near", "nothing")]
        async with session_of(url, *servers) as session:
            seen = await session.exec("text(ALL_TOOLS.length)")
    assert seen.output[0]["text"] == "0"
    assert [warning.partition(" is left out: ")[0] for warning in seen.warnings] == [
        "MCP server away",
        "MCP server near",
        "MCP server nothing",
    ]
    assert not any("127.0.0.1:9" in warning for warning in seen.warnings)


async def test_urls_have_to_be_allowed() -> None:
    """As those of http tools."""
    async with CodeMode(spares=1, allow_tool_urls=["http://127.0.0.1:9/a"]) as made:
        with pytest.raises(InvalidRequest, match="not allowed"):
            made.create_session(mcp_servers=[McpServer(name="x", url="http://127.0.0.1:9/b")])


def test_a_session_declares_servers_over_http() -> None:
    """By URL alone; its secrets are in no answer, and its tools are there when somebody looks."""
    with http_server() as url, service("--allow-tool-url", url) as ours, httpx.Client(base_url=ours) as client:
        wanted = {
            "mcp_servers": [{"name": "far", "url": f"{url}/mcp", "bearer_token": "hush", "headers": {"A": "hush"}}]
        }
        made = client.post("/v1/sessions", json=wanted)
        shown = client.get(f"/v1/sessions/{made.json()['session_id']}", timeout=30)
        assert made.status_code == 201
        assert "mcp__far__echo" in [each["js_name"] for each in shown.json()["tools"]]
        assert "hush" not in made.text + shown.text
        place = f"/v1/sessions/{made.json()['session_id']}"
        direct = client.post(f"{place}/tools/mcp__far__double", json={"input": {"a": 2}})
        assert direct.json()["output"]["structuredContent"] == {"a": 4}
        for wrong in (
            {"name": "x", "command": "sh"},
            {"name": "x", "url": "http://127.0.0.1:9/"},
            {"name": "x", "url": f"{url}/mcp", "headers": {"Host": "x"}},
        ):
            refused = client.post("/v1/sessions", json={"mcp_servers": [wrong]})
            assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")


@pytest.mark.timeout(120)
async def test_a_public_server_of_another_make() -> None:
    """Parallel calls, an image, structured content, a resource link and progress, from a server in TypeScript."""
    server = McpServer(name="every", command="node", args=[everything()])
    async with CodeMode(spares=1, mcp_servers=[server]) as made:
        session = made.create_session()
        seen = await session.exec(
            """
            const sums = await Promise.all([1, 2, 3].map((a) => tools.mcp__every__get_sum({a, b: 10})));
            text(sums.map((each) => each.content[0].text));
            content((await tools.mcp__every__get_tiny_image()).content);
            text((await tools.mcp__every__get_structured_content({location: 'Chicago'})).structuredContent.temperature);
            text((await tools.mcp__every__get_resource_links({count: 1})).content[1].type);
            await tools.mcp__every__trigger_long_running_operation({duration: 0.4, steps: 2});
            """
        )
        events = [event.type for event in session.recorder.events.recent(0, 1000)]
    assert seen.error is None
    assert "The sum of 1 and 10 is 11." in seen.output[0]["text"]
    assert [item["image_url"][:22] for item in seen.output if item["type"] == "image"] == ["data:image/png;base64,"]
    assert [item["text"] for item in seen.output[-2:]] == ["36", "resource_link"]
    assert "tool_call/progress" in events
    await asyncio.sleep(0)
