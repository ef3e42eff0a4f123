"""Reads the small JSON objects that a cell process writes, and makes nothing of any other.

`json.loads` makes a hundred bytes of objects out of two bytes of text, so a long frame of brackets would take
seconds and gigabytes before it could be refused. What an honest process writes is flat, however long its texts.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from codemode.isolation.wire import ProtocolError

_SPACE: Final = re.compile(r"[ \t\r\n]*")
_MOST_MEMBERS: Final = 16
_LEVELS: Final = 2
_DECODER: Final = json.JSONDecoder()


def read_object(payload: bytes) -> dict[str, Any]:
    """An object of texts, numbers, booleans, null, and such objects in it. Raises ProtocolError for anything else."""
    try:
        text = payload.decode()
        value, end = _object(text, _skip(text, 0), _LEVELS)
    except (ValueError, RecursionError):
        raise ProtocolError("JSON that cannot be read") from None
    if _skip(text, end) != len(text):
        raise ProtocolError("JSON with something behind it")
    return value


def read_text(payload: bytes) -> str:
    """One text. Raises ProtocolError for anything else."""
    try:
        text = payload.decode()
        value, end = _DECODER.raw_decode(text) if text.startswith('"') else (None, 0)
    except ValueError:
        value, end, text = None, 0, ""
    if not isinstance(value, str) or end != len(text):
        raise ProtocolError("JSON that is no text")
    return value


def _object(text: str, at: int, levels: int) -> tuple[dict[str, Any], int]:
    if text[at : at + 1] != "{" or levels == 0:
        raise ValueError("no object that is flat")
    found: dict[str, Any] = {}
    at = _skip(text, at + 1)
    if text[at : at + 1] == "}":
        return found, at + 1
    for _ in range(_MOST_MEMBERS):
        if text[at : at + 1] != '"':
            raise ValueError("no name")
        name, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at : at + 1] != ":":
            raise ValueError("no value")
        found[name], at = _value(text, _skip(text, at + 1), levels)
        at = _skip(text, at)
        if text[at : at + 1] == "}":
            return found, at + 1
        if text[at : at + 1] != ",":
            raise ValueError("no end")
        at = _skip(text, at + 1)
    raise ValueError("too many members")


def _value(text: str, at: int, levels: int) -> tuple[Any, int]:
    first = text[at : at + 1]
    if first == "{":
        return _object(text, at, levels - 1)
    if first == "[":
        raise ValueError("no list is expected")
    return _DECODER.raw_decode(text, at)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()
