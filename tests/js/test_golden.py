"""Each script of cases/ leaves exactly the records that stand in the `.out` beside it.

`UPDATE_GOLDEN=1 scripts/test tests/js` writes the `.out` files anew: look at the difference before you keep it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

FOLDER: Final = Path(__file__).resolve().parent
ROOT: Final = FOLDER.parents[1]
CASES: Final = sorted([*(FOLDER / "cases").glob("*/*.js"), *(FOLDER / "cases").glob("*/*.ts")])
UPDATE: Final = bool(os.environ.get("UPDATE_GOLDEN"))

Player = Callable[[dict[str, Any]], list[str]]


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    """Plays a case in the one process that has V8."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.js.player"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = process.stdout

        def play(case: dict[str, Any]) -> list[str]:
            print(json.dumps(case), file=process.stdin, flush=True)
            return json.loads(said.readline())  # type: ignore[no-any-return]

        yield play
        process.stdin.close()


def read(path: Path) -> list[dict[str, Any]]:
    """What is to be played: the file itself, or the sources that its head gives as JSON strings."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("// "), f"{path}: its first line has to say what it pins"
    common: dict[str, Any] = {"actions": [], "typescript": path.suffix == ".ts"}
    sources: list[str] = []
    for line in text.split("\n")[1:]:
        if not line.startswith("// "):
            break
        field, _, value = line[3:].partition(": ")
        if field == "source":
            sources.append(json.loads(value))
        elif field == "tools":
            common[field] = value.split(", ")
        elif field in ("stored", "limits"):
            common[field] = json.loads(value)
        elif line[3:].split(" ")[0] in ("deliver", "fire", "echo"):
            common["actions"].append(line[3:])
    return [common | {"source": source} for source in sources or [text]]


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_records_of_a_script(path: Path, player: Player) -> None:
    """A script leaves the records that are written down, no more and no less."""
    cases = read(path)
    lines = []
    for case in cases:
        if len(cases) > 1:
            lines.append(f"== {json.dumps(case['source'])}")
        lines += player(case)
    said = "".join(f"{line}\n" for line in lines)
    expected = path.with_suffix(".out")
    if UPDATE:
        expected.write_text(said, encoding="utf-8")
    assert "FAULT" not in said
    assert said == (expected.read_text(encoding="utf-8") if expected.exists() else "")


def test_every_expectation_belongs_to_a_case() -> None:
    """No `.out` is left over from a script that is gone."""
    assert {path.with_suffix("") for path in (FOLDER / "cases").glob("*/*.out")} == {
        path.with_suffix("") for path in CASES
    }


def test_this_process_has_no_engine() -> None:
    """V8 aborts its whole process when its memory runs out, so it is kept out of this one."""
    assert "py_mini_racer" not in sys.modules
