"""A service for the tests of calls, and both ways to make one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from codemode import CodeMode
from tests.unit.test_calls.call_helpers import HOWS, How


@pytest.fixture(scope="package")
async def cm() -> AsyncIterator[CodeMode]:
    """One that has nothing of its own: each test makes its session."""
    async with CodeMode(spares=2, limits={"max_sessions_key": 10_000}) as service:
        yield service


@pytest.fixture(params=HOWS)
def how(request: pytest.FixtureRequest) -> How:
    """By a script, or directly."""
    found: How = request.param
    return found
