"""What became of one case."""

from __future__ import annotations

import dataclasses
from typing import Any

from .differences import Difference


@dataclasses.dataclass
class Result:
    case: dict[str, Any]
    outcome: str  # passed, failed, error or skipped
    differences: list[Difference] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    transcript: list[str] = dataclasses.field(default_factory=list)
    tries: int = 1

    @property
    def only_timing(self) -> bool:
        return self.outcome == "failed" and all(difference.timing for difference in self.differences)


def as_json(result: Result) -> dict[str, Any]:
    found = {
        "id": result.case.get("id"),
        "area": result.case.get("area"),
        "outcome": result.outcome,
        "seconds": round(result.seconds, 3),
        "tries": result.tries,
        "differences": [difference.text for difference in result.differences],
    }
    return found | ({"traffic": result.transcript} if result.outcome in ("failed", "error") else {})
