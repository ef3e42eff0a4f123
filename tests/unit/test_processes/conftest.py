"""Commands in a workspace of their own; every async test runs on both event loops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from codemode.limits import Limits
from codemode.processes.table import Processes
from codemode.workspace.paths import Root


@pytest.fixture(
    scope="session",
    params=[("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})],
    ids=["asyncio", "uvloop"],
)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(autouse=True)
def plain_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests has another."""
    monkeypatch.setenv("SHELL", "/bin/sh")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
async def processes(workspace: Path) -> AsyncIterator[Processes]:
    made = Processes(Root(workspace), Limits())
    yield made
    await made.close()
