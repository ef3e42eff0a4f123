"""JSON as it crosses the bridge, with every way it can go wrong turned into one error."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import GeneratorType
from typing import Any, Final, NoReturn

from pydantic_core import PydanticSerializationError, to_json

_LONG: Final = 64 * 1024  # bytes of text of which the garbage collector is kept out
_MOST_ERROR_TEXT: Final = 64 * 1024
_CUT: Final = "…".encode()
_DEEPEST: Final = 200  # levels; not far beyond, writers of JSON give up


class NotJson(Exception):
    """A value that cannot be read from or written as JSON; the text says why."""


def decode(text: bytes) -> Any:
    """The value of JSON text. Raises NotJson, also for nesting that Python cannot follow."""
    try:
        with _uncollected(text):
            value = json.loads(text, parse_constant=_refuse)
        if text.count(b"[") + text.count(b"{") > _DEEPEST and _depth(value) > _DEEPEST:
            raise NotJson(f"it is nested more than {_DEEPEST} levels deep")
        return value
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except ValueError as problem:
        raise NotJson(str(problem)) from None


@contextmanager
def _uncollected(text: bytes) -> Iterator[None]:
    """No garbage collection while a long text is read: a megabyte of brackets took 0.3 s with it, now 0.1 s."""
    pause = len(text) > _LONG and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()


def _depth(value: Any) -> int:
    """How deep objects and arrays are nested, as far as it matters."""
    deepest, level = 0, [value]
    while level and deepest <= _DEEPEST:
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        deepest += 1
    return deepest


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def encode(value: Any) -> bytes:
    """A value as JSON: models, dataclasses, dates and the like as pydantic writes them, NaN as null.

    Raises NotJson, also for a generator, which may have no end.
    """
    if isinstance(value, GeneratorType):
        raise NotJson("a generator is no JSON")
    try:
        return to_json(value, inf_nan_mode="null")
    except (PydanticSerializationError, UnicodeError, RecursionError, ValueError):
        return _encode_plainly(value)


def error_text(text: bytes) -> bytes:
    """The text of a tool's error, of at most 64 KiB: head and tail are kept, in whole characters."""
    if len(text) <= _MOST_ERROR_TEXT:
        return text
    half = _MOST_ERROR_TEXT // 2 - len(_CUT)
    return b"".join(part.decode("utf-8", "ignore").encode() for part in (text[:half], _CUT, text[-half:]))


def _encode_plainly(value: Any) -> bytes:
    """The same by the standard library, which can write lone surrogates."""
    try:
        return json.dumps(value, allow_nan=False).encode("ascii")
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except (TypeError, ValueError) as problem:
        raise NotJson(str(problem)) from None
