"""Keeps the beginning and the end of what a command prints, and cuts what a caller is shown to its budget."""

from __future__ import annotations

import codecs
from typing import Final

BYTES_PER_TOKEN: Final = 4
"""A token is 4 bytes of UTF-8, rounded up: an estimate that needs no tokenizer."""

_MOST_CONTINUATIONS: Final = 3  # bytes of one character after its first


class HeadTail:
    """Output in at most `limit` bytes: its first and its last half. What lies between is counted.

    Bytes may come in any pieces. What is not UTF-8 becomes U+FFFD; no character is cut, neither where something was
    left out nor between two takes.
    """

    def __init__(self, limit: int) -> None:
        self._head_most = limit // 2
        self._tail_most = limit - self._head_most
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, data: bytes) -> None:
        """Take the next piece; costs no more than its copy, however much came before."""
        room = self._head_most - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-self._tail_most :]
            excess = max(0, len(self._tail) - self._tail_most)
            self._left_out += excess + max(0, len(data) - self._tail_most)
            del self._tail[:excess]

    def text(self) -> str:
        """All that is kept, with a line that counts the bytes that are not."""
        if not self._left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        end = len(self._head) - unfinished(self._head)
        start = _continuations(self._tail)
        left_out = self._left_out + len(self._head) - end + start
        head, tail = (part.decode("utf-8", "replace") for part in (self._head[:end], self._tail[start:]))
        return f"{head}\n[… {left_out} bytes omitted …]\n{tail}"

    def take(self, *, final: bool) -> str:
        """The text, and begin anew; a last character that is not whole yet waits for the next time, unless `final`."""
        whole = self._tail if self._left_out else self._head + self._tail
        count = 0 if final else unfinished(whole)
        waiting = whole[len(whole) - count :]
        if self._left_out:
            del self._tail[len(self._tail) - count :]
            text = self.text()
        else:
            text = whole[: len(whole) - count].decode("utf-8", "replace")
        self._head, self._tail, self._left_out = bytearray(), bytearray(), 0
        self.add(bytes(waiting))
        return text


def unfinished(data: bytes | bytearray) -> int:
    """How many bytes at the end of `data` begin a character that is not whole."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(bytes(data[-_MOST_CONTINUATIONS:]))
    return len(decoder.getstate()[0])


def within_tokens(text: str, budget: int) -> str:
    """The text if it has at most `budget` tokens; else its head and tail, and how many tokens are missing between."""
    data = text.encode("utf-8", "replace")
    most = budget * BYTES_PER_TOKEN
    if len(data) <= most:
        return text
    half = most // 2
    end = half - unfinished(data[:half])
    tail = data[len(data) - half :]
    tail = tail[_continuations(tail) :]
    missing = -(-(len(data) - most) // BYTES_PER_TOKEN)
    return f"{data[:end].decode()}…{missing} tokens truncated…{tail.decode()}"


def _continuations(data: bytes | bytearray) -> int:
    """How many bytes at the start of `data` may belong to a character before it."""
    count = 0
    while count < min(len(data), _MOST_CONTINUATIONS) and data[count] & 0xC0 == 0x80:
        count += 1
    return count
