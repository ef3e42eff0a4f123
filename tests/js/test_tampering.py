"""No builtin that a script replaces reaches ours: each is replaced in a fresh isolate, and one script uses all of ours.

The script has to leave the same records as ever, or to stop at its own use of that builtin; and a replacement is never
given anything that no script may have (tampering/probe.js knows what that is).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]

# Builtins that neither we nor the language's own operations use: in short runs these are replaced together.
APART: Final = ("Temporal", "Intl", "Math", "Date", "DataView", "RegExp", "BigInt")
APART_ENDINGS: Final = ("Array", "ArrayBuffer", "DisposableStack", "URI", "URIComponent")

# What the script itself calls.
OWN_USE: Final = {"Map", "Set"}


def _tamperer(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.js.tamperer", *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _run(mode: str, groups: list[list[int]]) -> list[list[str]]:
    with _tamperer("run", mode) as process:
        said, _ = process.communicate("".join(f"{json.dumps(group)}\n" for group in groups))
    return [json.loads(line) if line.startswith("[") else [line] for line in said.splitlines()]


@pytest.fixture(scope="module")
def labels() -> list[str]:
    """Every property in the realm that holds a builtin function and can be changed."""
    with _tamperer("labels") as process:
        return json.loads(process.communicate()[0])  # type: ignore[no-any-return]


def _is_apart(label: str) -> bool:
    root = label.removeprefix("get ").removeprefix("set ").split(".")[0]
    return root != "Array" and (root in APART or root.endswith(APART_ENDINGS))


def _check(mode: str, groups: list[list[int]], labels: list[str]) -> None:
    usual, *runs = _run(mode, [[], *groups])
    assert usual[-1].startswith("done ")
    assert len(runs) == len(groups)
    wrong = {}
    stopped = set()
    for group, said in zip(groups, runs, strict=True):
        name = labels[group[0]] if len(group) == 1 else f"{len(group)} from {labels[group[0]]} on"
        if said[:-1] == usual[: len(said) - 1] and said[-1].startswith("done failed: Tampered at "):
            stopped.add(name)
        elif said != usual:
            wrong[name] = [line for line in said if line not in usual] or said
    assert wrong == {}
    assert stopped <= OWN_USE


def test_the_realm_was_walked(labels: list[str]) -> None:
    """The walk finds what a script could find."""
    ends = {label.rsplit(".", 1)[-1] for label in labels}
    assert ends >= {"then", "call", "apply", "next", "stringify", "push", "resolve", "captureStackTrace", "constructor"}
    assert len(labels) > 900


@pytest.mark.parametrize("mode", ["record", "throw"])
def test_a_replaced_builtin_reaches_nothing_of_ours(mode: str, labels: list[str]) -> None:
    """Each of those that matter by itself, the others together."""
    apart = [number for number, label in enumerate(labels) if _is_apart(label)]
    single = [[number] for number in range(len(labels)) if number not in set(apart)]
    _check(mode, [*single, apart], labels)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", ["record", "throw"])
def test_any_replaced_builtin_reaches_nothing_of_ours(mode: str, labels: list[str]) -> None:
    """Every single one by itself."""
    numbers = range(len(labels))
    _check(mode, [[number] for number in numbers], labels)


def test_all_builtins_replaced_at_once(labels: list[str]) -> None:
    """Not even together they see anything of ours."""
    _check("record", [list(range(len(labels)))], labels)
