"""The tool that nested calls are timed with."""

from codemode import tool


@tool
async def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b
