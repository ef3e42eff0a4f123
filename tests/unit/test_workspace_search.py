"""search_files: plain text and names, within bounds that are told, in time that no pattern can stretch."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.errors import ToolError
from codemode.tools.tool import PythonHandler
from codemode.workspace import search, tree
from codemode.workspace.files import Found, workspace_tools
from codemode.workspace.globs import compile_glob
from codemode.workspace.paths import Refusal
from codemode.workspace.search import Match, Skipped, found_lines


def find(root: Path, **given: Any) -> Found:
    handler = workspace_tools(root)[2].handler
    assert isinstance(handler, PythonHandler)
    answer = handler.run(given)
    assert isinstance(answer, Found)
    return answer


def refusal(root: Path, **given: Any) -> str:
    with pytest.raises(ToolError) as caught:
        find(root, **given)
    return str(caught.value)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "app.py").write_text("import os\n\ndef main():\n    return os.name, os.sep\n")
    (tmp_path / "src" / "deep" / "util.ts").write_bytes("// é😀 os\r\nconst OS = 1\r\n".encode())
    (tmp_path / "os.md").write_text("no end of line: os")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("os\n")
    return tmp_path


def test_each_line_with_the_text_is_found_once_with_its_place(root: Path) -> None:
    matches = [
        Match("os.md", 1, 17, "no end of line: os"),
        Match("src/app.py", 1, 8, "import os"),
        Match("src/app.py", 4, 12, "    return os.name, os.sep"),
        Match("src/deep/util.ts", 1, 8, "// é😀 os"),
    ]
    assert find(root, pattern="os") == Found(matches, 3, Skipped(), truncated=False, truncated_by=None, note=None)


def test_case_is_ignored_for_ascii_letters(root: Path) -> None:
    assert find(root, pattern="oS =", ignore_case=True).matches == [Match("src/deep/util.ts", 2, 7, "const OS = 1")]
    assert find(root, pattern="oS =").matches == []


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.py", ["src/app.py"]),
        ("*.{py,ts}", ["src/app.py", "src/deep/util.ts"]),
        ("src/*", ["src/app.py"]),
        ("src/**", ["src/app.py", "src/deep/util.ts"]),
        ("**/deep/*.ts", ["src/deep/util.ts"]),
        ("./src/**/app.py", ["src/app.py"]),
        ("[a-o]*.m?", ["os.md"]),
        ("config", []),
    ],
)
def test_a_glob_alone_finds_files_by_name(root: Path, glob: str, expected: list[str]) -> None:
    answer = find(root, glob=glob)
    assert answer.matches == [Match(path) for path in expected]
    assert answer.files_searched == len(expected)


def test_a_glob_and_a_path_narrow_a_search_for_text(root: Path) -> None:
    assert [match.path for match in find(root, pattern="os", glob="*.ts").matches] == ["src/deep/util.ts"]
    assert [match.path for match in find(root, pattern="os", path="src/deep").matches] == ["src/deep/util.ts"]
    assert [match.line for match in find(root, pattern="os", path="src/app.py").matches] == [1, 4]
    assert find(root, pattern="os", path=".git/config").matches == [Match(".git/config", 1, 1, "os")]


def test_what_is_not_searched_is_counted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "a.bin").write_bytes(b"os\0")
    (root / "large").write_bytes(b"os\n" * search.MAX_FILE_BYTES)
    (root / "link").symlink_to("src/app.py")
    (root / "up").symlink_to("..")
    os.mkfifo(root / "pipe")
    (root / "locked").write_text("os")
    real_open = os.open

    def forbidding(path: str, *rest: Any, **named: Any) -> int:
        if path in ("locked", "deep"):
            raise PermissionError(13, "Permission denied")
        return real_open(path, *rest, **named)

    monkeypatch.setattr(os, "open", forbidding)
    answer = find(root, pattern="os")
    assert answer.skipped == Skipped(binary=1, too_large=1, unreadable=2, not_regular=3)
    assert {match.path for match in answer.matches} == {"os.md", "src/app.py"}
    assert find(root, pattern="os", glob="*.py").skipped == Skipped(unreadable=1)


def test_a_file_that_claims_no_size_is_bounded_all_the_same(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "MAX_FILE_BYTES", 20)
    real_fstat = os.fstat
    monkeypatch.setattr(os, "fstat", lambda fd: os.stat_result((real_fstat(fd).st_mode, *[0] * 9)))
    answer = find(root, pattern="os")
    assert (answer.skipped, answer.files_searched) == (Skipped(too_large=2), 1)


def test_text_that_is_not_utf8_is_searched_and_shown_with_replacements(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"caf\xe9 os\n")
    assert find(tmp_path, pattern="os").matches == [Match("latin", 1, 6, "caf\ufffd os")]


def test_a_long_line_is_cut_around_the_match_at_whole_characters(tmp_path: Path) -> None:
    (tmp_path / "min.js").write_text("é" * 5000 + "NEEDLE" + "é" * 5000)
    (tmp_path / "end.js").write_text("é" * 5000 + "NEEDLE")
    (tmp_path / "start.js").write_text("NEEDLE" + "é" * 5000)
    end, middle, start = find(tmp_path, pattern="NEEDLE").matches
    assert (middle.column, middle.text) == (5001, "…" + "é" * 50 + "NEEDLE" + "é" * 147 + "…")
    assert (end.column, end.text) == (5001, "…" + "é" * 197 + "NEEDLE")
    assert (start.column, start.text) == (1, "NEEDLE" + "é" * 197 + "…")


def test_the_number_of_matches_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x\n" * 300)
    answer = find(tmp_path, pattern="x")
    assert (len(answer.matches), answer.truncated, answer.truncated_by) == (200, True, "results")
    assert find(tmp_path, pattern="x", limit=300).truncated is False


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("MAX_SECONDS", 0, "time"),
        ("MAX_ENTRIES", 2, "entries"),
        ("MAX_BYTES", 30, "bytes"),
        ("MAX_RESULT_BYTES", 30, "size"),
    ],
)
def test_each_limit_ends_the_search_and_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, reason: str
) -> None:
    monkeypatch.setattr(tree, limit, value)
    answer = find(root, pattern="os")
    assert (answer.truncated, answer.truncated_by) == (True, reason)
    assert len(answer.matches) <= 1


def test_what_can_never_be_found_is_refused(root: Path) -> None:
    assert [
        refusal(root),
        refusal(root, pattern=""),
        refusal(root, pattern="x" * 1001),
        refusal(root, pattern="a\nb"),
        refusal(root, pattern="\ud800"),
        refusal(root, glob=""),
        refusal(root, glob="{a,b}" * 6),
        refusal(root, pattern="x", path="missing"),
    ] == [
        "search_files: nothing to look for; give a pattern, a glob or both",
        "search_files: '' is a pattern of 0 characters; give 1 to 1000",
        f"search_files: {'x' * 200}… is a pattern of 1001 characters; give 1 to 1000",
        "search_files: 'a\\nb' is a pattern with a line break; lines are searched one by one",
        "search_files: '\\ud800' is a pattern with a lone surrogate; no UTF-8 text has one",
        "search_files: '' is a glob of 0 characters; give 1 to 256",
        "search_files: {a,b}{a,b}{a,b}{a,b}{a,b}{a,b} has braces for more than 32 patterns",
        "search_files: missing is not there; list_dir shows what is",
    ]


def test_a_regular_expression_is_plain_text_and_the_answer_says_so(root: Path) -> None:
    answer = find(root, pattern="import|def")
    assert (answer.matches, answer.note) == ([], "pattern was searched as plain text, not as a regular expression")
    assert find(root, pattern="main()").note is None
    assert find(root, pattern="absent").note is None


def test_no_pattern_or_glob_stretches_the_time(tmp_path: Path) -> None:
    """What makes backtracking matchers run for ever: here each takes a moment. The global timeout is the judge."""
    (tmp_path / "a").write_text("a" * (search.MAX_FILE_BYTES - 1))
    assert find(tmp_path, pattern="a" * 999 + "b").matches == []
    assert find(tmp_path, pattern="b" + "a" * 999).matches == []
    (tmp_path / ("a" * 250)).touch()
    assert find(tmp_path, glob="*a" * 100 + "b").matches == []
    assert find(tmp_path, glob="**/" * 80 + "b").matches == []


@given(
    lines=st.lists(st.text(alphabet="abA é😀\r\x0b\u2028", max_size=12), max_size=8),
    needle=st.text("abé", min_size=1, max_size=2),
)
def test_lines_are_found_as_by_looking_at_each(lines: list[str], needle: str) -> None:
    text = "\n".join(lines)
    expected = [
        (number, len(line[: line.find(needle)].encode("utf-16-le")) // 2 + 1, line.removesuffix("\r"))
        for number, line in enumerate(lines, start=1)
        if needle in line
    ]
    assert list(found_lines(text.encode(), needle.encode(), ignore_case=False)) == expected


@given(pattern=st.text("a*?/[]!-{},.", max_size=12), path=st.text("ab/.-]", max_size=8))
def test_a_glob_matches_as_its_plain_translation_does(pattern: str, path: str) -> None:
    """Held against one backtracking regular expression for the whole path; braces are left to the examples."""
    pattern = pattern.replace("{", "").replace("}", "")
    try:
        matches = compile_glob(pattern)(path)
    except Refusal:
        assert pattern == ""
        return
    if "[" in pattern:
        return
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if "/" not in pattern:
        parts.insert(0, "**")
    expression = ""
    for part in parts:
        inner = "".join({"*": "[^/]*", "?": "[^/]"}.get(sign, re.escape(sign)) for sign in part)
        expression += "(?:/[^/]*)*" if part == "**" else "/" + inner
    assert matches == bool(re.fullmatch(expression, "/" + path))
