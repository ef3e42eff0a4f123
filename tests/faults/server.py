"""A real server for fault tests: started on a real port, damaged, and checked for what it leaves behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 15


def until(holds: Callable[[], bool], what: str, seconds: float = PATIENCE_S) -> None:
    """Wait for a fact."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)


def children(pid: int) -> list[int]:
    """The processes that `pid` has started."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    except FileNotFoundError:
        return []
    return [int(child) for child in text.split()]


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Server:
    """The process and a client for it."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.http = httpx.Client(base_url=url, timeout=90, trust_env=False, limits=httpx.Limits(max_connections=None))

    @property
    def zygote(self) -> int:
        """The process that cell processes are forked from."""
        return children(self.process.pid)[0]

    def cell_processes(self) -> set[int]:
        """All of them, spares included."""
        return set(children(self.zygote))

    def descriptors(self) -> int:
        """How many the server process has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def session(self, **body: object) -> str:
        """A new session's id."""
        return str(self.http.post("/v1/sessions", json=body).raise_for_status().json()["session_id"])

    def exec(self, session: str, source: str, **body: object) -> dict[str, object]:
        """The observation of an exec."""
        answer = self.http.post(f"/v1/sessions/{session}/exec", json={"source": source, **body})
        return dict(answer.raise_for_status().json())

    def wait(self, session: str, cell: object, **body: object) -> dict[str, object]:
        """The observation of a wait."""
        answer = self.http.post(f"/v1/sessions/{session}/wait", json={"cell_id": cell, **body})
        return dict(answer.raise_for_status().json())

    def still_serves(self) -> None:
        """A script in a new session runs."""
        seen = self.exec(self.session(), "text('alive')")
        assert (seen["status"], seen["output"]) == ("completed", [{"type": "text", "text": "alive"}])


@contextmanager
def started(*options: str) -> Iterator[Server]:
    """A server that is ready; killed at the end if it still runs."""
    command = [sys.executable, "-m", "codemode", "serve", "--port", "0", *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    server = Server(process, process.stdout.readline().split()[-1])
    try:
        until(lambda: server.http.get("/readyz").status_code == 200, "ready")
        yield server
    finally:
        server.http.close()
        process.kill()
        process.communicate(timeout=PATIENCE_S)


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    """A server that still serves at the end, ends on SIGTERM with status 0, and leaves no process."""
    with started(*options) as server:
        yield server
        server.still_serves()
        family = {server.zygote, *server.cell_processes()}
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 0
        until(lambda: not any(map(is_alive, family)), "no process left")
