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
MORE_MEMORY_KIB = 30_000  # than after the first round, which had as many sessions with as much output that was kept


def loaded(server: Service, seconds: float, counts: Counts) -> tuple[int, int, int]:
    """After some time of load, the processes, descriptors and KiB of memory when its sessions are gone."""
    sessions = [server.session(tools=[{"name": "caller"}]) for _ in range(SESSIONS)]
    asyncio.run(load(server.port, sessions, CLIENTS, seconds, counts))
    for session in sessions:
        server.client.delete(f"/v1/sessions/{session}")
    server.settled()
    return len(server.cells()), descriptors_of(server.pid), resident_kib(server.pid)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("rounds", [(2, 2), pytest.param((5, 12), marks=pytest.mark.slow)], ids=["short", "a minute"])
def test_two_hundred_clients(
    tmp_path: Path, rounds: tuple[int, int], tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scripts of ten kinds, for a bounded time; 429 is the only refusal, and one round leaves what another has left."""
    counts, seconds = Counts(), rounds[0] * rounds[1]
    with service(tmp_path, *FLAGS) as server:
        left = [loaded(server, rounds[1], counts) for _ in range(rounds[0])]
        before, after = left[0], left[-1]
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
            counts = Counts()
            asyncio.run(load(server.port, sessions, CLIENTS, 5, counts, "hang_up"))
    with capsys.disabled():
        print(f"\n  hang-ups of {CLIENTS} clients: a new connection was answered within {seen.worst_ms} ms", end="")
    tally.add("new connections beside 200 clients that connect and hang up", tried=seen.count, lost=len(counts.wrong))
    assert (counts.wrong, seen.worst_ms < 5000) == ([], True)
