"""A real server on a real port, and both clients: a test that takes `client` runs once with each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator

import pytest

from codemode.client import AsyncCodeModeClient, CodeModeClient

LIMITS = {
    "keep_ms": 60_000,
    "lifetime_ms": 20_000,
    "max_sessions_key": 1000,
    "max_source_bytes": 10_000,
    "max_tool_result_bytes": 200_000,
}


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    limits = [f"--limit={name}={value}" for name, value in LIMITS.items()]
    command = [sys.executable, "-m", "codemode", "serve", "--port=0", "--grace=0", "--spares=3", *limits]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()
            assert server.wait(timeout=10) == 0


@pytest.fixture(params=["blocking", "async"], scope="session")
async def client(request: pytest.FixtureRequest, url: str) -> AsyncIterator[CodeModeClient | AsyncCodeModeClient]:
    if request.param == "blocking":
        with CodeModeClient(url) as blocking:
            yield blocking
    else:
        async with AsyncCodeModeClient(url) as asynchronous:
            yield asynchronous
