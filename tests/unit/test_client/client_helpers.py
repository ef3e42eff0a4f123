"""What lets one test be for both clients."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Unpack

from codemode.cells.observation import Observation
from codemode.client import AsyncClientSession, AsyncCodeModeClient, ClientSession, CodeModeClient, SessionOptions

Client = CodeModeClient | AsyncCodeModeClient
Session = ClientSession | AsyncClientSession


async def done(value: Any) -> Any:
    """What a method of either client gives: the one answers it, the other an awaitable."""
    return await value if inspect.isawaitable(value) else value


@asynccontextmanager
async def opened(client: Client, *names: str, **options: Unpack[SessionOptions]) -> AsyncIterator[Session]:
    """A session with client tools of these names, deleted at the end."""
    options["tools"] = [{"name": name} for name in names]
    if isinstance(client, CodeModeClient):
        with client.create_session(**options) as session:
            yield session
    else:
        async with await client.create_session(**options) as session:
            yield session


def texts(observation: Observation) -> list[str]:
    """The text items of its output."""
    return [item["text"] for item in observation.output]
