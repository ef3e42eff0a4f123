"""The TypeScript compiler, one process for all tests of this folder."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]

Compile = Callable[[str], list[str]]


@pytest.fixture(scope="session")
def faults() -> Iterator[Compile]:
    """What the compiler has against a text, each with the line that it is about."""
    command = [str(ROOT / "scripts" / "javascript"), "node", str(HERE / "compiler.js")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, answers = process.stdin, process.stdout

        def compile_(text: str) -> list[str]:
            given.write(f"{json.dumps(text)}\n")
            given.flush()
            lines = text.split("\n")
            return [f"{each['text']} in {lines[each['line'] - 1]}" for each in json.loads(answers.readline())]

        compile_("")  # it starts, and is installed if need be
        yield compile_
        given.close()
