"""An answer that is lost on the way loses nothing: what it told can be had again."""

from __future__ import annotations

import asyncio

import pytest

from codemode import CodeMode, Tool
from codemode.errors import CellBusy

GATE = Tool(name="gate")  # the caller has to open it


def texts(output: list[dict[str, str]]) -> list[str]:
    return [item["text"] for item in output]


async def test_a_repeated_exec_tells_notifications_again() -> None:
    """They belong to what an answer hands over."""
    async with CodeMode([GATE], spares=1) as cm:
        session = cm.create_session()
        source = "text('a'); notify('n'); await tools.gate()"
        answers = [await session.exec(source, idempotency_key="k") for _ in range(2)]
        assert [(texts(each.output), [n.text for n in each.notifications]) for each in answers] == [(["a"], ["n"])] * 2


async def test_a_wait_after_a_cursor_announces_calls_again() -> None:
    """The answer that named them may be the one that was lost, so nobody waits out the yield time for it."""
    async with CodeMode([GATE], spares=1) as cm:
        session = cm.create_session()
        first = await session.exec("await tools.gate()")
        async with asyncio.timeout(5):
            again = await session.wait("1", after=first.cursor, yield_time_ms=60_000)
        assert [call.runtime_tool_call_id for call in again.pending_tool_calls] == ["call-1"]


async def test_a_repeated_exec_does_not_share_the_answer_of_a_wait() -> None:
    """A wait tells less than all output: the repeat is told that the cell is busy, and gets all of it afterwards."""
    async with CodeMode([GATE], spares=1) as cm:
        session = cm.create_session()
        source = "text('a'); await tools.gate(); text('b'); await tools.gate(); text('c')"
        await session.exec(source, idempotency_key="k")
        waiting = asyncio.ensure_future(session.wait("1", yield_time_ms=60_000))
        await asyncio.sleep(0)
        with pytest.raises(CellBusy):
            await session.exec(source, idempotency_key="k")
        waiting.cancel()
        await asyncio.sleep(0)
        repeated = await session.exec(source, idempotency_key="k")
        assert texts(repeated.output) == ["a"]
