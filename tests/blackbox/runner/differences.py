"""Differences between what a case wants and what came, each told in one short line."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass(frozen=True)
class Difference:
    """One thing that was not as expected. A case that differs in timing only gets a second try: machines are noisy."""

    text: str
    timing: bool = False


def brief(value: Any, width: int = 160) -> str:
    """A value as one short line."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = text.replace("\n", "\\n")
    return text if len(text) <= width else f"{text[: width * 2 // 3]}…({len(text)} chars)…{text[-width // 3 :]}"


def same(want: Any, got: Any) -> bool:
    """Equal as JSON: true is not 1."""
    if isinstance(want, bool) or isinstance(got, bool):
        return want is got
    if isinstance(want, dict) and isinstance(got, dict):
        return want.keys() == got.keys() and all(same(want[key], got[key]) for key in want)
    if isinstance(want, list) and isinstance(got, list):
        return len(want) == len(got) and all(map(same, want, got))
    return type(want) is type(got) and want == got if isinstance(want, str) or isinstance(got, str) else want == got


def unequal(what: str, want: Any, got: Any) -> Iterator[str]:
    """One line unless both are equal. Of long strings it shows the place where they part."""
    if same(want, got):
        return
    if isinstance(want, str) and isinstance(got, str) and min(len(want), len(got)) > 60:
        pairs = enumerate(zip(want, got, strict=False))
        at = next((index for index, (a, b) in pairs if a != b), min(len(want), len(got)))
        start = max(0, at - 20)
        yield f"{what}: differs at character {at}: want …{brief(want[start : at + 60])} got …{brief(got[start : at + 60])}"
    else:
        yield f"{what}: want {brief(want)} got {brief(got)}"


def lacking(what: str, want: Any, got: Any) -> Iterator[str]:
    """Like unequal, but an object may have more than what is wanted of it."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key, value in want.items():
            yield from lacking(f"{what}.{key}", value, got[key]) if key in got else (f"{what}: no {key!r}",)
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for index, (a, b) in enumerate(zip(want, got, strict=True)):
            yield from lacking(f"{what}[{index}]", a, b)
    else:
        yield from unequal(what, want, got)


def lacking_items(what: str, want: list[Any], got: Any, text_type: str) -> Iterator[str]:
    """Compare output items; a plain string stands for a text item."""
    full = [{"type": text_type, "text": item} if isinstance(item, str) else item for item in want]
    if not isinstance(got, list) or len(full) != len(got):
        shown = [item.get("text", item) if isinstance(item, dict) else item for item in got] if isinstance(got, list) else got
        yield f"{what}: want {len(full)} items got {brief(shown, 300)}"
    else:
        yield from lacking(what, full, got)


def without(what: str, parts: Any, text: str, *, fold: bool = False) -> Iterator[str]:
    """One line for each part that the text does not contain."""
    for part in strings(parts):
        if (part.lower() not in text.lower()) if fold else (part not in text):
            yield f"{what}: no {brief(part)} in {brief(text, 300)}"


def strings(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def texts(items: Any) -> list[str]:
    return [item["text"] for item in items or [] if isinstance(item, dict) and isinstance(item.get("text"), str)]
