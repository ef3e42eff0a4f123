"""Connections that are cut after a request went through: nothing is lost, and nothing is done twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from itertools import groupby
from typing import Any

import httpx
import pytest

from codemode.cells.observation import Observation
from codemode.client import AsyncCodeModeClient, CodeModeClient, ToolResult, patience
from codemode.errors import SessionNotFound, ToolCallAlreadyResolved
from tests.unit.test_client.client_helpers import Client, Session, done, opened, texts
from tests.unit.test_client.cutting_proxy import CuttingProxy, Fate, cutting_proxy

BEFORE_THE_END: list[Fate] = ["lose", "cut", "half-open"]

# Says how often it ran, and waits for the caller in between.
SOURCE = """
    store('runs', (load('runs') ?? 0) + 1);
    text(`a${load('runs')}`); await tools.gate(); text('b'); await tools.gate(); text('c')
"""


@pytest.fixture(scope="module")
def proxy(url: str) -> Iterator[CuttingProxy]:
    with cutting_proxy(url) as proxy:
        yield proxy


@pytest.fixture(params=[CodeModeClient, AsyncCodeModeClient], scope="module")
async def client(request: pytest.FixtureRequest, proxy: CuttingProxy) -> AsyncIterator[Client]:
    client: Client = request.param(proxy.url)
    yield client
    await done(client.close())


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "_FIRST_DELAY_S", 0.005)


@pytest.fixture
async def session(client: Client, proxy: CuttingProxy) -> AsyncIterator[Session]:
    async with opened(client, "gate") as session:
        proxy.requests.clear()
        yield session
        assert not proxy.fates


def first(observation: Observation) -> tuple[str, list[str], list[str]]:
    """How it stands, its output, and its calls."""
    calls = [call.runtime_tool_call_id for call in observation.pending_tool_calls]
    return observation.status, texts(observation), calls


async def to_the_end(session: Session, seen: Observation) -> tuple[str, list[str]]:
    """How it ends, and all its output from this answer on: one that asks again is told at once what is there."""
    output = texts(seen)
    while seen.is_running:
        seen = await done(session.wait("1"))
        output += texts(seen)
    return seen.status, output


def gate(number: int) -> list[ToolResult]:
    return [ToolResult("1", f"call-{number}", None)]


@pytest.mark.parametrize("fate", [*BEFORE_THE_END, "halve"])
async def test_exec_runs_once_and_its_answer_is_had_again(session: Session, proxy: CuttingProxy, fate: Fate) -> None:
    """Whether the script had ended, waited for the caller, or still ran when the connection was cut."""
    proxy.fates += [fate, fate]
    observation: Observation = await done(session.exec(SOURCE))
    assert first(observation) == ("running", ["a1"], ["call-1"])
    assert proxy.requests == ["exec"] * 3
    proxy.fates.append(fate)
    observation = await done(session.exec("text(`${load('runs')}`)"))
    assert first(observation) == ("completed", ["undefined"], [])
    assert [cell.cell_id for cell in await done(session.cells())] == ["1", "2"]


async def test_exec_without_a_key_raises_at_once(session: Session, proxy: CuttingProxy) -> None:
    """The caller has to know that the script may have run."""
    proxy.fates.append("lose")
    with pytest.raises(httpx.RemoteProtocolError):
        await done(session.exec("1", idempotency_key=False))
    assert proxy.requests == ["exec"]


async def test_a_key_of_the_caller_is_used(session: Session) -> None:
    """So that another process may ask again after this one has gone."""
    await done(session.exec("text('a')", idempotency_key="k"))
    again: Observation = await done(session.exec("text('a')", idempotency_key="k"))
    other: Observation = await done(session.exec("text('a')"))
    assert (first(again), again.cell_id, other.cell_id) == (("completed", ["a"], []), "1", "2")


@pytest.mark.parametrize("fate", BEFORE_THE_END)
async def test_what_a_lost_wait_took_is_had_again(session: Session, proxy: CuttingProxy, fate: Fate) -> None:
    """From the last cursor that was seen on, neither more nor less: on the way, and at the end."""
    await done(session.exec(SOURCE))
    await done(session.tool_results(gate(1)))
    proxy.fates += [fate, fate]
    observation: Observation = await done(session.wait("1"))
    seen = texts(observation)
    while not observation.pending_tool_calls:
        observation = await done(session.wait("1"))
        seen += texts(observation)
    assert (seen, first(observation)[2]) == (["b"], ["call-2"])
    await done(session.tool_results(gate(2)))
    proxy.fates.append(fate)
    assert await to_the_end(session, await done(session.wait("1"))) == ("completed", ["c"])
    assert [each for each, _ in groupby(proxy.requests)] == ["exec", "tool_results", "wait", "tool_results", "wait"]


@pytest.mark.parametrize("fate", ["cut", "half-open"])
async def test_what_the_service_answers_to_a_lost_call_is_had_again(
    session: Session, proxy: CuttingProxy, fate: Fate
) -> None:
    """The service may not know of the cut: it refuses another wait, and hands output to nobody in the end.

    Neither is seen by the caller, in this wait and in those that follow.
    """
    source = """
        text('0'); await tools.gate();
        for (let i = 1; i <= 10; i++) { await new Promise(go => setTimeout(go, 15)); text(String(i)) }
    """
    observation: Observation = await done(session.exec(source))
    seen = texts(observation)
    await done(session.tool_results(gate(1)))
    proxy.fates.append(fate)
    while observation.is_running:
        observation = await done(session.wait("1", yield_time_ms=50))
        seen += texts(observation)
    assert (seen, observation.status) == ([str(i) for i in range(11)], "completed")


async def test_results_are_taken_while_a_lost_wait_is_pending(session: Session, proxy: CuttingProxy) -> None:
    """They do not have to wait for its end, and what it takes is had again."""
    await done(session.exec(SOURCE))
    proxy.fates.append("half-open")
    asked: Observation = await done(session.wait("1", yield_time_ms=200))
    assert first(asked) == ("running", [], ["call-1"])
    asked = await done(session.tool_results(gate(1), cell_id="1"))
    seen = texts(asked)
    while not (asked.pending_tool_calls and asked.pending_tool_calls[0].runtime_tool_call_id == "call-2"):
        asked = await done(session.wait("1"))
        seen += texts(asked)
    assert seen == ["b"]
    assert await to_the_end(session, await done(session.tool_results(gate(2), cell_id="1"))) == ("completed", ["c"])


async def test_a_lost_wait_of_a_cell_never_seen_is_had_from_the_start(
    session: Session, client: Client, proxy: CuttingProxy
) -> None:
    """A program that has started again and knows the cell's id only loses nothing either."""
    await done(session.exec(SOURCE))
    found: Session = await done(client.session(session.session_id))
    await done(session.tool_results(gate(1)))
    proxy.fates.append("lose")
    assert first(await done(found.wait("1"))) == ("running", ["a1", "b"], ["call-2"])


@pytest.mark.parametrize("fate", BEFORE_THE_END)
async def test_a_lost_terminate_ends_the_cell(
    session: Session, client: Client, proxy: CuttingProxy, fate: Fate
) -> None:
    """And no output is lost that this client has not seen."""
    await done(session.exec(SOURCE))
    other: Session = await done(client.session(session.session_id))
    assert first(await done(other.tool_results(gate(1), cell_id="1"))) == ("running", ["b"], ["call-2"])
    proxy.fates.append(fate)
    assert first(await done(session.terminate("1"))) == ("terminated", ["b"], [])


@pytest.mark.parametrize("fate", BEFORE_THE_END)
async def test_a_call_that_a_lost_answer_named_is_named_again_at_once(
    session: Session, proxy: CuttingProxy, fate: Fate
) -> None:
    """A call ends one wait only, so a retry that waited would find out after the whole yield time."""
    proxy.fates.append(fate)
    asked: Observation = await done(session.exec("await tools.gate(); await tools.gate(); await tools.gate()"))
    assert first(asked) == ("running", [], ["call-1"])
    proxy.fates.append(fate)
    asked = await done(session.tool_results(gate(1), cell_id="1"))
    assert first(asked) == ("running", [], ["call-2"])
    await done(session.tool_results(gate(2)))
    proxy.fates.append(fate)
    asked = await done(session.wait("1"))
    assert first(asked) == ("running", [], ["call-3"])
    assert asked.usage.wall_ms < 5000


@pytest.mark.parametrize("fate", BEFORE_THE_END)
async def test_results_are_handed_in_once(session: Session, proxy: CuttingProxy, fate: Fate) -> None:
    """A retry that finds them taken is no error: the caller gets the observation that was lost."""
    await done(session.exec(SOURCE))
    proxy.fates.append(fate)
    assert first(await done(session.tool_results(gate(1), cell_id="1"))) == ("running", ["b"], ["call-2"])
    proxy.fates.append(fate)
    assert await done(session.tool_results(gate(2))) == 1
    assert first(await done(session.wait("1"))) == ("completed", ["c"], [])
    with pytest.raises(ToolCallAlreadyResolved):  # this time it is one
        await done(session.tool_results(gate(2), cell_id="1"))


async def test_results_of_an_ended_cell_take_no_others_along(session: Session, proxy: CuttingProxy) -> None:
    """After a lost answer, those of cells that take no more are left out and the rest is handed in."""
    for _ in "12":
        await done(session.exec("text(await tools.gate())"))
    await done(session.terminate("1"))
    proxy.fates.append("cut")
    results = [ToolResult(cell_id, "call-1", cell_id) for cell_id in "12"]
    state, *rest = first(await done(session.tool_results(results, cell_id="2")))
    assert (state in ("running", "completed"), *rest) == (True, ["2"], [])  # the retry may come before the end
    assert first(await done(session.wait("2")))[0] == "completed"


@pytest.mark.parametrize("fate", [*BEFORE_THE_END, "halve"])
async def test_a_run_survives_cut_connections(session: Session, proxy: CuttingProxy, fate: Fate) -> None:
    """Every second connection is cut, and each call is fulfilled once."""
    given: list[Any] = []
    source = """
        for (let n = 1; n <= 5; n++) { await tools.gate({n}); text(String(n)) }
        await Promise.all([6, 7, 8].map(n => tools.gate({n})))
    """
    proxy.fates += [fate, "answer"] * 5
    observation: Observation = await done(session.run(source, {"gate": lambda call: given.append(call["n"])}))
    proxy.fates.clear()
    assert first(observation) == ("completed", ["1", "2", "3", "4", "5"], [])
    assert sorted(given) == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_a_lost_deletion_is_one(session: Session, client: Client, proxy: CuttingProxy) -> None:
    """The retry finds no session, as it should be."""
    proxy.fates.append("lose")
    await done(session.delete())
    with pytest.raises(SessionNotFound):
        await done(session.cells())


async def test_a_session_is_not_made_twice(client: Client, proxy: CuttingProxy) -> None:
    """A lost answer raises: nobody could find the first one."""
    proxy.requests.clear()
    proxy.fates.append("lose")
    with pytest.raises(httpx.RemoteProtocolError):
        await done(client.create_session())
    assert proxy.requests == ["sessions"]


async def test_a_client_without_patience_raises_the_loss(proxy: CuttingProxy) -> None:
    """As it was."""
    for kind in (CodeModeClient, AsyncCodeModeClient):
        proxy.requests.clear()
        proxy.fates.append("lose")
        client: Client = kind(proxy.url, patience_s=0)
        with pytest.raises(httpx.RemoteProtocolError):
            await done(client.exec("1"))
        await done(client.close())
        assert (proxy.requests, [*proxy.fates]) == (["exec"], [])


async def test_a_result_that_was_settled_before_takes_no_other_along(session: Session, proxy: CuttingProxy) -> None:
    """A lost post that named it took nothing, so the rest is posted; and one that took all is found out."""
    source = "const both = await Promise.all([tools.gate(), tools.gate()]); text(both); await tools.gate()"
    await done(session.exec(source))
    await done(session.tool_results(gate(1)))
    proxy.fates.append("lose")
    observation: Observation = await done(session.tool_results([*gate(1), *gate(2)], cell_id="1"))
    assert first(observation) == ("running", ["[null,null]"], ["call-3"])
    proxy.fates.append("lose")
    assert await done(session.tool_results(gate(3))) == 1
