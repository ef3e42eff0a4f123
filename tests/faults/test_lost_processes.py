"""Processes that die or stop at the worst moment: the cell they carried fails, and nobody else notices."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest

from tests.faults.rig import Service, group_members, living_children, state_of, texts
from tests.faults.server import is_alive, until
from tests.faults.tally import Tally


def running(server: Service, source: str, session: str | None = None) -> tuple[str, int]:
    """The id and the process of a script that runs on."""
    told: list[dict[str, Any]] = []
    pid = server.new_cell_process(lambda: told.append(server.exec(source, session, yield_time_ms=0)))
    return str(told[0]["cell_id"]), pid


BUSY = "text('before'); for (;;) {}"
WAITING = "text('before'); await tools.never({})"
SLEEPING = "text('before'); await new Promise((resolve) => setTimeout(resolve, 60_000))"


@pytest.mark.parametrize("source", [BUSY, WAITING, SLEEPING], ids=["busy", "in a call", "asleep"])
def test_a_killed_process_fails_its_cell(server: Service, source: str, tally: Tally) -> None:
    """It is `worker_crashed`, keeps its output and stores nothing; its call is cancelled; others run on."""
    session = server.session()
    other = server.exec(SLEEPING, yield_time_ms=0)
    cell_id, pid = running(server, "store('k', 1);" + source, session)
    until(lambda: bool(server.wait(cell_id, session, after=0, yield_time_ms=0)["output"]), "output")
    os.kill(pid, signal.SIGKILL)
    server.wait(cell_id, session)
    end = server.wait(cell_id, session, after=0)
    still_runs = server.wait(other["cell_id"], yield_time_ms=0)["status"] == "running"
    tally.add("SIGKILL of a cell process", lost=texts(end) != ["before"], disturbed=not still_runs)
    assert (end["status"], end["error"]["kind"], texts(end)) == ("failed", "worker_crashed", ["before"])
    assert "SIGKILL" in end["error"]["message"]
    assert end["tool_calls"]["in_flight"] == 0
    assert texts(server.exec("text(load('k'))", session)) == ["undefined"]
    assert still_runs


def test_a_killed_spare_is_replaced(server: Service, tally: Tally) -> None:
    """No exec gets it, and there are as many spares as before."""
    spares = server.settled()["spares"]
    victims = server.cells()
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(map(is_alive, victims)), "dead")
    ends = [server.exec("text(1)")["status"] for _ in range(2 * spares)]
    tally.add("SIGKILL of a spare process", tried=len(victims), lost=len(ends) - ends.count("completed"))
    assert ends == ["completed"] * len(ends)
    assert server.settled()["spares"] == spares
    assert not server.cells() & victims


@pytest.mark.parametrize("source", [BUSY, WAITING], ids=["busy", "in a call"])
def test_a_stopped_process_is_terminated_all_the_same(server: Service, source: str, tally: Tally) -> None:
    """One that does not hear anything any more is ended within a quarter of a second, and is gone."""
    cell_id, pid = running(server, source)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state_of(pid) == "T", "stopped")
    began = time.monotonic()
    end = server.wait(cell_id, terminate=True)
    took = time.monotonic() - began
    tally.add("SIGSTOP of a cell process", lost=end["status"] != "terminated")
    assert (end["status"], took < 0.5) == ("terminated", True), took
    until(lambda: not is_alive(pid), "gone")


def test_results_that_arrive_together_are_all_taken(server: Service) -> None:
    """While the script is busy with the first of several results, more come: none is lost or taken twice."""
    source = """
        const seen = [];
        const take = (value) => { seen.push(value); const end = Date.now() + 100; while (Date.now() < end); };
        await Promise.all([1, 2, 3, 4, 5, 6].map((n) => tools.caller({n}).then(take)));
        text(seen.join());
    """
    session = server.session(tools=[{"name": "caller"}])
    told: list[dict[str, Any]] = []
    pid = server.new_cell_process(lambda: told.append(server.exec(source, session)))
    cell_id = told[0]["cell_id"]
    results = [
        {"cell_id": cell_id, "runtime_tool_call_id": call["runtime_tool_call_id"], "output": call["input"]["n"]}
        for call in told[0]["pending_tool_calls"]
    ]
    assert len(results) == 6
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state_of(pid) == "T", "stopped")
    server.post("tool_results", session, results=results[:3])
    os.kill(pid, signal.SIGCONT)
    for result in results[3:]:
        server.post("tool_results", session, results=[result])
    end = server.wait(cell_id, session, yield_time_ms=5000)
    assert (end["status"], texts(end)) == ("completed", ["1,2,3,4,5,6"]), end


def test_a_killed_zygote_is_replaced(server: Service, tally: Tally) -> None:
    """Running cells go on, are told of results and end well; new scripts run on processes of the new one."""
    session = server.session(tools=[{"name": "caller"}])
    cell = server.exec("text(await tools.caller({}))", session)
    server.settled()
    old = server.zygote
    os.kill(old, signal.SIGKILL)
    until(lambda: not is_alive(old), "dead")
    for _ in range(10):
        assert server.exec("text(1)", session)["status"] == "completed"
    result = {"cell_id": cell["cell_id"], "runtime_tool_call_id": "call-1", "output": "well"}
    end = server.post("tool_results", session, results=[result], cell_id=cell["cell_id"]).json()
    tally.add("SIGKILL of the zygote", lost=texts(end) != ["well"])
    assert (end["status"], texts(end)) == ("completed", ["well"])
    assert server.zygote != old
    assert server.client.get("/readyz").status_code == 200


def test_a_zygote_killed_again_and_again(server: Service, tally: Tally) -> None:
    """Also while it is starting: in the end there is one, and every script that was asked for has been answered."""
    ends: list[str] = []

    def run() -> None:
        ends.append(server.exec("text(1)", yield_time_ms=30_000)["status"])

    threads = [threading.Thread(target=run) for _ in range(20)]
    for number, thread in enumerate(threads):
        thread.start()
        if number % 4 == 0:
            for pid in living_children(server.pid):
                os.kill(pid, signal.SIGKILL)
    for thread in threads:
        thread.join(30)
    tally.add("SIGKILL of the zygote", tried=5, lost=20 - ends.count("completed"))
    assert ends == ["completed"] * 20


def test_a_killed_cell_of_a_replaced_zygote_is_noticed(server: Service) -> None:
    """Nobody reports its exit, yet the cell fails within a moment."""
    cell_id, pid = running(server, SLEEPING)
    zygote = server.zygote
    os.kill(zygote, signal.SIGKILL)
    until(lambda: not is_alive(zygote), "dead")
    os.kill(pid, signal.SIGKILL)
    end = server.wait(cell_id, yield_time_ms=5000)
    assert (end["status"], end["error"]["kind"]) == ("failed", "worker_crashed")
    until(lambda: pid not in group_members(server.pid), "gone")
