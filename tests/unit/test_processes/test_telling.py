"""What is told while a command runs: few pieces, whole characters, an end to it."""

from __future__ import annotations

import asyncio

from codemode.processes.telling import MOST_BYTES, NO_MORE, PIECE_BYTES, Telling
from tests.unit.test_processes.process_helpers import until


async def test_little_is_told_together_after_a_moment() -> None:
    told: list[str] = []
    telling = Telling(told.append)
    telling.add(b"a")
    telling.add("€".encode()[:1])
    assert told == []
    await until(lambda: told)
    assert told == ["a"]
    telling.add("€".encode()[1:])
    telling.finish()
    assert told == ["a", "€"]


async def test_much_is_told_at_once_in_pieces() -> None:
    told: list[str] = []
    telling = Telling(told.append)
    telling.add("€".encode() * PIECE_BYTES)
    assert 2 <= len(told) <= 3
    assert all(len(text.encode()) <= PIECE_BYTES + 3 for text in told)
    telling.finish()
    assert "".join(told) == "€" * PIECE_BYTES


async def test_there_is_an_end_to_it() -> None:
    told: list[str] = []
    telling = Telling(told.append)
    for _ in range(100):
        telling.add(b"x" * 65536)
    telling.finish()
    await asyncio.sleep(0)
    assert told.pop() == NO_MORE
    assert sum(map(len, told)) == MOST_BYTES
    assert "�" not in "".join(told)


async def test_exactly_as_much_as_is_told_needs_no_last_text() -> None:
    told: list[str] = []
    telling = Telling(told.append)
    telling.add(b"x" * MOST_BYTES)
    telling.finish()
    assert sum(map(len, told)) == MOST_BYTES
    assert NO_MORE not in told
