"""Counts what was done to the service and what it lost; the table is printed at the end of a run.

A test asks for the fixture `tally` and says what it tried:

    tally.add("SIGKILL of a cell process in mid-call", tried=20, lost=0)
"""

from __future__ import annotations

from dataclasses import dataclass, field

_HEAD = ("damage", "tried", "lost", "others disturbed")


@dataclass
class Damage:
    """What was tried of one kind. `lost` are answers and values that should have come, `disturbed` cells of others."""

    tried: int = 0
    lost: int = 0
    disturbed: int = 0


@dataclass
class Tally:
    """All of a run, by kind, in the order in which they were first told of."""

    kinds: dict[str, Damage] = field(default_factory=dict)

    def add(self, kind: str, tried: int = 1, lost: int = 0, disturbed: int = 0) -> None:
        """Count something in. Call it before the assertion that it went well, so that a loss stands in the table too."""
        damage = self.kinds.setdefault(kind, Damage())
        damage.tried += tried
        damage.lost += lost
        damage.disturbed += disturbed

    def table(self) -> list[str]:
        """Lines of Markdown; none if there is nothing to tell."""
        if not self.kinds:
            return []
        rows = [(kind, str(each.tried), str(each.lost), str(each.disturbed)) for kind, each in self.kinds.items()]
        every = self.kinds.values()
        sums = (
            sum(each.tried for each in every),
            sum(each.lost for each in every),
            sum(each.disturbed for each in every),
        )
        rows.append(("all", *map(str, sums)))
        return [_line(_HEAD), "|---|---|---|---|", *map(_line, rows)]


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
