"""Random histories of a session, as the service may tell them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

Event = dict[str, Any]
SESSION = "s-1"
TOOLS = ("read_file", "run_verifier", "lookup")


@dataclass
class _Call:
    tool_use_id: str
    name: str
    source: dict[str, str]
    yielded: bool = False

    @property
    def cell_id(self) -> str | None:
        return self.source.get("cell_id")


@dataclass
class Writer:
    """Writes a valid history down, step by step. What would not be valid must not be asked of it."""

    session_id: str = SESSION
    events: list[Event] = field(default_factory=list)
    seq: int = 0
    open: list[_Call] = field(default_factory=list)
    cells: dict[str, str] = field(default_factory=dict)  # those that run, and their parents
    calls: dict[str, int] = field(default_factory=dict)  # of each cell
    last_cell: int = 0
    last_call: int = 0

    def tell(self, type_: str, cell_id: str | None = None, **fields: Any) -> Event:
        self.seq += 1
        event: Event = {"seq": self.seq, "type": type_, "at": "2026-01-01T12:00:00.000000Z"}
        event["session_id"] = self.session_id
        if cell_id is not None:
            event["cell_id"] = cell_id
        self.events.append(event | fields)
        return self.events[-1]

    def cell(self, *, named: bool = True) -> str:
        """A cell starts; the caller of exec has `named` it, or not."""
        self.last_cell += 1
        cell_id, parent = str(self.last_cell), f"exec-{self.last_cell}"
        self.cells[cell_id] = parent
        self.calls[cell_id] = 0
        self.tell("cell/started", cell_id, turn_id="turn-1", tool_call_id=parent if named else None)
        return cell_id

    def end_cell(self, cell_id: str, status: str = "completed") -> None:
        del self.cells[cell_id]
        self.tell("cell/ended", cell_id, status=status)

    def start(self, cell_id: str | None = None, name: str = "lookup") -> _Call:
        """A call in a cell, or a direct one."""
        self.last_call += 1
        source = {"type": "direct"}
        if cell_id is not None:
            self.calls[cell_id] += 1
            source = {
                "type": "code_mode",
                "parent_tool": "exec",
                "parent_tool_use_id": self.cells[cell_id],
                "cell_id": cell_id,
                "runtime_tool_call_id": f"call-{self.calls[cell_id]}",
            }
        call = _Call(f"tu_{self.last_call}", name, source)
        self.open.append(call)
        self._tell_of(call, "tool_call/started")
        return call

    def leave(self, call: _Call) -> None:
        """It yields."""
        call.yielded = True
        fields = {"tool_use_id": call.tool_use_id, "process_id": f"p-{call.tool_use_id}", "tool_source": call.source}
        self.tell("tool_call/yielded", call.cell_id, **fields)

    def end(self, call: _Call, state: str = "completed", exit_code: int | None = None) -> None:
        self.open.remove(call)
        self._tell_of(call, "tool_call/ended", tool_status={"state": state, "exit_code": exit_code})

    def _tell_of(self, call: _Call, type_: str, **more: Any) -> None:
        fields: Event = {"tool_use_id": call.tool_use_id}
        if "runtime_tool_call_id" in call.source:
            fields["runtime_tool_call_id"] = call.source["runtime_tool_call_id"]
        self.tell(type_, call.cell_id, **fields, tool_name=call.name, tool_source=dict(call.source), **more)

    def end_anyhow(self, random: Random, call: _Call) -> None:
        """In one of the states in which it may."""
        states = ["completed", "failed", "exited", "exited", "cancelled", "timed_out", *["denied"] * (not call.yielded)]
        state = random.choice(states)
        self.end(call, state, random.choice((0, 0, 1, 137)) if state == "exited" else None)

    def stop_cell(self, random: Random, cell_id: str, status: str, state: str | None = None) -> None:
        """It ends, after the calls in it that have not yielded."""
        for call in [call for call in self.open if call.cell_id == cell_id and not call.yielded]:
            if state is None:
                self.end_anyhow(random, call)
            else:
                self.end(call, state)
        self.end_cell(cell_id, status)

    def restart(self, random: Random) -> None:
        """Another server takes over: all that was open is lost."""
        for cell_id in list(self.cells):
            self.stop_cell(random, cell_id, "failed", "lost")
        for call in list(self.open):
            self.end(call, "lost")

    def step(self, random: Random) -> None:
        """Something that may happen next."""
        call = random.choice(self.open) if self.open else None
        cell_id = random.choice(list(self.cells)) if self.cells else None
        what = random.randrange(20)
        if what < 2:
            self.cell(named=random.random() < 0.5)
        elif what < 8 and cell_id is not None:
            self.start(cell_id, random.choice(TOOLS))
        elif what < 9:
            self.start(None, random.choice(TOOLS))
        elif what < 14 and call is not None:
            self.end_anyhow(random, call)
        elif what < 16 and call is not None and not call.yielded and call.cell_id in {None, *self.cells}:
            self.leave(call)
        elif what < 18 and cell_id is not None:
            self.tell("cell/output", cell_id, cursor=1, item={"type": "text", "text": "x"})
        elif what < 19 and cell_id is not None:
            end = random.choice((("completed", None), ("failed", "cancelled"), ("terminated", "cancelled")))
            self.stop_cell(random, cell_id, *end)
        elif what == 19 and random.random() < 0.2:
            self.restart(random)


def history(random: Random, steps: int | None = None, *, is_whole: bool = True) -> list[Event]:
    """A valid one, from session/created on; a whole one ends with session/deleted or with all that was open."""
    writer = Writer()
    writer.tell("session/created")
    for _ in range(random.randrange(40) if steps is None else steps):
        writer.step(random)
    if is_whole:
        for cell_id in list(writer.cells):
            writer.stop_cell(random, cell_id, "terminated", "cancelled")
        for call in list(writer.open):
            writer.end(call, "cancelled")
        if random.random() < 0.5:
            writer.tell("session/deleted")
    return writer.events


def with_gap(random: Random, events: list[Event]) -> list[Event]:
    """Some in a row are no longer kept; an event says so."""
    start = random.randrange(len(events))
    lost = events[start : start + random.randint(1, 10)]
    first = lost[0].get("from", lost[0]["seq"])
    event = lost[-1] | {"type": "events/lost", "from": first, "to": lost[-1]["seq"]}
    gap = {name: event[name] for name in ("seq", "type", "at", "session_id", "from", "to")}
    return [*events[:start], gap, *events[start + len(lost) :]]


def renumbered(events: list[Event]) -> list[Event]:
    """As if the service had told them so."""
    return [event | {"seq": seq} for seq, event in enumerate(events, 1)]
