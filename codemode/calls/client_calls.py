"""The calls of a cell that the caller fulfils: they wait until their results are handed in."""

from __future__ import annotations

import asyncio

from codemode.calls.call import Call
from codemode.calls.result import Result
from codemode.errors import ToolCallAlreadyResolved, ToolCallNotFound


class ClientCalls:
    """Those that wait, by number."""

    def __init__(self) -> None:
        self._waiting: dict[int, tuple[Call, asyncio.Future[Result]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, call: Call) -> asyncio.Future[Result]:
        """One more; what will be handed in for it."""
        result: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting[call.number] = (call, result)
        return result

    def drop(self, call: Call) -> None:
        """It waits no more."""
        self._waiting.pop(call.number, None)

    def take(self, call: Call) -> asyncio.Future[Result]:
        """What its result is to be set in. Raises what `check_open` does."""
        self.check_open(call)
        result = self._waiting.pop(call.number)[1]
        if result.done():  # its time ran out at this moment
            said = f"call {call.runtime_tool_call_id} of cell {call.origin.cell_id} has timed out: it takes no result"
            raise ToolCallAlreadyResolved(said, cell_id=call.origin.cell_id)
        return result

    def check_open(self, call: Call) -> None:
        """Raises ToolCallAlreadyResolved for one that has ended, ToolCallNotFound for one that is not asked yet."""
        if call.number in self._waiting:
            return
        name, cell_id = call.runtime_tool_call_id, call.origin.cell_id
        where = {"cell_id": cell_id, "runtime_tool_call_id": name}
        if call.state in ("queued", "in_flight"):
            raise ToolCallNotFound(f"call {name} of cell {cell_id} was not handed out yet", **where)
        said = f"call {name} of cell {cell_id} is {call.state}: it takes no result"
        raise ToolCallAlreadyResolved(said, **where)

    def pending(self) -> list[Call]:
        """Those that wait, in the order they were made."""
        return [self._waiting[number][0] for number in sorted(self._waiting)]

    def announce_again(self) -> None:
        """Let them cause an early answer once more."""
        for call, _ in self._waiting.values():
            call.announced = False

    @property
    def has_unannounced(self) -> bool:
        """Whether no answer has named one of them."""
        return any(not call.announced for call, _ in self._waiting.values())
