"""Tables that tests fill and that are shown at the end of the run."""

from __future__ import annotations

from typing import Final

# Misbehaviour, how its cell ended, seconds, slowest /healthz in ms, whether that is as it should be.
HOSTILE: Final[list[tuple[str, str, float, float, bool]]] = []


def hostile_table() -> list[str]:
    """What hostile processes did, and what came of it."""
    if not HOSTILE:
        return []
    contained = sum(well for *_, well in HOSTILE)
    quick = sum(seconds < 1 for _, _, seconds, _, _ in HOSTILE)
    rows = [
        f"{name:58} {end:22} {seconds:6.2f} s {slowest:7.1f} ms{'' if well else '  NOT CONTAINED'}"
        for name, end, seconds, slowest, well in HOSTILE
    ]
    return [
        f"{'a hostile process does':58} {'and its cell is':22} {'within':>8} {'/healthz':>10}",
        *rows,
        f"{len(HOSTILE)} tried, {contained} contained, {quick} of them within a second",
    ]
