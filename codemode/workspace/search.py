"""Finding text, and names, in the files of a workspace.

Text is looked for as it stands, never as a regular expression. Python's `re` can backtrack for ever
and cannot be interrupted, and a script has a better place for its expressions: its own isolate, which
can be killed. So the host finds candidate lines in linear time, and the script filters them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

from pydantic import Field

from codemode.workspace.pages import MIB, read_at
from codemode.workspace.paths import Parts, Refusal, Root, open_file
from codemode.workspace.tree import Budget, Folder, entry_type, visit

MAX_FILE_BYTES = 4 * MIB
"""Largest file that is searched; it is held in memory, once more to ignore case."""

MAX_PATTERN_CHARS = 1000
"""Longest text that is looked for."""

LINE_BYTES = 400
"""Most bytes of a line that are shown, around what was found."""

BINARY_PROBE_BYTES = 8192
"""A NUL among that many first bytes marks a binary file, as in git."""

MAX_DEPTH = 256
"""Levels that a search goes down: as many as a path may have parts."""


@dataclass(frozen=True, slots=True)
class Match:
    """One matching line, or with no pattern one matching file."""

    path: Annotated[str, Field(description="relative to the workspace")]
    line: Annotated[int | None, Field(description="from 1; null when only names were searched")] = None
    column: Annotated[int | None, Field(description="from 1, in UTF-16 units as in JavaScript")] = None
    text: Annotated[str | None, Field(description="the line; a long one is cut around the match, with … where cut")] = (
        None
    )


@dataclass(slots=True)
class Skipped:
    """How many things were not searched, by reason."""

    binary: int = 0
    too_large: int = 0
    unreadable: int = 0
    not_regular: Annotated[int, Field(description="symbolic links, pipes, sockets, devices")] = 0


@dataclass(slots=True)
class Search:
    """One search: what to look for, and what was found so far. `needle` None looks at names only."""

    root: Root
    needle: bytes | None
    ignore_case: bool
    wanted: Callable[[str], bool]
    budget: Budget
    matches: list[Match] = field(default_factory=list)
    skipped: Skipped = field(default_factory=Skipped)
    files_searched: int = 0

    def run(self, base: Parts) -> None:
        """Search the file `base`, or the directory `base` and all below it."""
        with self.root.opened(base) as place:
            if not place.is_folder:
                self._file("/".join(base), partial(os.dup, place.fd))
                return
        with closing(visit(self.root, base, MAX_DEPTH, self.budget)) as folders:
            for folder in folders:
                if folder is None:
                    self.skipped.unreadable += 1
                else:
                    self._folder(folder)
        self.matches.sort(key=lambda match: (match.path.split("/"), match.line or 0))

    def _folder(self, folder: Folder) -> None:
        for entry in folder.entries:
            kind = entry_type(entry)
            if kind == "file":
                self._file(folder.path_of(entry), partial(open_file, folder.fd, entry.name))
            elif kind != "dir" and self.wanted(folder.path_of(entry)):
                self.skipped.not_regular += 1
            if not self.budget.take("entries", 0):
                return

    def _file(self, path: str, opening: Callable[[], int]) -> None:
        if not self.wanted(path):
            return
        if self.needle is None:
            self.files_searched += 1
            self._add(Match(path))
        elif (data := self._data(opening)) is not None:
            self.files_searched += 1
            for line, column, text in found_lines(data, self.needle, self.ignore_case):
                if not self._add(Match(path, line, column, text)):
                    return

    def _data(self, opening: Callable[[], int]) -> bytes | None:
        """The file's bytes if it is to be searched; else it is counted as skipped."""
        try:
            fd = opening()
            try:
                too_large = os.fstat(fd).st_size > MAX_FILE_BYTES
                data = b"" if too_large else read_at(fd, 0, MAX_FILE_BYTES + 1)
            finally:
                os.close(fd)
        except (OSError, Refusal):
            self.skipped.unreadable += 1
            return None
        if too_large or len(data) > MAX_FILE_BYTES:
            self.skipped.too_large += 1
        elif b"\0" in data[:BINARY_PROBE_BYTES]:
            self.skipped.binary += 1
        elif self.budget.take("bytes", len(data)):
            return data
        return None

    def _add(self, match: Match) -> bool:
        if self.budget.take_result(match.path, match.text or ""):
            self.matches.append(match)
            return True
        return False


def needle_of(pattern: str) -> bytes:
    """The bytes to look for; raises Refusal for a text that no line can have."""
    if not pattern or len(pattern) > MAX_PATTERN_CHARS:
        raise Refusal(f"is a pattern of {len(pattern)} characters; give 1 to {MAX_PATTERN_CHARS}")
    if "\n" in pattern:
        raise Refusal("is a pattern with a line break; lines are searched one by one")
    try:
        return pattern.encode()
    except UnicodeEncodeError:
        raise Refusal("is a pattern with a lone surrogate; no UTF-8 text has one") from None


def found_lines(data: bytes, needle: bytes, ignore_case: bool) -> Iterator[tuple[int, int, str]]:
    """Number, column and text of each line that has `needle` in it. Only ASCII letters lose their case."""
    # bytes.find is linear even for hostile needles (since Python 3.10), and lower() keeps every position.
    hay, needle = (data.lower(), needle.lower()) if ignore_case else (data, needle)
    line, counted, begin = 1, 0, 0
    while (at := hay.find(needle, begin)) >= 0:
        begin = data.rfind(b"\n", begin, at) + 1 or begin
        line += data.count(b"\n", counted, begin)
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield line, _column(data[begin:at]), _excerpt(data, begin, at, end)
        counted, begin = begin, end + 1


def _column(before: bytes) -> int:
    return len(before.decode("utf-8", "replace").encode("utf-16-le")) // 2 + 1


def _excerpt(data: bytes, begin: int, at: int, end: int) -> str:
    """The line data[begin:end] without its end, cut to LINE_BYTES around what was found at `at`."""
    if end > begin and data.endswith(b"\r", begin, end):
        end -= 1
    left, right = begin, end
    if end - begin > LINE_BYTES:
        left = max(begin, min(at - LINE_BYTES // 4, end - LINE_BYTES))
        right = left + LINE_BYTES
        left, right = _boundary(data, left), _boundary(data, right)
    text = data[left:right].decode("utf-8", "replace")
    return ("…" if left > begin else "") + text + ("…" if right < end else "")


def _boundary(data: bytes, position: int) -> int:
    """The next position that is not within a character."""
    for step in range(3):
        if position + step >= len(data) or data[position + step] & 0xC0 != 0x80:
            return position + step
    return position
