"""What one cell does to itself harms no other."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.server import PATIENCE_S, Server, is_alive, serving, started, until
from tests.faults.tally import Tally

DEATHS = {
    "arrays": ("const k = []; for (;;) k.push(new Array(10000).fill(k.length + 0.5));", "out_of_memory"),
    "strings": ("const k = []; for (;;) k.push({a: k.length, b: 'x'.repeat(100) + k.length});", "out_of_memory"),
    "buffers": ("const k = []; for (;;) k.push(new Uint8Array(16777216).fill(1));", "out_of_memory"),
    "one array": ("Array(1e9).fill(0)", "out_of_memory"),
    "a loop": ("text('in'); for (;;);", "cpu_limit"),
    "recursion": ("(function f() { f() })()", "script_error"),
}
NEIGHBOUR = "for (let i = 0; i < 30; i++) { text(i); await new Promise(r => setTimeout(r, 100)) }"


def to_its_end(server: Server, session: str) -> dict[str, object]:
    """The end of a session's first cell, with all its output."""
    server.wait(session, "1", yield_time_ms=60_000)
    return server.wait(session, "1", after=0)


def busy_process(server: Server, session: str) -> int:
    """The process of a busy cell, on a server where nothing else is busy: it uses up a processor."""
    server.exec(session, "text('here'); while (true) {}", yield_time_ms=500)
    return max(server.cell_processes(), key=_cpu_ticks)


def _cpu_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11])


@pytest.mark.timeout(120)
def test_deaths_of_every_kind_harm_no_neighbour(tally: Tally) -> None:
    """Seven cells die in seven ways within their limits while twenty cells of other sessions go on to their end."""
    with serving("--limit", "memory_mb=64", "--limit", "cpu_ms=5000") as server, ThreadPoolExecutor(40) as pool:
        victim = server.session()
        pid = busy_process(server, victim)
        sessions = [server.session() for _ in range(20)]
        for session in sessions:
            server.exec(session, NEIGHBOUR, yield_time_ms=0)
        os.kill(pid, signal.SIGKILL)
        killed = pool.submit(server.wait, victim, "1", yield_time_ms=20_000)
        deaths = {
            name: pool.submit(server.exec, server.session(), source, yield_time_ms=60_000)
            for name, (source, _) in DEATHS.items()
        }
        ends = [pool.submit(to_its_end, server, session) for session in sessions]
        whole = [{"type": "text", "text": str(i)} for i in range(30)]
        disturbed = sum(end.result()["output"] != whole for end in ends)
        tally.add("deaths of cells by their limits, beside 20 others", tried=len(DEATHS) + 1, disturbed=disturbed)
        assert [(end.result()["status"], end.result()["output"]) for end in ends] == [("completed", whole)] * 20
        kinds = {name: death.result()["error"]["kind"] for name, death in deaths.items()}  # type: ignore[index]
        if kinds["buffers"] == "script_error":  # the wall of memory may be met first: a RangeError that nobody caught
            assert "allocation failed" in deaths["buffers"].result()["error"]["message"]  # type: ignore[index]
            kinds["buffers"] = "out_of_memory"
        assert kinds == {name: kind for name, (_, kind) in DEATHS.items()}
        assert killed.result()["error"]["kind"] == "worker_crashed"  # type: ignore[index]
        assert deaths["a loop"].result()["output"] == [{"type": "text", "text": "in"}]


def test_a_spare_that_is_killed_is_replaced() -> None:
    """Nobody is leased a dead process."""
    with serving("--spares", "2") as server:
        until(lambda: len(server.cell_processes()) == 2, "two spares")
        for spare in server.cell_processes():
            os.kill(spare, signal.SIGKILL)
        server.still_serves()


def test_a_killed_zygote_takes_no_cell_along() -> None:
    """Running cells go on, and new scripts run on a new zygote's children."""
    with serving() as server:
        session = server.session()
        server.exec(session, NEIGHBOUR, yield_time_ms=0)
        old = server.zygote
        os.kill(old, signal.SIGKILL)
        server.still_serves()
        end = server.wait(session, "1", yield_time_ms=20_000)
        assert (end["status"], server.zygote != old) == ("completed", True)


def test_a_stopped_process_does_not_hold_its_cell() -> None:
    """SIGSTOP keeps a process from obeying, not from being killed."""
    with serving("--spares", "1") as server:
        session = server.session()
        until(lambda: len(server.cell_processes()) == 1, "one spare")
        (pid,) = server.cell_processes()
        server.exec(session, "text('a'); await new Promise(r => setTimeout(r, 1e6))", yield_time_ms=200)
        os.kill(pid, signal.SIGSTOP)
        end = server.wait(session, "1", terminate=True)
        assert (end["status"], end["wall_time_ms"] < 2000) == ("terminated", True)  # type: ignore[operator]
        until(lambda: pid not in server.cell_processes(), "the stopped process is gone")


def test_the_server_killed_leaves_no_process(tally: Tally) -> None:
    """Whatever it had started notices by itself, a busy cell too."""
    with started() as server:
        session = server.session()
        server.exec(session, "while (true) {}", yield_time_ms=100)
        family = {server.zygote, *server.cell_processes()}
        server.process.kill()
        until(lambda: not any(map(is_alive, family)), "all are gone")
        tally.add("SIGKILL of the service, which leaves no process")


def test_stopping_answers_whoever_waits(tally: Tally) -> None:
    """SIGTERM: open calls are answered `running` at once, then the cells are ended."""
    with started("--grace", "0.5") as server, ThreadPoolExecutor(4) as pool:
        session = server.session()
        server.exec(session, "text('a'); await new Promise(r => setTimeout(r, 1e6))", yield_time_ms=100)
        waiting = pool.submit(server.wait, session, "1", yield_time_ms=60_000)
        until(
            lambda: server.http.post(f"/v1/sessions/{session}/wait", json={"cell_id": "1"}).status_code == 409, "busy"
        )
        server.process.terminate()
        status = waiting.result(PATIENCE_S)["status"]
        tally.add("SIGTERM of the service while somebody waits", lost=status != "running")
        assert status == "running"
        assert server.process.wait(PATIENCE_S) == 0


def test_two_hundred_scripts_leave_nothing_behind() -> None:
    """Processes and descriptors are as before, whatever way the scripts ended."""
    sources = ["text(1)", "throw 1", "let x = ;", "exit()", "await new Promise(() => {})", "tools.nope()"]
    with serving("--spares", "2") as server:
        session = server.session()
        for source in sources:
            server.exec(session, source)
        until(lambda: len(server.cell_processes()) == 2, "two spares again")
        before = server.descriptors()
        for number in range(200):
            server.exec(session, sources[number % len(sources)])
        until(lambda: len(server.cell_processes()) == 2, "two spares again")
        until(lambda: server.descriptors() <= before + 2, "descriptors as before")
