"""A data directory that is full, read-only, damaged, of another version, or somebody else's."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.rig import Service, service, texts, until_found
from tests.faults.server import PATIENCE_S, ROOT
from tests.faults.tally import Tally

COUNTER = "for (let i = 0; ; i++) { text(`n ${i}`); await new Promise((resolve) => setTimeout(resolve, 20)) }"


def refusal(data: Path) -> str:
    """What a server says that does not start."""
    command = [sys.executable, "-m", "codemode", "serve", "--port", "0", "--data-dir", str(data)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stdout) == (2, ""), (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stderr


def killed(server: Service) -> None:
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()


def trouble(server: Service) -> str | None:
    told: str | None = server.client.get("/readyz").json()["journal"]["trouble"]
    return told


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """A directory that a server has written to."""
    data = tmp_path / "data"
    with service(tmp_path, "--data-dir", str(data)) as server:
        session = server.session()
        for number in range(20):
            server.exec(f"store('k{number}', '{'v' * 500}'); text('{'x' * 2000}')", session)
        killed(server)
    with sqlite3.connect(data / "journal.sqlite3") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return data


def test_two_servers_on_one_directory(tmp_path: Path) -> None:
    """The second one does not start, and the first one does not notice; when it is gone, even killed, another may."""
    data = tmp_path / "data"
    with service(tmp_path, "--data-dir", str(data)) as server:
        assert "in use by another server" in refusal(data)
        server.still_serves()
        killed(server)
    with service(tmp_path, "--data-dir", str(data)) as server:
        server.still_serves()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("/proc/nowhere", "cannot be written"),
        ("/dev/null", "is a file, no directory"),
        ("/sys/kernel", "cannot be written"),
    ],
)
def test_a_directory_that_cannot_be_written(data: str, why: str) -> None:
    """Nobody may write there, not even root."""
    assert f"the data directory {data} {why}" in refusal(Path(data))


@pytest.mark.parametrize("damage", ["no database", "pages", "truncated"])
def test_a_damaged_file(used: Path, damage: str) -> None:
    """It is named, and what to do; it is not touched."""
    file = used / "journal.sqlite3"
    content = bytearray(file.read_bytes())
    match damage:
        case "no database":
            content[:100] = b"x" * 100
        case "pages":
            for page in range(2, len(content) // 4096):
                content[page * 4096 : page * 4096 + 100] = b"\xff" * 100
        case _:
            del content[len(content) // 8192 * 4096 :]
    file.write_bytes(content)
    said = refusal(used)
    assert f"the journal {file} is damaged" in said
    assert "***" not in said
    assert "move it away" in said
    assert file.read_bytes() == bytes(content)


def test_a_file_of_a_newer_version(used: Path) -> None:
    """It is not misread."""
    with sqlite3.connect(used / "journal.sqlite3") as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    assert "written by a newer codemode" in refusal(used)


@contextmanager
def full(server: Service, data: Path) -> Iterator[None]:
    """No file of the server may grow any more, as on a full disk."""
    size = max(path.stat().st_size for path in data.iterdir())
    _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (hard, hard))


def test_a_disk_that_is_full_for_a_while(tmp_path: Path, tally: Tally) -> None:
    """Cells run on, answers come and say so; when there is room again nothing is missing, and after that none is lost."""
    data = tmp_path / "data"
    with service(tmp_path, "--data-dir", str(data)) as server:
        session = server.session()
        running = server.exec(COUNTER, session, yield_time_ms=0)["cell_id"]
        with full(server, data):
            warned = until_found(lambda: warning(server, session), "a warning")
            assert "would not survive a crash" in warned
            assert trouble(server) is not None
            during = server.exec("store('k', 'during'); text('during')", session)
            assert (during["status"], texts(during)) == ("completed", ["during"])
            seen = server.wait(running, session, yield_time_ms=100)
            assert seen["status"] == "running"
            assert texts(seen)
        until_found(lambda: trouble(server) is None, "written again")
        after = server.exec("text(load('k'))", session)
        assert (texts(after), after["warnings"]) == (["during"], [])
        last = server.wait(running, session, yield_time_ms=50)
        killed(server)
        assert "cannot be written" in server.said
        assert "is written again" in server.said
    with service(tmp_path, "--data-dir", str(data)) as server:
        assert texts(server.exec("text(load('k'))", session)) == ["during"]
        kept = server.wait(running, session, after=0, max_tokens=10**7)
        assert kept["error"]["kind"] == "server_restarted"
        assert texts(kept)[: last["cursor"]] == [f"n {number}" for number in range(last["cursor"])]
        again = server.wait(during["cell_id"], session, after=0)
        assert (again["status"], texts(again)) == ("completed", ["during"])
        tally.add("full disks, while cells run")


def warning(server: Service, session: str) -> Any:
    """What an exec is warned of, if it is."""
    return "\n".join(server.exec("text('x'.repeat(10000))", session)["warnings"])


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    """A file system of its own at `folder`."""
    if os.geteuid() != 0:
        pytest.skip("mounting takes a superuser")
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    if done.returncode != 0:
        pytest.skip("this machine does not let us mount")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_real_file_system_that_fills_up(tmp_path: Path) -> None:
    """It is a small one, and somebody else's file takes most of it for a while."""
    data = tmp_path / "data"
    with mounted(data, "size=1m"), service(tmp_path, "--data-dir", str(data)) as server:
        session = server.session()
        (data / "ballast").write_bytes(b"x" * 600_000)
        for _ in range(12):
            seen = server.exec("text('x'.repeat(100000))", session)
            assert seen["status"] == "completed"
        assert "cannot be written" in seen["warnings"][-1]
        (data / "ballast").unlink()
        server.client.delete(f"/v1/sessions/{session}")
        killed(server)


def test_a_real_file_system_that_is_read_only(tmp_path: Path) -> None:
    """The server says so and does not start."""
    data = tmp_path / "data"
    with mounted(data, "size=1m,ro"):
        assert "cannot be written: Read-only file system" in refusal(data)


def test_a_server_that_is_stopped_in_order_leaves_everything(tmp_path: Path) -> None:
    """Cells that ran are recorded as terminated, with their output."""
    data = tmp_path / "data"
    with service(tmp_path, "--data-dir", str(data)) as server:
        session = server.session(metadata={"a": [1]})
        running = server.exec(COUNTER, session, yield_time_ms=100)
        done = server.exec("store('k', 1); notify('n'); text('t')", session)
        server.terminate()
        assert server.status() == 0
    with service(tmp_path, "--data-dir", str(data)) as server:
        assert server.client.get(f"/v1/sessions/{session}").json()["metadata"] == {"a": [1]}
        ended = server.wait(running["cell_id"], session, after=0)
        assert ended["status"] == "terminated"
        assert texts(ended)[: running["cursor"]] == texts(running)
        again = server.wait(done["cell_id"], session, after=0)
        assert (texts(again), [each["text"] for each in again["notifications"]]) == (["t"], ["n"])
        assert server.exec("text(load('k'))", session)["cell_id"] == "3"


def test_a_deleted_session_stays_deleted(tmp_path: Path) -> None:
    """Its id as well, and its name can be used again where it has one."""
    data = tmp_path / "data"
    with service(tmp_path, "--data-dir", str(data)) as server:
        session = server.session()
        server.exec("store('k', 1)", session)
        server.exec("store('k', 1)")
        for name in (session, "default"):
            assert server.client.delete(f"/v1/sessions/{name}").status_code == 204
        killed(server)
    with service(tmp_path, "--data-dir", str(data)) as server:
        assert server.client.get(f"/v1/sessions/{session}").status_code == 404
        seen = server.exec("text(load('k'))")
        assert (seen["cell_id"], texts(seen)) == ("1", ["undefined"])
