"""Going through the directories of a workspace within a budget, and listing them."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Generator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Annotated, Literal

from pydantic import Field

from codemode.workspace.paths import Parts, Refusal, Root, plain

MAX_SECONDS = 5.0
"""Longest that one call goes through a tree, so that it cannot hold its thread for long."""

MAX_ENTRIES = 100_000
"""Most directory entries looked at in one call: about half a second, and bounds what is kept for sorting."""

MAX_BYTES = 256 * 1024 * 1024
"""Most bytes of files read in one call."""

MAX_RESULT_BYTES = 2 * 1024 * 1024
"""Most bytes of names and text handed over in one call: far below the 8 MiB of a tool's result."""

UNVISITED = ".git"
"""Not gone into unless a call starts there: large, and of no interest to a reader of the work tree."""

Resource = Literal["results", "entries", "bytes", "size", "time"]
EntryType = Literal["file", "dir", "symlink", "other"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing in a directory."""

    name: str
    path: Annotated[str, Field(description="relative to the workspace")]
    type: EntryType
    size: Annotated[int | None, Field(description="bytes; null unless a file")]


class Budget:
    """What one call may still use up; `spent` names the first thing that ran out."""

    def __init__(self, results: int) -> None:
        self._deadline = time.monotonic() + MAX_SECONDS
        self._left: dict[Resource, int] = {
            "results": results,
            "entries": MAX_ENTRIES,
            "bytes": MAX_BYTES,
            "size": MAX_RESULT_BYTES,
        }
        self.spent: Resource | None = None

    def take(self, what: Resource, amount: int = 1) -> bool:
        """Use up some of it. False once anything has run out: the call then ends with what it has."""
        if self.spent is None and time.monotonic() >= self._deadline:
            self.spent = "time"
        if self.spent is None:
            self._left[what] -= amount
            if self._left[what] < 0:
                self.spent = what
        return self.spent is None

    def take_result(self, *texts: str) -> bool:
        """Use up one result with these texts."""
        return self.take("results") and self.take("size", sum(len(text.encode()) for text in texts))


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory that is open for as long as it is the current one of `visit`."""

    fd: int
    parts: Parts
    entries: list[os.DirEntry[str]]

    def path_of(self, entry: os.DirEntry[str]) -> str:
        """Its path as a script would give it."""
        return plain("/".join((*self.parts, entry.name)))

    def subfolders(self) -> list[str]:
        """Names of the directories in it that are to be gone into."""
        return [entry.name for entry in self.entries if entry.name != UNVISITED and entry_type(entry) == "dir"]


def visit(root: Root, base: Parts, depth: int, budget: Budget) -> Generator[Folder | None, None, None]:
    """The directory `base` and those below it, to `depth` levels, breadth first; close it when done.

    Links are not followed, apart from those in `base`. None stands for a directory that could not
    be read. Raises Refusal or OSError if `base` cannot be.
    """
    queue = deque([(base, 1)])
    while queue and budget.spent is None:
        parts, level = queue.popleft()
        try:
            with root.opened(parts) as place:
                if not place.is_folder:
                    raise Refusal("is a file, not a directory; use read_file")
                folder = Folder(place.fd, parts, _scan(place.fd, budget))
                if level < depth:
                    queue.extend(((*parts, name), level + 1) for name in folder.subfolders())
                yield folder
        except (OSError, Refusal):
            if parts == base:
                raise
            yield None


def list_tree(root: Root, base: Parts, depth: int, budget: Budget) -> list[Entry]:
    """What is in the directory `base`, and to `depth` levels below it, sorted by path."""
    entries: list[Entry] = []
    with closing(visit(root, base, depth, budget)) as folders:
        for folder in filter(None, folders):
            found = (_entry(folder, entry) for entry in folder.entries)
            entries.extend(takewhile(lambda entry: budget.take_result(entry.name, entry.path), found))
    return sorted(entries, key=lambda entry: entry.path.split("/"))


def entry_type(entry: os.DirEntry[str]) -> EntryType:
    """What it is by itself, a link not followed."""
    try:
        if entry.is_symlink():
            return "symlink"
        if entry.is_dir(follow_symlinks=False):
            return "dir"
        return "file" if entry.is_file(follow_symlinks=False) else "other"
    except OSError:
        return "other"


def _scan(fd: int, budget: Budget) -> list[os.DirEntry[str]]:
    with os.scandir(fd) as found:
        entries = list(takewhile(lambda _: budget.take("entries"), found))
    return sorted(entries, key=lambda entry: entry.name)


def _entry(folder: Folder, found: os.DirEntry[str]) -> Entry:
    kind = entry_type(found)
    size = None
    if kind == "file":
        with suppress(OSError):
            size = found.stat(follow_symlinks=False).st_size
    return Entry(plain(found.name), folder.path_of(found), kind, size)
