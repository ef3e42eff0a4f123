"""Takes the types out of a source that does not parse, in the isolate that would run it.

The stripper is half a megabyte of JavaScript, which a process evaluates when it meets such a source and drops again.
It runs before anything of the script has: a text that was only refused has changed nothing in the isolate, while
`syntax.locate` may leave the names that the text declares. So stripping comes first.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from codemode.isolation.isolate import Isolate
from codemode.isolation.syntax import Place, locate


class Stripped(NamedTuple):
    """The text without its types, every other character where it was; or where it has what cannot be taken out.

    None of the three: there are no types in it, or it is nested too deeply to tell.
    """

    text: str | None = None
    unsupported: Place | None = None
    failure: Place | None = None  # where it is no TypeScript either

    @classmethod
    def read(cls, json_text: str) -> Stripped:
        """From the stripper's answer."""
        said = json.loads(json_text)
        places = {key: Place(**said[key]) for key in ("unsupported", "failure") if key in said}
        return cls(text=said.get("text"), **places)


def stripping(stripper: str, source: str) -> str:
    """The code whose value is the stripper's answer; it leaves no name behind."""
    return f"{stripper}({json.dumps(source)})"


def locate_unstripped(isolate: Isolate, source: str, stripped: Stripped) -> Place | None:
    """The place of the mistake that is worth telling, of a source that could not be stripped.

    What the engine says of the text as it was sent, unless a type alone has brought it to a halt: if the parser that
    knows them came further, it is the one that has met the mistake.
    """
    if stripped.unsupported is not None:
        return stripped.unsupported
    place, failure = locate(isolate, source), stripped.failure
    if place is None or failure is None:
        return place or failure
    return failure if (failure.line, failure.column) > (place.line, place.column) else place
