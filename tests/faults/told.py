"""What clients were told by a server before it was killed, and whether the next one knows all of it."""

from __future__ import annotations

import itertools
import json
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.faults.rig import Service

EVERYTHING = 10_000_000  # tokens


@dataclass
class ToldCell:
    """What answers said of one cell."""

    status: str = "running"
    error_kind: str | None = None
    texts: dict[int, str] = field(default_factory=dict)  # by the place that the cursor gives them
    key: str | None = None
    source: str = ""


class Told:
    """Collects from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.cells: dict[tuple[str, str], ToldCell] = {}
        self.values: dict[tuple[str, str], Any] = {}
        self.events: dict[tuple[str, int], str] = {}
        self.calls: list[dict[str, Any]] = []  # requests that the tool server got
        self.results: list[tuple[str, str, str]] = []  # results of client calls that were taken: session, cell, call
        self.unanswered: list[tuple[str, str, str]] = []  # execs without an answer: session, key, source

    def answer(self, answer: dict[str, Any], key: str | None = None, source: str = "") -> None:
        """An observation that a client has."""
        with self._lock:
            cell = self.cells.setdefault((answer["session_id"], answer["cell_id"]), ToldCell())
            cell.key, cell.source = key or cell.key, source or cell.source
            first = answer["cursor"] - len(answer["output"]) + 1
            cell.texts.update({first + place: item["text"] for place, item in enumerate(answer["output"])})
            if answer["status"] != "running":
                cell.status = answer["status"]
                cell.error_kind = answer["error"] and answer["error"]["kind"]

    def value(self, session: str, key: str, value: Any) -> None:
        """A value whose cell was told to have completed."""
        with self._lock:
            self.values[session, key] = value

    def event(self, session: str, number: int, data: str) -> None:
        """An event that a client has."""
        with self._lock:
            self.events[session, number] = data

    def called(self, request: dict[str, Any]) -> None:
        """A call that reached the tool server."""
        with self._lock:
            self.calls.append(request)

    def count(self) -> Counter[str]:
        """How much was told."""
        return Counter(
            cells=len(self.cells),
            items=sum(len(cell.texts) for cell in self.cells.values()),
            values=len(self.values),
            events=len(self.events),
            calls=len(self.calls),
            results=len(self.results),
        )

    def lost(self, server: Service) -> list[str]:
        """Everything that the server does not know, or knows differently."""
        found = [*self._lost_cells(server), *self._lost_values(server), *self._lost_events(server)]
        return [*found, *self._lost_calls(server), *self._wrong_repeats(server)]

    def _lost_cells(self, server: Service) -> Iterator[str]:
        for (session, cell_id), told in self.cells.items():
            response = server.post("wait", session, cell_id=cell_id, after=0, max_tokens=EVERYTHING)
            if response.status_code != 200:
                yield f"cell {cell_id}: {response.status_code} {response.text}"
                continue
            seen = response.json()
            texts = {place: item["text"] for place, item in enumerate(seen["output"], 1)}
            missing = {place: text for place, text in told.texts.items() if texts.get(place) != text}
            if missing:
                yield f"cell {cell_id}: output {missing} is now {[texts.get(place) for place in missing]}"
            kind = seen["error"] and seen["error"]["kind"]
            if told.status != "running" and (seen["status"], kind) != (told.status, told.error_kind):
                yield f"cell {cell_id}: told {told.status} {told.error_kind}, now {seen['status']} {kind}"
            counts = seen["tool_calls"]
            if kind == "server_restarted" and seen["safe_to_retry"] != (sum(counts.values()) == counts["cancelled"]):
                yield f"cell {cell_id}: safe_to_retry {seen['safe_to_retry']} with {counts}"

    def _lost_values(self, server: Service) -> Iterator[str]:
        for session, of_session in itertools.groupby(sorted(self.values.items()), lambda each: each[0][0]):
            told = {key: value for (_, key), value in of_session}
            seen = server.exec(f"return {json.dumps(list(told))}.map((key) => [key, load(key)])", session)
            now = dict(json.loads(seen["output"][0]["text"]))
            lost = {key: (value, now.get(key)) for key, value in told.items() if now.get(key) != value}
            if lost:
                yield f"values of {session}: {lost}"

    def _lost_events(self, server: Service) -> Iterator[str]:
        for session in {session for session, _ in [*self.events, *self.cells]}:
            now = dict(events(server, session))
            told = {number: data for (each, number), data in self.events.items() if each == session}
            lost = {number: data for number, data in told.items() if now.get(number) != data}
            if lost:
                yield f"events of {session}: {lost}"
            kinds = Counter[tuple[str, str]]()
            for data in map(json.loads, now.values()):
                if data["type"].startswith("tool_call/"):
                    kinds[data["tool_use_id"], data["type"]] += 1
            for use in {use for use, _ in kinds}:
                pair = (kinds[use, "tool_call/started"], kinds[use, "tool_call/ended"])
                if pair != (1, 1):
                    yield f"{use} of {session} has {pair} starts and ends"

    def _lost_calls(self, server: Service) -> Iterator[str]:
        ledgers: dict[tuple[str, str], dict[str, Any]] = {}
        for call in self.calls:
            place = (call["session_id"], call["cell_id"])
            if place not in ledgers:
                shown = server.client.get(f"/v1/sessions/{place[0]}/cells/{place[1]}").json()
                ledgers[place] = {each["tool_use_id"]: each for each in shown.get("calls", [])}
            known = ledgers[place].get(call["tool_use_id"])
            if known is None or known["started_at"] is None:
                yield f"the call {call['runtime_tool_call_id']} of cell {place[1]} reached its tool; now {known}"
            elif known["tool_status"]["state"] in ("queued", "in_flight"):
                yield f"the call {call['runtime_tool_call_id']} of cell {place[1]} is {known['tool_status']}"
        for session, cell_id in {(session, cell_id) for session, cell_id, _ in self.results}:
            result = {"cell_id": cell_id, "runtime_tool_call_id": "call-40000", "output": 1}
            never = server.post("tool_results", session, results=[result])
            if never.json().get("code") != "tool_call_not_found":
                yield f"a call that cell {cell_id} never made: {never.text}"
        for session, cell_id, name in self.results:
            result = {"cell_id": cell_id, "runtime_tool_call_id": name, "output": 1}
            again = server.post("tool_results", session, results=[result])
            if (again.status_code, again.json().get("code")) != (409, "tool_call_already_resolved"):
                yield f"the result of {name} of cell {cell_id} is taken again: {again.text}"

    def _wrong_repeats(self, server: Service) -> Iterator[str]:
        for (session, cell_id), told in self.cells.items():
            if told.key is not None:
                seen = repeat(server, session, told.key, told.source)
                if seen["cell_id"] != cell_id:
                    yield f"key {told.key} was cell {cell_id}, now {seen['cell_id']}"
        for session, key, source in self.unanswered:
            once, twice = (repeat(server, session, key, source) for _ in range(2))
            if once["cell_id"] != twice["cell_id"]:
                yield f"key {key}: cells {once['cell_id']} and {twice['cell_id']}"


def repeat(server: Service, session: str, key: str, source: str) -> dict[str, Any]:
    """The same exec again."""
    place, headers = f"/v1/sessions/{session}/exec", {"Idempotency-Key": key}
    answer: dict[str, Any] = server.client.post(place, json={"source": source}, headers=headers).json()
    return answer


def events(server: Service, session: str) -> Iterator[tuple[int, str]]:
    """All events that there are now: number and JSON."""
    last = server.client.get(f"/v1/sessions/{session}").json()["last_event"]
    if last == 0:
        return
    with server.client.stream("GET", f"/v1/sessions/{session}/events") as stream:
        yield from follow(stream, last)


def follow(stream: httpx.Response, last: int | None = None) -> Iterator[tuple[int, str]]:
    """The events of a stream, up to a number."""
    number = 0
    for line in stream.iter_lines():
        if line.startswith("id: "):
            number = int(line[4:])
        elif line.startswith("data: "):
            yield number, line[6:]
            if number == last:
                return
