"""A machine whose kernel does not give the walls: nobody is left in the dark, and who requires them gets no service."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from codemode.isolation.confinement import Confinement
from codemode.isolation.zygote_messages import EXITED, MESSAGE, REQUIRE, STARTED, WANTED
from tests.faults.rig import service
from tests.faults.server import PATIENCE_S, ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")

# The whole service under a filter that refuses seccomp(2) itself: to codemode, a kernel without it.
WITHOUT = (sys.executable, "-m", "tests.faults.without_call")
CODEMODE = (*WITHOUT, "seccomp", sys.executable, "-m", "codemode")


def test_without_walls_there_is_a_loud_warning(tmp_path: Path) -> None:
    """The service runs scripts, and says on standard error and in /readyz that they are not confined."""
    with service(tmp_path, wrapper=(*WITHOUT, "seccomp")) as server:
        server.still_serves()
        told = server.client.get("/readyz").json()["sandbox"]
        assert (told["seccomp"], told["no_new_privs"]) == (False, True)
        assert "WARNING: scripts are NOT fully confined on this machine: seccomp missing." in server.said


@pytest.mark.parametrize("command", [("serve", "--port", "0"), ("run", "-")], ids=["serve", "run"])
def test_a_required_sandbox_that_is_missing_refuses_to_start(command: tuple[str, ...]) -> None:
    """Exit status 2, one clear line, nothing on standard output: not a moment of service."""
    done = subprocess.run(
        [*CODEMODE, *command, "--require-sandbox"],
        cwd=ROOT,
        input="text(1)",
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout, "Traceback" in done.stderr) == (2, "", False), done
    assert last.startswith(
        "codemode: a sandbox is required, and this machine does not give scripts a full one: seccomp"
    )


def test_a_cell_process_without_its_filter_takes_no_script() -> None:
    """Should the walls be lost behind the start, a process that requires them ends before it says that it is ready."""
    ours, theirs = socket.socketpair()
    lifeline, end = os.pipe()
    kept = (theirs.fileno(), lifeline)
    command = [*WITHOUT, "seccomp", sys.executable, "-m", "codemode.isolation.zygote", *map(str, kept), REQUIRE]
    zygote = subprocess.Popen(command, cwd=ROOT, pass_fds=kept, stdin=subprocess.DEVNULL)
    theirs.close()
    ours.settimeout(PATIENCE_S)
    with ours:
        kind, _, status, *_ = MESSAGE.unpack(ours.recv(MESSAGE.size))
        assert (kind, Confinement.decode(bytes([status])).required_missing()) == (STARTED, ["seccomp"])
        ours.sendall(WANTED)
        _, descriptors, *_ = socket.recv_fds(ours, MESSAGE.size, 2)
        with socket.socket(fileno=descriptors[0]) as cell:
            cell.settimeout(PATIENCE_S)
            assert cell.recv(100) == b""
        kind, _, status, *_ = MESSAGE.unpack(ours.recv(MESSAGE.size))
        assert (kind, os.waitstatus_to_exitcode(status)) == (EXITED, 71)
    assert zygote.wait(PATIENCE_S) == 0
    for descriptor in (*descriptors[1:], lifeline, end):
        os.close(descriptor)


def test_a_network_namespace_is_not_required(tmp_path: Path) -> None:
    """Where a container forbids it, the service starts, says so in /readyz, and does not raise an alarm."""
    with service(tmp_path, "--require-sandbox", wrapper=(*WITHOUT, "unshare")) as server:
        server.still_serves()
        told = server.client.get("/readyz").json()["sandbox"]
        assert [name for name, holds in told.items() if not holds] == ["network_namespace"]
        assert server.said == ""


def test_doctor_says_what_is_missing() -> None:
    """In the table and as a warning; the self-test passes, since scripts do run."""
    done = subprocess.run(
        [*CODEMODE, "doctor"], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, "  NO   seccomp: no filter was loaded\n" in done.stdout) == (0, True), done
    assert "Warning: not all walls are there: seccomp" in done.stdout
