"""Where a command runs, and what it gets to see of the service."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest

from codemode.errors import ToolError
from codemode.processes.table import Processes
from tests.unit.test_processes.process_helpers import PATIENCE, call


async def test_a_command_runs_in_the_workspace(processes: Processes, workspace: Path) -> None:
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "link").symlink_to("a/b")
    for workdir, expected in [
        (None, workspace),
        (".", workspace),
        ("a/b", workspace / "a" / "b"),
        ("link", workspace / "a" / "b"),
    ]:
        answer = await call(processes, "exec_command", cmd="pwd", **({"workdir": workdir} if workdir else {}))
        assert answer.output["output"].strip() == str(expected.resolve())


@pytest.mark.parametrize("workdir", ["..", "/etc", "a/../..", "out", "up", "file", "missing", "x" * 5000, "a\0b"])
@pytest.mark.parametrize("name", ["exec_command", "shell_command"])
async def test_no_other_directory(processes: Processes, workspace: Path, workdir: str, name: str) -> None:
    (workspace / "a").mkdir()
    (workspace / "out").symlink_to("/etc")
    (workspace / "up").symlink_to("../..")
    (workspace / "file").write_text("", encoding="utf-8")
    command = {"cmd" if name == "exec_command" else "command": "pwd"}
    with pytest.raises(ToolError, match="workdir: ") as refused:
        await call(processes, name, workdir=workdir, **command)
    assert str(workspace.parent) not in str(refused.value)
    assert processes.running() == []


async def test_a_link_that_is_swapped_leads_nowhere(processes: Processes, workspace: Path) -> None:
    """A directory turns into a link to the outside and back, all the time."""
    outside = workspace.parent / "outside"
    outside.mkdir()
    (workspace / "spot").mkdir()
    (workspace / "evil").symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (workspace / "spot").rename(workspace / "aside")
            (workspace / "evil").rename(workspace / "spot")
            (workspace / "spot").rename(workspace / "evil")
            (workspace / "aside").rename(workspace / "spot")

    swapping = threading.Thread(target=swap)
    swapping.start()
    ran = 0
    try:
        deadline = time.monotonic() + PATIENCE
        while ran < 30 and time.monotonic() < deadline:
            try:
                answer = await call(processes, "exec_command", cmd="stat -c %i .", workdir="spot")
            except ToolError:
                await asyncio.sleep(0.001)
                continue
            ran += 1
            assert int(answer.output["output"]) != outside.stat().st_ino
    finally:
        stop.set()
        swapping.join()
    assert ran > 0


async def test_nothing_of_the_services_environment(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEMODE_SECRET", "hunter2")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    answer = await call(processes, "exec_command", cmd="env", shell="sh")
    found = dict(line.partition("=")[::2] for line in answer.output["output"].splitlines())
    allowed = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TERM", "NO_COLOR", "PAGER"}
    assert {name for name in found if not name.startswith("LC_")} - allowed <= {
        "GIT_PAGER",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
        "CODEMODE_COMMANDS",
    }
    assert found["LC_TIME"] == "C"
    assert found["NO_COLOR"] == "1"
    assert found["GIT_PAGER"] == found["PAGER"] == "cat"


@pytest.mark.parametrize("tty", [False, True])
async def test_no_descriptor_and_no_signal_is_inherited(processes: Processes, tty: bool) -> None:
    cmd = "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status"
    answer = await call(processes, "exec_command", cmd=cmd, tty=tty)
    *fds, _, blocked, _, ignored = answer.output["output"].split()
    assert fds == ["0", "1", "2", "3"][: len(fds)]  # 3 is the directory that ls reads
    assert int(blocked, 16) == int(ignored, 16) == 0


async def test_a_command_leads_its_own_session(processes: Processes) -> None:
    answer = await call(processes, "exec_command", cmd="echo $$; ps -o pid=,pgid=,sid= -p $$")
    assert len(set(answer.output["output"].split())) == 1
