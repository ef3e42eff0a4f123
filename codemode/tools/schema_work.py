"""How much work a JSON Schema can make, found before anything is done with it: inputs are checked in the event loop.

A schema is a text of some kilobytes that may stand for any number of steps, as each reference leads to the same place
again: thirty times `{"allOf": [{"$ref": "#/$defs/next"}, {"$ref": "#/$defs/next"}]}` are a billion steps. And it may
lead so deep that the stack ends, which no Python code can catch: 250 references in a row, gone along again at each of
200 levels of an input, ended the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

MOST_STEPS: Final = 1_000_000  # for one value
MOST_DEPTH: Final = 64  # of schemas in schemas, references followed
MOST_COMPILING: Final = 1_000_000  # about microseconds, for all tools of a session
MOST_WORK: Final = 100_000_000  # steps for an input as a whole: half a second at most, with 5 ns for each

_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_MAPS: Final = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_DEFINITIONS: Final = ("$defs", "definitions")  # count where they are referred to
_DATA: Final = ("const", "default", "example", "examples")
_LISTS: Final = ("enum", "required")
_BOUND: Final = re.compile(r"(\)?)\{(?:\d+,)?(\d{1,9})")  # of a repetition; behind a group or not
_OF_UNICODE: Final = re.compile(r"\\p", re.IGNORECASE)
_OF_UNICODE_US: Final = 300  # \p{L} has hundreds of ranges, which are made again for each time it may come
_META: Final = "json-schema.org/"  # whose schemas the validator knows
_META_SCHEMA: Final = {"enum": [None] * 1000}  # stands for one of those, which is no larger


class TooMuch(Exception):
    """A schema that makes too much work; the text says why."""


class Work(NamedTuple):
    """What a schema costs.

    `steps` are for one value at most, `reading` those for each byte of a text. `depth` is how deep schemas lead into
    each other, `compiling` about the microseconds that its patterns take to be compiled.
    """

    steps: int = 1
    reading: int = 0
    depth: int = 1
    compiling: int = 0

    def allows(self, value: Any, size: int) -> bool:
        """Whether an input, whose JSON has `size` bytes, can be checked without holding up everybody."""
        if (self.steps + self.reading) * size <= MOST_WORK:
            return True
        return self.reading * size + self.steps * _values(value, MOST_WORK // self.steps + 1) <= MOST_WORK


def work_of(schema: Any) -> Work:
    """What a schema costs. Raises TooMuch, and ValueError for a reference that leads nowhere.

    Every part counts as if each value had to pass it; one that leads back to itself counts once, as the validator
    remembers what it has found there.
    """
    work = _Count(schema).of(schema, 0)
    if work.steps > MOST_STEPS:
        raise TooMuch(f"it stands for more than {MOST_STEPS} steps, its references followed")
    if work.compiling > MOST_COMPILING:
        raise TooMuch("its patterns, with their repetitions written out, are too long")
    return work


def _values(value: Any, most: int) -> int:
    """How many values there are in an input, itself among them; counted no farther than `most`."""
    left, count = [value], 0
    while left and count < most:
        each = left.pop()
        count += 1
        if isinstance(each, dict):
            left += each.values()
        elif isinstance(each, list):
            left += each
    return count


def _pattern_work(pattern: str) -> tuple[int, int]:
    """Steps for each byte that is read, and about the microseconds it takes to be compiled: repetitions are copies."""
    single = group = 1
    for closes, most in _BOUND.findall(pattern):
        if closes:
            group = max(group, int(most))
        else:
            single = max(single, int(most))
    copies = single * group
    return copies, copies * (len(pattern) + _OF_UNICODE_US * len(_OF_UNICODE.findall(pattern)))


class _Count:
    """The work of the parts of one schema, each found once."""

    def __init__(self, root: Any) -> None:
        self._known: dict[int, Work | None] = {}  # by identity; None for one that is being counted
        self._base: dict[int, str] = {}  # of every object in it, for its references
        self._named: dict[str, list[Any]] = {"": [root]}  # by URI, with an anchor behind #
        self._find_names(root)

    def _find_names(self, root: Any) -> None:
        left = [(root, "")]
        while left:
            each, base = left.pop()
            if isinstance(each, dict):
                base = self._note(each, base)
                left += ((inner, base) for inner in each.values())
            elif isinstance(each, list):
                left += ((inner, base) for inner in each)

    def _note(self, schema: dict[str, Any], base: str) -> str:
        for key in ("$id", "id"):
            if isinstance(schema.get(key), str):
                base, anchor = urldefrag(_joined(base, schema[key]))
                self._named.setdefault(f"{base}#{anchor}" if anchor else base, []).append(schema)
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(key), str):
                self._named.setdefault(f"{base}#{schema[key]}", []).append(schema)
        self._base[id(schema)] = base
        return base

    def of(self, schema: Any, depth: int) -> Work:
        """The work of one part, `depth` levels down."""
        if not isinstance(schema, dict):
            return Work()
        if id(schema) in self._known:
            return self._known[id(schema)] or Work()
        if depth > MOST_DEPTH:
            raise TooMuch(f"it leads more than {MOST_DEPTH} levels deep, its references followed")
        self._known[id(schema)] = None
        parts = [self.of(part, depth + 1) for part in self._parts(schema)]
        listed = sum(len(schema[key]) for key in _LISTS if isinstance(schema.get(key), list))
        patterns = [_pattern_work(each) for each in _patterns(schema)]
        work = Work(
            1 + listed + sum(part.steps for part in parts),
            ("format" in schema) + sum(each[0] for each in patterns) + sum(part.reading for part in parts),
            1 + max((part.depth for part in parts), default=0),
            sum(each[1] for each in patterns) + sum(part.compiling for part in parts),
        )
        if depth + work.depth > MOST_DEPTH:
            raise TooMuch(f"it leads more than {MOST_DEPTH} levels deep, its references followed")
        self._known[id(schema)] = work
        return work

    def _parts(self, schema: dict[str, Any]) -> Iterator[Any]:
        for key, value in schema.items():
            if key in _REFERENCES and isinstance(value, str):
                yield from self._targets(value, self._base[id(schema)], any_base=key != "$ref")
            elif key in _MAPS and isinstance(value, dict):
                yield from value.values()
            elif key not in _DATA and key not in _DEFINITIONS and key not in _LISTS:
                yield from value if isinstance(value, list) else [value] if isinstance(value, dict) else []

    def _targets(self, reference: str, base: str, *, any_base: bool) -> list[Any]:
        """What a reference may lead to. Raises ValueError for what is not found here, though the validator might."""
        document, fragment = urldefrag(_joined(base, reference))
        if _META in document and document not in self._named:
            return [_META_SCHEMA]
        if fragment and not fragment.startswith("/"):
            wanted = f"#{unquote(fragment)}"
            names = [name for name in self._named if any_base and name.endswith(wanted)] or [f"{document}{wanted}"]
            found = [schema for name in names for schema in self._named.get(name, ())]
        else:
            steps = [unquote(step).replace("~1", "/").replace("~0", "~") for step in fragment.split("/")[1:]]
            found = [place for each in self._named.get(document, ()) for place in _at(each, steps)]
        if not found:
            raise ValueError(f"it refers to {reference[:100]}; only references within the schema are followed")
        return found


def _patterns(schema: dict[str, Any]) -> Iterator[str]:
    if isinstance(schema.get("pattern"), str):
        yield schema["pattern"]
    if isinstance(schema.get("patternProperties"), dict):
        yield from schema["patternProperties"]


def _at(place: Any, steps: list[str]) -> list[Any]:
    """What a JSON pointer leads to, if anything."""
    for step in steps:
        if isinstance(place, dict) and step in place:
            place = place[step]
        elif isinstance(place, list) and step.isdecimal() and int(step[:9]) < len(place):
            place = place[int(step[:9])]
        else:
            return []
    return [place]


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference
