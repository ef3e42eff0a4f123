"""Tools of the server under test that can be called directly, and some that cannot."""

from __future__ import annotations

import asyncio

from codemode import ToolError, ToolPolicy, tool

_counts: dict[str, int] = {}


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(kind="freeform")
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


@tool
def fail() -> None:
    """Fail."""
    raise ToolError("no luck")


@tool
def count(key: str) -> int:
    """How often it was called with this key."""
    _counts[key] = _counts.get(key, 0) + 1
    return _counts[key]


@tool
async def never() -> None:
    """Wait for ever."""
    await asyncio.Event().wait()


@tool(policy=ToolPolicy(requires_approval=True))
def deploy(to: str) -> str:
    """Do what a person has to agree to."""
    return f"deployed to {to}"


@tool(name="odd/name?", policy=ToolPolicy(allowed_callers=["programmatic"]))
def for_scripts() -> None:
    """Not for direct calls."""


TOOLS = [add, shout, fail, count, never, deploy, for_scripts]
