"""The package `mcp`: whether it is there, and modules that need it, loaded when somebody does (it takes 0.5 s)."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from types import ModuleType
from typing import Final

from codemode.errors import InvalidRequest

_MISSING: Final = "MCP needs a package that is not installed; install it with: pip install 'codemode[mcp]'"


def is_installed() -> bool:
    """Whether the extra is there."""
    return importlib.util.find_spec("mcp") is not None


def check_installed() -> None:
    """Raises InvalidRequest, saying what to install."""
    if not is_installed():
        raise InvalidRequest(_MISSING)


async def loaded(name: str) -> ModuleType:
    """A module of ours that imports `mcp`, loaded on a thread. Raises InvalidRequest without the extra."""
    check_installed()
    return await asyncio.to_thread(importlib.import_module, name)
