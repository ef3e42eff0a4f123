"""The wall clock is set forward and back while cells run: what lasts a time lasts it all the same."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.faults.rig import Service, service, texts
from tests.faults.server import until
from tests.faults.tally import Tally

COMPILER = shutil.which("gcc") or shutil.which("cc")
SOURCE = Path(__file__).with_name("wall_clock.c")
DAY = 86_400
SLEEP = "const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));"
TOO_LONG = 1.5  # seconds above what was asked: the machine may be busy

pytestmark = pytest.mark.skipif(COMPILER is None or sys.platform != "linux", reason="needs a C compiler, on Linux")


@dataclass
class Clock:
    """The wall clock of a server and its cells."""

    server: Service
    file: Path

    def set(self, seconds: int) -> None:
        """Let it differ by so much from the true time."""
        with self.file.open("r+b") as file:
            file.write(seconds.to_bytes(8, sys.byteorder, signed=True))


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clock]:
    folder = tmp_path_factory.mktemp("clock")
    offset, library = folder / "offset", folder / "wall_clock.so"
    offset.write_bytes(bytes(8))
    assert COMPILER is not None
    command = [
        COMPILER,
        "-shared",
        "-fPIC",
        "-O1",
        f'-DOFFSET_FILE="{offset}"',
        "-o",
        str(library),
        str(SOURCE),
        "-ldl",
    ]
    subprocess.run(command, check=True, timeout=60)
    with service(folder, "--tools", "tests.faults.host_tools:tools", python=wrapped_python(folder, library)) as made:
        yield Clock(made, offset)


def wrapped_python(folder: Path, library: Path) -> str:
    """A Python that loads the library, and takes itself for this one: cell processes get no environment from us."""
    place = folder / "bin" / "python"
    place.parent.mkdir()
    shutil.copy(Path(sys.prefix) / "pyvenv.cfg", folder / "pyvenv.cfg")
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    true_one = Path(sys.executable).resolve()
    place.write_text(
        f"#!/bin/bash\nexport LD_PRELOAD={shlex.quote(str(library))}\n"
        f'exec -a {shlex.quote(str(place))} {shlex.quote(str(true_one))} "$@"\n'
    )
    place.chmod(0o755)
    return str(place)


@pytest.fixture(params=[DAY, -DAY], ids=["forward", "back"])
def jump(request: pytest.FixtureRequest, clock: Clock) -> Iterator[int]:
    yield request.param
    clock.set(0)


def timed(
    server: Service, clock: Clock, jump: int, path: str, session: str, **body: Any
) -> tuple[dict[str, Any], float]:
    """A call during which the clock jumps, and how long it took by our own."""
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(server.post, path, session, **body)
        until(lambda: time.monotonic() > began + 0.1, "a tenth of a second")
        clock.set(jump)
        answer = call.result(15).json()
    return answer, time.monotonic() - began


def test_the_clock_jumps_for_service_and_cells(clock: Clock, jump: int) -> None:
    """Or else the other tests would tell nothing."""
    now = time.time()
    clock.set(jump)
    session = clock.server.session()
    created = datetime.fromisoformat(clock.server.client.get(f"/v1/sessions/{session}").json()["created_at"])
    seen = int(texts(clock.server.exec("text(Date.now())", session))[0]) / 1000
    assert max(abs(seen - now - jump), abs(created.timestamp() - now - jump)) < 60


def test_timers_and_waits_last_as_long_as_ever(clock: Clock, jump: int, tally: Tally) -> None:
    """A script's timer, a tool that sleeps, and the yield time of exec and wait; `wall_time_ms` tells the true time."""
    server = clock.server
    session = server.session()
    cases = [
        (f"{SLEEP} await sleep(500); text('awake')", 60_000, 0.5, "completed"),
        ("text(await tools.sleep({ms: 500}))", 60_000, 0.5, "completed"),
        (f"{SLEEP} await sleep(600_000)", 500, 0.5, "running"),
    ]
    wrong = 0
    for source, yield_ms, seconds, status in cases:
        clock.set(0)
        answer, took = timed(server, clock, jump, "exec", session, source=source, yield_time_ms=yield_ms)
        wall, used = answer["wall_time_ms"] / 1000, answer["usage"]["wall_ms"] / 1000
        fits = all(seconds - 0.05 <= each < seconds + TOO_LONG for each in (took, wall, used))
        wrong += (answer["status"], fits) != (status, True)
    clock.set(0)
    answer, took = timed(server, clock, jump, "wait", session, cell_id="3", yield_time_ms=500)
    wrong += (answer["status"], 0.45 <= took < 0.5 + TOO_LONG) != ("running", True)
    tally.add("the wall clock jumps by a day during a timer or wait", tried=4, disturbed=wrong)
    assert wrong == 0


@pytest.mark.parametrize("limit", ["lifetime_ms", "idle_ms"])
def test_deadlines_come_when_they_are_due(clock: Clock, jump: int, limit: str, tally: Tally) -> None:
    """A cell is not ended at once by a jump forward, nor spared by one back."""
    server = clock.server
    session = server.session(limits={limit: 800})
    clock.set(0)
    began = time.monotonic()
    server.exec(f"{SLEEP} await sleep(600_000)", session, yield_time_ms=0)
    clock.set(jump)
    path = f"/v1/sessions/{session}/cells/1"
    assert server.client.get(path).json()["status"] == "running"
    until(lambda: server.client.get(path).json()["status"] != "running", "the deadline", 5)
    took = time.monotonic() - began
    end = server.wait("1", session)
    tally.add("the wall clock jumps by a day before a deadline", disturbed=not 0.75 < took < 0.8 + TOO_LONG)
    assert (end["error"]["kind"], 0.75 < took < 0.8 + TOO_LONG) == ("deadline", True)


def test_ended_cells_are_kept_as_long_as_ever(clock: Clock, jump: int, tally: Tally) -> None:
    """Their output can be had again after a jump forward, and they are forgotten in time after one back."""
    server = clock.server
    session = server.session(limits={"keep_ms": 1000})
    clock.set(0)
    server.exec("text('kept')", session)
    clock.set(jump)
    kept = server.post("wait", session, cell_id="1", after=0)
    tally.add("the wall clock jumps by a day while an ended cell is kept", lost=kept.status_code != 200)
    assert texts(kept.json()) == ["kept"]
    until(lambda: server.post("wait", session, cell_id="1").status_code == 404, "forgotten", 4)


def test_many_jumps_during_a_busy_time(clock: Clock, tally: Tally) -> None:
    """Scripts with timers and calls, while the clock goes to and fro: all complete, in their order and time."""
    server = clock.server
    source = f"{SLEEP} for (let i = 0; i < 10; i++) {{ await sleep(20); text(await tools.echo({{value: i}})) }}"
    with ThreadPoolExecutor(8) as pool:
        began = time.monotonic()
        calls = [pool.submit(server.exec, source, server.session()) for _ in range(16)]
        jumps = 0
        while not all(call.done() for call in calls):
            jumps += 1
            clock.set((-1) ** jumps * jumps * 1000)
            time.sleep(0.005)
        took = time.monotonic() - began
    clock.set(0)
    ends = [call.result() for call in calls]
    lost = sum(texts(each) != [str(number) for number in range(10)] for each in ends)
    negative = sum(value < 0 for each in ends for value in each["usage"].values())
    tally.add("the wall clock jumps to and fro under load", tried=jumps, lost=lost)
    assert (lost, negative, took < 10) == (0, 0, True)
