"""The values that store() keeps for a session."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

from codemode.limits import STORED_VALUE_BYTES

_MOST_KEY_SHOWN: Final = 100
_MOST_WARNINGS: Final = 20
_MOST_WRITTEN: Final = 100_000  # keys of which it is known who wrote them last


class StoredValues:
    """JSON texts by key, merged cell by cell when cells end.

    `most_bytes` bounds keys and texts together, with 64 bytes on top for each.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._values: dict[str, str] = {}
        self._size = 0
        self._written: dict[int, tuple[int, str]] = {}  # hash of a key → (number of the merge, its cell)
        self._merges = 0

    def load(self, values: Mapping[str, str]) -> None:
        """Begin with the values of an earlier run."""
        self._values = dict(values)
        self._size = _total(self._values)

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
        self._merges += bool(written)
        warnings = self._overwritten(written, seen_merges) if self._merges - 1 > seen_merges else []
        refused = 0
        kept = {key: value for key, value in written.items() if value is not None}
        replaced = {key: self._values[key] for key in self._values.keys() & written.keys()}
        grown = self._size + _total(kept) - _total(replaced)
        if grown <= self._most_bytes:  # the usual way, in few steps: a script may have stored tens of thousands
            self._size = grown
            self._values.update(kept)
            for key in written.keys() - kept.keys():
                self._values.pop(key, None)
        else:
            refused = len(written)
            written = {key: value for key, value in written.items() if self._put(key, value)}
            refused -= len(written)
        self._written.update(dict.fromkeys(map(hash, written), (self._merges, cell_id)))
        excess = len(self._written) - _MOST_WRITTEN
        if excess > 0:
            self._written = dict(itertools.islice(self._written.items(), excess, None))
        if len(warnings) > _MOST_WARNINGS:
            more = len(warnings) - _MOST_WARNINGS
            warnings[_MOST_WARNINGS:] = [f"{more} more stored values that other cells wrote meanwhile were overwritten"]
        if refused:
            warnings.append(f"{refused} stored value(s) were not kept: other cells have filled the session's store")
        return warnings

    def _overwritten(self, written: Mapping[str, str | None], seen_merges: int) -> list[str]:
        """What other cells wrote since then, that is written now."""
        said = []
        for key in written:
            merge, by = self._written.get(hash(key), (0, ""))
            if merge > seen_merges:
                shown = key[:_MOST_KEY_SHOWN]
                said.append(f"the stored value {shown!r}, which cell {by} wrote meanwhile, was overwritten")
        return said

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
    return 0 if value is None else STORED_VALUE_BYTES + _bytes(key) + _bytes(value)


def _total(values: Mapping[str, str]) -> int:
    return STORED_VALUE_BYTES * len(values) + _bytes("".join(values)) + _bytes("".join(values.values()))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
