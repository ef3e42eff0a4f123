"""Checks a nested call's input against the schema that its tool declares."""

from __future__ import annotations

import time
from typing import Any, Final, NoReturn

import jsonschema_rs

from codemode.errors import InvalidRequest
from codemode.tools.schema_work import TooMuch, work_of

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
        """Raises InvalidRequest for what is no JSON Schema, refers to something outside itself, or makes much work."""
        self._tool_name = tool_name
        try:
            self.work = work_of(schema)  # before it is compiled, which may take all of the stack
            self._validator = _compiled(schema)
            self._explainer = _compiled(_explaining(schema))
        except TooMuch as problem:
            raise InvalidRequest(f"tool {tool_name}: input_schema makes too much work: {problem}") from None
        except (ValueError, TypeError, RecursionError) as problem:
            reason = str(problem).partition("\n")[0][:_MOST_VALUE]
            raise InvalidRequest(f"tool {tool_name}: input_schema is no JSON Schema: {reason}") from None

    def fault(self, value: Any, size: int = 0) -> str | None:
        """What is wrong with an input: the place and what was expected there. None if nothing is.

        `size` is the length of its JSON: what would hold up everybody, by its length and its schema, is not checked.
        """
        if not self.work.allows(value, size):
            return f"{self._tool_name}: input that is too large to be checked against its schema"
        try:
            began = time.perf_counter()
            if self._validator.is_valid(value):
                return None
            if time.perf_counter() - began > _LONG:
                return f"{self._tool_name}: input does not match its schema (to say why would take too long)"
            self._explainer.validate(value)  # the first fault alone: to write down all of them took minutes
            return f"{self._tool_name}: input matches none of the alternatives that the schema allows"
        except jsonschema_rs.ValidationError as error:
            place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
            return f"{self._tool_name}: input{_bounded(place)}: {_bounded(error.message)}"
        except (ValueError, RecursionError) as problem:  # a lone surrogate, or nesting that cannot be followed
            return f"{self._tool_name}: input that cannot be checked: {str(problem)[:_MOST_VALUE]}"


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
