"""The values that store() keeps for a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_MOST_KEY_SHOWN: Final = 100
_MOST_WARNINGS: Final = 20
_MOST_WRITTEN: Final = 100_000  # keys of which it is known who wrote them last


class StoredValues:
    """JSON texts by key, merged cell by cell when cells end. `most_bytes` bounds keys and texts together."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._values: dict[str, str] = {}
        self._size = 0
        self._written: dict[int, tuple[int, str]] = {}  # hash of a key → (number of the merge, its cell)
        self._merges = 0

    @property
    def values(self) -> Mapping[str, str]:
        """What a cell sees that starts now."""
        return self._values

    @property
    def merges(self) -> int:
        """How many cells have written so far; a cell notes it at its start."""
        return self._merges

    def merge(self, cell_id: str, written: Mapping[str, str | None], seen_merges: int) -> list[str]:
        """Take what a cell wrote, None being a deletion.

        Returns warnings: the keys that another cell wrote since `seen_merges`, and what had no room.
        """
        warnings = []
        refused = 0
        self._merges += bool(written)
        for key, value in written.items():
            place = hash(key)  # a key may be long, and gone; two with one hash cost a needless warning
            merge, by = self._written.pop(place, (0, ""))
            if not self._put(key, value):
                refused += 1
                continue
            if merge > seen_merges:
                shown = key[:_MOST_KEY_SHOWN]
                warnings.append(f"the stored value {shown!r}, which cell {by} wrote meanwhile, was overwritten")
            self._written[place] = (self._merges, cell_id)
        for place in list(self._written)[: max(0, len(self._written) - _MOST_WRITTEN)]:
            del self._written[place]
        if len(warnings) > _MOST_WARNINGS:
            more = len(warnings) - _MOST_WARNINGS
            warnings[_MOST_WARNINGS:] = [f"{more} more stored values that other cells wrote meanwhile were overwritten"]
        if refused:
            warnings.append(f"{refused} stored value(s) were not kept: other cells have filled the session's store")
        return warnings

    def _put(self, key: str, value: str | None) -> bool:
        before = _size(key, self._values.get(key))
        grown = self._size - before + _size(key, value)
        if grown > self._most_bytes and grown > self._size:
            return False
        self._size = grown
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value
        return True


def _size(key: str, value: str | None) -> int:
    return 0 if value is None else len(key.encode("utf-8", "replace")) + len(value.encode())
