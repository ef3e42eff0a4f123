"""The ends of turns: whoever ends one is told what it started that still runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

_MOST_NAMED: Final = 20  # things in a warning
_MOST_COMMAND: Final = 100  # characters of a command in a warning


@dataclass(frozen=True, slots=True)
class RunningThing:
    """A cell, a process or a direct call that runs. `told` names it for the caller."""

    turn_id: str | None
    told: dict[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        """Its name among all things of the session."""
        kind = self.told["type"]
        return kind, str(self.told[{"cell": "cell_id", "process": "session_id", "tool_call": "tool_use_id"}[kind]])

    def __str__(self) -> str:
        kind, name = self.key
        if kind == "process":
            command = self.told["command"]
            shown = command if len(command) <= _MOST_COMMAND else f"{command[:_MOST_COMMAND]}…"
            return f"process {name} ({shown})"
        return f"cell {name}" if kind == "cell" else f"the call {name} of {self.told['tool_name']}"


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """`needs_follow_up` says that the turn goes on, since `running` of it does; `warning` is for the model."""

    needs_follow_up: bool
    running: list[dict[str, Any]] = field(default_factory=list)
    warning: str | None = None


class Turns:
    """Those of one session. Nothing is kept of a turn but what was detached from it."""

    def __init__(self) -> None:
        self._detached: set[tuple[str, str]] = set()

    def end(self, turn_id: str, things: Iterable[RunningThing], *, detach: bool) -> TurnEnd:
        """End a turn, unless something that it started still runs; with `detach` all the same, and that lives on."""
        every = list(things)
        self._detached &= {thing.key for thing in every}
        running = [thing for thing in every if thing.turn_id == turn_id and thing.key not in self._detached]
        if detach:
            self._detached |= {thing.key for thing in running}
        if not running or detach:
            return TurnEnd(False)
        return TurnEnd(True, [thing.told for thing in running], _warning(turn_id, running))


def _warning(turn_id: str, running: list[RunningThing]) -> str:
    named = ", ".join(map(str, running[:_MOST_NAMED]))
    more = len(running) - _MOST_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return (
        f"Turn {turn_id} cannot end yet: {named}{rest} still running. Wait for a cell with wait, follow a process with "
        "write_stdin, or end them; a turn that is ended with detach leaves them running."
    )
