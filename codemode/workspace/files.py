"""The read-only tools that `--workspace DIR` offers to scripts: read_file, list_dir, search_files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from codemode.errors import ToolError
from codemode.tools.tool import PythonHandler, Tool, tool
from codemode.workspace.globs import compile_glob
from codemode.workspace.pages import MAX_READ_BYTES, MIB, read_page
from codemode.workspace.paths import Refusal, Root, parse, refusals
from codemode.workspace.search import Match, Search, Skipped, needle_of
from codemode.workspace.tree import Budget, Entry, Resource, list_tree

MAX_LISTED = 5000
"""Most entries of one list_dir: about half a megabyte of JSON."""

MAX_LISTED_LEVELS = 20
"""Deepest that list_dir goes down; more is a task for search_files."""

MAX_MATCHES = 2000
"""Most matches of one search_files: at most about a megabyte of JSON, and more than a script should show a model."""

_REGEX_SIGNS = frozenset("\\^$.*+?()[]|")

WorkspacePath = Annotated[str, Field(description="relative to the workspace, with forward slashes, like src/app.py")]


@dataclass(frozen=True, slots=True)
class FileText:
    """Lines of a file."""

    path: str
    content: Annotated[str, Field(description="exactly as in the file, line ends and a byte order mark too")]
    lines: Annotated[int, Field(description="lines in content")]
    total_lines: Annotated[int | None, Field(description="lines in the file; null if it is too large to count")]
    truncated: Annotated[bool, Field(description="true when the file goes on after content")]
    next_offset: Annotated[int | None, Field(description="the offset to go on at; null at the end of the file")]


@dataclass(frozen=True, slots=True)
class Listing:
    """What is in a directory."""

    path: str
    entries: Annotated[list[Entry], Field(description="sorted by path")]
    truncated: Annotated[bool, Field(description="true when there are more entries")]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    matches: Annotated[list[Match], Field(description="sorted by path and line")]
    files_searched: int
    skipped: Annotated[Skipped, Field(description="how many files were not searched")]
    truncated: Annotated[bool, Field(description="true when the search ended early")]
    truncated_by: Annotated[
        Resource | None,
        Field(description="the limit that ended it: number of results, entries visited, bytes read, size of results"),
    ]
    note: str | None


def workspace_tools(root: Path) -> list[Tool]:
    """The read-only tools for the directory `root`, which no path leads out of.

    Raises InvalidRequest if it is not a directory that can be opened.
    """
    place = Root(root)
    return [tool(_read_file(place)), _heavy(tool(_list_dir(place))), _heavy(tool(_search_files(place)))]


def _heavy(made: Tool) -> Tool:
    """A tool that computes for long: few of its calls run at once."""
    assert isinstance(made.handler, PythonHandler)
    return replace(made, handler=replace(made.handler, is_heavy=True))


def _read_file(root: Root) -> Callable[..., FileText]:
    def read_file(
        path: WorkspacePath,
        offset: Annotated[int | None, Field(ge=1, description="first line, counting from 1")] = None,
        limit: Annotated[int | None, Field(ge=1, description="most lines to read")] = None,
    ) -> FileText:
        """Read a UTF-8 text file of the workspace, all of it or `limit` lines from line `offset` on.

        Gives at most 4 MiB at once; while `truncated`, go on with `offset: next_offset`.
        """
        with refusals("read_file", path), root.opened(parse(path)) as place:
            if place.is_folder:
                raise Refusal("is a directory; use list_dir")
            if offset is None and limit is None and place.info.st_size > MAX_READ_BYTES:
                size, most = place.info.st_size / MIB, MAX_READ_BYTES // MIB
                raise Refusal(f"is {size:.1f} MiB; read_file reads at most {most} MiB at once: give offset and limit")
            first = offset or 1
            page = read_page(place.fd, first, limit)
            following = first + page.lines if page.more else None
            return FileText(path, page.text, page.lines, page.total_lines, page.more, following)

    return read_file


def _list_dir(root: Root) -> Callable[..., Listing]:
    def list_dir(
        path: WorkspacePath = ".",
        depth: Annotated[int, Field(ge=1, le=MAX_LISTED_LEVELS, description="levels to list; 1 is path itself")] = 1,
        limit: Annotated[int, Field(ge=1, le=MAX_LISTED, description="most entries")] = 1000,
    ) -> Listing:
        """List a directory of the workspace, and with `depth` the directories below it.

        Symbolic links are listed, not followed; with `depth`, `.git` is not gone into.
        """
        budget = Budget(limit)
        with refusals("list_dir", path):
            entries = list_tree(root, parse(path), depth, budget)
        return Listing(path, entries, budget.spent is not None)

    return list_dir


def _search_files(root: Root) -> Callable[..., Found]:
    def search_files(
        pattern: Annotated[str | None, Field(description="text to find, as it stands: no regular expression")] = None,
        glob: Annotated[
            str | None,
            Field(description="only these files: *.py is held against names, src/**/*.{ts,tsx} against whole paths"),
        ] = None,
        path: Annotated[str, Field(description="directory or file to search in")] = ".",
        ignore_case: Annotated[bool, Field(description="A-Z and a-z are the same in pattern")] = False,
        limit: Annotated[int, Field(ge=1, le=MAX_MATCHES, description="most matches")] = 200,
    ) -> Found:
        """Find the lines that contain `pattern` in the workspace's files, or without it the files that match `glob`.

        One match for each line. For a regular expression, search for a fixed part of it and filter
        the matches' `text` in the script. Does not search `.git`, binary files, files over 4 MiB,
        or through symbolic links.
        """
        search = _prepared(root, pattern, glob, ignore_case, limit)
        with refusals("search_files", path):
            search.run(parse(path))
        spent = search.budget.spent
        return Found(
            search.matches, search.files_searched, search.skipped, spent is not None, spent, _note(pattern, search)
        )

    return search_files


def _prepared(root: Root, pattern: str | None, glob: str | None, ignore_case: bool, limit: int) -> Search:
    if pattern is None and glob is None:
        raise ToolError("search_files: nothing to look for; give a pattern, a glob or both")
    with refusals("search_files", pattern or ""):
        needle = None if pattern is None else needle_of(pattern)
    with refusals("search_files", glob or ""):
        wanted = (lambda _: True) if glob is None else compile_glob(glob)
    return Search(root, needle, ignore_case, wanted, Budget(limit))


def _note(pattern: str | None, search: Search) -> str | None:
    if pattern is None or search.matches or not _REGEX_SIGNS & set(pattern):
        return None
    return "pattern was searched as plain text, not as a regular expression"
