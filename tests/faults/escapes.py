"""What came of the attempts of native_attempts.py, for the table at the end of the tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

_made: Final[Counter[str]] = Counter()
_refused: Final[Counter[str]] = Counter()


def note(group: str, *, refused: bool) -> None:
    """Count one attempt."""
    _made[group] += 1
    _refused[group] += refused


def table() -> Iterator[str]:
    """Lines of Markdown; none if nothing was attempted."""
    if _made:
        yield from ("", "| native code in a cell process tried | attempts | refused |", "|---|---|---|")
        yield from (f"| {group} | {count} | {_refused[group]} |" for group, count in _made.items())
        yield f"| all | {_made.total()} | {_refused.total()} |"
