"""Where a source does not parse.

The body of a script is compiled as that of a function, which refuses whatever could close that
function but does not say where. So the same text is parsed once more inside a wrapper that throws
before anything of it could run, and V8's message is read.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from codemode.isolation.isolate import EvaluationError, Isolate, ParseError

_OPEN: Final = 'throw 0;{0}async()=>{{"use strict";\n'
_LINES_BEFORE: Final = 1
_LINE_END: Final = re.compile(r"\r\n|[\n\r\u2028\u2029]")  # as JavaScript counts lines
_PLACE: Final = re.compile(r"\S*?:(\d+): ([A-Za-z]*Error: )?(.*)")


class Place(NamedTuple):
    """Line and column of a syntax error in the caller's text, both from 1, and V8's message."""

    line: int
    column: int
    message: str


def locate(isolate: Isolate, source: str) -> Place | None:
    """The place of the first syntax error of `source`; None if V8 does not tell."""
    body = "//" + source[2:] if source.startswith("#!") else source
    last_line = len(_LINE_END.findall(body)) + 1
    failures = [_failure(isolate, body, "(", "\n})"), _failure(isolate, body, "[", "\n}]")]
    within = [failure for failure in failures if failure is not None and failure.line <= last_line]
    if within:
        return min(within)
    if failures == [None, None]:
        return None
    # The parser came to the wrapper's end. Either the body had closed the wrapper's function, or it is not complete.
    if _failure(isolate, body, "(", "\n)") is None:
        return _place(body, body.rfind("}"), "Unexpected token '}'")
    return _place(body, len(body), "Unexpected end of input")


def _place(body: str, at: int, message: str) -> Place:
    ends = [end.end() for end in _LINE_END.finditer(body, 0, at)]
    return Place(len(ends) + 1, _units(body[ends[-1] if ends else 0 : at]) + 1, message)


def _failure(isolate: Isolate, body: str, opening: str, closing: str) -> Place | None:
    text = _OPEN.format(opening) + body + closing
    try:
        isolate.evaluate(text.encode("utf-8", "replace").decode())
    except ParseError as problem:
        return _read(str(problem))
    except EvaluationError:
        return None  # it parsed: this is the wrapper's own throw
    return None


def _read(message: str) -> Place | None:
    """V8's message: `<anonymous>:LINE: SyntaxError: WHAT`, the line, a marker below the place."""
    lines = message.split("\n")
    found = _PLACE.match(lines[0])
    if found is None or len(lines) < 3 or "^" not in lines[2]:
        return None
    if int(found[1]) <= _LINES_BEFORE:  # V8 gave up without a place
        return None
    # The marker stands behind as many blanks as the line has UTF-16 units before the place.
    return Place(int(found[1]) - _LINES_BEFORE, lines[2].index("^") + 1, found[3])


def _units(text: str) -> int:
    """Length in UTF-16 units, as columns are counted."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
