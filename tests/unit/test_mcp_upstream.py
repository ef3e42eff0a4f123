"""Tools of MCP servers, called by scripts: well-behaved servers, and every way they can be bad."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from codemode import CodeMode, McpServer, Session, ToolPolicy, tool
from codemode.calls.hooks import Hook

pytest.importorskip("mcp")

SERVER = Path(__file__).with_name("mcp_server.py")


def odd(mode: str = "", name: str = "odd", **fields: Any) -> McpServer:
    """The server of these tests."""
    return McpServer(name=name, command=sys.executable, args=[str(SERVER), mode], **fields)


@pytest.fixture(scope="module")
async def service() -> AsyncIterator[CodeMode]:
    """One for all tests; each makes a session with servers of its own."""
    async with CodeMode(spares=1) as made:
        yield made


async def told(session: Session, source: str) -> list[str]:
    """The texts that a script hands over, in order."""
    seen = await session.exec(source)
    assert seen.error is None, seen.error
    return [item["text"] for item in seen.output if item["type"] == "text"]


async def until(there: Callable[[], bool]) -> None:
    """Wait for a fact."""
    while not there():
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_results_are_as_mcp_gives_them(service: CodeMode, tmp_path: Path) -> None:
    """Structured content, blocks of all kinds, and one that says isError, which is data; in parallel too."""
    async with service.create_session(mcp_servers=[odd()]) as session:
        seen = await session.exec(
            """
            const [a, b] = await Promise.all([tools.mcp__odd__double({a: 21}), tools.mcp__odd__echo({said: null})]);
            text(a); text(b.content[0].text); content((await tools.mcp__odd__picture()).content);
            text((await tools.mcp__odd__fail()).isError);
            """
        )
    first = '{"content":[{"text":"done","type":"text"}],"isError":false,"structuredContent":{"a":42}}'
    assert [item["type"] for item in seen.output] == ["text", "text", "image", "audio", "text", "text"]
    assert [item["text"] for item in seen.output[:2]] == [first, "None"]
    assert seen.output[2]["image_url"].startswith("data:image/png;base64,iVBOR")
    assert seen.warnings == ["a result of mcp__odd__fail says isError"]


async def test_errors_are_tool_errors(service: CodeMode) -> None:
    """An input that does not fit is refused before the server sees it; what the server refuses is told."""
    async with service.create_session(mcp_servers=[odd()]) as session:
        said = await told(
            session,
            """
            for (const call of [() => tools.mcp__odd__double({}), () => tools.mcp__odd__refuse()])
              try { await call() } catch (e) { text(`${e.code} ${e.message}`) }
            """,
        )
    assert said == [
        'invalid_input mcp__odd__double: input: "a" is a required property',
        "tool_failed no such thing",
    ]


async def test_nothing_is_started_before_it_is_needed(service: CodeMode, tmp_path: Path) -> None:
    """A server starts at the first exec, once, and lists its tools once."""
    log = tmp_path / "log"
    async with service.create_session(mcp_servers=[odd(env={"MCP_TEST_LOG": str(log)})]) as session:
        assert (len(session.registry), log.exists()) == (0, False)
        await asyncio.gather(*(session.exec("1") for _ in range(5)))
        await session.exec("1")
        assert log.read_text().split() == ["start", "list"]


async def test_each_session_has_a_server_of_its_own_that_ends_with_it(service: CodeMode, tmp_path: Path) -> None:
    """The process group too, whatever signals it ignores."""
    log = tmp_path / "log"
    async with service.create_session(mcp_servers=[odd("stubborn", env={"MCP_TEST_LOG": str(log)})]) as session:
        assert await told(session, "text((await tools.mcp__odd__echo({said: 1})).content[0].text)") == ["1"]
        pids = [int(pid) for pid in log.read_text().split("\n")[0].replace("start", "").split()]
        assert [is_alive(pid) for pid in pids] == [True, True]
        began = time.monotonic()
        await session.close()
        assert time.monotonic() - began < 4
        await until(lambda: not any(is_alive(pid) for pid in pids))


async def test_a_server_gets_a_minimal_environment_and_no_descriptors(
    service: CodeMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is configured for it comes on top."""
    monkeypatch.setenv("SECRET_OF_TEST", "hush")
    descriptor = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        async with service.create_session(mcp_servers=[odd(env={"GIVEN": "yes"})]) as session:
            seen = await told(
                session,
                """const e = (await tools.mcp__odd__environment()).structuredContent;
                text(e.GIVEN); text(e.SECRET_OF_TEST); text(Object.keys(e).length < 14); text(e.DESCRIPTORS)""",
            )
    finally:
        os.close(descriptor)
    assert seen[:3] == ["yes", "undefined", "true"]
    assert int(seen[3]) <= 12  # its own standard streams, and what its event loop needs


async def test_a_crash_fails_the_calls_under_way_and_the_next_starts_it_again(service: CodeMode) -> None:
    """At once the first time, and after a pause the next times; scripts before and after go on."""
    async with service.create_session(mcp_servers=[odd()]) as session:
        said = await told(
            session,
            """
            const slow = tools.mcp__odd__slow().catch((e) => text(e.message));
            await tools.mcp__odd__crash().catch((e) => text(e.message));
            await slow;
            text((await tools.mcp__odd__echo({said: 1})).content[0].text);
            await tools.mcp__odd__crash().catch(() => 0);
            await tools.mcp__odd__echo().catch((e) => text(e.message));
            """,
        )
        ended = "MCP server odd ended while the call was under way"
        assert said[:3] == [ended, ended, "1"]
        assert said[3].startswith("MCP server odd is not there: it has ended")
        await asyncio.sleep(1.1)
        assert await told(session, "text((await tools.mcp__odd__echo({said: 2})).content[0].text)") == ["2"]


async def test_tools_that_are_added_are_there_for_the_next_script(service: CodeMode) -> None:
    """One that runs keeps those it started with."""
    async with service.create_session(mcp_servers=[odd()]) as session:
        first = await told(
            session,
            "await tools.mcp__odd__add_tool(); await tools.mcp__odd__echo(); text(typeof tools.mcp__odd__added_0)",
        )
        assert (first, await told(session, "text(typeof tools.mcp__odd__added_0)")) == (["undefined"], ["function"])


async def test_all_pages_are_listed_and_too_many_tools_left_out(service: CodeMode) -> None:
    """With a warning; the session works."""
    async with service.create_session(mcp_servers=[odd("pages", "p"), odd("many", "m")]) as session:
        seen = await session.exec(
            "text(ALL_TOOLS.filter(t => t.name.startsWith('mcp__p__')).length); text(ALL_TOOLS.length)"
        )
    assert [item["text"] for item in seen.output] == ["13", str(13 + 512)]
    assert seen.warnings == ["MCP server m: it lists more than 512 tools; the others are left out (left out)"]


async def test_tools_whose_schemas_are_refused_are_left_out(service: CodeMode) -> None:
    """Each with its reason; the others are there."""
    async with service.create_session(mcp_servers=[odd("schemas")]) as session:
        seen = await session.exec("text(ALL_TOOLS.length)")
    assert seen.output[0]["text"] == "13"
    assert [warning.partition(":")[0] for warning in seen.warnings] == ["MCP server odd", "MCP tools", "MCP tools"]
    assert "wide_schema" in seen.warnings[0]


async def test_names_that_collide_get_a_suffix(service: CodeMode) -> None:
    """Among tools of servers, and with one of ours, which keeps its name."""

    @tool(name="mcp__odd__echo")
    def mine() -> str:
        return "mine"

    async with service.create_session(mcp_servers=[odd()], tools=[mine]) as session:
        names = set(await told(session, "for (const t of ALL_TOOLS) text(t.name)"))
        assert await told(session, "text(await tools.mcp__odd__echo())") == ["mine"]
    assert {name for name in names if "get_it" in name or "echo" in name} == {
        "mcp__odd__echo",
        *(name for name in names if name.startswith(("mcp__odd__echo_", "mcp__odd__get_it_"))),
    }
    assert len([name for name in names if "get_it" in name or "echo" in name]) == 4


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("ends", "it has ended"),
        ("nonsense", "what it says is no MCP"),
        ("long", "it wrote a message of more than"),
    ],
)
async def test_a_server_that_cannot_be_used_is_left_out(service: CodeMode, mode: str, why: str) -> None:
    """With a warning that gives nothing of this machine away. The session works, and its other servers."""
    async with service.create_session(
        mcp_servers=[odd(mode, "bad"), odd()], limits={"max_tool_result_bytes": 1000}
    ) as session:
        seen = await session.exec("text(ALL_TOOLS.length)")
    assert seen.output[0]["text"] == "13"
    assert len(seen.warnings) == 1
    assert seen.warnings[0].startswith(f"MCP server bad is left out: {why}")
    assert "/" not in seen.warnings[0]


@pytest.mark.slow
async def test_a_command_that_is_not_there_and_a_server_that_is_deaf(
    service: CodeMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits longer than the bound, and while it is not tried again, nobody waits at all."""
    from codemode.mcp import connection

    monkeypatch.setattr(connection, "START_S", 0.5)
    servers = [McpServer(name="none", command="/no/such/command"), odd("deaf", "deaf")]
    async with service.create_session(mcp_servers=servers) as session:
        first = await session.exec("text(1)")
        await session.exec("text(1)")
        began = time.monotonic()
        third = await session.exec("text(1)")
        assert time.monotonic() - began < 0.4
    assert first.warnings == [
        "MCP server none is left out: its command cannot be started",
        "MCP server deaf is left out: it did not answer within 0 s",
    ]
    assert third.warnings == first.warnings


async def test_a_call_that_takes_too_long_is_cancelled_at_the_server(service: CodeMode, tmp_path: Path) -> None:
    """By its timeout, and when its script is terminated; the server goes on."""
    log = tmp_path / "log"
    async with service.create_session(mcp_servers=[odd(env={"MCP_TEST_LOG": str(log)}, timeout_ms=300)]) as session:
        said = await told(session, "await tools.mcp__odd__slow().catch((e) => text(`${e.code} ${e.message}`))")
        assert said == ["timed_out MCP server odd did not answer within 300 ms"]
        await until(lambda: log.read_text().count("cancelled") == 1)
    log.unlink()
    async with service.create_session(mcp_servers=[odd(env={"MCP_TEST_LOG": str(log)})]) as session:
        seen = await session.exec("await tools.mcp__odd__slow()", yield_time_ms=300)
        await session.terminate(seen.cell_id)
        await until(lambda: log.read_text().count("cancelled") == 1)
        assert await told(session, "text((await tools.mcp__odd__echo({said: 1})).content[0].text)") == ["1"]


async def test_progress_is_told_by_events_within_bounds(service: CodeMode) -> None:
    """With the call that it is of, and never after its end."""
    async with service.create_session(mcp_servers=[odd()]) as session:
        await session.exec("await tools.mcp__odd__slow({steps: 3}); await tools.mcp__odd__flood()")
        events = [event async for event in _all(session)]
    progress = [event for event in events if event["type"] == "tool_call/progress"]
    slow = [event for event in progress if event["tool_name"] == "mcp__odd__slow"]
    assert 1 <= len(slow) <= 3
    assert slow[0].items() >= {"progress": 0.0, "total": 100.0, "message": "step 0", "cell_id": "1"}.items()
    assert slow[0]["runtime_tool_call_id"] == "call-1"
    assert len(progress) < 3 + 100
    ends = [event["seq"] for event in events if event["type"] == "tool_call/ended"]
    assert max(event["seq"] for event in progress) < ends[-1]


async def _all(session: Session) -> AsyncIterator[dict[str, Any]]:
    last = session.recorder.events.last
    async for event in session.events():
        yield event
        if event["seq"] == last:
            return


async def test_a_result_that_is_too_long_fails_that_call_alone(service: CodeMode) -> None:
    """As of any tool."""
    async with service.create_session(mcp_servers=[odd()], limits={"max_tool_result_bytes": 10_000}) as session:
        said = await told(
            session,
            """await tools.mcp__odd__big({size: 20000}).catch((e) => text(e.code));
            await tools.mcp__odd__big({size: 3000000}).catch((e) => text(e.code + e.message));
            text((await tools.mcp__odd__echo({said: 1})).content[0].text)""",
        )
    assert said == ["result_too_large", "tool_failedMCP server odd ended while the call was under way", "1"]


async def test_hooks_policies_and_direct_calls_see_them_like_any_tool(service: CodeMode) -> None:
    """They go the way of all calls, with MCP's annotations."""
    seen: list[str] = []

    def note(payload: dict[str, Any]) -> dict[str, Any]:
        seen.append(payload["tool_name"])
        return {}

    async with service.create_session(
        mcp_servers=[odd()], hooks=[Hook(event="PreToolUse", function=note, matcher="^mcp__")]
    ) as session:
        answer = await session.call_tool("mcp__odd__echo", {"said": "é"})
        assert answer.output["content"] == [{"type": "text", "text": "é"}]
        found = session.registry.find("mcp__odd__echo")
        assert found is not None
        assert found.tool.policy == ToolPolicy(annotations={"readOnlyHint": True})
    assert seen == ["mcp__odd__echo"]


async def test_a_session_of_its_own_may_have_servers(tmp_path: Path) -> None:
    """Beside those of the service; a later run has those without credentials, and says which it has not."""

    async def run(check: Callable[[CodeMode], Awaitable[None]]) -> None:
        service = CodeMode(spares=1, data_dir=tmp_path, allow_tool_urls=["http://127.0.0.1:9/"])
        async with service:
            await check(service)

    async def first(service: CodeMode) -> None:
        servers = [
            odd(),
            McpServer(name="a", url="http://127.0.0.1:9/a"),
            McpServer(name="b", url="http://127.0.0.1:9/b", bearer_token="hush"),
        ]
        service.create_session(mcp_servers=servers, session_id="s")

    async def second(service: CodeMode) -> None:
        seen = await service.session("s").exec("text(1)")
        assert sorted(seen.warnings) == [
            "MCP server a is left out: it refused: it could not be reached (ConnectError)",
            "MCP server b: neither credentials nor commands outlive a restart of the service; make a new session",
            "MCP server odd: neither credentials nor commands outlive a restart of the service; make a new session",
        ]

    await run(first)
    assert not any(b"hush" in file.read_bytes() for file in tmp_path.iterdir())
    await run(second)
