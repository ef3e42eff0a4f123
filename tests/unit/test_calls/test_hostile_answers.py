"""Servers of hooks that answer as no honest one does: whom it reaches, and how long it takes."""

from __future__ import annotations

import json
import time

import pytest

from codemode.calls.hooks import Hook
from codemode.service import CodeMode
from codemode.tools.tool import PythonHandler, Tool
from tests.unit.test_calls.call_helpers import Used, until, use
from tests.unit.tool_server import answer, tool_server

ECHO = Tool(name="t", handler=PythonHandler(run=lambda given: given, is_async=False))
DENY = answer({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "never"}})
ALLOW = answer({})


async def test_a_second_answer_is_not_taken_for_that_to_the_next_question() -> None:
    """Which another session may ask, of another hook at the same place."""
    async with (
        tool_server(ALLOW + ALLOW, DENY) as server,
        CodeMode(tools=[ECHO], spares=0, allow_tool_urls=[server.url]) as cm,
    ):
        mallory = cm.create_session(hooks=[Hook(event="PreToolUse", url=f"{server.url}/mallory")])
        alice = cm.create_session(hooks=[Hook(event="PreToolUse", url=f"{server.url}/alice")])
        assert await use(mallory, "direct") == Used({})
        for session in (mallory, alice):  # nor of the same session
            assert (await use(session, "direct")).code == "hook_denied"
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    "body",
    [
        b'{"hookSpecificOutput":{"permissionDecision":"deny","permissionDecision":"allow"}}',
        b'{"hookSpecificOutput":{"updatedInput":{"a":[' + b"[]," * 200_000 + b"[]]}}}",
        b"\xef\xbb\xbf{}",
        "{}".encode("utf-16"),
        b"[" * 500_000,
    ],
    ids=["a field twice", "too many values", "a byte order mark", "UTF-16", "too deep"],
)
async def test_what_is_not_exactly_an_answer_denies_soon(body: bytes) -> None:
    """Whatever another reader would make of it."""
    async with (
        tool_server(answer(body)) as server,
        CodeMode(tools=[ECHO], spares=0, allow_tool_urls=[server.url]) as cm,
    ):
        session = cm.create_session(hooks=[Hook(event="PreToolUse", url=server.url)])
        began = time.perf_counter()
        assert (await use(session, "direct")).code == "hook_denied"
        assert time.perf_counter() - began < 1


async def test_an_answer_in_crumbs_denies() -> None:
    """Each piece costs a turn, however short it is."""
    crumbs = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 20_000 + b"2\r\n{}\r\n0\r\n\r\n"
    async with tool_server(crumbs) as server, CodeMode(tools=[ECHO], spares=0, allow_tool_urls=[server.url]) as cm:
        session = cm.create_session(hooks=[Hook(event="PreToolUse", url=server.url)])
        used = await use(session, "direct")
        assert (used.code, "small pieces" in used.message) == ("hook_denied", True)


async def test_a_direct_call_that_has_ended_holds_nothing() -> None:
    """Its event is kept, its input is not."""
    async with CodeMode(tools=[ECHO], spares=0) as cm:
        session = cm.create_session()
        await use(session, "direct", value={"a": "x" * 1000})
        kept = [event for event in session.recorder.events.recent(0, 10) if event.type.startswith("tool_call/")]
        calls = [getattr(event.fields, "args")[0] for event in kept]  # noqa: B009 (a partial, to the type checker anything)
        assert [(call.text, call.task, call.after) for call in calls] == [(b"", None, None)] * 2
        assert "xxx" not in json.dumps([event.data("s").decode() for event in kept])


async def test_hooks_that_hang_hold_no_more_than_the_places_of_their_session() -> None:
    """However many calls scripts leave behind: those after them wait, and are asked about when there is room."""
    async with (
        tool_server(None) as server,
        CodeMode(tools=[ECHO], spares=0, allow_tool_urls=[server.url], limits={"max_in_flight": 2}) as cm,
    ):
        hooks = [Hook(event=event, url=server.url, timeout_ms=600_000) for event in ("PreToolUse", "PostToolUse")]
        session = cm.create_session(hooks=hooks)
        for _ in range(4):
            observation = await session.exec("for (let i = 0; i < 5; i++) tools.t({}); await null")
            assert (observation.status, observation.tool_calls.cancelled) == ("completed", 5)
        await until(lambda: len(server.requests) >= 2)
        assert len(server.requests) == 2
