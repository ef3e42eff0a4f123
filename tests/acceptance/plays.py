"""Random lives of sessions: scripts that call tools in all ways, direct calls, decisions, ends of all kinds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from tests.acceptance.receiver import ALLOW, Payload, Receiver, decision
from tests.acceptance.site import Client, Site, Stream

HOOK_MS = 2000
APPROVAL_MS = 200


def tools(receiver: Receiver) -> list[dict[str, Any]]:
    """What the sessions declare beside the commands."""
    return [
        *(receiver.tool(name) for name in ("echo", "fail", "hang")),
        {"name": "ask"},
        receiver.tool("risky", "echo", requires_approval=True),
        receiver.tool("late", "hang", timeout_ms=30),
        receiver.tool("few", "echo", max_calls=1, max_concurrency=1),
        receiver.tool("inside", "echo", allowed_callers=["programmatic"]),
    ]


def answer(told: Payload) -> Any:
    """What hooks say: by the call's id, so that a repeat would get the same. None never answers."""
    chance = Random(told["tool_use_id"] + told["hook_event_name"]).random()
    if told["hook_event_name"] == "PostToolUse":
        return None if chance < 0.001 else {"nonsense": 1} if chance < 0.03 else ALLOW
    if chance < 0.08:
        return decision("deny")
    if chance < 0.2:
        return decision("ask")
    return None if chance < 0.201 else {"nonsense": 1} if chance < 0.23 else ALLOW


def call(random: Random) -> tuple[str, Any]:
    """A use of a tool, and its input."""
    kind = random.randrange(20)
    if kind < 8:
        return random.choice(("echo", "echo", "fail", "few", "inside", "late", "risky", "no_such_tool")), {"n": kind}
    if kind < 10:
        return random.choice(("hang", "ask")), {}
    if kind < 12:
        given = {"command": f"exit {random.choice((0, 0, 3))}", "timeout_ms": random.choice((10, 5000))}
        return "shell_command", given | {"command": f"sleep 0.05; {given['command']}"} if kind == 11 else given
    if kind < 13:
        return "exec_command", {"cmd": "true", "with_escalated_permissions": True}
    if kind < 14:
        return "exec_command", {"cmd": 5} if random.random() < 0.5 else {"cmd": "true", "workdir": "/none"}
    if kind < 15:
        return "write_stdin", {"session_id": random.randrange(1000, 1005), "chars": "x\n", "yield_time_ms": 10}
    command = random.choice((f"sleep 0.0{random.randrange(1, 9)}; exit {random.randrange(3)}", "sleep 600", "cat"))
    waiting = random.choice((0, 0, 0, 30, 10_000 if "exit" in command else 0))
    return "exec_command", {"cmd": command, "yield_time_ms": waiting, "tty": command == "cat"}


def script(random: Random) -> str:
    """A script of a few statements."""
    lines = [_statement(random) for _ in range(random.randint(0, 8))]
    last = random.random()
    if last < 0.08:
        lines.append("throw new Error('on purpose')")
    elif last < 0.1:
        lines.append("for (;;) {}")
    elif last < 0.12:
        lines.append("this is no script")
    return ";\n".join(lines)


def _statement(random: Random) -> str:
    uses = [
        f"tools.{name}?.({json.dumps(given)})" for name, given in (call(random) for _ in range(random.randint(1, 4)))
    ]
    how = random.randrange(8)
    if how < 3:
        return f"await {uses[0]}?.catch((e) => text(e.code))"
    if how < 4:
        return f"await {uses[0]}" if random.random() < 0.3 else f"await {uses[0]}?.finally(() => 0).catch(() => 0)"
    if how < 6:
        return f"text((await Promise.allSettled([{', '.join(uses)}])).length)"
    if how < 7:
        return f"{uses[0]}?.catch(() => 0)"  # nobody waits for it
    return random.choice(
        ("text('on')", "notify('on')", "yield_control()", "await new Promise((r) => setTimeout(r, 20))")
    )


@dataclass
class Life:
    """A session while it is played."""

    client: Client
    random: Random
    cells: list[str] = field(default_factory=list)
    kills: int = 0  # of servers, that it has outlived
    deleting: bool = False
    is_over: bool = False  # it was deleted, and its stream has ended

    def play(self, actions: int) -> None:
        """Do so many things, or fewer if the server is lost."""
        acts: list[Callable[[], Any]] = [self.run] * 5 + [self.direct, self.direct, self.look, self.terminate]
        acts += [self.decide, self.decide, self.hand_in, self.turn, self.processes, self.person]
        for _ in range(actions):
            self.random.choice(acts)()

    def run(self) -> None:
        body: dict[str, Any] = {"source": script(self.random), "yield_time_ms": self.random.choice((0, 20, 100, 300))}
        if self.random.random() < 0.5:
            body["tool_call_id"] = f"exec-{self.random.randrange(10**6)}"
        if self.random.random() < 0.7:
            body["turn_id"] = f"t-{self.random.randrange(3)}"
        seen = self.client.post("exec", **body).json()
        if "cell_id" in seen:
            self.cells.append(seen["cell_id"])

    def direct(self) -> None:
        name, given = call(self.random)
        if name == "write_stdin":
            given |= {
                "session_id": self.random.choice([each["session_id"] for each in self.client.get("processes")] or [1])
            }
        body: dict[str, Any] = {"input": given}
        if self.random.random() < 0.3:
            body["tool_use_id"] = f"mine-{self.random.randrange(3)}"
        if self.random.random() < 0.5:
            body["turn_id"] = f"t-{self.random.randrange(3)}"
        url = f"{self.client.server.url}/v1/sessions/{self.client.session_id}/tools/{name}"
        try:
            httpx.post(url, json=body, timeout=0.3, trust_env=False)  # then this client hangs up
        except httpx.ReadTimeout:
            pass

    def look(self) -> None:
        if self.cells:
            self.client.post("wait", cell_id=self.random.choice(self.cells), yield_time_ms=self.random.choice((0, 50)))

    def terminate(self) -> None:
        if self.cells:
            self.client.post("wait", cell_id=self.random.choice(self.cells), terminate=True)

    def decide(self) -> None:
        for asked in self.client.get("approvals"):
            verdict = self.random.choice(("accept", "accept", "accept", "decline", "cancel", "leave"))
            if verdict != "leave":
                settings = {"for_session": True} if self.random.random() < 0.2 else {}
                self.client.post(f"approvals/{asked['approval_id']}", decision=verdict, accept_settings=settings)

    def hand_in(self) -> None:
        for cell in self.cells[-3:]:
            seen = self.client.post("wait", cell_id=cell, yield_time_ms=0).json()
            for pending in seen.get("pending_tool_calls", ()):
                result = {name: pending[name] for name in ("cell_id", "runtime_tool_call_id")}
                result |= {"output": 1} if self.random.random() < 0.7 else {"error": "no"}
                self.client.post("tool_results", results=[result])

    def turn(self) -> None:
        self.client.end_turn(f"t-{self.random.randrange(3)}", detach=self.random.random() < 0.3)

    def processes(self) -> None:
        for process in self.client.get("processes"):
            if self.random.random() < 0.5:
                place = f"/v1/sessions/{self.client.session_id}/processes/{process['session_id']}"
                self.client.server.client.delete(place)

    def person(self) -> None:
        self.client.post("user_shell", command=self.random.choice(("echo on", "sleep 600", "exit 3")))

    def wind_down(self) -> None:
        """End all that runs, without deleting the session."""
        for cell in self.cells:
            self.client.post("wait", cell_id=cell, terminate=True)
        for process in self.client.get("processes"):
            self.client.server.client.delete(f"/v1/sessions/{self.client.session_id}/processes/{process['session_id']}")

    def follow(self) -> Stream:
        return self.client.follow()


def begin(site: Site, seed: int) -> Life:
    """A new session, which is followed from its start."""
    receiver = site.receiver
    hooks = [receiver.hook(event, payload="minimal", timeout_ms=HOOK_MS) for event in ("PreToolUse", "PostToolUse")]
    limits = {"approval_ms": APPROVAL_MS, "cpu_ms": 100}
    policy = "on_request" if seed % 4 else "never"
    client = site.session(hooks=hooks, tools=tools(receiver), approval_policy=policy, limits=limits)
    life = Life(client, Random(seed))
    life.follow()
    return life
