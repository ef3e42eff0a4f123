"""read_file: text kept exactly, in pages of whole lines, within bounds."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.errors import ToolError
from codemode.tools.tool import PythonHandler
from codemode.workspace import pages
from codemode.workspace.files import FileText, workspace_tools


@cache
def runner(root: Path) -> Callable[..., Any]:
    handler = workspace_tools(root)[0].handler
    assert isinstance(handler, PythonHandler)
    return handler.run


def read(root: Path, path: str, **given: Any) -> FileText:
    answer = runner(root)({"path": path, **given})
    assert isinstance(answer, FileText)
    return answer


@pytest.mark.parametrize(
    "data",
    [
        "",
        "no line end",
        "first\r\nsecond\r\nthird\r\n",
        "\ufeffwith a byte order mark\n",
        "line sep \u2028 para sep \u2029 nul \0 escape \x1b[31m\x85\x0b\x0c end\r",
        "naïve — 你好 — 😀👩\u200d🔬 e\u0301\n",
    ],
)
def test_text_is_kept_exactly(tmp_path: Path, data: str) -> None:
    (tmp_path / "a.txt").write_bytes(data.encode())
    lines = data.count("\n") + (not data.endswith("\n") and data != "")
    assert read(tmp_path, "a.txt") == FileText("a.txt", data, lines, lines, truncated=False, next_offset=None)


def test_a_page_says_where_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n4\n5")
    answers = [read(tmp_path, "a.txt", offset=2, limit=2), read(tmp_path, "a.txt", offset=4, limit=2)]
    assert answers == [FileText("a.txt", "2\n3\n", 2, 5, True, 4), FileText("a.txt", "4\n5", 2, 5, False, None)]


def test_offset_and_limit_work_alone_and_null_is_absent(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    assert read(tmp_path, "a.txt", offset=3).content == "3\n"
    assert read(tmp_path, "a.txt", limit=1).content == "1\n"
    assert read(tmp_path, "a.txt", offset=None, limit=None).content == "1\n2\n3\n"


@pytest.mark.parametrize("offset", [4, 5, 10**18])
def test_past_the_end_there_is_nothing(tmp_path: Path, offset: int) -> None:
    (tmp_path / "a.txt").write_text("1\n2\n3\n")
    assert read(tmp_path, "a.txt", offset=offset, limit=2) == FileText("a.txt", "", 0, 3, False, None)


@pytest.mark.parametrize("wrong", [{"offset": 0}, {"limit": 0}, {"offset": 1.5}, {"lines": 3}])
def test_input_out_of_range_is_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    (tmp_path / "a.txt").write_text("1\n")
    with pytest.raises(ToolError):
        read(tmp_path, "a.txt", **wrong)


def test_binary_is_refused_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"text\nmore\n\xff\xfe\x00")
    with pytest.raises(ToolError) as caught:
        read(tmp_path, "a.bin")
    expected = "read_file: a.bin is not UTF-8 text (see line 3): it is binary, or in another encoding"
    assert str(caught.value) == expected
    assert read(tmp_path, "a.bin", limit=2).content == "text\nmore\n"


def test_a_large_file_is_refused_whole_and_read_in_pages(tmp_path: Path) -> None:
    line = "x" * 1023 + "\n"
    (tmp_path / "big.log").write_text(line * 5000)
    with pytest.raises(ToolError) as caught:
        read(tmp_path, "big.log")
    expected = "read_file: big.log is 4.9 MiB; read_file reads at most 4 MiB at once: give offset and limit"
    assert str(caught.value) == expected
    first = read(tmp_path, "big.log", offset=1)
    assert (len(first.content), first.next_offset, first.total_lines) == (4096 * 1024, 4097, 5000)
    last = read(tmp_path, "big.log", offset=4097)
    assert (last.lines, last.next_offset) == (904, None)


def test_exactly_the_limit_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"y" * pages.MAX_READ_BYTES)
    answer = read(tmp_path, "a.txt")
    assert (len(answer.content), answer.truncated) == (pages.MAX_READ_BYTES, False)


def test_a_line_longer_than_the_limit_is_refused_and_can_be_passed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"1\n" + b"y" * (pages.MAX_READ_BYTES + 1) + b"\n3\n")
    assert read(tmp_path, "a.txt", offset=1).content == "1\n"
    with pytest.raises(ToolError) as caught:
        read(tmp_path, "a.txt", offset=2, limit=1)
    expected = "read_file: a.txt has more than 4 MiB in line 2; read_file gives whole lines: go on at the next"
    assert str(caught.value) == expected
    assert read(tmp_path, "a.txt", offset=3).content == "3\n"


def test_memory_and_scanning_are_bounded_for_a_huge_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sparse file of 1 TiB: its start is read at once, its lines are not counted, its depths not looked for."""
    monkeypatch.setattr(pages, "MAX_SCAN_BYTES", 8 * pages.MIB)
    with (tmp_path / "huge").open("wb") as file:
        file.write(b"1\n2\n3\n")
        file.truncate(1 << 40)
    assert read(tmp_path, "huge", offset=2, limit=1) == FileText("huge", "2\n", 1, None, True, 3)
    with pytest.raises(ToolError) as caught:
        read(tmp_path, "huge", offset=1000)
    expected = "read_file: huge has its line 1000 beyond the first 8 MiB; read_file looks no further"
    assert str(caught.value) == expected


def test_a_file_that_grew_after_the_check_is_still_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("1\n")
    real_pread = os.pread

    def growing(*given: int) -> bytes:
        (tmp_path / "a.txt").write_bytes(b"1\n" * pages.MAX_READ_BYTES)
        monkeypatch.setattr(os, "pread", real_pread)
        return real_pread(*given)

    monkeypatch.setattr(os, "pread", growing)
    answer = read(tmp_path, "a.txt")
    assert (len(answer.content), answer.truncated) == (pages.MAX_READ_BYTES, True)


@given(text=st.text(alphabet="a\r\n😀", max_size=60), limit=st.integers(1, 5), chunk=st.integers(1, 9))
def test_pages_put_together_are_the_file(
    tmp_path_factory: pytest.TempPathFactory, text: str, limit: int, chunk: int
) -> None:
    root = tmp_path_factory.getbasetemp()
    (root / "paged.txt").write_bytes(text.encode())
    total = len(text.encode().splitlines()) if "\r" not in text else text.count("\n") + (text[-1:] not in ("", "\n"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "CHUNK_BYTES", chunk)
        offset: int | None = 1
        pieces = []
        while offset:
            page = read(root, "paged.txt", offset=offset, limit=limit)
            assert (page.total_lines, page.lines <= limit) == (total, True)
            pieces.append(page.content)
            offset = page.next_offset
    assert "".join(pieces) == text
