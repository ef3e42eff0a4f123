"""A command as people read it who decide about it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.processes.parsed import parsed


@pytest.mark.parametrize(
    ("cmd", "expected"),
    [
        ("cat src/app.py", [{"type": "read", "cmd": "cat src/app.py", "path": "src/app.py"}]),
        ("head -n 5 a.txt", [{"type": "read", "cmd": "head -n 5 a.txt", "path": "a.txt"}]),
        ("sed -n 1,20p 'a b'", [{"type": "read", "cmd": "sed -n 1,20p 'a b'", "path": "a b"}]),
        ("ls", [{"type": "listFiles", "cmd": "ls"}]),
        ("ls -la src", [{"type": "listFiles", "cmd": "ls -la src", "path": "src"}]),
        ("find . -name '*.py'", [{"type": "listFiles", "cmd": "find . -name '*.py'", "path": "."}]),
        ("rg --files", [{"type": "listFiles", "cmd": "rg --files"}]),
        ("rg -n 'a|b' src", [{"type": "search", "cmd": "rg -n 'a|b' src", "query": "a|b", "path": "src"}]),
        ("grep -rn -e FIND .", [{"type": "search", "cmd": "grep -rn -e FIND .", "query": "FIND", "path": "."}]),
        (
            "cat a | head -5 && ls;",
            [{"type": "read", "cmd": "cat a", "path": "a"}, {"type": "listFiles", "cmd": "ls"}],
        ),
        ("ls && make", [{"type": "listFiles", "cmd": "ls"}, {"type": "unknown", "cmd": "make"}]),
    ],
)
def test_what_only_looks_is_said_to(cmd: str, expected: list[dict[str, Any]]) -> None:
    assert parsed(cmd) == expected


@pytest.mark.parametrize(
    "cmd",
    [
        "",
        "make",
        "cat a > b",
        "cat < a",
        "cat $(rm x)",
        "cat `rm x`",
        'cat "$(rm x)"',
        "cat 'a",
        "ls & rm x",
        "ls\nrm x",
        "ls ; ; ls",
        "ls |",
        "find . -delete",
        "find . -exec rm {} +",
        "find . -exec rm x +",
        "sed -n 'w b' a",
        "sed -i s/a/b/ a",
        "tail -f a",
        "rg --pre ./x y",
        "tree -o out",
        "(ls)",
        "cat",
        "FOO=1 ls",
        "/tmp/ls",
    ],
)
def test_all_else_is_unknown(cmd: str) -> None:
    assert parsed(cmd) == [{"type": "unknown", "cmd": cmd}]


@given(st.text(st.sampled_from("lsca t'\"|&;\\$>rg-n\n"), max_size=30))
def test_it_reads_anything(cmd: str) -> None:
    assert all(each["type"] in {"read", "listFiles", "search", "unknown"} for each in parsed(cmd))
