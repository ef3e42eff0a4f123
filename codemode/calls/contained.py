"""Runs functions of others on threads, whatever they raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Raised(Exception):
    """What a function has raised that is no Exception; its name. GeneratorExit would close whoever waits for it."""


def contained(run: Callable[[Any], Any], value: Any) -> Any:
    """What `run` makes of the value. Raises Raised instead of anything that is no Exception."""
    try:
        return run(value)
    except Exception:
        raise
    except BaseException as problem:
        raise Raised(type(problem).__name__) from problem
