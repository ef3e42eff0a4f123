"""Native code in a real cell process, behind all that confines it, as if a script had broken out of V8."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from tests.faults.escapes import note
from tests.faults.native_attempts import ATTEMPTS, ENDS, MARK, X86
from tests.faults.rig import Service, service, state_of, texts, until_gone
from tests.faults.server import ROOT, is_alive, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="these walls are Linux's")

NATIVE: Final = (sys.executable, "-m", "tests.faults.native_server")
ASLEEP: Final = "text('here'); await new Promise((resolve) => setTimeout(resolve, 600_000))"
EVERY: Final = [(group, name) for group, attempts in ATTEMPTS.items() for name in attempts]
KILLS: Final = "other conventions of calling"  # ends the process instead of failing


class Here(NamedTuple):
    """A server whose cells run native code, and what it may be aimed at."""

    server: Service
    session: str
    targets: dict[str, int]

    def all_live(self) -> bool:
        return all(is_alive(self.targets[name]) for name in ("service", "zygote", "other"))


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """The server requires its sandbox, as an operator would; at the end it serves, and its other cell still runs."""
    with service(tmp_path_factory.mktemp("native"), "--require-sandbox", wrapper=NATIVE) as server:
        cells: list[dict[str, Any]] = []
        other = server.new_cell_process(lambda: cells.append(server.exec(ASLEEP, yield_time_ms=0)))
        targets = {"service": server.pid, "zygote": server.zygote, "other": other, "port": server.port}
        yield Here(server, server.session(), targets)
        assert server.wait(cells[0]["cell_id"], yield_time_ms=0)["status"] == "running"


@pytest.mark.parametrize(("group", "name"), EVERY, ids=[f"{group}: {name}" for group, name in EVERY])
def test_no_way_out(here: Here, group: str, name: str) -> None:
    """Each attempt is refused by the filter, or ends the process that made it; nothing else is touched."""
    told = json.dumps({"group": group, "name": name, **here.targets})
    end = here.server.exec(f"{MARK}{told}\n0", here.session, yield_time_ms=10_000)
    if group == KILLS:
        killed = end["status"] == "failed" and "SIGSYS" in end["error"]["message"]
        said = {"refused": killed, "how": str(end["error"])}
    else:
        assert end["status"] == "completed", end
        said = json.loads(texts(end)[0])
        wanted = {
            "a thread of Python": "can't start new thread",
            "a terabyte to read": "ENOMEM",
            "one that is not its own": "there are none",
        }
        said["refused"] &= said["how"] == wanted.get(name, "EPERM")
    note(group, refused=said["refused"])
    assert (said["refused"], here.all_live()) == (True, True), said


@pytest.mark.parametrize("name", ENDS)
def test_its_own_ends_are_seen_as_they_are(here: Here, name: str) -> None:
    """How V8 gives up, by a trap or an abort, is not a refused call: the signal arrives, and is told."""
    told = json.dumps({"group": "ends", "name": name})
    end = here.server.exec(f"{MARK}{told}\n0", here.session, yield_time_ms=10_000)
    assert (end["status"], end["error"]["kind"], name in end["error"]["message"]) == ("failed", "worker_crashed", True)


POSSIBLE: Final = [
    ("files", "open to read"),
    ("files", "memfd_create"),
    ("network", "socket and connect to the service"),
    ("network", "socketpair"),
    ("memory", "shared memory"),
    ("memory", "memory that grows down"),
    ("memory", "pages put out"),
    ("memory", "a terabyte to read"),
    ("processes and programs", "clone"),
    ("processes and programs", "a thread of Python"),
    ("other processes", "signal 0 to the service"),
    ("other processes", "pidfd_open"),
    ("other processes", "process_vm_readv of the service"),
    ("other processes", "open its own memory"),
    ("other processes", "CPU time of the service"),
    ("other processes", "processors of the service"),
    ("kernel", "epoll_create1"),
    ("kernel", "a futex with priorities"),
    ("kernel", "shmget"),
    ("undoing its confinement", "be dumpable again"),
    ("descriptors", "read from the null device"),
]


@pytest.mark.parametrize(("group", "name"), POSSIBLE, ids=[name for _, name in POSSIBLE])
def test_the_attempts_are_real(group: str, name: str) -> None:
    """Where nothing confines it, the same code gets what it asks for: a refusal is not a mistake of the test."""
    memory = ctypes.create_string_buffer(8)
    child = subprocess.Popen(["sleep", "60"])
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        told = {"group": group, "name": name, "port": listener.getsockname()[1], "service": child.pid}
        if name.startswith("process_vm"):
            told |= {"service": os.getpid(), "address": ctypes.addressof(memory)}
        command = [sys.executable, "-m", "tests.faults.native_attempts", json.dumps(told)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    child.kill()
    child.wait()
    assert json.loads(done.stdout)["refused"] is False, done.stdout


def test_the_machine_code_is_real() -> None:
    """The 32-bit call gives what it should where nothing refuses it, if the kernel has such calls at all."""
    if not X86:
        pytest.skip("x86-64 only")
    told = json.dumps({"group": KILLS, "name": "32-bit getpid"})
    command = [sys.executable, "-m", "tests.faults.native_attempts", told]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    said, _ = process.communicate(timeout=10)
    if process.returncode:
        pytest.skip("this kernel knows no 32-bit calls")
    assert json.loads(said)["how"] == f"it gave {process.pid}"


def test_a_cell_ends_with_the_service_whatever_it_does(tmp_path: Path) -> None:
    """Its process hears nothing and its zygote is dead: when the service is killed, the kernel kills it too."""
    with service(tmp_path) as server:
        pid = server.new_cell_process(lambda: server.exec(ASLEEP, yield_time_ms=0))
        zygote = server.zygote
        os.kill(zygote, signal.SIGKILL)
        until(lambda: not is_alive(zygote), "the zygote is dead")
        os.kill(pid, signal.SIGSTOP)
        until(lambda: state_of(pid) == "T", "stopped")
        server.still_serves()
        assert is_alive(pid)
        server.process.kill()
        server.status()
        assert until_gone(server.pid, 5) == set()


def test_a_cell_process_as_the_kernel_sees_it(here: Here) -> None:
    """Another user, no capability, a filter, a network of its own: read from the outside, on a cell and on a spare."""
    spare = next(pid for pid in here.server.cells() if here.server.is_spare(pid))
    for pid in (here.targets["other"], spare):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
        assert (status["NoNewPrivs"], status["Seccomp"]) == (["1"], ["2"])
        assert {int(status[name][0], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {0}
        assert "0" not in status["Uid"]
        for thread in Path(f"/proc/{pid}/task").iterdir():
            assert "Seccomp:\t2" in (thread / "status").read_text()
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "1000\n"
    assert int(Path(f"/proc/{here.server.pid}/oom_score_adj").read_text()) < 1000
    told = here.server.client.get("/readyz").json()["sandbox"]
    assert {name for name, holds in told.items() if not holds} <= {"network_namespace"}
    if os.geteuid() == 0:  # others may not look: a cell process is not dumpable
        own = Path(f"/proc/{here.targets['other']}/ns/net").readlink()
        assert (own != Path("/proc/self/ns/net").readlink()) is told["network_namespace"]
