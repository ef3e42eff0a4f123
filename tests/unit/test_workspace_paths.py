"""Confinement: no path and no link leads a workspace tool outside, or makes it wait."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.errors import InvalidRequest, ToolError
from codemode.workspace import paths
from codemode.workspace.files import workspace_tools
from codemode.workspace.paths import Root
from tests.unit.workspace_helpers import SECRET, call, content, grow, open_descriptors, refusal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return grow(tmp_path)


@pytest.fixture
def open_files() -> Iterator[None]:
    """Fails a test that leaves a file descriptor open."""
    before = open_descriptors()
    yield
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("file.txt", "inside\n"),
        ("./dir//deep/./leaf.txt", "leaf\n"),
        ("dir/../file.txt", "inside\n"),
        ("to_file", "inside\n"),
        ("to_dir/deep/leaf.txt", "leaf\n"),
        ("to_dir/../file.txt", "inside\n"),
        ("absolute/deep/leaf.txt", "leaf\n"),
        ("absolute/up", "inside\n"),
        ("dir/deep/../up", "inside\n"),
    ],
)
def test_a_path_inside_is_read_through_links_too(root: Path, path: str, expected: str, open_files: None) -> None:
    assert content(root, path) == expected


OUT = "leads out of the workspace; only what is inside it can be read"
OUT_BY_LINK = "leads out of the workspace through a symbolic link"
ABSOLUTE = "is an absolute path; give it relative to the workspace, like src/app.py"
MISSING = "is not there; list_dir shows what is"
LOOP = "leads through more than 40 symbolic links; they may form a loop"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("", "'' is an empty path; use \".\" for the workspace itself"),
        ("..", f".. {OUT}"),
        ("../root/file.txt", f"../root/file.txt {OUT}"),
        ("dir/../../outside/secret.txt", f"dir/../../outside/secret.txt {OUT}"),
        ("to_dir/../../outside/secret.txt", f"to_dir/../../outside/secret.txt {OUT}"),
        ("out/secret.txt", f"out/secret.txt {OUT}"),
        ("out_file", f"out_file {OUT}"),
        ("dir/deep/far_up", f"dir/deep/far_up {OUT}"),
        ("absolute_out/secret.txt", f"absolute_out/secret.txt {OUT_BY_LINK}"),
        ("absolute_up/secret.txt", f"absolute_up/secret.txt {OUT}"),
        ("sibling", f"sibling {OUT_BY_LINK}"),
        ("host/passwd", f"host/passwd {OUT_BY_LINK}"),
        ("loop", f"loop {LOOP}"),
        ("ping/x", f"ping/x {LOOP}"),
        ("dangling", "dangling leads through a symbolic link to something that is not there"),
        ("missing.txt", f"missing.txt {MISSING}"),
        ("missing/../file.txt", f"missing/../file.txt {MISSING}"),
        ("file.txt/x", "file.txt/x is not there: a part before its last is a file, not a directory"),
        ("file.txt/..", "file.txt/.. is not there: a part before its last is a file, not a directory"),
        ("/etc/passwd", f"/etc/passwd {ABSOLUTE}"),
        ("//etc", f"//etc {ABSOLUTE}"),
        ("a\0b", "'a\\x00b' has a NUL character in it; no file has such a name"),
        ("a\ud800", "'a\\ud800' has a lone surrogate in it; no file has such a name"),
        ("a\nread_file: ok", f"'a\\nread_file: ok' {MISSING}"),
        ("C:\\Windows\\win.ini", f"C:\\Windows\\win.ini {MISSING}; part directories with /, not \\"),
        ("..\\outside\\secret.txt", f"..\\outside\\secret.txt {MISSING}; part directories with /, not \\"),
        ("~/file.txt", f"~/file.txt {MISSING}"),
        ("x" * 300, f"{'x' * 200}… has a part that is too long for a file name"),
        ("d/" * 3000, f"{'d/' * 100}… is a path of 6000 bytes; the longest allowed is 4096"),
        ("dir/../" * 200, f"{('dir/../' * 200)[:200]}… has more than 256 parts"),
        ("dir", "dir is a directory; use list_dir"),
        (".", ". is a directory; use list_dir"),
    ],
)
def test_a_path_that_is_not_a_file_inside_is_refused_with_the_reason(
    root: Path, path: str, expected: str, open_files: None
) -> None:
    assert refusal(root, path) == f"read_file: {expected}"


@pytest.mark.parametrize("tool", ["list_dir", "search_files"])
def test_the_other_tools_refuse_the_same_ways_out(root: Path, tool: str) -> None:
    ways = ["../outside", "out", "absolute_out", "/etc", "loop", ""]
    assert [refusal(root, way, tool) for way in ways] == [
        f"{tool}: ../outside {OUT}",
        f"{tool}: out {OUT}",
        f"{tool}: absolute_out {OUT_BY_LINK}",
        f"{tool}: /etc {ABSOLUTE}",
        f"{tool}: loop {LOOP}",
        f"{tool}: '' is an empty path; use \".\" for the workspace itself",
    ]


def test_special_files_are_refused_without_waiting(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        assert refusal(root, "pipe") == "read_file: pipe is a named pipe, not a file"
        assert refusal(root, "socket") == "read_file: socket is a socket, not a file"
        assert refusal(root, "pipe", "search_files") == "search_files: pipe is a named pipe, not a file"


def test_a_device_is_refused_without_being_opened(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    real_open = os.open

    def opening(path: str, *rest: Any, **named: Any) -> int:
        opened.append(path)
        return real_open(path, *rest, **named)

    monkeypatch.setattr(os, "open", opening)
    with pytest.raises(ToolError) as caught:
        call(Path("/dev"), "read_file", {"path": "null"})
    assert str(caught.value) == "read_file: null is a device, not a file"
    assert "null" not in opened


def test_a_file_of_a_virtual_file_system_is_read_though_it_claims_no_size() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("needs Linux's /proc")
    assert content(Path("/proc"), "self/status").startswith("Name:")
    with pytest.raises(ToolError, match=r"^read_file: self/cwd/x leads out of the workspace through a symbolic link$"):
        call(Path("/proc"), "read_file", {"path": "self/cwd/x"})


def test_an_unreadable_file_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's answer is made up, since tests may run as root, whom no mode keeps out."""
    real_open = os.open

    def forbidding(path: str, *rest: Any, **named: Any) -> int:
        if path == "file.txt":
            raise PermissionError(13, "Permission denied", "/host/path/file.txt")
        return real_open(path, *rest, **named)

    monkeypatch.setattr(os, "open", forbidding)
    assert refusal(root, "file.txt") == "read_file: file.txt may not be read by the service (permission denied)"


def test_other_errors_of_the_system_are_told_without_its_path(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(code: int) -> None:
        def pread(*_: Any) -> bytes:
            raise OSError(code, "words of the system", "/host/path")

        monkeypatch.setattr(os, "pread", pread)

    failing(24)
    busy = "read_file: file.txt cannot be opened just now: the service has too many files open; try again"
    assert refusal(root, "file.txt") == busy
    failing(5)
    assert refusal(root, "file.txt") == "read_file: file.txt cannot be read (Input/output error)"


def test_a_workspace_that_went_away_is_told_and_one_that_came_back_is_served(root: Path) -> None:
    assert content(root, "file.txt") == "inside\n"
    root.rename(root.with_name("moved"))
    gone = "read_file: file.txt cannot be read: the workspace itself is not there any more"
    assert refusal(root, "file.txt") == gone
    root.mkdir()
    (root / "file.txt").write_text("new")
    assert content(root, "file.txt") == "new"


def test_a_workspace_may_itself_be_given_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert content(tmp_path / "alias", "absolute/deep/leaf.txt") == "leaf\n"


def test_a_workspace_has_to_be_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidRequest, match=r"is not a directory$"):
        workspace_tools(tmp_path / "file")
    with pytest.raises(InvalidRequest, match=r"No such file or directory$"):
        workspace_tools(tmp_path / "missing")


COMPONENTS = st.one_of(
    st.sampled_from(["..", ".", "", "dir", "deep", "file.txt", "leaf.txt", "outside", "secret.txt", "root", "etc"]),
    st.sampled_from(["up", "far_up", "to_dir", "absolute", "out", "absolute_out", "absolute_up", "out_file", "loop"]),
    st.sampled_from(["host", "passwd", "\0", "\ud800", "..\\..", "C:", "%2e%2e", "…"]),
)
PATHS = st.one_of(st.lists(COMPONENTS, max_size=12).map("/".join), st.text(max_size=30))


@pytest.fixture(scope="module")
def shared_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return grow(tmp_path_factory.mktemp("property"))


@given(path=PATHS)
def test_no_path_reads_anything_outside(shared_root: Path, path: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": path}),
        ("list_dir", {"path": path, "depth": 3}),
        ("search_files", {"path": path, "pattern": "s"}),
    ]
    for tool, given_input in calls:
        try:
            answer = repr(call(shared_root, tool, given_input))
        except ToolError as problem:
            answer = str(problem).replace(paths.shown(path), "")
        assert SECRET not in answer
        assert "secret.txt" not in answer.replace(repr(path), "")
        assert str(shared_root.parent) not in answer


@given(path=PATHS)
def test_what_is_opened_is_what_the_system_finds_at_that_path(shared_root: Path, path: str) -> None:
    """Held against realpath: opened is exactly what exists, is inside, and is a file or directory."""
    root = Root(shared_root)
    try:
        with root.opened(paths.parse(path)) as place:
            opened = (place.info.st_dev, place.info.st_ino)
    except (paths.Refusal, OSError):
        return
    real = (shared_root / path).resolve(strict=True)
    assert real.is_relative_to(root.real)
    assert opened == (real.stat().st_dev, real.stat().st_ino)
