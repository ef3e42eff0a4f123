"""What a tool that runs commands is handed, and how it answers: a command may go on when its call has been answered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol


class CommandCall(NamedTuple):
    """A call, and where it comes from."""

    input: Mapping[str, Any]  # as the tool's schema has it
    tool_use_id: str
    turn_id: str | None
    cell_id: str | None  # None for a direct call
    wait_until_completion: bool = False  # a hook wants the answer at the exit, whatever the yield time


class Ending(NamedTuple):
    """How a process ended."""

    state: Literal["exited", "timed_out", "cancelled"]  # by itself or by a signal of a command; else by us
    exit_code: int | None  # 128 + N after signal N, as shells have it; None unless it exited


class RunningCommand(Protocol):
    """A process that goes on."""

    @property
    def process_id(self) -> int:
        """Its name within the session: what `write_stdin` takes as `session_id`."""

    @property
    def command(self) -> str:
        """What was asked for."""

    def kill(self) -> None:
        """End it, with all its process group."""

    def when_ended(self, then: Callable[[Ending, Any], None]) -> None:
        """Call `then` when it has ended and its output was read, with what a last answer would have said of it."""


class CommandAnswer(NamedTuple):
    """`running` is there while the process goes on, `ending` when it has ended; neither after a call that ran none."""

    output: Any  # JSON for the caller
    ending: Ending | None = None
    running: RunningCommand | None = None


@dataclass(frozen=True, slots=True)
class CommandHandler:
    """Fulfils calls with processes of this machine. Cancelling `run` ends the process, unless it was answered.

    `command_of` tells the command and the folder in the words of an input, for who is asked whether it may run; it is
    None for a tool that starts none.
    """

    run: Callable[[CommandCall], Awaitable[CommandAnswer]]
    command_of: Callable[[Mapping[str, Any]], tuple[str, str]] | None = None
