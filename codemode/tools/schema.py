"""Checks a nested call's input against the schema that its tool declares."""

from __future__ import annotations

import time
from typing import Any, Final, NoReturn

import jsonschema_rs

from codemode.errors import InvalidRequest

_MOST_VALUE: Final = 200  # characters of a message's part
# Steps that a pattern with look-arounds may go back; the check runs in the event loop. 30 000 characters against the
# worst pattern seen take 0.08 s with it, and 2 s with the engine's default of a million.
_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=1000)
_LONG: Final = 0.02  # seconds
_ALTERNATIVES: Final = ("anyOf", "oneOf")


def _no_retrieval(uri: str) -> NoReturn:
    raise ValueError(f"the schema refers to {uri[:_MOST_VALUE]}; only references within the schema are followed")


class InputSchema:
    """A compiled JSON Schema, draft 4 to 2020-12 by its `$schema` (2020-12 without one)."""

    def __init__(self, tool_name: str, schema: Any) -> None:
        """Raises InvalidRequest for what is no JSON Schema, or refers to something outside itself."""
        self._tool_name = tool_name
        try:
            self._validator = _compiled(schema)
            self._explainer = _compiled(_explaining(schema))
        except (ValueError, TypeError, RecursionError) as problem:
            reason = str(problem).partition("\n")[0][:_MOST_VALUE]
            raise InvalidRequest(f"tool {tool_name}: input_schema is no JSON Schema: {reason}") from None

    def fault(self, value: Any) -> str | None:
        """What is wrong with an input: the place and what was expected there. None if nothing is."""
        try:
            began = time.perf_counter()
            if self._validator.is_valid(value):
                return None
            if time.perf_counter() - began > _LONG:
                return f"{self._tool_name}: input does not match its schema (to say why would take too long)"
            error = next(self._explainer.iter_errors(value), None)
        except (ValueError, RecursionError) as problem:  # a lone surrogate, or nesting that cannot be followed
            return f"{self._tool_name}: input that cannot be checked: {str(problem)[:_MOST_VALUE]}"
        if error is None:
            return f"{self._tool_name}: input matches none of the alternatives that the schema allows"
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        return f"{self._tool_name}: input{_bounded(place)}: {_bounded(error.message)}"


def _compiled(schema: Any) -> Any:
    return jsonschema_rs.validator_for(schema, retriever=_no_retrieval, pattern_options=_PATTERNS)


def _explaining(schema: Any) -> Any:
    """The schema without alternatives: a list of what each lacks explains little, and takes twice as long a level.

    Alternatives that differ by type, as a nullable value is often written, become a list of types.
    """
    if isinstance(schema, list):
        return [_explaining(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: _explaining(each) for key, each in schema.items() if key not in _ALTERNATIVES}
    for key in _ALTERNATIVES:
        branches = schema.get(key)
        types = [each.get("type") if isinstance(each, dict) else None for each in branches or ()]
        if isinstance(branches, list) and "type" not in kept and types and all(isinstance(each, str) for each in types):
            kept["type"] = sorted(set(types))
    return kept


def _bounded(text: str) -> str:
    return text if len(text) <= 2 * _MOST_VALUE else f"{text[:_MOST_VALUE]} … {text[-_MOST_VALUE:]}"
