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
_PLACE: Final = re.compile(r"\S*?:(\d+): ([A-Za-z]*Error: )?(.*)")


class Place(NamedTuple):
    """Line and column of a syntax error in the caller's text, both from 1, and V8's message."""

    line: int
    column: int
    message: str


def locate(isolate: Isolate, source: str) -> Place | None:
    """The place of the first syntax error of `source`; None if V8 does not tell."""
    body = "//" + source[2:] if source.startswith("#!") else source
    failure = _failure(isolate, body, "(", "\n})") or _failure(isolate, body, "[", "\n}]")
    if failure is None:
        return None
    last_line = body.count("\n") + 1
    if failure.line <= last_line:
        return failure
    # The parser came to the wrapper's end. Either the body had closed the wrapper's function, or it is not complete.
    if _failure(isolate, body, "(", "\n)") is None:
        at = body.rfind("}")
        return Place(
            body.count("\n", 0, at) + 1, _units(body[body.rfind("\n", 0, at) + 1 : at]) + 1, "Unexpected token '}'"
        )
    return Place(last_line, _units(body[body.rfind("\n") + 1 :]) + 1, "Unexpected end of input")


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
    column = _units(lines[1][: lines[2].index("^")]) + 1
    return Place(int(found[1]) - _LINES_BEFORE, column, found[3])


def _units(text: str) -> int:
    """Length in UTF-16 units, as columns are counted."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
