"""Commands as callers see them: output, exit codes, typing, Ctrl-C, yields and polls."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from codemode.errors import ToolError
from codemode.limits import Limits
from codemode.processes.table import Processes
from codemode.tools.command import Ending
from codemode.workspace.paths import Root
from tests.unit.test_processes.process_helpers import PATIENCE, call

LONG = 15_000
SLEEPER = f"""exec {sys.executable} -I -S -c 'import time; print("ready", flush=True); time.sleep(100)'"""


async def polled(processes: Processes, session_id: int, wanted: str, seen: str = "") -> str:
    """Poll until the output, `seen` before it, has `wanted`."""
    deadline = time.monotonic() + PATIENCE
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        answer = await call(processes, "write_stdin", session_id=session_id, yield_time_ms=20)
        seen += answer.output["output"]
        assert "session_id" in answer.output or wanted in seen, seen
    return seen


@pytest.mark.parametrize(
    ("cmd", "output", "code"),
    [
        ("true", "", 0),
        ("echo out; echo err >&2; exit 3", "out\nerr\n", 3),
        ("kill -TERM $$", "", 143),
        ("kill -KILL $$", "", 137),
        ("no-such-command-1", None, 127),
        ("printf '\\377a'", "�a", 0),
        ("cat; echo read", "read\n", 0),
        ("head -c 300000 /dev/zero | tr '\\0' x | wc -c", None, 0),
        ("exec >&- 2>&-; exit 4", "", 4),
    ],
)
async def test_a_command_that_ends(processes: Processes, cmd: str, output: str | None, code: int) -> None:
    answer = await call(processes, "exec_command", cmd=cmd, yield_time_ms=LONG)
    assert answer.ending == Ending("exited", code)
    assert answer.running is None
    assert set(answer.output) == {"output", "wall_time_seconds", "exit_code"}
    assert answer.output["exit_code"] == code
    if output is not None:
        assert answer.output["output"] == output
    assert processes.running() == []
    assert processes.find(1000) is None


async def test_characters_that_come_in_pieces_are_whole(processes: Processes) -> None:
    cmd = "printf '\\342'; sleep 0.05; printf '\\202'; sleep 0.05; printf '\\254'"
    first = await call(processes, "exec_command", cmd=cmd, yield_time_ms=30)
    seen = first.output["output"]
    while "session_id" in first.output:
        first = await call(processes, "write_stdin", session_id=1000, yield_time_ms=20)
        seen += first.output["output"]
    assert seen == "€"


async def test_polls_give_what_is_new_and_the_end_once(processes: Processes, workspace: Path) -> None:
    answer = await call(processes, "exec_command", cmd="echo one; sleep 100", yield_time_ms=0)
    cmd = "echo two; until test -e go; do sleep 0.01; done; echo three"
    other = await call(processes, "exec_command", cmd=cmd, yield_time_ms=0)
    assert answer.output["session_id"] == 1000
    assert other.output["session_id"] == 1001
    assert other.running is processes.find(1001)
    assert await polled(processes, 1001, "two", other.output["output"]) == "two\n"
    (workspace / "go").touch()
    last = await call(processes, "write_stdin", session_id=1001)
    assert last.output["output"] == "three\n"
    assert last.output["exit_code"] == 0
    with pytest.raises(ToolError, match="no process with session_id 1001 runs or has unread output"):
        await call(processes, "write_stdin", session_id=1001)


async def test_one_that_ended_waits_to_be_collected(processes: Processes, workspace: Path) -> None:
    cmd = "until test -e go; do sleep 0.01; done; echo late; exit 5"
    answer = await call(processes, "exec_command", cmd=cmd, yield_time_ms=0)
    (workspace / "go").touch()
    process = processes.find(answer.output["session_id"])
    assert process is not None
    assert await process.wait(PATIENCE)
    began = time.monotonic()
    last = await call(processes, "write_stdin", session_id=process.process_id, chars="ignored", yield_time_ms=LONG)
    assert time.monotonic() - began < 1
    assert last.output["output"] == "late\n"
    assert last.output["exit_code"] == 5


async def test_a_hook_waits_for_the_exit(processes: Processes) -> None:
    answer = await call(processes, "exec_command", cmd="sleep 0.1", yield_time_ms=0, wait_until_completion=True)
    assert answer.ending == Ending("exited", 0)


async def test_a_terminal(processes: Processes) -> None:
    script = "stty size; tty >/dev/null && echo terminal; test -t 0 && test -t 1 && test -t 2 && echo all; echo $TERM"
    answer = await call(processes, "exec_command", cmd=script, tty=True)
    assert answer.output["output"].split() == ["24", "80", "terminal", "all", "xterm-256color"]
    opened = await call(processes, "exec_command", cmd="echo hello >/dev/tty", tty=True)
    assert opened.output["output"] == "hello\r\n"


async def test_no_terminal(processes: Processes) -> None:
    answer = await call(processes, "exec_command", cmd="test -t 0 || test -t 1 || echo none; echo $TERM")
    assert answer.output["output"].split() == ["none", "dumb"]


async def test_typing(processes: Processes) -> None:
    cmd = "read name; echo hello $name; read more; echo bye $more"
    answer = await call(processes, "exec_command", cmd=cmd, tty=True, yield_time_ms=0)
    number = answer.output["session_id"]
    typed = await call(processes, "write_stdin", session_id=number, chars="world\n", yield_time_ms=0)
    await polled(processes, number, "hello world", typed.output["output"])
    last = await call(processes, "write_stdin", session_id=number, chars="now\n", yield_time_ms=LONG)
    assert "bye now" in last.output["output"]
    assert last.output["exit_code"] == 0


async def test_typing_needs_a_terminal(processes: Processes) -> None:
    answer = await call(processes, "exec_command", cmd="sleep 100", yield_time_ms=0)
    with pytest.raises(ToolError, match="tty: true"):
        await call(processes, "write_stdin", session_id=answer.output["session_id"], chars="x")


async def test_typing_is_bounded_and_waits_for_room(processes: Processes) -> None:
    cmd = "stty raw -echo; echo ready; sleep 100"
    answer = await call(processes, "exec_command", cmd=cmd, tty=True, yield_time_ms=0)
    number = answer.output["session_id"]
    await polled(processes, number, "ready", answer.output["output"])
    with pytest.raises(ToolError, match="reads none"):
        for _ in range(5):
            await call(processes, "write_stdin", session_id=number, chars="x" * 30_000, yield_time_ms=0)
    reading = "stty raw -echo; echo ready; head -c 30000 | wc -c"
    answer = await call(processes, "exec_command", cmd=reading, tty=True, yield_time_ms=0)
    number = answer.output["session_id"]
    await polled(processes, number, "ready", answer.output["output"])
    last = await call(processes, "write_stdin", session_id=number, chars="x" * 30_000, yield_time_ms=LONG)
    assert "30000" in last.output["output"]


@pytest.mark.parametrize("tty", [False, True])
async def test_ctrl_c(processes: Processes, tty: bool) -> None:
    answer = await call(processes, "exec_command", cmd=SLEEPER, tty=tty, yield_time_ms=0)
    number = answer.output["session_id"]
    await polled(processes, number, "ready", answer.output["output"])
    last = await call(processes, "write_stdin", session_id=number, chars="\x03", yield_time_ms=LONG)
    assert last.output["exit_code"] == 130


async def test_a_timeout_ends_the_group(processes: Processes) -> None:
    began = time.monotonic()
    answer = await call(processes, "shell_command", command="echo a; sleep 100 | sleep 100", timeout_ms=100)
    assert time.monotonic() - began < 3
    assert answer.ending == Ending("timed_out", None)
    assert answer.output.pop("wall_time_seconds") > 0.09
    assert answer.output == {"output": "a\n", "exit_code": None, "timed_out": True}


async def test_shell_command_runs_to_its_end(processes: Processes) -> None:
    answer = await call(processes, "shell_command", command="echo a; exit 2")
    assert answer.ending == Ending("exited", 2)
    assert answer.output["output"] == "a\n"
    assert answer.output["exit_code"] == 2


async def test_output_is_cut_to_its_budget(processes: Processes) -> None:
    answer = await call(processes, "exec_command", cmd="seq 10000", max_output_tokens=4)
    assert answer.output["output"].startswith("1\n2\n3\n4\n…")
    assert answer.output["output"].endswith(" tokens truncated…9\n10000\n")


async def test_a_flood_neither_fills_the_memory_nor_slows_the_loop(processes: Processes) -> None:
    answer = await call(processes, "exec_command", cmd="yes", yield_time_ms=0)
    process = processes.find(answer.output["session_id"])
    assert process is not None
    longest = 0.0
    deadline = time.monotonic() + 1
    while (now := time.monotonic()) < deadline:
        await asyncio.sleep(0)
        longest = max(longest, time.monotonic() - now)
    assert longest < 0.25  # other programs want the machine too
    assert "bytes omitted" in process.aggregated
    assert len(process.aggregated.encode()) < 70_000
    assert len(process.take().encode()) < 1_100_000
    process.kill()
    assert await process.wait(PATIENCE)
    assert process.ending == Ending("cancelled", None)


async def test_listeners_hear_of_output_and_of_the_end(workspace: Path) -> None:
    told: list[tuple[int, str]] = []
    ends: list[tuple[Ending, Any]] = []
    processes = Processes(Root(workspace), Limits(), lambda process, text: told.append((process.process_id, text)))
    process = await processes.start(
        "echo a; sleep 0.3; echo b; exit 1", tool_use_id="toolu_1", turn_id="t", cell_id="c"
    )
    process.when_ended(lambda ending, output: ends.append((ending, output)))
    assert (process.command, process.workdir, process.tty) == ("echo a; sleep 0.3; echo b; exit 1", ".", False)
    assert (process.turn_id, process.cell_id, process.tool_use_id) == ("t", "c", "toolu_1")
    assert await process.wait(PATIENCE)
    process.when_ended(lambda ending, output: ends.append((ending, output)))
    assert {number for number, _ in told} == {1000}
    assert "".join(text for _, text in told) == "a\nb\n"
    assert [ending for ending, _ in ends] == [Ending("exited", 1)] * 2
    assert ends[0][1]["output"] == "a\nb\n"
    assert ends[0][1]["exit_code"] == 1
    assert process.ended_at is not None
    assert process.ended_at >= process.started_at
    await processes.close()


async def test_shells(processes: Processes, workspace: Path) -> None:
    script = workspace / "sh.sh"
    script.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    answer = await call(processes, "exec_command", cmd="x y", shell=str(script))
    assert answer.output["output"] == "-c x y\n"
    answer = await call(processes, "exec_command", cmd="x y", shell=str(script), login=True)
    assert answer.output["output"] == "-lc x y\n"
    answer = await call(processes, "exec_command", cmd="echo $0", shell="bash")
    assert answer.output["output"].strip().endswith("bash")


@pytest.mark.parametrize("shell", ["", "no-such-shell", "bin/sh", "./sh", "/etc", "/etc/passwd", "a\0b", "/bin/s\0h"])
async def test_shells_that_are_none(processes: Processes, shell: str) -> None:
    with pytest.raises(ToolError, match="is no program"):
        await call(processes, "exec_command", cmd="true", shell=shell)


@pytest.mark.parametrize("cmd", ["a\0b", "echo " + "x" * 200_000])
async def test_commands_that_cannot_be(processes: Processes, cmd: str) -> None:
    with pytest.raises(ToolError, match=r"NUL|too long"):
        await call(processes, "exec_command", cmd=cmd)
    assert processes.running() == []
    answer = await call(processes, "exec_command", cmd="echo on")
    assert answer.output["output"] == "on\n"


async def test_a_command_of_any_text(processes: Processes) -> None:
    cmd = "printf %s 'ä€😀\x01\x02'" + " # " + "\x01" * 100_000  # six times as long in JSON
    answer = await call(processes, "exec_command", cmd=cmd)
    assert answer.output["output"] == "ä€😀\x01\x02"
