"""Checks a nested call's input against the schema that its tool declares."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import jsonschema_rs

from codemode.errors import InvalidRequest

_MOST_VALUE: Final = 200  # characters of a message


def _no_retrieval(uri: str) -> NoReturn:
    raise ValueError(f"the schema refers to {uri[:_MOST_VALUE]}; only references within the schema are followed")


class InputSchema:
    """A compiled JSON Schema, draft 4 to 2020-12 by its `$schema` (2020-12 without one)."""

    def __init__(self, tool_name: str, schema: Any) -> None:
        """Raises InvalidRequest for what is no JSON Schema, or refers to something outside itself."""
        self._tool_name = tool_name
        try:
            self._validator = jsonschema_rs.validator_for(schema, retriever=_no_retrieval)
        except (ValueError, TypeError, RecursionError) as problem:
            reason = str(problem).partition("\n")[0][:_MOST_VALUE]
            raise InvalidRequest(f"tool {tool_name}: input_schema is no JSON Schema: {reason}") from None

    def fault(self, value: Any) -> str | None:
        """What is wrong with an input: the place and what was expected there. None if nothing is."""
        if self._validator.is_valid(value):
            return None
        error = next(self._validator.iter_errors(value))
        place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
        message = error.message
        if len(message) > 2 * _MOST_VALUE:
            message = f"{message[:_MOST_VALUE]} … {message[-_MOST_VALUE:]}"
        return f"{self._tool_name}: input{place}: {message}"
