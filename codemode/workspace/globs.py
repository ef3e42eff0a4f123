"""Matching paths against glob patterns, in time linear in the path."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable

from codemode.workspace.paths import Refusal

MAX_GLOB_CHARS = 256
"""Longest pattern: far more than anybody writes."""

MAX_ALTERNATIVES = 32
"""Most patterns that braces may stand for together, each of which is tried on each path."""

_BRACES = re.compile(r"\{([^{}]*)\}")

Segment = Callable[[str], object] | None
"""A test for one component; None stands for `**`: any number of them."""


def compile_glob(glob: str) -> Callable[[str], bool]:
    """A test for paths. `*`, `?`, `[a-z]` within a component, `**` for any number of them, `{a,b}`.

    Without a slash, the pattern is held against the last component only. Raises Refusal for a
    pattern that cannot be used.
    """
    if not glob or len(glob) > MAX_GLOB_CHARS:
        raise Refusal(f"is a glob of {len(glob)} characters; give 1 to {MAX_GLOB_CHARS}")
    patterns = [_segments(alternative) for alternative in _alternatives(glob)]

    def matches(path: str) -> bool:
        components = path.split("/")
        return any(_match(pattern, components) for pattern in patterns)

    return matches


def _alternatives(glob: str) -> list[str]:
    waiting, ready = [glob], []
    while waiting:
        pattern = waiting.pop()
        if braces := _BRACES.search(pattern):
            before, after = pattern[: braces.start()], pattern[braces.end() :]
            waiting.extend(before + middle + after for middle in braces[1].split(","))
        else:
            ready.append(pattern)
        if len(waiting) + len(ready) > MAX_ALTERNATIVES:
            raise Refusal(f"has braces for more than {MAX_ALTERNATIVES} patterns")
    return ready


def _segments(pattern: str) -> list[Segment]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if "/" not in pattern:
        parts.insert(0, "**")
    # fnmatch writes every `*` but the last as an atomic group, so that no pattern backtracks exponentially.
    return [None if part == "**" else re.compile(fnmatch.translate(part)).match for part in parts]


def _match(pattern: list[Segment], components: list[str]) -> bool:
    """Whether it matches as a whole: follows all positions in the pattern at once, never going back."""
    positions = _opened(pattern, {0})
    for component in components:
        reached = set()
        for position in positions:
            if position < len(pattern):
                segment = pattern[position]
                if segment is None:
                    reached.add(position)
                elif segment(component):
                    reached.add(position + 1)
        positions = _opened(pattern, reached)
    return len(pattern) in positions


def _opened(pattern: list[Segment], positions: set[int]) -> set[int]:
    """The positions and those that follow by letting a `**` stand for nothing."""
    result = set(positions)
    for start in positions:
        end = start
        while end < len(pattern) and pattern[end] is None:
            end += 1
        result.update(range(start, end + 1))
    return result
