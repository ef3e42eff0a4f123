"""What a script's text says about itself before it runs: its first-line directive, and what it is wrapped in."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple, NoReturn

from codemode.cells.wrapping import BLANK, unquoted, unwrapped
from codemode.errors import InvalidSource, PayloadTooLarge

_DIRECTIVE: Final = re.compile(r"[\ufeff \t]*//[ \t]*@exec:(.*)", re.DOTALL)
_KEYS: Final = ("yield_time_ms", "max_output_tokens")
_MOST: Final = 2**53 - 1  # the largest integer that JavaScript tells from its neighbours
_EXPECTED: Final = 'expected `// @exec: {"yield_time_ms": 10000, "max_output_tokens": 1000}` with one or both keys'


class Directive(NamedTuple):
    """What the first line asks for; it beats the request. None where it says nothing."""

    yield_time_ms: int | None = None
    max_output_tokens: int | None = None


class Source(NamedTuple):
    """A source that may run, without what it was wrapped in. `said` tells its caller of that."""

    text: str
    directive: Directive
    said: str | None = None


def read_source(source: str, most_bytes: int, *, lenient: bool) -> Source:
    """What is to run of a source; `lenient` takes off one Markdown fence around the whole, or the quotes of JSON.

    Raises what `read_directive` does.
    """
    _check(source, most_bytes)
    found = unwrapped(source) if lenient else None
    if found is None:
        return Source(source, _directive(source))
    _check(found.text, most_bytes)  # escapes can be those of a lone surrogate
    return Source(found.text, _directive(found.text[found.start :]), found.said)


def read_directive(source: str, most_bytes: int) -> Directive:
    """The directive of a source that may run.

    Raises InvalidSource for a source that is empty, that cannot be UTF-8, or whose directive is wrong;
    PayloadTooLarge for one of more than `most_bytes`.
    """
    _check(source, most_bytes)
    return _directive(source)


def _check(source: str, most_bytes: int) -> None:
    if not isinstance(source, str):
        raise InvalidSource(f"the source is {type(source).__name__}, no text; expected JavaScript")
    try:
        size = len(source.encode())
    except UnicodeEncodeError:
        raise InvalidSource("the source holds a lone surrogate, which no UTF-8 text can; send it escaped") from None
    if size > most_bytes:
        raise PayloadTooLarge(f"the source has {size} bytes; at most {most_bytes} are accepted", is_source=True)


def _directive(source: str) -> Directive:
    if not source.strip(BLANK):
        raise InvalidSource("the source is empty; expected JavaScript")
    first, _, rest = source.partition("\n")
    found = _DIRECTIVE.fullmatch(first.rstrip("\r"))
    if found is None:
        return Directive()
    directive = Directive(**_values(found[1]))
    if not rest.strip(BLANK):
        raise InvalidSource("there is no source below the first-line directive; expected JavaScript on the lines below")
    return directive


def _values(text: str) -> dict[str, int | None]:
    try:
        given = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise InvalidSource(f"the first-line directive is not JSON; {_EXPECTED}") from None
    if not isinstance(given, dict):
        raise InvalidSource(f"the first-line directive is no JSON object; {_EXPECTED}")
    for key in given:
        if key not in _KEYS:
            raise InvalidSource(f"the first-line directive has an unknown key {key[:100]!r}; {_EXPECTED}")
    return {key: _number(key, value) for key, value in given.items() if value is not None}


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _number(key: str, value: Any) -> int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= _MOST or value != int(value):
        raise InvalidSource(f"{key} in the first-line directive: expected a whole number from 0 to {_MOST}, or null")
    return int(value)


def is_quoted_script(source: str) -> bool:
    """Whether the whole source is one JSON string: valid JavaScript that does nothing, and never what was meant."""
    return unquoted(source) is not None
