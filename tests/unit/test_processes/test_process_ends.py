"""Nothing is left behind: by a cancelled call, a closed session, a killed service, a lost keeper."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from codemode.errors import ToolError
from codemode.limits import Limits
from codemode.processes.process import Process
from codemode.processes.table import MOST_UNCOLLECTED, Processes
from codemode.tools.command import Ending
from codemode.workspace.paths import Root
from tests.unit.test_processes.process_helpers import PATIENCE, call, is_alive, numbers, until

ROOT = Path(__file__).resolve().parents[3]
# Two processes that nobody's group or session has: of setsid, and of two forks.
STRAYS = """
sleep 1000 & echo $! >>pids
setsid sh -c 'echo $$ >>pids; exec sleep 1000' &
(setsid sh -c 'setsid sh -c "echo \\$\\$ >>pids; exec sleep 1000" & exit' &)
"""


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("name", ["exec_command", "shell_command"])
async def test_cancelling_kills_the_group(processes: Processes, workspace: Path, name: str) -> None:
    ends: list[Ending] = []
    key = "cmd" if name == "exec_command" else "command"
    calling = asyncio.create_task(call(processes, name, **{key: "sleep 1000 & echo $$ $! >pids; wait"}))
    await until(lambda: numbers(workspace / "pids", 2))
    processes.running()[0].when_ended(lambda ending, _: ends.append(ending))
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await until(lambda: ends)
    assert ends == [Ending("cancelled", None)]
    assert not any(map(is_alive, numbers(workspace / "pids", 2)))
    assert processes.running() == []
    assert processes.find(1000) is None


async def test_cancelling_a_start_leaves_nothing(processes: Processes, workspace: Path) -> None:
    await call(processes, "exec_command", cmd="true")
    for at in range(10):
        starting = asyncio.create_task(processes.start(f"echo $$ >>pids; exec sleep {1000 + at}", tool_use_id="t"))
        await asyncio.sleep(at * 0.0002)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            (await starting).kill()
    await until(lambda: processes.running() == [])
    assert not any(map(is_alive, numbers(workspace / "pids", 0)))


async def test_what_stays_in_the_background_ends_with_the_session(processes: Processes, workspace: Path) -> None:
    began = time.monotonic()
    answer = await call(processes, "exec_command", cmd=STRAYS + "echo done")
    assert time.monotonic() - began < 3
    assert answer.ending == Ending("exited", 0)
    assert answer.output["output"] == "done\n"
    await until(lambda: numbers(workspace / "pids", 3))
    pids = numbers(workspace / "pids", 3)
    assert all(map(is_alive, pids))
    await processes.close()
    assert not any(map(is_alive, pids))


async def test_closing_ends_all(processes: Processes) -> None:
    for tty in (False, True):
        await call(processes, "exec_command", cmd="trap '' TERM INT HUP; sleep 1000", tty=tty, yield_time_ms=0)
    waiting = asyncio.create_task(call(processes, "exec_command", cmd="sleep 1000"))
    await until(lambda: len(processes.running()) == 3)
    running = processes.running()
    keeper = processes.keeper_pid
    began = time.monotonic()
    await asyncio.gather(processes.close(), processes.close())
    assert time.monotonic() - began < 3
    assert [process.ending for process in running] == [Ending("cancelled", None)] * 3
    answer = await waiting
    assert answer.ending == Ending("cancelled", None)
    assert answer.output["exit_code"] is None
    assert keeper is not None
    assert not is_alive(keeper)
    with pytest.raises(ToolError, match="the session has ended"):
        await call(processes, "exec_command", cmd="true")


SERVICE = """
import asyncio, sys
from pathlib import Path
from codemode.limits import Limits
from codemode.processes.table import Processes
from codemode.workspace.paths import Root

async def main():
    processes = Processes(Root(Path(sys.argv[1])), Limits())
    await processes.start(sys.argv[2], tool_use_id="t")
    await processes.start("echo $$ >>pids; exec sleep 1000", tty=True, tool_use_id="t")
    print(processes.keeper_pid, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("is_stopped", [False, True], ids=["", "keeper-stopped"])
async def test_a_killed_service_leaves_nothing(workspace: Path, is_stopped: bool) -> None:
    command = [sys.executable, "-c", SERVICE, str(workspace), STRAYS + "sleep 1000"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        keeper = int(service.stdout.readline())
        await until(lambda: numbers(workspace / "pids", 4))
        pids = numbers(workspace / "pids", 4)
        assert all(map(is_alive, pids))
        if is_stopped:
            os.kill(keeper, signal.SIGSTOP)
        service.kill()
    await until(lambda: not any(map(is_alive, [*pids, keeper])), "the end of all")


async def test_a_keeper_that_is_killed(processes: Processes, workspace: Path) -> None:
    ends: list[tuple[Ending, Any]] = []
    process = await processes.start("echo before; echo $$ >pids; sleep 1000", tool_use_id="t")
    process.when_ended(lambda ending, output: ends.append((ending, output)))
    await until(lambda: numbers(workspace / "pids", 1))
    cmd = "until test -e go; do sleep 0.01; done; kill -TERM $PPID; kill -KILL $PPID; sleep 1000"
    killing = await call(processes, "exec_command", cmd=cmd, yield_time_ms=0)
    (workspace / "go").touch()
    killing = await call(processes, "write_stdin", session_id=killing.output["session_id"], yield_time_ms=60_000)
    assert killing.output["exit_code"] is None
    await until(lambda: ends)
    assert ends[0][0] == Ending("cancelled", None)
    assert ends[0][1]["output"] == "before\n"
    await until(lambda: not is_alive(numbers(workspace / "pids", 1)[0]))
    answer = await call(processes, "exec_command", cmd="echo again")
    assert answer.output["output"] == "again\n"


async def test_what_a_killed_keeper_leaves_behind(processes: Processes, workspace: Path) -> None:
    """Also what had left its command's group, and has no parent any more."""
    stray = 'setsid sh -c "echo \\$\\$ >>pids; exec sleep 1000" &'
    await call(processes, "exec_command", cmd=f"{stray} until test -s pids; do sleep 0.01; done; kill -KILL $PPID")
    await until(lambda: not any(map(is_alive, numbers(workspace / "pids", 1))), "the end of the stray")


async def test_a_keeper_that_is_killed_at_once(processes: Processes, workspace: Path) -> None:
    """By the command that it is about to say it has started: it is never told that it was not."""
    for _ in range(10):
        answer = await call(processes, "exec_command", cmd="kill -KILL $PPID; echo $$ >>pids; exec sleep 1000")
        assert answer.ending == Ending("cancelled", None)
    await until(lambda: not any(map(is_alive, numbers(workspace / "pids", 0))))
    assert processes.running() == []


async def test_a_keeper_that_is_killed_just_before(processes: Processes) -> None:
    await call(processes, "exec_command", cmd="true")
    keeper = processes.keeper_pid
    assert keeper is not None
    os.kill(keeper, signal.SIGKILL)
    while is_alive(keeper):
        time.sleep(0.001)  # the loop does not see it
    answer = await call(processes, "exec_command", cmd="echo again")
    assert answer.output["output"] == "again\n"
    assert processes.keeper_pid != keeper


async def test_a_keeper_that_is_stopped_goes_on(processes: Processes) -> None:
    answer = await call(processes, "exec_command", cmd="kill -STOP $PPID; echo stopped")
    assert answer.ending == Ending("exited", 0)
    keeper = processes.keeper_pid
    assert keeper is not None
    os.kill(keeper, signal.SIGSTOP)
    answer = await call(processes, "exec_command", cmd="echo on")
    assert answer.output["output"] == "on\n"
    os.kill(keeper, signal.SIGSTOP)
    await processes.close()
    assert not is_alive(keeper)


async def test_too_many(workspace: Path) -> None:
    processes = Processes(Root(workspace), Limits(max_processes_session=3))
    starts = [processes.start("sleep 1000", tool_use_id="t") for _ in range(5)]
    made = await asyncio.gather(*starts, return_exceptions=True)
    running = [each for each in made if isinstance(each, Process)]
    refused = [str(each) for each in made if isinstance(each, ToolError)]
    assert len(running) == 3
    assert len(refused) == 2
    assert "may have 3" in refused[0]
    running[0].kill()
    assert await running[0].wait(PATIENCE)
    await processes.start("true", tool_use_id="t")
    await processes.close()


async def test_uncollected_ends_are_bounded(processes: Processes) -> None:
    for _ in range(MOST_UNCOLLECTED + 3):
        process = await processes.start(":", tool_use_id="t")
        assert await process.wait(PATIENCE)
    assert processes.find(1002) is None
    assert processes.find(1003) is not None


async def test_no_descriptor_is_leaked(workspace: Path) -> None:
    before = descriptors()
    for _ in range(3):
        processes = Processes(Root(workspace), Limits())
        for tty in (False, True):
            await call(processes, "exec_command", cmd="sleep 1000 & echo a", tty=tty)
            await call(processes, "exec_command", cmd="sleep 1000", tty=tty, yield_time_ms=0)
            with pytest.raises(ToolError):
                await call(processes, "exec_command", cmd="x" * 200_000, tty=tty)
            with pytest.raises(ToolError):
                await call(processes, "exec_command", cmd="true", workdir="missing")
        await processes.close()
    assert descriptors() <= before + 1  # of the loop's executor, made with its first use
