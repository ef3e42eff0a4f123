"""The values of `enum` and `const` as types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from codemode.typescript.text import comment, number, quoted
from codemode.typescript.types import (
    BOOLEAN,
    FALSE,
    NULL,
    NUMBER,
    STRING,
    TRUE,
    UNKNOWN,
    Array,
    Literal,
    Notes,
    Object,
    Property,
    Tuple,
    Type,
    noted,
    union,
)

_MOST_LITERALS: Final = 64  # more are a comment
_MOST_SHOWN: Final = 5  # in such a comment
_MOST_TEXT: Final = 200  # characters of a string literal
_MOST_PARTS: Final = 16  # of an array or object
_MOST_DEPTH: Final = 4


def literals(values: Iterable[Any]) -> Type:
    """One of these JSON values. Of many it is what they are, and a comment with some of them."""
    all_of_them = list(values)
    if len(all_of_them) <= _MOST_LITERALS:
        return union(_literal(value, 0) for value in all_of_them)
    shown = ", ".join(quoted(value) if isinstance(value, str) else str(value) for value in _short(all_of_them))
    fact = comment(f"one of {len(all_of_them)}: {shown}, …" if shown else f"one of {len(all_of_them)}", _MOST_TEXT)
    return noted(union(_kind(value) for value in all_of_them), Notes(facts=(fact,)))


def _short(values: list[Any]) -> list[Any]:
    few = values[:_MOST_SHOWN]
    return [each for each in few if isinstance(each, str | bool | float) and len(str(each)) < 40]


def _kind(value: Any) -> Type:
    """What a value is, by its outermost part."""
    match value:
        case None:
            return NULL
        case bool():
            return BOOLEAN
        case str():
            return STRING
        case int() | float():
            return NUMBER
        case list():
            return _ARRAY
        case dict():
            return _OBJECT
    return UNKNOWN


def _literal(value: Any, depth: int) -> Type:
    match value:
        case bool():
            return TRUE if value else FALSE
        case str() if len(value) <= _MOST_TEXT:
            return Literal(quoted(value), "string")
        case int() | float():
            text = number(value)
            return NUMBER if text is None else Literal(text, "number")
        case list() if depth < _MOST_DEPTH and len(value) <= _MOST_PARTS:
            return Tuple(tuple(_literal(each, depth + 1) for each in value), len(value), None)
        case dict() if depth < _MOST_DEPTH and len(value) <= _MOST_PARTS:
            parts = ((name, each) for name, each in value.items() if isinstance(name, str))
            return Object(tuple(Property(name, _literal(each, depth + 1), True) for name, each in parts), closed=True)
    return _kind(value)


_ARRAY: Final = Array(UNKNOWN)
_OBJECT: Final = Object(())
