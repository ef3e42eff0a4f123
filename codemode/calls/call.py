"""A use of a tool, by a script or directly, and where it comes from."""

from __future__ import annotations

import asyncio
import re
import secrets
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from codemode.calls.hook_answers import Decision
from codemode.lifecycle.provenance import code_mode_source, direct_source, runtime_tool_call_id
from codemode.tools.command import CommandHandler, RunningCommand
from codemode.tools.encoding import decode
from codemode.tools.registry import RegisteredTool
from codemode.tools.tool import ClientHandler

# "running": it was answered, while the process that it started goes on.
State = Literal[
    "queued", "in_flight", "running", "completed", "failed", "exited", "cancelled", "denied", "timed_out", "lost"
]
ENDED: Final = ("completed", "failed", "exited", "cancelled", "denied", "timed_out", "lost")
_OURS: Final = re.compile("tu_[0-9a-f]{24}")
ANSWERED: Final = (*ENDED, "running")


@dataclass(frozen=True, slots=True)
class CallOrigin:
    """Where calls come from: those of one cell, or a direct one. Made by the runtime, never by the script."""

    session_id: str
    cell_id: str | None  # None for a direct call
    turn_id: str | None
    parent_tool_use_id: str = ""  # of the exec

    def tool_source(self, number: int) -> dict[str, str]:
        """The `tool_source` of the call with this number."""
        if self.cell_id is None:
            return direct_source()
        return code_mode_source(self.parent_tool_use_id, self.cell_id, number)


@dataclass(slots=True)
class Call:
    """One use of a tool, kept for the record as long as its cell is."""

    number: int  # within its cell, from 1; 0 for a direct call
    registered: RegisteredTool
    tool_use_id: str
    origin: CallOrigin
    text: bytes = b""  # of the input, as JSON, until the call has ended: as objects it would take many times the memory
    weight: int = 0  # bytes that its input counts while it waits or runs
    state: State = "queued"
    exit_code: int | None = None  # of a process that exited
    started_at: float | None = None
    ended_at: float | None = None
    announced: bool = False  # a client call that some answer has named
    running: RunningCommand | None = None  # the process that goes on, or went on when it was answered
    was_escalated: bool = False  # before hooks wrote its input anew
    is_named: bool = False  # by its caller
    is_shown: bool = False  # people were told of the command that it is about to run
    waits_for_end: bool = False  # a hook wants the answer at the end of its process
    task: asyncio.Task[Any] | None = field(default=None, repr=False)
    result: Any = None  # a `Result` that is on its way to the script
    before: asyncio.Task[Decision] | None = field(default=None, repr=False)  # the hooks that are asked first
    after: asyncio.Task[Any] | None = field(default=None, repr=False)  # those that are told of its end

    @property
    def name(self) -> str:
        """Of its tool."""
        return self.registered.tool.name

    @property
    def input(self) -> Any:
        """The input, made anew each time."""
        return decode(self.text) if self.text else None

    @property
    def runtime_tool_call_id(self) -> str:
        """The name of a nested call within its cell, the same that the script's error carries."""
        return runtime_tool_call_id(self.number)

    @property
    def source(self) -> dict[str, str]:
        """Its `tool_source`."""
        return self.origin.tool_source(self.number)

    @property
    def is_client(self) -> bool:
        """Whether the caller has to fulfil it."""
        return isinstance(self.registered.tool.handler, ClientHandler)

    @property
    def is_command(self) -> bool:
        """Whether it runs a command on this machine."""
        handler = self.registered.tool.handler
        return isinstance(handler, CommandHandler) and handler.command_of is not None

    def identity(self) -> dict[str, Any]:
        """What every event of this call says."""
        told: dict[str, Any] = {"tool_use_id": self.tool_use_id}
        if self.number:
            told["runtime_tool_call_id"] = self.runtime_tool_call_id
        return {**told, "tool_name": self.name, "tool_source": self.source}

    def request(self) -> dict[str, Any]:
        """What a tool's server is told of it."""
        return {
            "tool_name": self.name,
            "input": self.input,
            "session_id": self.origin.session_id,
            "turn_id": self.origin.turn_id,
            "cell_id": self.origin.cell_id,
            "runtime_tool_call_id": self.runtime_tool_call_id if self.number else None,
            "tool_use_id": self.tool_use_id,
        }


class LedgerEntry(NamedTuple):
    """A nested call as the ledger of its cell shows it."""

    number: int
    tool_use_id: str
    tool_name: str
    state: str
    started_at: float | None
    ended_at: float | None
    exit_code: int | None = None


def new_tool_use_id() -> str:
    """An id for one use of a tool, unique in the server."""
    return f"tu_{secrets.token_hex(12)}"


def is_made_here(tool_use_id: str) -> bool:
    """Whether an id is one of those: it may be that of any call, which nobody else may give to another one."""
    return _OURS.fullmatch(tool_use_id) is not None


def tool_status(state: str, exit_code: int | None = None) -> dict[str, Any]:
    """The `tool_status` of a call that stands so."""
    return {"state": state, "exit_code": exit_code}
