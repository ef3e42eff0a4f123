"""Cutting output to a budget, against the rules of the contract in their most straightforward form."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codemode.cells.truncation import Cut, Item, cut, tokens

IMAGE = {"type": "image", "image_url": "https://a.example/b.png", "detail": None}

texts = st.text(st.sampled_from("ab\n\r é中😀"), min_size=1, max_size=12) | st.text(min_size=1, max_size=30)
budgets = st.integers(0, 20)
errors = st.none() | texts


def size(text: str) -> int:
    return len(text.encode())


def head_of(text: str, most: int) -> str:
    """The longest beginning of at most so many bytes, letter by letter."""
    taken = ""
    for letter in text:
        if size(taken + letter) > most:
            break
        taken += letter
    return taken


def tail_of(text: str, most: int) -> str:
    return head_of(text[::-1], most)[::-1]


def middle_out(text: str, most: int) -> str:
    missing = math.ceil((size(text) - most) / 4)
    return f"{head_of(text, most // 2)}…{missing} tokens truncated…{tail_of(text, most // 2)}"


def shown(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def reference(items: list[str | dict[str, Any]], error: str | None, budget: int) -> Cut:
    """DESIGN §5 and CONFORMANCE, "Output budget", read aloud."""
    written = [item for item in items if isinstance(item, str)]
    everything = "\n".join([*written, *([error] if error is not None else [])])
    count = math.ceil(size(everything) / 4)
    if len(written) < len(items):
        left = budget * 4
        result: list[dict[str, Any]] = []
        omitted = 0
        was_cut = False
        for item in items:
            if isinstance(item, dict):
                result.append(item)
            elif size(item) <= left:
                result.append(shown(item))
                left -= size(item)
            elif left > 0:
                result.append(shown(middle_out(item, left)))
                left, was_cut = 0, True
            else:
                omitted += 1
        if omitted:
            result.append(shown(f"[omitted {omitted} text items ...]"))
        return Cut(result, was_cut or omitted > 0, count)
    joined = "\n".join(written)
    if size(joined) <= budget * 4:
        return Cut([shown(text) for text in written], False, count)
    lines = everything.split("\n")
    total = len(lines) - (lines[-1] == "")
    warning = f"Warning: truncated output (original token count: {count})\nTotal output lines: {total}\n\n"
    return Cut([shown(warning + middle_out(joined, budget * 4))], True, count)


def kept(items: list[str | dict[str, Any]]) -> list[Item]:
    """The items as a cell keeps them."""
    return [item.encode() if isinstance(item, str) else item for item in items]


@given(st.lists(texts, max_size=6), errors, budgets)
def test_text_alone_is_cut_by_the_rules(written: list[str], error: str | None, budget: int) -> None:
    """Whole up to the budget; beyond it one item with head, tail and what was left out, in whole letters."""
    items: list[str | dict[str, Any]] = [*written]
    assert cut(kept(items), error, budget) == reference(items, error, budget)


@given(st.lists(texts | st.just(IMAGE), max_size=8), errors, budgets)
def test_text_among_images_is_cut_by_the_rules(
    items: list[str | dict[str, Any]], error: str | None, budget: int
) -> None:
    """In order, the item that crosses the budget in its middle, later text dropped and counted; images stay."""
    whole = cut(kept(items), error, budget)
    assert whole._replace(truncated=False) == reference(items, error, budget)._replace(truncated=False)


@given(st.lists(texts | st.just(IMAGE), max_size=8), budgets)
@example(["ab", IMAGE, "cd"], 1)  # within the budget: line breaks between items count for text alone
def test_truncated_says_whether_anything_was_cut(items: list[str | dict[str, Any]], budget: int) -> None:
    """True exactly if what is shown is not all there is, with images among it too."""
    result = cut(kept(items), None, budget)
    everything = [item if isinstance(item, dict) else shown(item) for item in items]
    assert result.truncated == (result.items != everything)


@given(st.lists(texts | st.just(IMAGE), max_size=8), errors, budgets)
def test_what_is_shown_never_takes_more_than_the_budget_and_its_marks(
    items: list[str | dict[str, Any]], error: str | None, budget: int
) -> None:
    """The letters of the script in an answer are at most the budget's, and the count is that of the uncut text."""
    result = cut(kept(items), error, budget)
    text = "".join(item["text"] for item in result.items if item["type"] == "text")
    overhead = 200 if result.truncated else 0
    assert (size(text) <= budget * 4 + overhead, result.original_token_count) == (
        True,
        reference(items, error, budget).original_token_count,
    )


@pytest.mark.parametrize(
    ("items", "budget", "expected"),
    [
        (
            ["0123456789" * 4 + "x"],
            10,
            "Warning: truncated output (original token count: 11)\nTotal output lines: 1\n\n"
            "01234567890123456789…1 tokens truncated…1234567890123456789x",
        ),
        (
            ["abcdefghijklmnopqrstuvwxyz"],
            1,
            "Warning: truncated output (original token count: 7)\nTotal output lines: 1\n\nab…6 tokens truncated…yz",
        ),
        (
            ["中" * 100],
            10,
            "Warning: truncated output (original token count: 75)\nTotal output lines: 1\n\n"
            "中中中中中中…65 tokens truncated…中中中中中中",
        ),
        (
            ["a", "b"],
            0,
            "Warning: truncated output (original token count: 1)\nTotal output lines: 2\n\n…1 tokens truncated…",
        ),
    ],
)
def test_the_examples_of_the_contract(items: list[str | dict[str, Any]], budget: int, expected: str) -> None:
    """Those that CONFORMANCE gives, letter by letter."""
    assert cut(kept(items), None, budget).items == [shown(expected)]


def test_the_example_with_an_image() -> None:
    """The one of CONFORMANCE: cut in the second item, the image kept, the rest counted, no Warning."""
    items: list[str | dict[str, Any]] = ["A" * 100, IMAGE, "B" * 100, "C" * 100]
    expected = [
        shown("A" * 40 + "…5 tokens truncated…" + "A" * 40),
        IMAGE,
        shown("[omitted 2 text items ...]"),
    ]
    assert cut(kept(items), None, 20) == Cut(expected, True, 76)


@pytest.mark.parametrize(("bytes_", "expected"), [(0, 0), (1, 1), (4, 1), (5, 2), (40_000, 10_000), (40_001, 10_001)])
def test_a_token_is_four_bytes_rounded_up(bytes_: int, expected: int) -> None:
    """The estimate that budgets are counted in."""
    assert tokens(bytes_) == expected


def test_bytes_that_are_no_utf_8_are_shown_somehow() -> None:
    """A hostile process may send them; they become U+FFFD, cut or not."""
    broken = b"\xff\x80" * 50
    uncut, cut_short = cut([broken], None, 100), cut([broken], None, 5)
    assert (uncut.items[0]["text"], cut_short.items[0]["text"].isprintable()) == ("\ufffd" * 100, False)
    uncut.items[0]["text"].encode()
    cut_short.items[0]["text"].encode()


def test_a_long_text_of_continuation_bytes_is_cut_in_no_time() -> None:
    """Looking for whole letters does not walk through all of a hostile text more than once."""
    result = cut([b"\x80" * 2_000_000], None, 100_000)
    assert result.original_token_count == 500_000
