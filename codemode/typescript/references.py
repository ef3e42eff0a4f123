"""Finds what the references of a schema lead to. Only within the schema; nothing is fetched."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

MOST_PLACES: Final = 20_000  # of a schema that are searched for names; a megabyte of JSON has about so many
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_DATA: Final = ("const", "default", "enum", "example", "examples")


class References:
    """The named places of one schema: by `$id` and anchor, and by JSON pointer."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._bases: dict[int, str] = {}  # of objects, where it is not the root's
        self._named: dict[str, Any] = {"": root}
        self._search(root)

    def target(self, reference: str, place: Any) -> Any:
        """What a reference at a place leads to; None if that is nothing here."""
        try:
            document, fragment = urldefrag(urljoin(self._bases.get(id(place), ""), reference))
        except ValueError:
            return None
        if fragment and not fragment.startswith("/"):
            return self._named.get(f"{document}#{unquote(fragment)}")
        here = self._named.get(document)
        for step in fragment.split("/")[1:]:
            here = _step(here, unquote(step).replace("~1", "/").replace("~0", "~"))
        return here

    def _search(self, root: Any) -> None:
        left: list[tuple[Any, str]] = [(root, "")]
        seen: set[int] = set()
        while left and len(seen) < MOST_PLACES:
            each, base = left.pop()
            if not isinstance(each, dict | list) or id(each) in seen:
                continue
            seen.add(id(each))
            if isinstance(each, list):
                left += [(inner, base) for inner in each[:MOST_PLACES]]
                continue
            base = self._note(each, base)
            left += [(inner, base) for key, inner in each.items() if key not in _DATA]

    def _note(self, schema: dict[str, Any], base: str) -> str:
        """Remember the names of an object; the base of what is in it."""
        identity = schema.get("$id", schema.get("id"))
        if isinstance(identity, str):
            try:
                document, fragment = urldefrag(urljoin(base, identity))
            except ValueError:
                document, fragment = base, ""
            if fragment:  # draft 7 writes an anchor so
                self._named.setdefault(f"{document}#{fragment}", schema)
            else:
                base = document
                self._named.setdefault(base, schema)
        for key in _ANCHORS:
            if isinstance(schema.get(key), str):
                self._named.setdefault(f"{base}#{schema[key]}", schema)
        if base:
            self._bases[id(schema)] = base
        return base


def _step(place: Any, step: str) -> Any:
    if isinstance(place, dict):
        return place.get(step)
    if isinstance(place, list) and step.isascii() and step.isdecimal() and int(step[:9]) < len(place):
        return place[int(step[:9])]
    return None
