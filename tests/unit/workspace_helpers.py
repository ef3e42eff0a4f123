"""What the tests of confinement share: a workspace full of traps, and calls of its tools."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from codemode.errors import ToolError
from codemode.tools.tool import PythonHandler
from codemode.workspace.files import workspace_tools

SECRET = "the secret of the host"


@cache
def runners(root: Path) -> dict[str, Callable[..., Any]]:
    """What runs each tool of a workspace; made once, since that takes longer than most calls."""
    return {tool.name: tool.handler.run for tool in workspace_tools(root) if isinstance(tool.handler, PythonHandler)}


def call(root: Path, name: str, given: dict[str, Any]) -> Any:
    return runners(root)[name](given)


def content(root: Path, path: str) -> str:
    text = call(root, "read_file", {"path": path}).content
    assert isinstance(text, str)
    return text


def refusal(root: Path, path: str, tool: str = "read_file") -> str:
    """The text of the ToolError that a path gets, which never tells where the workspace lies."""
    with pytest.raises(ToolError) as caught:
        call(root, tool, {"path": path, "pattern": "x"} if tool == "search_files" else {"path": path})
    text = str(caught.value)
    assert str(root) not in text
    assert str(root.parent) not in text
    return text


def grow(base: Path) -> Path:
    """A workspace with files and links of every kind, and a secret beside it."""
    root = base / "root"
    (root / "dir" / "deep").mkdir(parents=True)
    (root / "file.txt").write_text("inside\n")
    (root / "dir" / "deep" / "leaf.txt").write_text("leaf\n")
    outside = base / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text(SECRET)
    (outside / "file.txt").write_text(SECRET)
    links = {
        "to_file": "file.txt",
        "to_dir": "dir",
        "absolute": str(root / "dir"),
        "absolute_out": str(outside),
        "absolute_up": f"{root}/../outside",
        "sibling": f"{root}side",
        "out": "../outside",
        "out_file": "../outside/secret.txt",
        "host": "/etc",
        "loop": "loop",
        "ping": "pong",
        "pong": "ping",
        "dangling": "nowhere",
        "dir/up": "../file.txt",
        "dir/deep/far_up": "../../../outside/secret.txt",
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    return root


def open_descriptors() -> list[Path]:
    """This process's open files, where the system tells them."""
    here = Path("/proc/self/fd")
    return sorted(here.iterdir()) if here.is_dir() else []
