"""Two hundred clients at once: nobody gets what is another's, nothing hangs, and nothing is left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.damage import resident_kib
from tests.faults.load import Counts, load
from tests.faults.rig import Service, descriptors_of, service, until_found, watched
from tests.faults.tally import Tally

CLIENTS = 200
FLAGS = ["--tools", "tests.faults.host_tools:tools", "--limit", "max_cells_server=100"]
SESSIONS = 40
MORE_MEMORY_KIB = 30_000  # than after the warm-up


def loaded(server: Service, seconds: float) -> tuple[Counts, tuple[int, int, int]]:
    """What came of some time of load, and the processes, descriptors and KiB of memory when its sessions are gone."""
    sessions = [server.session(tools=[{"name": "caller"}]) for _ in range(SESSIONS)]
    counts = asyncio.run(load(server.port, sessions, CLIENTS, seconds))
    for session in sessions:
        server.client.delete(f"/v1/sessions/{session}")
    server.settled()
    return counts, (len(server.cells()), descriptors_of(server.pid), resident_kib(server.pid))


@pytest.mark.timeout(150)
@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.slow)])
def test_two_hundred_clients(tmp_path: Path, seconds: int, tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    """Scripts of ten kinds, for a bounded time; 429 is the only refusal."""
    with service(tmp_path, *FLAGS) as server:
        _, before = loaded(server, 2)
        counts, after = loaded(server, seconds)
        until_found(lambda: descriptors_of(server.pid) <= before[1] + 2, "no descriptor is left behind")
    with capsys.disabled():
        print(f"\n  {CLIENTS} clients for {seconds} s: {counts.table}; memory {before[2]} -> {after[2]} KiB", end="")
    tally.add("scripts of every kind from 200 clients at once", tried=counts.begun.total(), lost=len(counts.wrong))
    assert counts.wrong == []
    assert after[0] == before[0]
    assert after[2] <= before[2] + MORE_MEMORY_KIB
    assert min(counts.begun.values()) > 0


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_connections_are_taken_soon(tmp_path: Path, tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    """While two hundred clients connect, ask and hang up again and again; the figure is printed."""
    with service(tmp_path, *FLAGS) as server:
        sessions = [server.session() for _ in range(SESSIONS)]
        with watched(server, connects=True) as seen:
            counts = asyncio.run(load(server.port, sessions, CLIENTS, 5, "hang_up"))
    with capsys.disabled():
        print(f"\n  hang-ups of {CLIENTS} clients: a new connection was answered within {seen.worst_ms} ms", end="")
    tally.add("new connections beside 200 clients that connect and hang up", tried=seen.count, lost=len(counts.wrong))
    assert (counts.wrong, seen.worst_ms < 5000) == ([], True)
