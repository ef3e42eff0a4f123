"""The buffer keeps both ends and cuts no character, however its bytes come in."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.processes.head_tail import HeadTail, within_tokens

OMITTED = re.compile(r"\n\[… (\d+) bytes omitted …\]\n")
PIECES = st.lists(st.one_of(st.text(max_size=20).map(str.encode), st.binary(max_size=20)), max_size=20)
TEXTS = st.lists(st.text(st.characters(exclude_characters="[…]", exclude_categories=["Cs"]), max_size=20), max_size=20)


def in_pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(data[:size])
        data = data[size:]
    return [*pieces, data]


@given(PIECES, st.integers(16, 200))
def test_what_fits_is_there_as_it_came(pieces: list[bytes], limit: int) -> None:
    buffer = HeadTail(limit)
    for piece in pieces:
        buffer.add(piece)
    whole = b"".join(pieces)
    if len(whole) <= limit:
        assert buffer.text() == whole.decode("utf-8", "replace")
    else:
        found = OMITTED.search(buffer.text())
        assert found is not None
        assert len(whole) - limit <= int(found[1]) <= len(whole) - limit + 6


@given(TEXTS, st.integers(16, 100))
def test_valid_text_is_cut_on_whole_characters(texts: list[str], limit: int) -> None:
    buffer = HeadTail(limit)
    for text in texts:
        buffer.add(text.encode())
    whole = "".join(texts)
    head, *rest = OMITTED.split(buffer.text())
    assert whole.startswith(head)
    if rest:
        count, tail = rest
        assert whole.endswith(tail)
        assert len(head.encode()) + int(count) + len(tail.encode()) == len(whole.encode())


@given(st.text(max_size=200), st.lists(st.integers(1, 5), max_size=100))
def test_takes_together_are_the_whole(text: str, sizes: list[int]) -> None:
    data = text.encode("utf-8", "replace")
    buffer = HeadTail(1000)
    taken = []
    for piece in in_pieces(data, sizes):
        buffer.add(piece)
        taken.append(buffer.take(final=False))
    taken.append(buffer.take(final=True))
    assert "".join(taken) == data.decode()


@given(st.lists(st.binary(max_size=50), max_size=30), st.integers(8, 60))
def test_a_take_begins_anew_and_memory_is_bounded(pieces: list[bytes], limit: int) -> None:
    buffer = HeadTail(limit)
    for piece in pieces:
        buffer.add(piece)
        assert len(buffer._head) + len(buffer._tail) <= limit
    buffer.take(final=True)
    assert buffer.take(final=True) == ""


def test_a_character_over_the_middle_of_the_buffer_waits_for_its_end() -> None:
    buffer = HeadTail(8)
    buffer.add(b"abc\xe2\x82")  # the head ends within it
    assert buffer.take(final=False) == "abc"
    buffer.add(b"\xac")
    assert buffer.take(final=False) == "€"


def test_an_unfinished_character_at_the_end_is_replaced() -> None:
    buffer = HeadTail(100)
    buffer.add(b"abc\xe2\x82")
    assert buffer.take(final=True) == "abc�"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.integers(0, 40))
def test_a_budget_is_kept(text: str, budget: int) -> None:
    cut = within_tokens(text, budget)
    if len(text.encode()) <= budget * 4:
        assert cut == text
        return
    found = re.fullmatch(r"(.*)…(\d+) tokens truncated…(.*)", cut, re.DOTALL)
    assert found is not None
    assert len(found[1].encode()) + len(found[3].encode()) <= budget * 4
    assert text.startswith(found[1])
    assert text.endswith(found[3])


@pytest.mark.parametrize(
    ("text", "budget", "expected"),
    [("0123456789abcdef", 2, "0123…2 tokens truncated…cdef"), ("€€€€", 2, "€…1 tokens truncated…€"), ("", 0, "")],
)
def test_cut_by_example(text: str, budget: int, expected: str) -> None:
    assert within_tokens(text, budget) == expected
