"""What these tests share beyond server.py: which process carries which cell, what is left, who has to wait."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from codemode.service import default_spares
from tests.faults.server import PATIENCE_S, ROOT

HERE = Path(__file__).resolve().parent


def until_found(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> Any:
    """Wait for something that is true, and give it back."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.01)
    return found


# Processes


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name: state, parent, group, …; none if there is no such process."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    return []


def state_of(pid: int) -> str:
    """As in ps: R, S, T, Z …"""
    return (_stat(pid) or ["X"])[0]


def living_children(pid: int) -> list[int]:
    """The living children of a process."""
    every = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return [each for each in every if (fields := _stat(each)) and fields[1] == str(pid) and fields[0] not in "ZX"]


def group_members(group: int) -> set[int]:
    """The living processes of a process group."""
    every = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
    return {each for each in every if (fields := _stat(each)) and fields[2] == str(group) and fields[0] not in "ZX"}


def descriptors_of(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def private_dirty_kib(pid: int) -> int:
    """Memory that a process shares with nobody."""
    with contextlib.suppress(OSError):
        found = re.search(r"Private_Dirty:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text())
        return int(found[1]) if found else 0
    return 0


# The server


@dataclass
class Service:
    """`python -m codemode serve --port 0 …`. Use `service` to make one."""

    process: subprocess.Popen[str]
    port: int
    log: Path
    client: httpx.Client = field(init=False)
    sessions: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30)
        self.client = httpx.Client(base_url=self.url, timeout=60, trust_env=False, limits=limits)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self.process.pid

    # Requests

    def session(self, **body: Any) -> str:
        """The id of a new session."""
        response = self.client.post("/v1/sessions", json=body)
        assert response.status_code == 201, response.text
        self.sessions.append(str(response.json()["session_id"]))
        return self.sessions[-1]

    def post(self, path: str, session: str | None = None, **body: Any) -> httpx.Response:
        """A call on a session, or on the one named default."""
        place = f"/v1/sessions/{session}/{path}" if session else f"/v1/{path}"
        return self.client.post(place, json=body)

    def exec(self, source: str, session: str | None = None, **body: Any) -> dict[str, Any]:
        """The observation of an exec."""
        response = self.post("exec", session, source=source, **body)
        assert response.status_code in (200, 202), response.text
        observation: dict[str, Any] = response.json()
        return observation

    def wait(self, cell_id: str, session: str | None = None, **body: Any) -> dict[str, Any]:
        """The observation of a wait."""
        response = self.post("wait", session, cell_id=cell_id, **body)
        assert response.status_code in (200, 202), response.text
        observation: dict[str, Any] = response.json()
        return observation

    def still_serves(self) -> None:
        """A trivial script runs, in a session of its own."""
        session = self.session()
        observation = self.exec("text(6 * 7)", session)
        assert (observation["status"], texts(observation)) == ("completed", ["42"]), observation
        self.client.delete(f"/v1/sessions/{session}")

    # What it consists of

    @property
    def zygote(self) -> int:
        """The process that cells are forked from."""
        return int(until_found(lambda: next(iter(living_children(self.pid)), 0), "a zygote"))

    def cells(self) -> set[int]:
        """The cell processes that there are, spares among them."""
        return group_members(self.pid) - {self.pid, self.zygote}

    def new_cell_process(self, begin: Callable[[], Any]) -> int:
        """The process that carries the script which `begin` starts."""
        self.settled()
        spares = {pid for pid in self.cells() if self.is_spare(pid)}
        begin()
        busy = until_found(lambda: {pid for pid in spares if not self.is_spare(pid)}, "a process that runs a script")
        (pid,) = busy
        return int(pid)

    def is_spare(self, pid: int) -> bool:
        """Whether no script runs on it: the limit of memory is set when one starts."""
        with contextlib.suppress(OSError):
            limits = Path(f"/proc/{pid}/limits").read_text()
            found = re.search(r"Max data size\s+(\S+)", limits)
            return found is not None and found[1] == "unlimited"
        return False

    def settled(self) -> dict[str, Any]:
        """Wait until all spares are there and no cell runs; what /readyz says then."""

        def ready() -> dict[str, Any] | None:
            told: dict[str, Any] = self.client.get("/readyz").json()
            done = told.get("ready") and told["spares"] == default_spares()
            return told if done and len(self.cells()) == told["spares"] + told["live_cells"] else None

        found: dict[str, Any] = until_found(ready, "all spares ready")
        return found

    # Its end

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def status(self) -> int:
        """Its exit status, waited for."""
        return self.process.wait(PATIENCE_S)

    def complaints(self) -> str:
        """What it should not have said: failures of tools are the operator's to know, all else is a fault."""
        tool_failure = r"^tool \S+ failed in call .*\n(?:Traceback .*\n(?:[ \t].*\n)*\S.*\n)?"
        disk_failure = r"^the journal .* (?:cannot be written: .*|is written again)\n"
        hook_failure = r"^(?:Pre|Post)ToolUse hook .*\n"
        rest = re.sub(f"{tool_failure}|{disk_failure}|{hook_failure}", "", self.said, flags=re.MULTILINE)
        return rest[-4000:] if re.search("Traceback|Error|error|never", rest) else ""

    @property
    def said(self) -> str:
        """Its standard error."""
        return self.log.read_text(errors="replace")


def texts(observation: dict[str, Any]) -> list[str]:
    return [item["text"] for item in observation["output"]]


@contextmanager
def service(
    folder: Path,
    *flags: str,
    wrapper: tuple[str, ...] = (),
    program: tuple[str, ...] = ("codemode",),
    python: str = sys.executable,
    may_complain: bool = False,
) -> Iterator[Service]:
    """A server for the time of a `with`. At its end all of its processes are looked for, and killed if there are any.

    If it still runs then, it has to serve, and end with status 0 on SIGTERM, leaving nothing and, unless it
    `may_complain`, no traceback behind.
    """
    log = folder / "server.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*wrapper, python, "-m", *program, "serve", "--port", "0", "--grace", "0.3", *flags],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
    try:
        assert process.stdout is not None
        assert select.select([process.stdout], [], [], PATIENCE_S)[0], "it says nothing"
        first = process.stdout.readline()
        found = re.search(r" on http://127\.0\.0\.1:(\d+)", first)
        assert found is not None, f"{first!r}\n{log.read_text()}"
        server = Service(process, int(found[1]), log)
        until_found(lambda: ready(server), "ready")
        yield server
        if process.poll() is None:
            server.still_serves()
            server.terminate()
            assert server.status() == 0, server.said
        server.client.close()
        left = until_gone(process.pid)
        assert left == set(), f"processes are left: {left}"
        complaints = server.complaints()
        assert may_complain or not complaints, complaints
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


class SharedService:
    """A server that many tests use; one that a test has broken is replaced by the next."""

    def __init__(self, folders: pytest.TempPathFactory, *flags: str, program: tuple[str, ...] = ("codemode",)) -> None:
        self._folders = folders
        self._flags = flags
        self._program = program
        self._stack = ExitStack()
        self._service: Service | None = None

    def __enter__(self) -> SharedService:
        return self

    def __exit__(self, *problem: Any) -> None:
        self._stack.__exit__(*problem)

    def lent(self) -> Iterator[Service]:
        """For one test."""
        if self._service is None:
            self._service = self._stack.enter_context(
                service(self._folders.mktemp("server"), *self._flags, program=self._program)
            )
        lent, self._service = self._service, None
        yield lent
        for session in ["default", *lent.sessions]:
            lent.client.delete(f"/v1/sessions/{session}")
        lent.sessions.clear()
        lent.still_serves()
        until_found(lambda: lent.client.get("/readyz").json().get("live_cells") == 0, "no cell runs")
        self._service = lent


def ready(server: Service) -> bool:
    assert server.process.poll() is None, server.said
    with contextlib.suppress(httpx.HTTPError):
        return server.client.get("/readyz").status_code == 200
    return False


def until_gone(group: int, seconds: float = 5.0) -> set[int]:
    """What is left of a process group after some seconds at most."""
    deadline = time.monotonic() + seconds
    while (left := group_members(group)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


# How long others have to wait


@dataclass
class Responsiveness:
    """What somebody else saw of /healthz meanwhile."""

    worst_ms: float = 0.0
    count: int = 0


@contextmanager
def watched(server: Service, *, connects: bool = False) -> Iterator[Responsiveness]:
    """Ask /healthz again and again from another process; the result is there behind the `with`.

    With `connects` on a new connection each time.
    """
    watcher = subprocess.Popen(
        [sys.executable, str(HERE / "watch_health.py"), str(server.port), *["connects"] * connects],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watcher.stdin is not None
    assert watcher.stdout is not None
    seen = Responsiveness()
    try:
        assert watcher.stdout.readline() == "begun\n"
        yield seen
        watcher.stdin.close()
        told = json.loads(watcher.stdout.readline())
        seen.worst_ms, seen.count = told["worst_ms"], told["count"]
    finally:
        watcher.kill()
        watcher.wait()
        watcher.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            watcher.stdin.close()


def raw_request(server: Service, head: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
    """An answer to exactly these bytes; the connection is closed afterwards."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    connection.connect()
    assert connection.sock is not None
    with contextlib.closing(connection):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sock.sendall(head.replace("\n", "\r\n").encode("latin-1") + b"\r\n" + body)
        response = http.client.HTTPResponse(connection.sock)
        response.begin()
        return response.status, dict(response.getheaders()), response.read()
