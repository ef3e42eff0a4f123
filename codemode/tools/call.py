"""A nested call and where it comes from."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from codemode.lifecycle.provenance import code_mode_source, runtime_tool_call_id
from codemode.tools.encoding import decode
from codemode.tools.registry import RegisteredTool
from codemode.tools.tool import ClientHandler

State = Literal["queued", "in_flight", "completed", "failed", "cancelled"]
ENDED: Final = ("completed", "failed", "cancelled")


@dataclass(slots=True)
class Call:
    """One nested call, kept for the record as long as its cell is."""

    number: int
    registered: RegisteredTool
    tool_use_id: str
    text: bytes = b""  # of the input, as JSON, until the call has ended: as objects it would take many times the memory
    state: State = "queued"
    started_at: float | None = None
    ended_at: float | None = None
    announced: bool = False  # a client call that some answer has named
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    @property
    def input(self) -> Any:
        """The input, made anew each time."""
        return decode(self.text) if self.text else None

    @property
    def runtime_tool_call_id(self) -> str:
        """Its name within its cell, the same that the script's error carries."""
        return runtime_tool_call_id(self.number)

    @property
    def is_client(self) -> bool:
        """Whether the caller has to fulfil it."""
        return isinstance(self.registered.tool.handler, ClientHandler)


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """Where the calls of a cell come from. Made by the runtime, never by the script."""

    session_id: str
    cell_id: str
    turn_id: str | None
    parent_tool_use_id: str

    def tool_source(self, call: Call) -> dict[str, str]:
        """The `tool_source` of a call of this cell."""
        return code_mode_source(self.parent_tool_use_id, self.cell_id, call.number)

    def request(self, call: Call) -> dict[str, Any]:
        """What a tool's server is told of a call."""
        return {
            "tool_name": call.registered.tool.name,
            "input": call.input,
            "session_id": self.session_id,
            "turn_id": self.turn_id,
            "cell_id": self.cell_id,
            "runtime_tool_call_id": call.runtime_tool_call_id,
            "tool_use_id": call.tool_use_id,
        }


class LedgerEntry(NamedTuple):
    """A nested call as the ledger of its cell shows it."""

    number: int
    tool_use_id: str
    tool_name: str
    state: str
    started_at: float | None
    ended_at: float | None


def new_tool_use_id() -> str:
    """An id for one use of a tool, unique in the server."""
    return f"tu_{secrets.token_hex(12)}"
