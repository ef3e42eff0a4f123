"""Processes that were taken over and say on their socket whatever they like: each harms its own cell alone."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.hostile_acts import AFTER_START, MARK
from tests.faults.hostile_server import hostile_program
from tests.faults.rig import Service, SharedService, descriptors_of, texts, until_found
from tests.faults.tables import HOSTILE

FLAGS = ("--tools", "tests.faults.host_tools:tools", "--limit", "max_output_bytes=1048576")
LIMITS = ("--limit", "max_tool_calls=1000")
PATIENCE = hostile_program(frame=0.4)

# How a cell ends that is not `worker_crashed`.
OTHER_ENDS = {
    "a_flood_of_calls": "tool_call_limit",
    "a_flood_of_text": "output_limit",
    "a_flood_of_empty_text": "output_limit",
    "a_flood_of_notifications": "output_limit",
    "an_end_twice": "completed",
    "an_end_and_a_flood": "completed",
    "leaves_its_socket_to_a_grandchild_and_ends_well": "completed",
}
OBEY_NOTHING = ("deaf", "deaf_and_loud", "many_calls_and_takes_no_result")
BEHIND = [name for name in AFTER_START if name not in OBEY_NOTHING]
GROUP = 8  # share one neighbour: what it takes to set one up is most of what one of these takes
GROUPS = [BEHIND[start : start + GROUP] for start in range(0, len(BEHIND), GROUP)]

NEIGHBOUR = """
  const told = tools.caller({});
  let going = true;
  told.then(() => { going = false; });
  for (let n = 0; going; n++) {
    if (await tools.echo({value: n}) !== n) throw new Error("disturbed");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  text(await told);
"""


@pytest.fixture(scope="module")
def hostile_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedService]:
    with SharedService(tmp_path_factory, *FLAGS, *LIMITS, program=PATIENCE) as shared:
        yield shared


@pytest.fixture
def hostile(hostile_service: SharedService) -> Iterator[Service]:
    """A server whose cell processes may turn hostile; it has to serve on, with nothing left behind."""
    yield from hostile_service.lent()


class Health:
    """How long /healthz takes, asked again and again from a thread."""

    def __init__(self, port: int) -> None:
        self.worst = 0.0
        self._stop = threading.Event()
        self._port = port
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Health:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        while not self._stop.wait(0.003):
            began = time.perf_counter()
            connection.request("GET", "/healthz")
            assert connection.getresponse().read()
            self.worst = max(self.worst, time.perf_counter() - began)
        connection.close()


@contextmanager
def undisturbed(server: Service) -> Iterator[Health]:
    """A neighbour runs meanwhile, and somebody asks for /healthz; afterwards all is as before."""
    server.settled()
    before = descriptors_of(server.pid)
    session = server.session(tools=[{"name": "caller"}])
    cell = server.exec(NEIGHBOUR, session, yield_time_ms=0)["cell_id"]
    until_found(lambda: server.wait(cell, session, after=0, yield_time_ms=0)["pending_tool_calls"], "a call")
    with Health(server.port) as health:
        yield health
    result = {"cell_id": cell, "runtime_tool_call_id": "call-1", "output": "undisturbed"}
    end = server.post("tool_results", session, results=[result], cell_id=cell, yield_time_ms=10_000).json()
    assert (end["status"], texts(end)) == ("completed", ["undisturbed"]), end
    spares = server.settled()["spares"]
    until_found(lambda: len(forked_by(server.zygote)) == spares, "no process but the spares")
    until_found(lambda: descriptors_of(server.pid) <= before + 1, "descriptors as before")


def forked_by(zygote: int) -> list[int]:
    """What goes back to this zygote, though it may have left its group and its session: it has the same command."""
    command = Path(f"/proc/{zygote}/cmdline").read_bytes()
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if path.read_bytes() == command:
                found.append(int(path.parent.name))
    return [pid for pid in found if pid != zygote]


def ending(observation: dict[str, Any]) -> str:
    error = observation["error"]
    return str(error["kind"] if error else observation["status"])


@pytest.mark.parametrize("names", GROUPS, ids=lambda names: f"{names[0]} and more")
def test_hostile_processes_end_their_own_cells_alone(hostile: Service, names: list[str]) -> None:
    """Within about a second, as what they are; a neighbour finishes, /healthz answers, nothing is left."""
    wrong = []
    with undisturbed(hostile) as health:
        for name in names:
            session = hostile.session()
            health.worst = 0.0
            began = time.monotonic()
            seen = hostile.exec(MARK + name, session, yield_time_ms=10_000)
            while seen["status"] == "running":  # it yielded
                seen = hostile.wait(seen["cell_id"], session, yield_time_ms=10_000)
            took = time.monotonic() - began
            well = ending(seen) == OTHER_ENDS.get(name, "worker_crashed") and took < 3 and health.worst < 1
            HOSTILE.append((name.replace("_", " "), ending(seen), took, 1000 * health.worst, well))
            if not well:
                wrong.append((name, seen["status"], seen["error"], took, health.worst))
    assert wrong == []


@pytest.mark.parametrize("name", OBEY_NOTHING)
def test_a_process_that_obeys_nothing_is_ended(hostile: Service, name: str) -> None:
    """A wait answers at its yield; terminate ends it within 250 ms; what it was sent is not kept for ever."""
    session = hostile.session()
    with undisturbed(hostile) as health:
        cell = hostile.exec(MARK + name, session, yield_time_ms=200)
        assert cell["status"] == "running"
        began = time.monotonic()
        assert hostile.wait(cell["cell_id"], session, yield_time_ms=100)["status"] == "running"
        assert time.monotonic() - began < 1
        began = time.monotonic()
        end = hostile.wait(cell["cell_id"], session, terminate=True)
        took = time.monotonic() - began
    well = end["status"] == "terminated" and took < 0.5 and health.worst < 1
    HOSTILE.append((name.replace("_", " "), ending(end), took, 1000 * health.worst, well))
    assert well, (end["status"], took, health.worst)


def test_results_that_are_not_taken_in_hold_up_the_next_calls(hostile: Service) -> None:
    """Of a thousand calls with a megabyte of result each, the service holds those that may run at once, no more."""
    session = hostile.session(limits={"max_in_flight": 8})
    before = resident_mib(hostile.pid)
    cell = hostile.exec(MARK + "many_calls_and_takes_no_result", session, yield_time_ms=0)["cell_id"]
    until_found(lambda: hostile.wait(cell, session, yield_time_ms=0)["tool_calls"]["completed"] >= 8, "results")
    calls = hostile.wait(cell, session, yield_time_ms=500)["tool_calls"]
    assert (calls["completed"] < 20, calls["queued"] > 900) == (True, True), calls
    assert resident_mib(hostile.pid) - before < 100
    assert hostile.wait(cell, session, terminate=True)["status"] == "terminated"


def resident_mib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 // 2**20
