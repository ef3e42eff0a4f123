"""How many calls of a session run at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from anyio import CapacityLimiter

from codemode.calls.call import Call


@dataclass(frozen=True, slots=True)
class ToolThreads:
    """How many sync functions run at once: tools that wait, tools that compute, and hooks, which wait for no tool."""

    many: CapacityLimiter
    few: CapacityLimiter
    hooks: CapacityLimiter


class CallSlots:
    """Lets so many calls run at once and queues the rest, first come first served."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._queue: deque[Callable[[], bool]] = deque()

    def enter(self, begin: Callable[[], bool]) -> None:
        """Call `begin` as soon as a slot is free; it returns False if it no longer wants one."""
        self._queue.append(begin)
        self._advance()

    def leave(self) -> None:
        """Give a slot back."""
        self._free += 1
        self._advance()

    def _advance(self) -> None:
        while self._free > 0 and self._queue:
            begin = self._queue.popleft()
            self._free -= 1  # before it runs: it may come back here
            if not begin():
                self._free += 1


class CallPlaces:
    """The slots of a session: one of all its calls, and for a tool with `max_concurrency` first one of that tool.

    A call that waits for its tool holds up no call of another tool.
    """

    def __init__(self, size: int) -> None:
        self._all = CallSlots(size)
        self._of_tools: dict[str, CallSlots] = {}

    def enter(self, call: Call, begin: Callable[[], bool]) -> None:
        """Call `begin` when the call may run; it returns False if it is not wanted any more."""
        own = self._of_tool(call)
        if own is None:
            self._all.enter(begin)
            return

        def begin_here() -> bool:
            began = begin()
            if not began:
                own.leave()
            return began

        def wait_for_the_rest() -> bool:
            self._all.enter(begin_here)
            return True

        own.enter(wait_for_the_rest)

    def leave(self, call: Call) -> None:
        """It runs no more."""
        own = self._of_tool(call)
        if own is not None:
            own.leave()
        self._all.leave()

    def _of_tool(self, call: Call) -> CallSlots | None:
        most = call.registered.tool.policy.max_concurrency
        if most is None:
            return None
        if call.name not in self._of_tools:
            self._of_tools[call.name] = CallSlots(most)
        return self._of_tools[call.name]
