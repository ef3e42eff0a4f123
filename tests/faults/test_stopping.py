"""The end of the server, asked for or not: everybody is answered, the status is 0, and nothing is left."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.rig import Service, group_members, service, texts, until_gone
from tests.faults.server import is_alive, until

FOREVER = "text('here'); await new Promise((resolve) => setTimeout(resolve, 600_000))"
BUSY = "text('here'); for (;;) {}"


class Call(threading.Thread):
    """A request that waits for its answer, on a connection of its own."""

    def __init__(self, server: Service, path: str, session: str, **body: Any) -> None:
        super().__init__(daemon=True)
        self.url = f"{server.url}/v1/sessions/{session}/{path}"
        self.body = body
        self.answer: httpx.Response | None = None
        self.problem: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = httpx.post(self.url, json=self.body, timeout=60, trust_env=False)
        except httpx.HTTPError as problem:
            self.problem = problem

    def result(self, seconds: float = 15) -> httpx.Response:
        self.join(seconds)
        assert self.answer is not None, self.problem or "no answer"
        return self.answer


def is_waited_for(server: Service, session: str, cell_id: str) -> bool:
    return server.post("wait", session, cell_id=cell_id, yield_time_ms=0).status_code == 409


@pytest.mark.parametrize("source", [FOREVER, pytest.param(BUSY, marks=pytest.mark.slow)], ids=["asleep", "busy"])
def test_open_waits_are_answered_when_it_is_told_to_stop(tmp_path: Path, source: str) -> None:
    """Execs and waits, at once, as `running`; new work is refused with 503; told once more, it ends without waiting."""
    with service(tmp_path, "--grace", "30") as server:
        session = server.session()
        cell_id = server.exec(source, session, yield_time_ms=0)["cell_id"]
        waiting = Call(server, "wait", session, cell_id=cell_id, yield_time_ms=60_000)
        execing = Call(server, "exec", session, source=source, yield_time_ms=60_000)
        until(lambda: is_waited_for(server, session, cell_id) and is_waited_for(server, session, "2"), "both wait")
        began = time.monotonic()
        server.terminate()
        answers = [waiting.result(), execing.result()]
        assert time.monotonic() - began < 3
        assert [(answer.status_code, answer.json()["status"]) for answer in answers] == [(202, "running")] * 2
        refused = server.post("exec", session, source="text(1)")
        assert (refused.status_code, refused.json()["code"], "retry-after" in refused.headers) == (
            503,
            "shutting_down",
            True,
        )
        assert server.client.get("/readyz").status_code == 503
        assert server.client.get("/healthz").status_code == 200
        server.terminate()
        assert server.status() == 0


def test_a_wait_that_comes_while_it_stops_is_answered(tmp_path: Path) -> None:
    """The cell may end in its period of grace; if it does not, the wait is answered all the same, and not cut off."""
    with service(tmp_path, "--grace", "0.5") as server:
        session = server.session()
        cell_id = server.exec(FOREVER, session, yield_time_ms=0)["cell_id"]
        server.terminate()
        until(lambda: server.client.get("/readyz").status_code == 503, "it stops")
        answer = Call(server, "wait", session, cell_id=cell_id, yield_time_ms=60_000).result()
        assert (answer.status_code, answer.json()["status"]) in [(202, "running"), (200, "terminated")]
        assert server.status() == 0


def test_cells_that_end_in_the_period_of_grace_end_well(tmp_path: Path) -> None:
    """Their calls go on being served, and their end can be collected."""
    with service(tmp_path, "--grace", "10", "--tools", "tests.faults.host_tools:tools") as server:
        session = server.session()
        cell_id = server.exec("text(await tools.sleep({ms: 700}))", session, yield_time_ms=0)["cell_id"]
        began = time.monotonic()
        server.terminate()
        until(lambda: server.client.get("/readyz").status_code == 503, "it stops")
        answer = Call(server, "wait", session, cell_id=cell_id, yield_time_ms=60_000).result()
        assert (answer.json()["status"], texts(answer.json())) == ("completed", ["700"])
        assert (server.status(), time.monotonic() - began < 8) == (0, True)


def test_a_blocked_tool_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    """A synchronous tool that never returns holds a thread, and not the whole program."""
    with service(tmp_path, "--tools", "tests.faults.host_tools:tools") as server:
        server.exec("await tools.blocked({})", yield_time_ms=100)
        server.terminate()
        assert server.status() == 0


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    """Whatever the grace; nothing is left, and the status is 0."""
    with service(tmp_path, "--grace", "60") as server:
        server.exec(BUSY, yield_time_ms=100)
        server.terminate()
        until(lambda: server.client.get("/readyz").status_code == 503, "it stops")
        began = time.monotonic()
        server.terminate()
        assert (server.status(), time.monotonic() - began < 5) == (0, True)


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGINT])
def test_with_nothing_to_do_it_ends_at_once(tmp_path: Path, number: signal.Signals) -> None:
    """By either signal, also with open idle connections."""
    with service(tmp_path, "--grace", "60") as server:
        server.still_serves()
        began = time.monotonic()
        server.process.send_signal(number)
        assert (server.status(), time.monotonic() - began < 3) == (0, True)


@pytest.mark.parametrize("zygote_first", [pytest.param(False, marks=pytest.mark.slow), True])
def test_nothing_survives_the_server(tmp_path: Path, zygote_first: bool) -> None:
    """Killed with SIGKILL, with cells asleep, busy and in a call: all are gone soon, also orphans of a lost zygote."""
    with service(tmp_path, "--tools", "tests.faults.host_tools:tools") as server:
        for source in (FOREVER, BUSY, "await tools.never({})", "for (;;) text('x'.repeat(100_000))"):
            server.exec(source, yield_time_ms=100)
        if zygote_first:
            zygote = server.zygote
            os.kill(zygote, signal.SIGKILL)
            until(lambda: not is_alive(zygote), "dead")
            server.still_serves()
        assert len(group_members(server.pid)) > 5
        server.process.kill()
        server.status()
        assert until_gone(server.pid, 5) == set()


def test_a_stopped_cell_does_not_survive_the_server(tmp_path: Path) -> None:
    """One that cannot notice by itself is killed by the process it was forked from."""
    with service(tmp_path) as server:
        pid = server.new_cell_process(lambda: server.exec(FOREVER, yield_time_ms=0))
        os.kill(pid, signal.SIGSTOP)
        server.process.kill()
        server.status()
        assert until_gone(server.pid, 5) == set()
