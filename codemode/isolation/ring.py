"""Reads the ring of shared memory that a script's output goes through (runtime_js/20_ring.js).

Reading does not enter the isolate, so it works while the script is busy. The memory belongs to
hostile code: positions and sizes are checked before they are used.
"""

from __future__ import annotations

import struct
import threading
from typing import Final

from codemode.isolation.wire import ProtocolError

HEADER: Final = 64
_WIDE: Final = 0x100
_MORE: Final = 0x200
_INT: Final = struct.Struct("<i")
_RECORD: Final = struct.Struct("<Ii")


class Ring:
    """The host's end of the ring. `most` bounds a record that comes in parts, in bytes."""

    def __init__(self, memory: memoryview, most: int) -> None:
        self._memory = memory
        self._data = memory[HEADER:]
        self._capacity = len(self._data)
        self._mask = self._capacity - 1
        self._most = most
        self._read = 0
        self._parts: list[str] = []
        self._parts_size = 0
        self._barrier = threading.Lock()

    def drain(self) -> list[tuple[int, bytes]]:
        """(kind, UTF-8 payload) of every record written so far; gives their room back to the writer.

        Raises ProtocolError when the ring's contents make no sense or a record is over `most`.
        """
        written = _INT.unpack_from(self._memory, 0)[0]
        with self._barrier:  # what precedes the position in memory is read after it, on every processor
            pass
        if (written - self._read) & 0xFFFFFFFF > self._capacity:
            raise ProtocolError("the ring claims to hold more than fits")
        records: list[tuple[int, bytes]] = []
        while self._read != written:
            records += self._next(written)
        _INT.pack_into(self._memory, 4, self._read)
        return records

    def _next(self, written: int) -> list[tuple[int, bytes]]:
        kind, size = _RECORD.unpack_from(self._data, self._read & self._mask)
        length = 8 + (size + 7 & ~7)
        if not 0 <= size < self._capacity or length > (written - self._read) & 0xFFFFFFFF:
            raise ProtocolError("the ring does not hold what it says")
        text = self._bytes((self._read + 8) & self._mask, size).decode(
            "utf-16-le" if kind & _WIDE else "latin-1", "replace"
        )
        self._read = (self._read + length + 2**31) % 2**32 - 2**31
        if kind & _MORE or self._parts:
            self._parts.append(text)
            self._parts_size += max(size, 8)  # an empty part takes memory too
            if self._parts_size > self._most:
                raise ProtocolError("a record is longer than any output may be")
            if kind & _MORE:
                return []
            text = "".join(self._parts)
            self._parts, self._parts_size = [], 0
        return [(kind & 0xFF, text.encode("utf-8", "replace"))]

    def _bytes(self, at: int, size: int) -> bytes:
        end = at + size
        if end <= self._capacity:
            return bytes(self._data[at:end])
        return bytes(self._data[at:]) + bytes(self._data[: end - self._capacity])
