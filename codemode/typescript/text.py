"""Text of others as a part of TypeScript: it cannot leave its string, its comment or the fence around it."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

# Control characters, line and paragraph separators, lone surrogates, and what turns the direction of writing around.
_UNSEEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_FENCE: Final = re.compile("`{3,}")
_BLANKS: Final = re.compile(r"\s+")
_LARGEST: Final = 10**21


def quoted(text: str) -> str:
    """A string literal."""
    shown = _UNSEEN.sub(_escape, json.dumps(text, ensure_ascii=False))
    return _FENCE.sub(lambda found: r"\u0060" * len(found[0]), shown)


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


def number(value: float) -> str | None:
    """A number literal; None for what has none that is short and exact."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        if not value.is_integer():
            return repr(value)
    return str(int(value)) if abs(value) < _LARGEST else None


def property_name(name: str) -> str:
    """A property's name, quoted unless it is a plain identifier."""
    return name if _IDENTIFIER.fullmatch(name) else quoted(name)


def type_name(hint: str) -> str:
    """A name for a type, made of what a schema calls it."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", hint[:40]).strip("_")
    return name if name and not name[0].isdigit() else f"T{name}"


def comment(text: Any, most: int) -> str:
    """One line of a comment, cut at a word beyond so many characters."""
    if not isinstance(text, str):
        return ""
    line = _BLANKS.sub(" ", _UNSEEN.sub(" ", text[: most + 1])).strip()
    if len(text) > most:
        line = line[:most].rpartition(" ")[0] or line[:most]
        line += "…"
    return _FENCE.sub("''", line)


def comment_lines(text: str, most: int) -> list[str]:
    """A comment of several lines, those that are blank left out."""
    lines = []
    for line in re.split(r"[\n\r\u2028\u2029]", text[: most + 1]):
        shown = comment(line, max(most, 1))
        if shown:
            lines.append(shown)
    if len(text) > most and lines:
        lines[-1] = f"{lines[-1].rpartition(' ')[0] or lines[-1]}…"
    return lines


def block(text: str) -> str:
    """A comment within a line."""
    return f"/* {text.replace('*/', '* /')} */"
