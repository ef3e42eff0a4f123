"""The server is killed: whatever it had started is gone within a moment, also what cannot hear of it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.faults.rig import Service, group_members, service, state_of
from tests.faults.server import is_alive, until

BUSY = "text('busy'); for (;;) {}"
ASLEEP = "text('asleep'); await new Promise((resolve) => setTimeout(resolve, 600_000))"
BACKTRACKING = "text('lost'); /^(a+)+$/.test('a'.repeat(40) + 'b')"
WITHIN_S = 2.0


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state_of(pid) == "T", "stopped")


def kill(server: Service) -> None:
    """SIGKILL, and wait for the server itself to be gone."""
    server.process.kill()
    server.process.wait()


def all_gone(server: Service, but: frozenset[int] = frozenset(), seconds: float = WITHIN_S) -> float:
    """Wait until no process of its group is left `but` these; how long that took."""
    began = time.monotonic()
    until(lambda: group_members(server.pid) <= but, "no process left", seconds)
    return time.monotonic() - began


def populate(server: Service) -> list[int]:
    """Cells of every kind, more busy ones than there are processors; the processes of all."""
    for source in (BUSY, BUSY, BUSY, BUSY, BACKTRACKING, ASLEEP, ASLEEP):
        server.exec(source, yield_time_ms=0)
    until(lambda: server.client.get("/readyz").json()["live_cells"] == 7, "seven cells")
    until(lambda: sum(not server.is_spare(pid) for pid in server.cells()) == 7, "seven scripts")
    return [pid for pid in server.cells() if not server.is_spare(pid)]


def test_a_killed_server_leaves_no_process(tmp_path: Path) -> None:
    """Busy loops, sleeping cells, spares and the zygote."""
    with service(tmp_path) as server:
        populate(server)
        kill(server)
        all_gone(server)


def test_a_killed_server_whose_zygote_was_killed_first(tmp_path: Path) -> None:
    """Nobody is left who would kill the cells: each notices by itself, a busy one too."""
    with service(tmp_path) as server:
        populate(server)
        zygote = server.zygote
        os.kill(zygote, signal.SIGKILL)
        until(lambda: not is_alive(zygote), "dead")
        kill(server)
        all_gone(server)


def test_a_killed_server_whose_zygote_and_cells_are_stopped(tmp_path: Path) -> None:
    """A stopped zygote goes on when the server ends, and kills those that are stopped themselves."""
    with service(tmp_path) as server:
        for pid in populate(server):
            stop(pid)
        stop(server.zygote)
        kill(server)
        all_gone(server)


@pytest.mark.parametrize("source", [BUSY, pytest.param(ASLEEP, marks=pytest.mark.slow)], ids=["busy", "asleep"])
def test_a_stopped_cell_that_is_continued_when_all_others_are_gone(tmp_path: Path, source: str) -> None:
    """The zygote was killed, then the cell stopped, then the server killed: it ends when it goes on."""
    with service(tmp_path) as server:
        pid = server.new_cell_process(lambda: server.exec(source, yield_time_ms=0))
        zygote = server.zygote
        os.kill(zygote, signal.SIGKILL)
        until(lambda: not is_alive(zygote), "dead")
        stop(pid)
        kill(server)
        all_gone(server, but=frozenset({pid}))
        os.kill(pid, signal.SIGCONT)
        all_gone(server)
