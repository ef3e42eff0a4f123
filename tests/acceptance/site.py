"""A server with everything that acceptance needs, and a session on it as a client sees it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from codemode.lifecycle.auditor import LifecycleAuditor
from codemode.lifecycle.hook_auditor import HookAuditor
from tests.acceptance.receiver import Payload, Receiver
from tests.faults.rig import Service, service, until_found
from tests.faults.told import events as events_of
from tests.faults.told import follow

Event = dict[str, Any]
IDENTITY = ("tool_use_id", "tool_name", "tool_source")


@dataclass
class Site:
    """A server, the receiver of its hooks, and the workspace of its commands."""

    server: Service
    receiver: Receiver
    workspace: Path

    def session(self, payload: str = "minimal", **body: Any) -> Client:
        """A new session, both hooks of which are told to the receiver."""
        receiver = self.receiver
        tools = [receiver.tool(name) for name in ("echo", "fail", "hang")] + [{"name": "ask"}]
        hooks = [receiver.hook(event, payload=payload) for event in ("PreToolUse", "PostToolUse")]
        return Client(self.server, receiver, self.server.session(**{"tools": tools, "hooks": hooks, **body}))


@dataclass
class Client:
    """A session."""

    server: Service
    receiver: Receiver
    session_id: str
    stream: Stream | None = field(default=None, init=False)

    # Requests

    def exec(self, source: str, **body: Any) -> dict[str, Any]:
        return self.server.exec(source, self.session_id, **body)

    def wait(self, cell_id: str, **body: Any) -> dict[str, Any]:
        return self.server.wait(cell_id, self.session_id, **body)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.server.post(path, self.session_id, **body)

    def attempt(self, path: str, **body: Any) -> None:
        """The same on a server that may be killed by it: no answer is waited for."""
        with contextlib.suppress(httpx.HTTPError):
            self.post(path, **body)

    def call(self, tool: str, value: Any = None, **body: Any) -> dict[str, Any]:
        """A direct call."""
        response = self.post(f"tools/{tool}", **({} if value is None else {"input": value}), **body)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def get(self, path: str) -> Any:
        response = self.server.client.get(f"/v1/sessions/{self.session_id}/{path}")
        assert response.status_code == 200, response.text
        return response.json()

    def end_turn(self, turn_id: str, **body: Any) -> dict[str, Any]:
        response = self.post(f"turns/{turn_id}/end", **body)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    def delete(self) -> list[Event]:
        """End it; its whole history, the deletion included."""
        stream = self.follow()
        assert self.server.client.delete(f"/v1/sessions/{self.session_id}").status_code == 204
        return stream.whole()

    # What is told of it

    def follow(self) -> Stream:
        """Its events from the start to its end, read beside the test."""
        if self.stream is None:
            self.stream = Stream(self.server, self.session_id)
        return self.stream

    def events(self) -> list[Event]:
        """Those that there are now."""
        return [json.loads(data) for _, data in events_of(self.server, self.session_id)]

    def until_event(self, type_: str, **fields: Any) -> Event:
        """The first event with these fields, waited for."""
        wanted = {"type": type_, **fields}.items()

        def found() -> Event | None:
            return next(
                (each for each in self.events() if all(each.get(name) == value for name, value in wanted)), None
            )

        event: Event = until_found(found, f"{type_} with {fields}")
        return event

    @property
    def told(self) -> list[Payload]:
        """What hooks were told."""
        return self.receiver.of(self.session_id)

    def lifecycle(self) -> dict[str, Any]:
        """What the server makes of its own events."""
        found: dict[str, Any] = self.get("lifecycle")
        return found

    def is_whole(self, *, open_calls: int = 0) -> list[Event]:
        """Check that server, events and hooks tell the same, without a finding; the events."""
        report = self.lifecycle()
        assert (report["ok"], report["complete"], report["findings"]) == (True, True, []), report
        assert len(report["open"]) == open_calls, report
        events = self.events()
        until_found(lambda: len(self.told) >= len(hooked(events)), "hooks were told of all")
        check(self.session_id, events, self.told, is_over=not open_calls)
        return events


class Stream:
    """The events of a session, read in a thread until the stream ends."""

    def __init__(self, server: Service, session_id: str, after: int = 0) -> None:
        self.events: list[Event] = []
        self._url = f"{server.url}/v1/sessions/{session_id}/events?after={after}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(15)

    def _run(self) -> None:
        with contextlib.suppress(httpx.HTTPError):
            with httpx.stream("GET", self._url, timeout=60, trust_env=False) as response:
                self._ready.set()
                for _, data in follow(response):
                    self.events.append(json.loads(data))
        self._ready.set()

    def whole(self) -> list[Event]:
        """All of them, when the stream has ended."""
        self._thread.join(20)
        assert not self._thread.is_alive(), "the stream goes on"
        return self.events


def audited(session_id: str, events: list[Event], *, is_over: bool) -> list[Any]:
    """What a LifecycleAuditor finds in events."""
    auditor = LifecycleAuditor(session_id)
    for event in events:
        auditor.take(event)
    if is_over:
        auditor.finish()
    return auditor.findings


def hooks_audited(session_id: str, payloads: list[Payload], *, is_over: bool) -> list[Any]:
    """What a HookAuditor finds in payloads."""
    auditor = HookAuditor(session_id)
    for payload in payloads:
        auditor.take(payload)
    if is_over:
        auditor.finish()
    return auditor.findings


def hooked(events: list[Event]) -> list[Event]:
    """Those that hooks are told of too."""
    return [each for each in events if each["type"] in ("tool_call/started", "tool_call/ended")]


def check(session_id: str, events: list[Event], payloads: list[Payload], *, is_over: bool) -> None:
    """Both histories are without a finding, and of the same calls, which ended the same way."""
    assert audited(session_id, events, is_over=is_over) == []
    assert hooks_audited(session_id, payloads, is_over=is_over) == []
    assert _summary(hooked(events), "type", "tool_call/ended") == _summary(payloads, "hook_event_name", "PostToolUse")


def _summary(told: list[Event], kind: str, end: str) -> dict[tuple[str, bool], list[Any]]:
    return {
        (each["tool_use_id"], each[kind] == end): [*(each[name] for name in IDENTITY), each.get("tool_status")]
        for each in told
    }


@contextmanager
def site(receiver: Receiver, folder: Path, *flags: str, may_complain: bool = False) -> Iterator[Site]:
    """A server of its own; see `tests.faults.rig.service`."""
    workspace = folder / "workspace"
    workspace.mkdir(exist_ok=True)
    with service(folder, *options(receiver, workspace), *flags, may_complain=may_complain) as server:
        try:
            yield Site(server, receiver, workspace)
        except BaseException:  # of a test that fails as expected no connection may be left
            server.client.close()
            raise


def options(receiver: Receiver, workspace: Path) -> tuple[str, ...]:
    return ("--workspace", str(workspace), "--allow-exec", "--allow-tool-url", f"{receiver.url}/")
