"""The values that store() keeps for a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_MOST_KEY_SHOWN: Final = 100


class StoredValues:
    """JSON texts by key, merged cell by cell when cells end. `most_bytes` bounds keys and texts together."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._values: dict[str, str] = {}
        self._size = 0
        self._written: dict[str, tuple[int, str]] = {}  # key → (number of the merge, its cell)
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
            merge, by = self._written.get(key, (0, ""))
            if not self._put(key, value):
                refused += 1
                continue
            if merge > seen_merges:
                shown = key[:_MOST_KEY_SHOWN]
                warnings.append(f"the stored value {shown!r}, which cell {by} wrote meanwhile, was overwritten")
            self._written[key] = (self._merges, cell_id)
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
