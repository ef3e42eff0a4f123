"""list_dir: sorted, typed, bounded, and blind to what links lead to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from codemode.errors import ToolError
from codemode.tools.tool import PythonHandler
from codemode.workspace import tree
from codemode.workspace.files import Listing, workspace_tools
from codemode.workspace.tree import Entry
from tests.unit.workspace_helpers import open_descriptors


def listing(root: Path, **given: Any) -> Listing:
    handler = workspace_tools(root)[1].handler
    assert isinstance(handler, PythonHandler)
    answer = handler.run(given)
    assert isinstance(answer, Listing)
    return answer


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "b.py").write_text("12345")
    (tmp_path / "src" / "deep" / "c.py").write_text("")
    (tmp_path / ".git" / "objects").mkdir(parents=True)
    (tmp_path / "Readme").write_text("é")
    (tmp_path / "link").symlink_to("/etc")
    (tmp_path / "src" / "self").symlink_to(".")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def test_a_directory_is_listed_sorted_with_type_and_size(root: Path) -> None:
    entries = [
        Entry(".git", ".git", "dir", None),
        Entry("Readme", "Readme", "file", 2),
        Entry("link", "link", "symlink", None),
        Entry("pipe", "pipe", "other", None),
        Entry("src", "src", "dir", None),
    ]
    assert listing(root) == Listing(".", entries, truncated=False)


def test_paths_can_be_given_back(root: Path) -> None:
    paths = [entry.path for entry in listing(root, path="./src//").entries]
    assert paths == ["src/b.py", "src/deep", "src/self"]
    assert [entry.path for entry in listing(root, path="src/self/deep").entries] == ["src/self/deep/c.py"]


def test_depth_goes_into_directories_but_neither_links_nor_git(root: Path) -> None:
    paths = [entry.path for entry in listing(root, depth=20).entries]
    expected = [".git", "Readme", "link", "pipe", "src", "src/b.py", "src/deep", "src/deep/c.py", "src/self"]
    assert paths == expected
    assert [entry.path for entry in listing(root, path=".git").entries] == [".git/objects"]


def test_a_file_is_refused(root: Path) -> None:
    with pytest.raises(ToolError) as caught:
        listing(root, path="Readme")
    assert str(caught.value) == "list_dir: Readme is a file, not a directory; use read_file"


def test_a_name_that_is_not_utf8_is_shown_with_replacements(tmp_path: Path) -> None:
    os.close(os.open(os.fsencode(tmp_path) + b"/a\xff.txt", os.O_CREAT | os.O_WRONLY))
    assert listing(tmp_path).entries == [Entry("a\ufffd.txt", "a\ufffd.txt", "file", 0)]


def test_the_limit_is_told_and_upper_levels_come_first(root: Path) -> None:
    answer = listing(root, depth=3, limit=6)
    assert ([entry.path for entry in answer.entries], answer.truncated) == (
        [".git", "Readme", "link", "pipe", "src", "src/b.py"],
        True,
    )
    assert listing(root, limit=5).truncated is False


def test_a_big_directory_is_cut_at_the_limit_and_at_the_entries_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(600):
        (tmp_path / f"{number:05}").touch()
    answer = listing(tmp_path, limit=200)
    assert ([entry.name for entry in answer.entries], answer.truncated) == ([f"{n:05}" for n in range(200)], True)
    assert len(listing(tmp_path, limit=5000).entries) == 600
    monkeypatch.setattr(tree, "MAX_ENTRIES", 10)
    answer = listing(tmp_path, limit=5000)
    assert answer.truncated
    assert len(answer.entries) <= 10


def test_time_and_the_size_of_the_answer_are_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MAX_RESULT_BYTES", 20)
    assert listing(root) == Listing(
        ".", [Entry(".git", ".git", "dir", None), Entry("Readme", "Readme", "file", 2)], True
    )
    monkeypatch.setattr(tree, "MAX_SECONDS", 0)
    assert listing(root) == Listing(".", [], truncated=True)


def test_a_directory_below_that_cannot_be_read_is_listed_without_its_content(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def forbidding(path: str, *rest: Any, **named: Any) -> int:
        if path == "deep":
            raise PermissionError(13, "Permission denied")
        return real_open(path, *rest, **named)

    monkeypatch.setattr(os, "open", forbidding)
    paths = [entry.path for entry in listing(root, path="src", depth=2).entries]
    assert paths == ["src/b.py", "src/deep", "src/self"]
    with pytest.raises(ToolError, match=r"^list_dir: src/deep may not be read by the service \(permission denied\)$"):
        listing(root, path="src/deep")


def test_a_file_that_vanishes_while_it_is_listed_has_no_size(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_type = tree.entry_type

    def vanishing(entry: os.DirEntry[str]) -> tree.EntryType:
        kind = real_type(entry)
        if entry.name == "b.py":
            (root / "src" / "b.py").unlink()
        return kind

    monkeypatch.setattr(tree, "entry_type", vanishing)
    assert listing(root, path="src").entries[0] == Entry("b.py", "src/b.py", "file", None)


def test_a_very_deep_tree_does_not_hold_a_descriptor_for_each_level(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    before = open_descriptors()
    answer = listing(tmp_path, depth=20)
    assert (len(answer.entries), answer.entries[-1].path) == (20, "/".join("d" * 20))
    assert open_descriptors() == before
