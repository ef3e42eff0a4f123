"""Five hundred live idle cells: started, each answers, all ended, nothing left."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from tests.faults.server import serving, until

CELLS = 500
IN_A_SESSION = 50
IDLE = "text('idle'); await new Promise(r => setTimeout(r, 1e9))"


def private_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_five_hundred_live_cells(capsys: pytest.CaptureFixture[str]) -> None:
    """Each holds at most 6 MiB of its own, and all of them end."""
    with serving("--spares", "2") as server:
        until(lambda: len(server.cell_processes()) == 2, "two spares")
        descriptors = server.descriptors()
        sessions = [server.session() for _ in range(CELLS // IN_A_SESSION)]
        for session in sessions:
            for _ in range(IN_A_SESSION):
                server.exec(session, IDLE, yield_time_ms=0)
        for session in sessions:
            for cell in range(1, IN_A_SESSION + 1):
                seen = server.wait(session, str(cell), after=0)
                assert (seen["status"], seen["output"]) == ("running", [{"type": "text", "text": "idle"}])
        memory = statistics.median(private_kib(pid) for pid in server.cell_processes()) / 1024
        with capsys.disabled():
            print(f"\n{CELLS} live idle cells: {memory:.1f} MiB private memory each")
        for session in sessions:
            assert server.http.delete(f"/v1/sessions/{session}").status_code == 204
        until(lambda: len(server.cell_processes()) <= 2, "only spares are left", 60)
        until(lambda: server.descriptors() <= descriptors + 2, "descriptors as before", 60)
        assert memory <= 6
