"""How long clients go on asking a service that is away or refuses, with a clock of the test's own: nothing waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import httpx
import pytest

from codemode import CodeModeError, JournalUnavailable, ShuttingDown, ToolResult, TooManyCells
from codemode.client import flows
from codemode.client.events import Following
from codemode.client.flows import SessionFlows
from codemode.client.requests import Flow
from tests.unit.test_client.test_client_requests import OBSERVATION

Answer = httpx.Response | httpx.TransportError

LOSS = httpx.ConnectError("refused")
WELL = httpx.Response(200, json=asdict(OBSERVATION))
NO_END = 10_000


def refusal(code: str, status: int = 503, retry_after: str | None = "1") -> httpx.Response:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return httpx.Response(status, json={"code": code, "detail": "no"}, headers=headers)


class Clock:
    """Time passes when something waits for it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def play(self, flow: Flow[Any], answers: Iterable[Answer]) -> tuple[Any, list[float]]:
        """What comes of a flow that gets these answers, and the pauses that it made."""
        pauses = []
        request = next(flow)
        for answer in answers:
            pauses.append(request.delay_s)
            self.now += request.delay_s
            try:
                request = flow.throw(answer) if isinstance(answer, httpx.TransportError) else flow.send(answer)
            except StopIteration as end:
                return end.value, pauses
            except (CodeModeError, httpx.TransportError) as problem:
                return problem, pauses
        raise AssertionError("it goes on")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


ASKS: dict[str, Callable[[float], Flow[Any]]] = {
    "exec": lambda s: SessionFlows("s", s).exec("1"),
    "wait": lambda s: SessionFlows("s", s).wait("1"),
    "tool_results": lambda s: SessionFlows("s", s).hand_in([ToolResult("1", "call-1")]),
    "tool_results of a cell": lambda s: SessionFlows("s", s).hand_in_and_wait([ToolResult("1", "call-1")], "1"),
    "cells": lambda s: SessionFlows("s", s).cells(),
    "tool_specs": lambda s: SessionFlows("s", s).tool_specs("mcp"),
    "cell": lambda s: SessionFlows("s", s).cell("1"),
    "session": lambda s: SessionFlows("s", s).show(),
    "delete": lambda s: SessionFlows("s", s).delete(),
    "sessions": flows.sessions,
    "create_session": lambda s: flows.create_session(patience_s=s),
}


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_an_outage_is_outlasted(clock: Clock, ask: Callable[[float], Flow[Any]]) -> None:
    """For so many seconds, the last attempt at their end, with pauses that double up to two seconds."""
    problem, pauses = clock.play(ask(60), [LOSS] * NO_END)
    assert problem is LOSS
    assert pauses[:8] == [0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0]
    assert (max(pauses), sum(pauses)) == (2.0, pytest.approx(60))


@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
@pytest.mark.parametrize("code", ["shutting_down", "overloaded", "journal_unavailable", "isolation_unavailable"])
def test_a_refusal_that_passes_is_outlasted(clock: Clock, ask: Callable[[float], Flow[Any]], code: str) -> None:
    """Asked again when the service says; at last it is raised."""
    problem, pauses = clock.play(ask(10), [refusal(code, retry_after="3")] * NO_END)
    assert (problem.code, problem.fields) == (code, {"retry_after_s": 3})
    assert pauses == [0, 3, 3, 3]


def test_what_came_of_it_is_answered(clock: Clock) -> None:
    """Losses and refusals belong to one outage; a refusal without a time is like a loss."""
    answers = [LOSS, refusal("shutting_down"), refusal("overloaded", retry_after=None), LOSS, WELL]
    observation, pauses = clock.play(SessionFlows("s", 60).exec("1"), answers)
    assert (observation, pauses) == (OBSERVATION, [0, 0.05, 1, 0.2, 0.4])


def test_a_time_that_is_too_late_is_not_waited_for(clock: Clock) -> None:
    """Nor is the service asked before it."""
    problem, pauses = clock.play(SessionFlows("s", 60).wait("1"), [refusal("journal_unavailable", retry_after="61")])
    assert (type(problem), pauses) == (JournalUnavailable, [0])


@pytest.mark.parametrize(
    ("flow", "answer", "kind"),
    [
        (SessionFlows("s", 60).exec("1"), refusal("too_many_cells", 429), TooManyCells),
        (SessionFlows("s", 60).exec("1", idempotency_key=False), refusal("shutting_down"), ShuttingDown),
        (SessionFlows("s", 60).exec("1", idempotency_key=False), LOSS, httpx.ConnectError),
        (SessionFlows("s", 60).exec("1"), refusal("new", 503), CodeModeError),
        (flows.create_session(patience_s=60), httpx.ReadError("reset"), httpx.ReadError),
        (flows.ask("/readyz"), refusal("isolation_unavailable"), CodeModeError),
        (SessionFlows("s", 0).cells(), LOSS, httpx.ConnectError),
    ],
)
def test_what_is_not_asked_again(clock: Clock, flow: Flow[Any], answer: Answer, kind: type[Exception]) -> None:
    """What does not pass by itself, what could be done twice, what asks for the present; without patience, nothing."""
    problem, pauses = clock.play(flow, [answer])
    assert isinstance(problem, kind)
    assert pauses == [0]


def test_each_outage_has_the_whole_budget(clock: Clock) -> None:
    """Polls of an hour survive one outage after another."""
    quiet = asdict(OBSERVATION) | {"status": "running", "output": [], "notifications": [], "pending_tool_calls": []}
    outage: list[Answer] = [*[LOSS] * 8, httpx.Response(202, json=quiet)]
    observation, pauses = clock.play(SessionFlows("s", 15).wait("1", yield_time_ms=3_600_000), [*outage * 20, WELL])
    assert (observation, sum(pauses) > 60) == (OBSERVATION, True)


def attempts_in_vain(clock: Clock, following: Following, problem: Exception | None = LOSS) -> list[float]:
    """The pauses before attempts of which nothing comes, until the problem is raised."""
    pauses = []
    while True:
        pauses.append(following.request().delay_s)
        clock.now += pauses[-1]
        try:
            following.cut(problem)
        except httpx.TransportError:
            return pauses


def test_following_outlasts_an_outage_from_the_last_sign_of_life(clock: Clock) -> None:
    """Each event and each heartbeat gives the whole budget; a stream that says nothing does not."""
    following = Following("s", 0, None, 60)
    for line in (": nothing new", 'data: {"seq": 1, "type": "cell/started"}'):
        for _ in range(20):
            following.request()
            following.cut(LOSS)
            clock.now += 2.9
        following.take(line)
    following.cut(LOSS)
    following.take("retry: 1000")
    pauses = attempts_in_vain(clock, following)
    assert (pauses[:2], sum(pauses)) == ([0.05, 0.1], pytest.approx(60))
    assert following.request().headers["Last-Event-ID"] == "1"
    with pytest.raises(httpx.RemoteProtocolError, match="again and again"):
        following.cut()


def test_following_outlasts_a_refusal_that_passes(clock: Clock) -> None:
    """It is asked again when the service says; at last the refusal is raised, and one that does not pass at once."""
    following = Following("s", 0, None, 5)
    for delay in (0, 2, 2):
        assert following.request().delay_s == delay
        clock.now += delay
        assert not following.begins(refusal("journal_unavailable", retry_after="2"))
        if delay != 2 or clock.now < 1004:
            following.cut()
    with pytest.raises(JournalUnavailable):
        following.cut()
    with pytest.raises(CodeModeError, match="no"):
        following.begins(refusal("session_not_found", 404))
