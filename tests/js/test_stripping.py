"""Taking types out: everything else stays where it was, whatever the program; and as Node.js does it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.js.typed_programs import programs

FOLDER: Final = Path(__file__).resolve().parent
ROOT: Final = FOLDER.parents[1]
LINE_ENDS: Final = "\n\r\u2028\u2029"
COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
INSTEAD: Final = " ;()"  # what may stand where a type was

Ask = Callable[[str], Any]


@contextmanager
def answering(*command: str) -> Iterator[Ask]:
    """A process that answers a line of JSON with one."""
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        said = process.stdout

        def ask(source: str) -> Any:
            print(json.dumps(source), file=process.stdin, flush=True)
            return json.loads(said.readline())

        yield ask
        process.stdin.close()


@pytest.fixture(scope="module")
def strip() -> Iterator[Ask]:
    """The stripper, in the engine that ships."""
    with answering(sys.executable, "-m", "tests.js.strip_all") as ask:
        yield ask


@pytest.fixture(scope="module")
def amaro() -> Iterator[Ask]:
    """What Node.js takes types out with, where it has been installed (scripts/check does so)."""
    if shutil.which("node") is None or not (ROOT / "node_modules" / "amaro").is_dir():
        pytest.skip("amaro is not installed here")
    with answering("node", str(FOLDER / "amaro_strip.mjs")) as ask:
        yield ask


def units(text: str) -> list[int]:
    """The UTF-16 units that columns count."""
    data = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2)]


def differences(before: str, after: str) -> set[str]:
    """What stands in the place of what was there; all else is equal, at the same unit."""
    old, new = units(before), units(after)
    assert len(old) == len(new)
    assert [at for at, unit in enumerate(old) if chr(unit) in LINE_ENDS] == [
        at for at, unit in enumerate(new) if chr(unit) in LINE_ENDS
    ]
    return {chr(now) for was, now in zip(old, new, strict=True) if was != now}


def bare(text: str) -> str:
    """Without blanks, comments (which may be part of what is blanked or not) and what holds statements apart."""
    return "".join(COMMENT.sub("", text.replace(";", " ")).split())


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_everything_but_types_stays_where_it_was(strip: Ask, program: str) -> None:
    """Line ends and the number of UTF-16 units are the same, and what is left is JavaScript."""
    said = strip(program)
    if said == {}:  # no types in it
        return
    assert set(said) == {"text", "parses"}, (program, said)
    assert differences(program, said["text"]) <= set(INSTEAD)
    assert said["parses"] is True, (program, said)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_what_is_left_is_what_node_leaves(strip: Ask, amaro: Ask, program: str) -> None:
    """But for comments and semicolons. That it stands where it did, another test sees."""
    theirs = amaro(program)
    said = strip(program)
    if theirs is None or said == {}:
        return
    assert bare(said["text"]) == bare(theirs), (program, said["text"], theirs)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(0, 10_000), st.integers(0, 12), st.text("<>(){}[]:;=?!.,'`/* aAT\n", max_size=3))
def test_a_damaged_program_is_told_of(strip: Ask, program: str, at: int, cut: int, put: str) -> None:
    """Whatever it is: there is an answer, and a text is as long as the one before."""
    at %= len(program) + 1
    damaged = program[:at] + put + program[at + cut :]
    said = strip(damaged)
    assert set(said) in ({"text", "parses"}, {"unsupported"}, {"failure"}, set())
    if "text" in said:
        assert differences(damaged, said["text"]) <= set(INSTEAD)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text())
def test_any_text_is_answered(strip: Ask, text: str) -> None:
    """The parser is not led astray by what is no program at all."""
    assert isinstance(strip(text), dict)
