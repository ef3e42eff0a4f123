"""The service is killed and started again some seconds later: both clients go on, and end with what really happened."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from codemode.cells.observation import Observation
from codemode.client import AsyncCodeModeClient, CodeModeClient
from tests.unit.test_client.client_helpers import Client, Session, done, texts

PATIENCE_S = 15
OUTAGE_S = 3  # as long as a supervisor may take
SOURCE = "text('a'); await tools.hang()"
TOOLS: list[dict[str, Any]] = [{"name": "hang"}]


class Server:
    """One that can be killed, and started again at the same place."""

    def __init__(self, data: Path) -> None:
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._data = data

    def start(self) -> None:
        command = [sys.executable, "-m", "codemode", "serve", f"--port={self.port}", f"--data-dir={self._data}"]
        self.process = subprocess.Popen(
            [*command, "--spares=1", "--grace=0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.url in self.process.stdout.readline()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


def _free_port() -> int:
    """Below those that outgoing connections get: one of a client's would take it while the server is away."""
    while True:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", random.randint(20_000, 30_000)))
            except OSError:
                continue
            return int(probe.getsockname()[1])


class Work:
    """What a client has under way when the server is killed, and what came of it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.is_called = threading.Event()
        self.go_on = threading.Event()
        self.came: dict[str, Any] = {}

    def hang(self, _: Any) -> None:
        self.is_called.set()
        self.go_on.wait(PATIENCE_S)

    async def begin(self) -> None:
        options: dict[str, Any] = {"tools": TOOLS}
        self.session: Session = await done(self.client.create_session(**options))

    async def of(self, name: str, method: Any, *arguments: Any) -> None:
        """Call a method, which may block, and note what it gives."""
        if isinstance(self.client, CodeModeClient):
            self.came[name] = await anyio.to_thread.run_sync(lambda: method(*arguments))
        else:
            self.came[name] = await method(*arguments)

    async def follow(self) -> None:
        stream = self.session.events(0, "1")
        if isinstance(stream, AsyncIterator):
            self.came["events"] = [event["type"] async for event in stream]
        else:
            self.came["events"] = [event["type"] for event in await anyio.to_thread.run_sync(list, stream)]


async def test_a_restart_is_outlasted(tmp_path: Path) -> None:
    """A run ends with its cell's failure, and events with its end; what is asked during the outage is done after it."""
    server = Server(tmp_path / "data")
    server.start()
    try:
        with CodeModeClient(server.url) as blocking:
            async with AsyncCodeModeClient(server.url) as asynchronous, anyio.create_task_group() as tasks:
                works = [Work(blocking), Work(asynchronous)]
                for work in works:
                    await work.begin()
                    tasks.start_soon(work.of, "run", work.session.run, SOURCE, {"hang": work.hang})
                    assert await anyio.to_thread.run_sync(work.is_called.wait, PATIENCE_S)
                    tasks.start_soon(work.follow)
                server.kill()
                for work in works:
                    tasks.start_soon(work.of, "exec", work.session.exec, "text('b')")
                    tasks.start_soon(work.of, "create_session", work.client.create_session)
                    tasks.start_soon(work.of, "cells", work.session.cells)
                await anyio.sleep(OUTAGE_S)
                assert all(work.came == {} for work in works)
                await anyio.to_thread.run_sync(server.start)
        for work in works:
            work.go_on.set()
            run: Observation = work.came["run"]
            assert (run.status, run.error and run.error.kind, texts(run)) == ("failed", "server_restarted", ["a"])
            assert (run.tool_calls.in_flight, run.safe_to_retry) == (1, False)
            assert work.came["events"] == [
                "cell/started",
                "cell/output",
                "tool_call/started",
                "tool_call/ended",
                "cell/ended",
            ]
            assert texts(work.came["exec"]) == ["b"]
            assert work.came["cells"][0].status == "failed"
            assert work.came["create_session"].session_id
    finally:
        server.kill()
