"""Host tools that do everything wrong. Each call fails or is cancelled, and nothing else happens."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, model_serializer

from codemode import ToolError, tool
from codemode.tools.tool import Tool


class Unspeakable(Exception):
    """Cannot even be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class UnspeakableToolError(ToolError):
    """Ends the program when it is shown."""

    def __str__(self) -> str:
        raise SystemExit(3)


class Unwritable(BaseModel):
    """Raises when it is written as JSON."""

    @model_serializer
    def write(self) -> dict[str, Any]:
        raise SystemExit(4)


@dataclasses.dataclass
class Odd:
    """Has in it what no JSON holds."""

    value: object


class Mischief(dict[str, Any]):
    """A dictionary that raises when it is looked at."""

    def items(self) -> Any:
        raise KeyboardInterrupt

    def get(self, *_: Any) -> Any:
        raise KeyboardInterrupt


def cyclic() -> list[Any]:
    whole: list[Any] = []
    whole.append(whole)
    return whole


def deep() -> list[Any]:
    whole: list[Any] = []
    for _ in range(100_000):
        whole = [whole]
    return whole


def endless() -> Iterator[int]:
    yield from itertools.count()


def recursion() -> Any:
    return recursion()


RAISED: dict[str, Callable[[], BaseException]] = {
    "system_exit": lambda: SystemExit(3),
    "keyboard_interrupt": KeyboardInterrupt,
    "generator_exit": GeneratorExit,
    "stop_iteration": StopIteration,
    "stop_async_iteration": StopAsyncIteration,
    "base_exception": BaseException,
    "memory_error": MemoryError,
    "group": lambda: BaseExceptionGroup("g", [SystemExit(3), KeyboardInterrupt()]),
    "cancellation": asyncio.CancelledError,
    "timeout": TimeoutError,
    "unspeakable": Unspeakable,
    "unspeakable_tool_error": lambda: UnspeakableToolError("x"),
    "surrogate_tool_error": lambda: ToolError("\ud800"),
    "long": lambda: ToolError("x" * 100_000_000),
}

RETURNED: dict[str, Callable[[], Any]] = {
    "an_object": object,
    "a_class": lambda: dict,
    "nan": lambda: {"x": float("nan"), "y": float("inf")},
    "cycle": cyclic,
    "deep_lists": deep,
    "surrogates": lambda: {"\ud800": ["\udfff"]},
    "bytes_that_are_no_text": lambda: b"\xff\xfe",
    "a_huge_number": lambda: 10**10_000,
    "odd_keys": lambda: {(1, 2): 3, None: 4},
    "unwritable": Unwritable,
    "odd": lambda: Odd(object()),
    "mischief": lambda: Mischief(a=1),
    "generator": endless,
    "much": lambda: "x" * 100_000_000,
    "many": lambda: [0] * 10_000_000,
    "a_coroutine": lambda: asyncio.sleep,
}


def raising(name: str, on_a_thread: bool) -> Tool:
    def fail() -> None:
        raise RAISED[name]()

    async def fail_at_once() -> None:
        fail()

    label = f"raise_{name}" + "_on_a_thread" * on_a_thread
    return tool(name=label)(fail if on_a_thread else fail_at_once)


def returning(name: str) -> Tool:
    async def give() -> Any:
        return RETURNED[name]()

    return tool(name=f"return_{name}")(give)


@tool
async def recurse() -> Any:
    """Call itself until Python gives up."""
    return recursion()


@tool
async def stubborn(seconds: float = 3600) -> str:
    """Go on when it is cancelled."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
    return "at last"


@tool
async def fail_while_cancelled() -> None:
    """Raise something else when it is cancelled."""
    try:
        await asyncio.Event().wait()
    finally:
        raise SystemExit(5)


tools = [
    *(raising(name, on_a_thread) for name in RAISED for on_a_thread in (False, True)),
    *(returning(name) for name in RETURNED),
    recurse,
    stubborn,
    fail_while_cancelled,
]
