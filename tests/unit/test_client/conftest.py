"""A real server on a real port, and both clients: a test that takes `client` runs once with each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from codemode.client import AsyncCodeModeClient, CodeModeClient
from tests.unit.test_client.client_helpers import serving

LIMITS = {
    "keep_ms": 60_000,
    "lifetime_ms": 20_000,
    "max_sessions_key": 1000,
    "max_source_bytes": 10_000,
    "max_tool_result_bytes": 200_000,
}


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    with serving("--spares=3", *(f"--limit={name}={value}" for name, value in LIMITS.items())) as url:
        yield url


@pytest.fixture(params=["blocking", "async"], scope="session")
async def client(request: pytest.FixtureRequest, url: str) -> AsyncIterator[CodeModeClient | AsyncCodeModeClient]:
    if request.param == "blocking":
        with CodeModeClient(url) as blocking:
            yield blocking
    else:
        async with AsyncCodeModeClient(url) as asynchronous:
            yield asynchronous
