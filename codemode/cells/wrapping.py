"""What models put around a script: a Markdown fence, or the quotes of JSON. Taken off where a session asks for it."""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

BLANK: Final = " \t\r\n\v\f\ufeff\u00a0\u2028\u2029"

_TAGS: Final = ("", "js", "javascript", "mjs", "ts", "typescript")
_OPENING: Final = re.compile(r"(`{3,})[ \t]*([a-z]*)[ \t]*", re.IGNORECASE)
_FENCED: Final = "the source stood in a Markdown fence, which was taken off; its lines still count"
_QUOTED: Final = "the source was one JSON string, which was taken out of its quotes; lines and columns are those within"


class Unwrapped(NamedTuple):
    """A script, where in the text its first line begins, and what was done for it."""

    text: str
    start: int
    said: str


def unwrapped(source: str) -> Unwrapped | None:
    """The script in a source that is wrapped in something; None for one that is not, or not as a whole."""
    script = unquoted(source)
    return _unfenced(source) if script is None else Unwrapped(script, 0, _QUOTED)


def unquoted(source: str) -> str | None:
    """The text of a source that is one JSON string; else None."""
    text = source.strip(BLANK)
    if not (text.startswith('"') and text.endswith('"')):
        return None
    try:
        script = json.loads(text)
    except ValueError:
        return None
    return script if isinstance(script, str) else None


def _unfenced(source: str) -> Unwrapped | None:
    """The fence becomes blanks, so that everything between stays where it was."""
    whole = source.strip(BLANK)
    opening, _, rest = whole.partition("\n")
    found = _OPENING.fullmatch(opening.rstrip("\r"))
    if found is None or found[2].lower() not in _TAGS:
        return None
    fence = re.compile(rf"^[ \t]*`{{{len(found[1])},}}[ \t]*\r?$", re.MULTILINE)
    closing = rest.rpartition("\n")[2]
    first = fence.search(rest)
    if first is None or not fence.fullmatch(closing) or first.end() != len(rest):
        return None  # not closed, or closed before the end: that is a text with a script in it
    before = source.index(whole)
    start = before + len(whole) - len(rest)
    head = source[:before] + " " * found.end() + source[before + found.end() : start]
    tail = " " * len(closing) + source[before + len(whole) :]
    return Unwrapped(head + source[start : before + len(whole) - len(closing)] + tail, start, _FENCED)
