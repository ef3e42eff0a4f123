"""Races: what is swapped between a check and its use neither leads outside nor makes a tool wait."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from codemode.errors import ToolError
from tests.unit.workspace_helpers import call, content, grow, open_descriptors, refusal

CHANGED = "changed while it was being opened; try again"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return grow(tmp_path)


class Swap:
    """Replaces a name by something else right before a tool opens it: after every check."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, victim: Path, replacement: Path) -> None:
        self.done = False
        real_open = os.open

        def opening(path: str, *rest: Any, **named: Any) -> int:
            if path == victim.name and not self.done:
                self.done = True
                victim.rename(victim.with_name("aside"))
                replacement.rename(victim)
            return real_open(path, *rest, **named)

        monkeypatch.setattr(os, "open", opening)


def test_a_file_swapped_for_a_link_after_the_check_is_not_followed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swap = Swap(monkeypatch, root / "file.txt", root / "out_file")
    assert refusal(root, "file.txt") == f"read_file: file.txt {CHANGED}"
    assert swap.done


def test_a_directory_swapped_for_a_link_after_the_check_is_not_followed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swap = Swap(monkeypatch, root / "dir", root / "out")
    assert refusal(root, "dir/file.txt") == f"read_file: dir/file.txt {CHANGED}"
    assert swap.done


def test_a_file_swapped_for_a_pipe_after_the_check_does_not_hold_the_call(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "pipe")
    before = open_descriptors()
    swap = Swap(monkeypatch, root / "file.txt", root / "pipe")
    assert refusal(root, "file.txt") == "read_file: file.txt is a named pipe, not a file"
    assert swap.done
    assert open_descriptors() == before


def test_a_file_that_vanishes_after_the_check_is_not_there(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open = os.open

    def opening(path: str, *rest: Any, **named: Any) -> int:
        if path == "file.txt":
            (root / "file.txt").unlink()
        return real_open(path, *rest, **named)

    monkeypatch.setattr(os, "open", opening)
    assert refusal(root, "file.txt") == "read_file: file.txt is not there; list_dir shows what is"


def test_a_directory_moved_out_during_the_walk_has_no_way_up_to_its_new_parent(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`dir/deep/../../file.txt` means the workspace's file.txt, also when deep is under outside by then."""
    real_open = os.open

    def opening(path: str, *rest: Any, **named: Any) -> int:
        fd = real_open(path, *rest, **named)
        if path == "deep" and not (tmp_path / "outside" / "dir").exists():
            (root / "dir").rename(tmp_path / "outside" / "dir")
            (root / "dir").mkdir()
        return fd

    monkeypatch.setattr(os, "open", opening)
    assert content(root, "dir/deep/../../file.txt") == "inside\n"


def test_a_link_swapped_for_a_directory_after_the_check_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_readlink = os.readlink

    def reading(path: str, **named: Any) -> str:
        (root / path).unlink()
        (root / path).mkdir()
        return real_readlink(path, **named)

    monkeypatch.setattr(os, "readlink", reading)
    assert refusal(root, "to_dir/deep/leaf.txt") == f"read_file: to_dir/deep/leaf.txt {CHANGED}"


def test_nothing_of_outside_is_seen_while_a_link_is_swapped_back_and_forth(root: Path) -> None:
    """A real race: another thread keeps turning `flip` from a directory into a link that leads out."""
    inside, outside = root / "flip", root / "flip_out"
    inside.mkdir()
    (inside / "file.txt").write_text("inside\n")
    outside.symlink_to("../outside")
    before = open_descriptors()
    stop = threading.Event()

    def swapping() -> None:
        while not stop.is_set():
            inside.rename(root / "spare")
            outside.rename(inside)
            inside.rename(outside)
            (root / "spare").rename(inside)

    thread = threading.Thread(target=swapping)
    thread.start()
    seen = set()
    try:
        for _ in range(1000):
            for tool, given in [
                ("read_file", {"path": "flip/file.txt"}),
                ("search_files", {"pattern": "e", "path": "flip"}),
            ]:
                try:
                    seen.add(repr(call(root, tool, given)))
                except ToolError as problem:
                    seen.add(str(problem).partition(" ")[0])
    finally:
        stop.set()
        thread.join()
    assert not [text for text in seen if "secret" in text]
    assert content(root, "flip/file.txt") == "inside\n"
    assert open_descriptors() == before
