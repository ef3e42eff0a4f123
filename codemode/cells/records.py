"""Reads what a cell process sends. All of it is hostile input: whatever makes no sense is a ProtocolError."""

from __future__ import annotations

from typing import Any, NamedTuple

from codemode.cells.plain_json import read_object, read_text
from codemode.isolation.wire import ProtocolError


class CallRecord(NamedTuple):
    """A nested call as it comes: the tool's index, and the input as JSON text."""

    tool: int
    input: bytes


def read_call(payload: bytes, expected_number: int, tools: int) -> CallRecord:
    """A CALL record of a script that has `tools` tools; its number has to be the one that is due."""
    number, _, rest = payload.partition(b" ")
    index, _, text = rest.partition(b" ")
    if number != str(expected_number).encode():
        raise ProtocolError("a call out of order")
    if not index.isdigit() or len(index) > 9 or int(index) >= tools:
        raise ProtocolError("a call of no known tool")
    return CallRecord(int(index), text)


def read_store(payload: bytes) -> tuple[str, str | None]:
    """A STORE record: the key, and the value's JSON text or None for a deletion."""
    name, _, value = payload.partition(b"\n")
    return _text(read_text(name)), value.decode("utf-8", "replace") if value else None


def read_item(payload: bytes) -> dict[str, Any]:
    """An ITEM record: an image or audio item of output."""
    item = read_object(payload)
    url, detail = item.get("image_url"), item.get("detail")
    if item.get("type") == "image" and isinstance(url, str) and isinstance(detail, str | None):
        return {"type": "image", "image_url": _text(url), "detail": None if detail is None else _text(detail)}
    sound = item.get("audio_url")
    if item.get("type") == "audio" and isinstance(sound, str):
        return {"type": "audio", "audio_url": _text(sound)}
    raise ProtocolError("an item of output that cannot be read")


def _text(text: str) -> str:
    """A text that UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode()
