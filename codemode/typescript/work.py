"""How much is done for one schema: it may be a text of some lines that stands for any number of types."""

from __future__ import annotations

from typing import Final

MOST_DEPTH: Final = 40  # of types in types; what lies deeper is unknown
MOST_WORK: Final = 20_000  # parts of schemas and types that are looked at


class Work:
    """What may still be done. Whoever may not go on says `unknown`."""

    def __init__(self, most: int = MOST_WORK) -> None:
        self.left = most

    def take(self, amount: int = 1) -> bool:
        """Whether so much more may be done."""
        self.left -= amount
        return self.left >= 0
