"""Tells what a command prints while it runs: in few pieces, of whole characters, and not without end."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Callable
from typing import Final

PIECE_BYTES: Final = 8192
PIECE_SECONDS: Final = 0.1
MOST_BYTES: Final = 1024 * 1024
NO_MORE: Final = "[… further output is not told …]"


class Telling:
    """Hands text on once 8 KiB are there or 100 ms after its first byte; 1 MiB in all, and then one last text.

    `tell` must not raise.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = bytearray()
        self._left = MOST_BYTES
        self._timer: asyncio.TimerHandle | None = None

    def add(self, data: bytes) -> None:
        """Take the next piece of output."""
        if self._left < 0:
            return
        self._waiting += data[: self._left + 1]  # a byte too many says that there is more
        while len(self._waiting) >= PIECE_BYTES and self._left >= 0:
            self._hand_on(PIECE_BYTES)
        if self._waiting and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PIECE_SECONDS, self._hand_on, PIECE_BYTES)

    def finish(self) -> None:
        """Hand on what is left: there is no more."""
        self._hand_on(PIECE_BYTES, final=True)

    def _hand_on(self, most: int, *, final: bool = False) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._left < 0:
            return
        piece = bytes(self._waiting[: min(most, self._left)])
        is_more = len(self._waiting) > self._left
        del self._waiting[: len(piece)]
        self._left -= len(piece)
        text = self._decoder.decode(piece, final and not is_more)
        if text:
            self._tell(text)
        if is_more:
            self._left = -1
            self._waiting.clear()
            self._tell(NO_MORE)
