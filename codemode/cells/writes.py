"""What the script of one cell stored, as its process tells it just before the end; then merged into its session."""

from __future__ import annotations

from typing import Final

from codemode.isolation.wire import ProtocolError
from codemode.limits import MIB, STORED_VALUE_BYTES

# The script itself is held to the session's limit; this bounds a process that does not keep to it, and keys that were
# stored and deleted again.
_TIMES: Final = 2
_MOST_AGAIN: Final = 10_000  # times that a key comes again; from an honest process each comes once


class StoreWrites(dict[str, str | None]):
    """JSON texts by key, None for a deletion. Written through `put` alone."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._most = _TIMES * most_bytes + MIB
        self._size = 0
        self._again = 0

    def put(self, key: str, value: str | None) -> None:
        """Note one. Raises ProtocolError for far more than a session may hold."""
        if key in self:
            self._again += 1
            self._size -= _size(key, self[key])
        self._size += _size(key, value)
        self[key] = value
        if self._size > self._most or self._again > _MOST_AGAIN:
            raise ProtocolError("it stores far more than its session may hold")


def _size(key: str, value: str | None) -> int:
    return len(key) if value is None else STORED_VALUE_BYTES + len(key) + len(value)
