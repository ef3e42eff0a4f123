"""What a schema says that a type cannot, as short facts for a comment."""

from __future__ import annotations

import json
from typing import Any, Final

from codemode.typescript.text import comment
from codemode.typescript.types import Notes

MOST_DESCRIPTION: Final = 600  # characters
MOST_FACT: Final = 80


def notes_of(schema: dict[str, Any], *, is_tuple: bool = False) -> Notes:
    """Description, format, ranges, pattern and default of a schema. The type of a tuple says how long it is."""
    facts = [comment(schema.get(key), MOST_FACT) for key in ("format", "contentEncoding", "contentMediaType")]
    facts += [
        _range(schema, "minimum", "maximum", ""),
        _range(schema, "minLength", "maxLength", "length "),
        "" if is_tuple else _range(schema, "minItems", "maxItems", "items "),
        _range(schema, "minProperties", "maxProperties", "properties "),
    ]
    if _is_number(schema.get("multipleOf")):
        facts.append(f"multiple of {_shown(schema['multipleOf'])}")
    if isinstance(schema.get("pattern"), str):
        facts.append(pattern(schema["pattern"]))
    if schema.get("uniqueItems") is True:
        facts.append("unique")
    if schema.get("deprecated") is True:
        facts.append("deprecated")
    if schema.get("default") is not None:
        facts.append(f"default {_shown(schema['default'])}")
    return Notes(comment(schema.get("description"), MOST_DESCRIPTION), tuple(filter(None, facts)))


def pattern(source: str) -> str:
    """A regular expression, as JavaScript writes it."""
    return comment(f"/{source}/", MOST_FACT)


def _range(schema: dict[str, Any], least: str, most: str, of: str) -> str:
    low, high = schema.get(least), schema.get(most)
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    said = []
    if not of and _is_number(above):
        said.append(f"> {_shown(above)}")
    if not of and _is_number(below):
        said.append(f"< {_shown(below)}")
    if _is_number(low) and _is_number(high):
        said.append(f"{_shown(low)}" if low == high else f"{_shown(low)}..{_shown(high)}")
    elif _is_number(low) and not (of and low == 0):
        said.append(f">= {_shown(low)}")
    elif _is_number(high):
        said.append(f"<= {_shown(high)}")
    return f"{of}{', '.join(said)}" if said else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    """JSON, bounded."""
    try:
        if isinstance(value, dict) and value:
            return "{…}"
        if isinstance(value, list) and (len(value) > 5 or any(isinstance(each, dict | list) for each in value)):
            return "[…]"
        if isinstance(value, str):
            value = value[: MOST_FACT + 1]
        return comment(json.dumps(value, ensure_ascii=False), MOST_FACT)
    except (ValueError, TypeError):  # an integer of thousands of digits; what is no JSON
        return "…"
