"""Processes that are stopped, as a debugger or a full host stops them, while a server runs."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.hostile_server import hostile_program
from tests.faults.rig import Service, service, state_of, texts
from tests.faults.server import is_alive, until

ASLEEP = "text('before'); await new Promise((resolve) => setTimeout(resolve, 600_000))"
BUSY = "text('before'); for (;;) {}"


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state_of(pid) == "T", "stopped")


def stopped_cell(server: Service, source: str, session: str | None = None) -> tuple[str, int]:
    """A cell that was heard of, and whose process is stopped then."""
    told: list[dict[str, Any]] = []
    pid = server.new_cell_process(lambda: told.append(server.exec(source, session, yield_time_ms=0)))
    cell_id = str(told[0]["cell_id"])
    until(lambda: bool(server.wait(cell_id, session, after=0, yield_time_ms=0)["output"]), "output")
    stop(pid)
    return cell_id, pid


@pytest.mark.parametrize("source", [BUSY, ASLEEP], ids=["busy", "asleep"])
def test_a_stopped_cell_holds_nobody_up(server: Service, source: str) -> None:
    """A wait answers at its yield, others go on, terminate ends it within a moment and hands over what it had said."""
    cell_id, pid = stopped_cell(server, source)
    began = time.monotonic()
    assert server.wait(cell_id, yield_time_ms=200)["status"] == "running"
    assert 0.2 <= time.monotonic() - began < 1
    assert texts(server.exec("text(1)")) == ["1"]
    began = time.monotonic()
    end = server.wait(cell_id, terminate=True, after=0)
    assert (end["status"], texts(end), time.monotonic() - began < 0.5) == ("terminated", ["before"], True)
    until(lambda: not is_alive(pid), "gone")


@pytest.mark.parametrize(("limit", "said"), [("lifetime_ms", "ran longer"), ("idle_ms", "nobody waited")])
def test_a_stopped_cell_is_held_to_its_time(server: Service, limit: str, said: str) -> None:
    """The limits on its life and on its idleness are the service's to keep."""
    session = server.session(limits={limit: 1000})
    cell_id, pid = stopped_cell(server, ASLEEP, session)
    until(lambda: not is_alive(pid), "gone", 5)
    end = server.wait(cell_id, session)
    assert (end["status"], end["error"]["kind"], said in end["error"]["message"]) == ("failed", "deadline", True), end


@contextmanager
def burst(server: Service, count: int) -> Iterator[list[str]]:
    """So many scripts at once; their ends are there behind the `with`."""
    ends: list[str] = []

    def run() -> None:
        ends.append(server.exec("text(1)", yield_time_ms=20_000)["status"])

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    yield ends
    for thread in threads:
        thread.join(25)


def readiness(server: Service) -> int:
    return httpx.get(f"{server.url}/readyz", trust_env=False).status_code


def test_a_hung_zygote_is_noticed_and_replaced(tmp_path: Path) -> None:
    """Scripts that wait for a process get one of the next zygote's; not ready meanwhile; running cells go on; logged."""
    program = hostile_program(silence=1.0)
    with service(tmp_path, program=program) as server:
        session = server.session(tools=[{"name": "caller"}])
        cell = server.exec("text(await tools.caller({}))", session)["cell_id"]
        server.settled()
        old = server.zygote
        stop(old)
        began = time.monotonic()
        with burst(server, 12) as ends:  # more than there are spares
            until(lambda: readiness(server) == 503, "not ready")
        assert (ends, time.monotonic() - began < 10) == (["completed"] * 12, True)
        assert (is_alive(old), server.zygote != old, readiness(server)) == (False, True, 200)
        result = {"cell_id": cell, "runtime_tool_call_id": "call-1", "output": "well"}
        end = server.post("tool_results", session, results=[result], cell_id=cell).json()
        assert (end["status"], texts(end)) == ("completed", ["well"])
        server.settled()
        assert "did not answer for 1 s; starting another" in server.said
        assert "text(1)" not in server.said


@pytest.mark.slow
def test_a_zygote_killed_in_a_burst(tmp_path: Path) -> None:
    """Nothing hangs, and cells that run go on, though their zygote was killed again and again."""
    with service(tmp_path) as server:
        session = server.session(tools=[{"name": "caller"}])
        cells = [server.exec("text(await tools.caller({}))", session)["cell_id"] for _ in range(4)]
        with burst(server, 40) as ends:
            for _ in range(3):
                old = server.zygote
                os.kill(old, signal.SIGKILL)
                until(lambda old=old: not is_alive(old), "dead")  # type: ignore[misc]
        assert ends == ["completed"] * 40
        for cell in cells:
            result = {"cell_id": cell, "runtime_tool_call_id": "call-1", "output": "well"}
            end = server.post("tool_results", session, results=[result], cell_id=cell).json()
            assert (end["status"], texts(end)) == ("completed", ["well"])
        server.settled()
        assert "was lost: it ended; starting another" in server.said


def test_all_spares_killed_at_once(server: Service) -> None:
    """They are filled up again, and what is asked for in between is served."""
    for _ in range(3):
        server.settled()
        victims = server.cells()
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        with burst(server, 8) as ends:
            pass
        assert ends == ["completed"] * 8
        assert not server.cells() & victims
    server.settled()
