"""Takes in the results of client calls: all of them or, if one cannot be taken, none."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from codemode.calls.bridge import ToolBridge
from codemode.calls.call import Call
from codemode.cells.observation import ToolResult
from codemode.errors import ToolCallAlreadyResolved, ToolCallNotFound
from codemode.sessions.past import PastCell
from codemode.sessions.shelf import AnyCell


def hand_in(results: Iterable[ToolResult], find_cell: Callable[[str], AnyCell]) -> int:
    """Resolve the calls; their number. Raises what `find_cell` does, ToolCallNotFound, ToolCallAlreadyResolved."""
    found = [(result, *_client_call(result, find_cell(result.cell_id))) for result in results]
    seen: set[tuple[str, int]] = set()
    for result, bridge, call in found:
        bridge.client_calls.check_open(call)
        if (result.cell_id, call.number) in seen:
            raise _resolved(f"there are two results for call {call.runtime_tool_call_id} of", result)
        seen.add((result.cell_id, call.number))
    for result, bridge, call in found:
        bridge.resolve(call, output=result.output, error=result.error)
    return len(found)


def _client_call(result: ToolResult, cell: AnyCell) -> tuple[ToolBridge, Call]:
    name = result.runtime_tool_call_id
    if isinstance(cell, PastCell):
        if cell.has_made(name):
            raise _resolved("the server that ran it has ended, and with it", result)
        raise _none(result)
    call = cell.bridge.client_call(name)
    if call is None:
        raise _none(result)
    return cell.bridge, call


def _none(result: ToolResult) -> ToolCallNotFound:
    name = result.runtime_tool_call_id[:100]
    return ToolCallNotFound(
        f"cell {result.cell_id} has no call {name} for the caller to fulfil",
        cell_id=result.cell_id,
        runtime_tool_call_id=name,
    )


def _resolved(what: str, result: ToolResult) -> ToolCallAlreadyResolved:
    return ToolCallAlreadyResolved(
        f"{what} cell {result.cell_id}",
        cell_id=result.cell_id,
        runtime_tool_call_id=result.runtime_tool_call_id[:100],
    )
