"""SIGKILL of the server while clients are at work, again and again: the next one knows all that anybody was told."""

from __future__ import annotations

import contextlib
import http.server
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.rig import Service, service, until_gone
from tests.faults.server import ROOT
from tests.faults.tally import Tally
from tests.faults.told import Told, follow

PATIENCE_S = 10


class ToolServer(http.server.ThreadingHTTPServer):
    """Notes each call; `hang` never answers."""

    daemon_threads = True
    told: Told

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: ToolServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not body.endswith(b"}"):
            return  # the caller was killed while it sent this
        request = json.loads(body)
        self.server.told.called(request)
        if self.path.endswith("hang"):
            self.connection.settimeout(PATIENCE_S)
            with contextlib.suppress(OSError):
                self.rfile.read(1)  # until the caller is gone
            return
        body = json.dumps({"output": request["input"]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def tool_server() -> Iterator[ToolServer]:
    server = ToolServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Clients:
    """Threads that use a server until it is gone."""

    def __init__(self, server: Service, tools: str, told: Told) -> None:
        self.url = server.url
        self.told = told
        declared = [
            {"name": "ping", "handler": {"type": "http", "url": f"{tools}/ping"}},
            {"name": "hang", "handler": {"type": "http", "url": f"{tools}/hang"}},
            {"name": "ask"},
        ]
        self.sessions = [server.session(tools=declared) for _ in range(2)]
        kinds = (self.storing, self.talking, self.calling, self.asking, self.following)
        self.threads = [
            threading.Thread(target=self.until_gone, args=(kind, session))
            for session in self.sessions
            for kind in kinds
        ]
        for thread in self.threads:
            thread.start()

    def until_gone(self, work: Callable[[httpx.Client, str], None], session: str) -> None:
        with httpx.Client(base_url=f"{self.url}/v1/sessions/{session}", timeout=PATIENCE_S, trust_env=False) as client:
            with contextlib.suppress(httpx.HTTPError):
                work(client, session)

    def exec(self, client: httpx.Client, session: str, key: str, source: str, **body: Any) -> dict[str, Any]:
        try:
            response = client.post("/exec", json={"source": source, **body}, headers={"Idempotency-Key": key})
        except httpx.HTTPError:
            if "yield_time_ms" not in body:  # one that ends by itself
                self.told.unanswered.append((session, key, source))
            raise
        answer: dict[str, Any] = response.json()
        self.told.answer(answer, key, source)
        return answer

    def storing(self, client: httpx.Client, session: str) -> None:
        for number in range(10_000):
            key = f"s{number}"
            source = f"store('{key}', {number}); text('{key} a'); text('{key} b')"
            if self.exec(client, session, key, source)["status"] == "completed":
                self.told.value(session, key, number)

    def talking(self, client: httpx.Client, session: str) -> None:
        source = (
            "for (let i = 0; ; i++) { text(`t ${i}`); if (i % 10 === 0) await new Promise((r) => setTimeout(r, 1)) }"
        )
        answer = self.exec(client, session, "talk", source, yield_time_ms=0)
        while True:
            body = {"cell_id": answer["cell_id"], "yield_time_ms": 5, "max_tokens": 1_000_000}
            answer = client.post("/wait", json=body).json()
            self.told.answer(answer)

    def calling(self, client: httpx.Client, session: str) -> None:
        for number in range(10_000):
            last = "hang" if number % 5 == 4 else "ping"
            source = f"for (let i = 0; i < 3; i++) text(await tools.ping({{i}})); text(await tools.{last}({{}}))"
            options = {"yield_time_ms": 20} if last == "hang" else {}
            self.exec(client, session, f"c{number}", source, **options)

    def asking(self, client: httpx.Client, session: str) -> None:
        source = "for (let i = 0; ; i++) text(await tools.ask({i}))"
        answer = self.exec(client, session, "ask", source, yield_time_ms=5_000)
        while True:
            (call,) = answer["pending_tool_calls"]
            result = {name: call[name] for name in ("cell_id", "runtime_tool_call_id")} | {"output": call["input"]}
            answer = client.post("/tool_results", json={"results": [result], "cell_id": call["cell_id"]}).json()
            self.told.results.append((session, call["cell_id"], call["runtime_tool_call_id"]))
            self.told.answer(answer)

    def following(self, client: httpx.Client, session: str) -> None:
        with client.stream("GET", "/events") as stream:
            for number, data in follow(stream):
                self.told.event(session, number, data)


def killed_starts(flags: tuple[str, ...], chance: random.Random) -> int:
    """Starts that are killed while they open the journal, end lost cells, or a little later; how many."""
    command = [sys.executable, "-m", "codemode", "serve", "--port", "0", *flags]
    moments = [chance.uniform(0.2, 0.9) for _ in range(chance.randint(1, 4))]
    for moment in moments:
        started = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moment)
        started.kill()
        started.wait()
    return len(moments)


def one_round(
    folder: Path, data: Path, tools: ToolServer, chance: random.Random, *, again: bool = False
) -> tuple[Counter[str], list[str]]:
    """Work, kill, start again, compare: how much was told, and what of it is lost."""
    told = tools.told = Told()
    flags = ("--data-dir", str(data), "--allow-tool-url", f"http://127.0.0.1:{tools.server_address[1]}/")
    with service(folder, *flags) as server:
        clients = Clients(server, flags[3].rstrip("/"), told)
        time.sleep(chance.uniform(0.05, 0.6))  # any moment is as good as another
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        for thread in clients.threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive()
        assert until_gone(server.pid) == set()
    starts = killed_starts(flags, chance) if again else 0
    with service(folder, *flags) as server:
        lost = told.lost(server)
        for session in clients.sessions:
            assert server.client.delete(f"/v1/sessions/{session}").status_code == 204
    return told.count() + Counter(starts=starts), lost


@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.slow)], ids=["short", "long"])
@pytest.mark.timeout(900)
def test_nothing_that_was_told_is_lost(
    tmp_path: Path, tool_server: ToolServer, rounds: int, tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    """Output, ends, stored values, events, keys and the calls that reached a tool."""
    seed = random.SystemRandom().randrange(10**6)
    chance, told = random.Random(seed), Counter[str]()
    for number in range(rounds):
        with capsys.disabled():
            more, lost = one_round(tmp_path, tmp_path / "data", tool_server, chance)
        told += more
        tally.add("SIGKILL of the service during writes", lost=len(lost))
        assert lost == [], f"round {number} of seed {seed}"
        assert told["cells"], f"nothing happened in round {number} of seed {seed}"
    for what, count in told.items():
        tally.add(f"… {what} that clients were told of, looked for after it", tried=count)
    with capsys.disabled():
        print(f"\n  the service killed {rounds} times, seed {seed}; told and found again: {dict(told)}", end="")


@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.slow)], ids=["short", "long"])
@pytest.mark.timeout(900)
def test_nothing_is_lost_when_the_next_servers_are_killed_at_their_start(
    tmp_path: Path, tool_server: ToolServer, rounds: int, tally: Tally
) -> None:
    """What a start does to the journal happens as a whole or not at all."""
    seed = random.SystemRandom().randrange(10**6)
    chance = random.Random(seed)
    for number in range(rounds):
        told, lost = one_round(tmp_path, tmp_path / "data", tool_server, chance, again=True)
        tally.add("SIGKILL of the service at its start", tried=told["starts"], lost=len(lost))
        assert lost == [], f"round {number} of seed {seed}"
