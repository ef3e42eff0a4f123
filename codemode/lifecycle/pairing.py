"""Each call that starts ends once, as what it started as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final, Literal, NamedTuple, TypeVar

from codemode.lifecycle.findings import Problem, Source, Status, shown

MOST_ENDED: Final = 100_000  # that are remembered
K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True)
class OpenCall:
    """A call without an end. `told` says what has ended before it, if that was told."""

    name: str
    source: Source
    yielded: bool = False
    unsure: bool = False  # some events since its start are not known: its yield or its end may be among them
    told: Literal["", "cell", "history"] = ""


class EndedCall(NamedTuple):
    """What is remembered of a call with an end."""

    has_started: bool
    state: str
    exit_code: int | None


class Calls:
    """The calls of one session.

    All that are open are remembered, and the newest 100 000 of what has ended and of the names within cells.
    """

    def __init__(self) -> None:
        self.open: dict[str, OpenCall] = {}
        self.states: dict[str, int] = {}  # how many ended in each
        self._ended: dict[str, EndedCall] = {}
        self._names: dict[tuple[str, str], str] = {}  # the call of a cell and a name within it
        self._parents: dict[str, str] = {}  # the call of exec that a cell belongs to

    def start(self, tool_use_id: str, name: str, source: Source) -> list[Problem]:
        """A call began."""
        if tool_use_id in self.open:
            return [("duplicate_start", "the call has started before, and is open")]
        if (ended := self._ended.get(tool_use_id)) is not None:
            if ended.has_started:
                return [("duplicate_start", "the call has started before, and has ended")]
            self._ended[tool_use_id] = ended._replace(has_started=True)
            return [("reordered_event", "the start of the call came after its end")]
        self.open[tool_use_id] = OpenCall(name, source)
        return self._placed(tool_use_id, source)

    def yielded(self, tool_use_id: str, name: str | None, source: Source, *, seen: bool) -> list[Problem]:
        """It was answered while its process goes on. `seen`: its start must have been, if there was one."""
        call = self.open.get(tool_use_id)
        if call is None:
            if tool_use_id in self._ended:
                return [("unexpected_yield", "the call yielded after it had ended")]
            if seen:
                return [("unexpected_yield", "the call yielded, and no start of it was seen")]
            if name is not None:  # what is known of it from now on
                self.open[tool_use_id] = OpenCall(name, source, yielded=True)
            return self._placed(tool_use_id, source)
        problems = _differences(call, name, source)
        if call.yielded:
            problems.append(("unexpected_yield", "the call had yielded before"))
        elif call.told == "cell":
            problems.append(("unexpected_yield", "the call yielded after the end of its cell"))
        call.yielded = True
        return problems

    def end(self, tool_use_id: str, name: str, source: Source, status: Status, *, seen: bool) -> list[Problem]:
        """It ended. `seen`: its start must have been, if there was one."""
        call = self.open.pop(tool_use_id, None)
        if call is None and (ended := self._ended.get(tool_use_id)) is not None:
            problems: list[Problem] = [("duplicate_end", "the call has ended before")]
            if (ended.state, ended.exit_code) != status:
                problems.append(("conflicting_status", f"the call has ended before, as {ended.state}"))
            return problems
        if call is not None:
            problems = _differences(call, name, source)
            if call.told == "cell":
                problems.append(("end_after_cell_end", "the call had not yielded, and ended after its cell"))
            if call.yielded and status.state == "denied":
                problems.append(("unexpected_end", "the call was denied after it had yielded"))
        else:
            problems = [("end_without_start", "the call ended, and no start of it was seen")] if seen else []
            problems += self._placed(tool_use_id, source)
        if not status.is_possible:
            code = "no exit code" if status.exit_code is None else "an exit code"
            problems.append(("unexpected_end", f"the state is {status.state}, with {code}"))
        remember(self._ended, tool_use_id, EndedCall(call is not None, *status))
        self.states[status.state] = self.states.get(status.state, 0) + 1
        return problems

    def parent(self, cell_id: str, parent_tool_use_id: str) -> list[Problem]:
        """A cell was said to belong to a call of exec."""
        known = self._parents.get(cell_id)
        if known is None:
            remember(self._parents, cell_id, parent_tool_use_id)
        elif known != parent_tool_use_id:
            return [("conflicting_source", f"the parent of its cell was {shown(known)} before")]
        return []

    def lose_sight(self) -> None:
        """Events are not known: what is open may have ended in them."""
        for call in self.open.values():
            call.unsure = True

    def overdue(self, cell_id: str | None = None) -> Iterator[tuple[str, OpenCall]]:
        """Those that must have ended by now, with the history or with a cell. Each is told once."""
        for tool_use_id, call in self.open.items():
            if call.unsure or call.told:
                continue
            if cell_id is None or (call.source.cell_id == cell_id and not call.yielded):
                call.told = "history" if cell_id is None else "cell"
                yield tool_use_id, call

    def state(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "open": [[tool_use_id, *astuple(call)] for tool_use_id, call in self.open.items()],
            "states": dict(self.states),
            "ended": [[tool_use_id, *ended] for tool_use_id, ended in self._ended.items()],
            "names": [[*place, tool_use_id] for place, tool_use_id in self._names.items()],
            "parents": dict(self._parents),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any]) -> Calls:
        """From a state. Raises LookupError, TypeError or ValueError for what is none."""
        calls = cls()
        for tool_use_id, name, source, *rest in state["open"]:
            calls.open[tool_use_id] = OpenCall(name, Source(*source), *rest)
        calls.states = dict(state["states"])
        calls._ended = {tool_use_id: EndedCall(*ended) for tool_use_id, *ended in state["ended"]}
        calls._names = {(cell_id, name): tool_use_id for cell_id, name, tool_use_id in state["names"]}
        calls._parents = dict(state["parents"])
        return calls

    def _placed(self, tool_use_id: str, source: Source) -> list[Problem]:
        """Whether the place within its cell is its alone."""
        cell_id, name = source.cell_id, source.runtime_tool_call_id
        if cell_id is None or name is None or source.parent_tool_use_id is None:
            return []
        problems = self.parent(cell_id, source.parent_tool_use_id)
        other = self._names.get((cell_id, name))
        if other is None:
            remember(self._names, (cell_id, name), tool_use_id)
        elif other != tool_use_id:
            what = f"{shown(name)} of cell {shown(cell_id)} was the call {shown(other)} before"
            problems.append(("conflicting_source", what))
        return problems


def remember(known: dict[K, V], key: K, value: V) -> None:
    """Of what has ended, within the bound; the oldest is forgotten."""
    known[key] = value
    if len(known) > MOST_ENDED:
        del known[next(iter(known))]


def _differences(call: OpenCall, name: str | None, source: Source) -> list[Problem]:
    problems: list[Problem] = []
    if source != call.source:
        wrong = [field for field in Source._fields if getattr(source, field) != getattr(call.source, field)]
        problems.append(("conflicting_source", f"another {', '.join(wrong)} than at the start of the call"))
    if name is not None and name != call.name:
        problems.append(("conflicting_name", f"the call started as one of {shown(call.name)}"))
    return problems
