"""A host that runs out of descriptors: some scripts fail, none hangs, and afterwards all is as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.faults.rig import service
from tests.faults.server import until
from tests.faults.tally import Tally

ASLEEP = "text('here'); yield_control(); await new Promise((resolve) => setTimeout(resolve, 600_000))"
DESCRIPTORS = 100


def test_more_cells_than_descriptors(tmp_path: Path, tally: Tally) -> None:
    """Those for which there is none fail or are refused; none hangs; the others live on; the service recovers."""
    limited = ("bash", "-c", f'ulimit -n {DESCRIPTORS}; exec "$@"', "limited")
    with service(tmp_path, wrapper=limited) as server:
        session = server.session()
        answers: list[dict[str, Any]] = []
        for _ in range(60):
            try:
                response = server.client.post(
                    f"/v1/sessions/{session}/exec", json={"source": ASLEEP, "yield_time_ms": 1500}, timeout=10
                )
            except httpx.TransportError:
                continue  # no descriptor for the connection
            if response.status_code == 202 and not response.json()["output"]:
                answers.append({"hung": response.json()["cell_id"]})
            elif response.status_code != 202:
                answers.append(response.json())
            if len(answers) >= 3:
                break
        hung = [answer for answer in answers if "hung" in answer]
        tally.add("execs for which there is no descriptor", tried=len(answers), lost=len(hung))
        assert hung == []
        assert {answer.get("code") or answer["error"]["kind"] for answer in answers} <= {
            "worker_crashed",
            "isolation_unavailable",
            "too_many_cells",
        }
        server.client.delete(f"/v1/sessions/{session}")
        server.client.close()
        server.client = httpx.Client(base_url=server.url, timeout=30, trust_env=False)
        until(lambda: server.client.get("/readyz").json().get("live_cells") == 0, "no cell runs")
        server.still_serves()
