"""Reading a run of whole lines out of a file, with bounded memory whatever the file's size."""

from __future__ import annotations

import os
from dataclasses import dataclass

from codemode.workspace.paths import Refusal

MIB = 1024 * 1024

MAX_READ_BYTES = 4 * MIB
"""Most bytes handed over at once: doubled by escapes, ordinary text still fits the 8 MiB of a tool's result."""

MAX_SCAN_BYTES = 256 * MIB
"""Most bytes looked through for the place of a line, or counted for the total: about 0.2 s from a warm disk."""

CHUNK_BYTES = 256 * 1024
"""Bytes read at a time while lines are only counted."""


@dataclass(frozen=True, slots=True)
class Page:
    """Whole lines of a file. `total_lines` is None where counting them would take too long."""

    text: str
    lines: int
    total_lines: int | None
    more: bool


def read_page(fd: int, first: int, limit: int | None) -> Page:
    """The lines from number `first` (from 1), at most `limit` and at most MAX_READ_BYTES of them.

    Only a line feed ends a line. Past the end of the file there is nothing, which is no error.
    Raises Refusal if a line alone is too long, lies too deep, or is not UTF-8.
    """
    start = _line_start(fd, first)
    read = read_at(fd, start, MAX_READ_BYTES + 1)
    page = read[: _page_end(read, first, limit)]
    feeds = page.count(b"\n")
    total = _total_lines(fd, start + len(page), first - 1 + feeds, page[-1:]) if page else _total_lines(fd, 0, 0, b"")
    return Page(_decoded(page, first), feeds + _has_tail(page), total, more=len(page) < len(read))


def read_at(fd: int, start: int, size: int) -> bytes:
    """Up to `size` bytes from `start` on: fewer only where the file ends."""
    pieces = []
    while size > 0 and (piece := os.pread(fd, min(size, MIB), start)):
        pieces.append(piece)
        start += len(piece)
        size -= len(piece)
    return b"".join(pieces)


def after_line_feed(data: bytes, number: int, end: int) -> int:
    """Where the line after line feed `number` of data[:end] begins; `end` if there are fewer."""
    if data.count(b"\n", 0, end) < number:
        return end
    low, feeds_below, high = 0, 0, end
    while high - low > 1:
        middle = (low + high) // 2
        feeds = feeds_below + data.count(b"\n", low, middle)
        if feeds >= number:
            high = middle
        else:
            low, feeds_below = middle, feeds
    return high


def _line_start(fd: int, first: int) -> int:
    position, missing = 0, first - 1
    while missing > 0 and (chunk := os.pread(fd, CHUNK_BYTES, position)):
        feeds = chunk.count(b"\n")
        if feeds >= missing:
            return position + after_line_feed(chunk, missing, len(chunk))
        missing -= feeds
        position += len(chunk)
        if position >= MAX_SCAN_BYTES:
            size = MAX_SCAN_BYTES // MIB
            raise Refusal(f"has its line {first} beyond the first {size} MiB; read_file looks no further")
    return position


def _page_end(read: bytes, first: int, limit: int | None) -> int:
    end = len(read)
    if end > MAX_READ_BYTES:
        end = read.rfind(b"\n", 0, MAX_READ_BYTES) + 1
        if end == 0:
            size = MAX_READ_BYTES // MIB
            raise Refusal(f"has more than {size} MiB in line {first}; read_file gives whole lines: go on at the next")
    return end if limit is None else after_line_feed(read, limit, end)


def _total_lines(fd: int, position: int, feeds: int, last: bytes) -> int | None:
    while chunk := os.pread(fd, CHUNK_BYTES, position):
        position += len(chunk)
        if position > MAX_SCAN_BYTES:
            return None
        feeds += chunk.count(b"\n")
        last = chunk[-1:]
    return feeds + _has_tail(last)


def _has_tail(data: bytes) -> bool:
    """Whether it ends within a line."""
    return bool(data) and not data.endswith(b"\n")


def _decoded(page: bytes, first: int) -> str:
    try:
        return page.decode()
    except UnicodeDecodeError as problem:
        line = first + page.count(b"\n", 0, problem.start)
        raise Refusal(f"is not UTF-8 text (see line {line}): it is binary, or in another encoding") from None
