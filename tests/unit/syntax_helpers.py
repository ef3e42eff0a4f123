"""What the tests of syntax errors share: V8's word on a source, from a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

Place = tuple[int, int, str] | None  # line, column and message


def located(sources: list[str]) -> tuple[list[Place], bool]:
    """The places of sources, and whether any of them ran, from a process that may load V8."""
    done = subprocess.run(
        [sys.executable, str(HERE / "locate_places.py")],
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        timeout=15,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    places, ran = json.loads(done.stdout)
    return [None if place is None else tuple(place) for place in places], ran
