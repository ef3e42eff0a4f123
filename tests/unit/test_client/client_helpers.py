"""What lets one test be for both clients."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Unpack

import anyio.to_thread

from codemode.cells.observation import Observation
from codemode.client import AsyncClientSession, AsyncCodeModeClient, ClientSession, CodeModeClient, SessionOptions

Client = CodeModeClient | AsyncCodeModeClient
Session = ClientSession | AsyncClientSession


async def done(value: Any) -> Any:
    """What a method of either client gives: the one answers it, the other an awaitable."""
    return await value if inspect.isawaitable(value) else value


async def aside(ask: Callable[[], Any]) -> Any:
    """The same, while the test goes on: what blocks does so on a thread."""
    return await done(await anyio.to_thread.run_sync(ask))


@contextmanager
def serving(*flags: str) -> Iterator[str]:
    """The URL of a real server."""
    command = [sys.executable, "-m", "codemode", "serve", "--port=0", "--grace=0", *flags]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()
            assert server.wait(timeout=10) == 0


@asynccontextmanager
async def opened(client: Client, *names: str, **options: Unpack[SessionOptions]) -> AsyncIterator[Session]:
    """A session with client tools of these names, deleted at the end."""
    options.setdefault("tools", [{"name": name} for name in names])
    if isinstance(client, CodeModeClient):
        with client.create_session(**options) as session:
            yield session
    else:
        async with await client.create_session(**options) as session:
            yield session


def texts(observation: Observation) -> list[str]:
    """The text items of its output."""
    return [item["text"] for item in observation.output]
