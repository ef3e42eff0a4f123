"""The frames between the service and a cell process, both ways on one stream socket.

A frame is its payload's length (4 bytes), its kind (1 byte) and the payload. Text is UTF-8. What
comes from a cell process is hostile input: `Decoder` bounds it before it becomes anything, and
whoever reads a payload checks it. Standard library only: the cell process loads this module.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct("<IB")
_RESULT: Final = struct.Struct("<IB")
_STATE: Final = struct.Struct("<BIQQ")


class ToCell(enum.IntEnum):
    """What the service says to a cell process."""

    START = 1  # the configuration as JSON, once
    RESULT = 2  # of a nested call, see `result`
    STOP = 3  # hand over what output there is, then end


class FromCell(enum.IntEnum):
    """What a cell process says. 1 to 9 are the records of the ring (runtime_js/20_ring.js)."""

    TEXT = 1  # an output item of text
    ITEM = 2  # an image or audio item, JSON
    CALL = 3  # a nested call: its number, the tool's index, the input as JSON, separated by blanks
    NOTIFY = 4
    YIELD = 5
    STORE = 6  # the key as JSON, a line break, the value as JSON or nothing
    WARN = 7
    DONE = 8  # the end: {"status", "error", "timers"}
    STATE = 10  # see `State`
    READY = 11  # a spare has rehearsed, is confined (see `Confinement`) and waits for START


class ProtocolError(Exception):
    """A frame that no honest cell process sends; the process has to be ended."""


class State(NamedTuple):
    """How a cell process stands; sent when a turn of the isolate is over, and now and then during a long one."""

    idle: bool  # nothing runs until a result or a timer comes
    timers: bool  # some timer is pending
    delivered: int  # results taken in so far
    cpu_us: int  # CPU time since the script started
    heap_bytes: int  # the largest size of the JavaScript heap seen so far

    def encode(self) -> bytes:
        flags = self.idle | self.timers << 1
        return frame(FromCell.STATE, _STATE.pack(flags, self.delivered, self.cpu_us, self.heap_bytes))

    @classmethod
    def decode(cls, payload: bytes) -> State:
        """Raises ProtocolError for a payload of another size."""
        try:
            flags, delivered, cpu_us, heap_bytes = _STATE.unpack(payload)
        except struct.error:
            raise ProtocolError("a state of the wrong size") from None
        return cls(bool(flags & 1), bool(flags & 2), delivered, cpu_us, heap_bytes)


def frame(kind: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return _HEAD.pack(len(payload), kind) + payload


def result(number: int, well: bool, payload: bytes) -> bytes:
    """The result of call `number`: JSON if it went `well`, else the code of the error, a line break, its text."""
    return _HEAD.pack(_RESULT.size + len(payload), ToCell.RESULT) + _RESULT.pack(number, well) + payload


def read_result(payload: bytes) -> tuple[int, bool, str]:
    """The three parts of a RESULT payload."""
    number, well = _RESULT.unpack_from(payload)
    return number, bool(well), payload[_RESULT.size :].decode()


class Decoder:
    """Turns a stream into frames. `most` is the length that a payload may have."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """(kind, payload) of each frame that is complete by now.

        Raises ProtocolError, behind the good ones, for a frame that announces more than `most` bytes.
        The stream is read at the first step, so what a frame causes may feed more data.
        """
        self._buffer += data
        frames, breach = self._complete()
        yield from frames
        if breach is not None:
            raise breach

    def _complete(self) -> tuple[list[tuple[int, bytes]], ProtocolError | None]:
        buffer, frames, at = self._buffer, [], 0
        breach = None
        while len(buffer) - at >= _HEAD.size:
            length, kind = _HEAD.unpack_from(buffer, at)
            if length > self._most:
                breach = ProtocolError(f"a frame of {length} bytes, at most {self._most} are allowed")
                break
            end = at + _HEAD.size + length
            if len(buffer) < end:
                break
            frames.append((kind, bytes(memoryview(buffer)[at + _HEAD.size : end])))
            at = end
        del buffer[:at]
        return frames, breach

    @property
    def is_between_frames(self) -> bool:
        """Whether the stream may end here."""
        return not self._buffer
