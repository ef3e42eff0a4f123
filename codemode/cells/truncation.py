"""Cuts what a model is shown to its budget, keeping head and tail.

A token is 4 bytes of UTF-8, rounded up: an estimate that needs no tokenizer and that models of the
reference know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

BYTES_PER_TOKEN: Final = 4

# Output items: text is kept as UTF-8 bytes, an image or audio item as the object that is shown.
Item = bytes | dict[str, Any]


class Cut(NamedTuple):
    """Output items as shown, whether something was cut, and the size of the uncut text."""

    items: list[dict[str, Any]]
    truncated: bool
    original_token_count: int


def tokens(size: int) -> int:
    """Bytes as tokens, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


def cut(items: Sequence[Item], error: str | None, budget: int) -> Cut:
    """The items within `budget` tokens. The error's text counts in the sizes that are told, but is never cut."""
    texts = [item for item in items if isinstance(item, bytes)]
    joined = b"\n".join(texts)
    whole = joined if error is None else b"\n".join([*texts, error.encode()])
    most = budget * BYTES_PER_TOKEN
    count = tokens(len(whole))
    if len(joined) <= most:
        return Cut([_shown(item) for item in items], False, count)
    if len(texts) < len(items):
        shown, is_cut = _cut_mixed(items, most)
        return Cut(shown, is_cut, count)
    head, tail, missing = _middle_out(joined, most)
    text = (
        f"Warning: truncated output (original token count: {count})\n"
        f"Total output lines: {_lines(whole)}\n\n{head}…{missing} tokens truncated…{tail}"
    )
    return Cut([{"type": "text", "text": text}], True, count)


def _shown(item: Item) -> dict[str, Any]:
    return {"type": "text", "text": item.decode("utf-8", "replace")} if isinstance(item, bytes) else item


def _cut_mixed(items: Sequence[Item], most: int) -> tuple[list[dict[str, Any]], bool]:
    shown: list[dict[str, Any]] = []
    left = most
    omitted = 0
    is_cut = False
    for item in items:
        if not isinstance(item, bytes):
            shown.append(item)
        elif len(item) <= left:
            shown.append(_shown(item))
            left -= len(item)
        elif left > 0:
            head, tail, missing = _middle_out(item, left)
            shown.append({"type": "text", "text": f"{head}…{missing} tokens truncated…{tail}"})
            left, is_cut = 0, True
        else:
            omitted += 1
    if omitted:
        shown.append({"type": "text", "text": f"[omitted {omitted} text items ...]"})
    return shown, is_cut or omitted > 0


def _middle_out(text: bytes, most: int) -> tuple[str, str, int]:
    """Head and tail of `most` bytes together, cut back to whole characters, and the tokens between them."""
    half = most // 2
    start = len(text) - half
    while start < len(text) and text[start] & 0xC0 == 0x80:  # in the middle of a character
        start += 1
    end = half
    while end > 0 and text[end] & 0xC0 == 0x80:
        end -= 1
    head, tail = text[:end].decode("utf-8", "replace"), text[start:].decode("utf-8", "replace")
    return head, tail, tokens(len(text) - most)


def _lines(text: bytes) -> int:
    """Lines, without an empty last one."""
    return text.count(b"\n") + (not text.endswith(b"\n") and bool(text))
