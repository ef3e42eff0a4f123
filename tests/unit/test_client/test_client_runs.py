"""run and run_until_done: functions of the caller fulfil the calls of a script until it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from codemode.cells.observation import Observation, ToolCallCounts
from codemode.client import AsyncCodeModeClient, CodeModeClient
from codemode.errors import CellNotFound, InvalidSource, ToolError
from tests.unit.test_client.client_helpers import Client, done, opened, texts

PATIENCE_S = 10  # for what comes at once, or never


async def test_a_script_calls_functions_of_the_caller(client: Client) -> None:
    """One after the other and with every kind of input; the final observation has all output and the whole count."""
    source = """
        let sum = 0;
        for (let n = 1; n <= 3; n++) { sum = await tools.add({sum, n}); text(sum); yield_control() }
        notify('almost'); text(await tools.echo()); text(await tools.echo({deep: [null, 'é']}))
    """
    functions = {"add": lambda given: given["sum"] + given["n"], "echo": lambda given: given}
    async with opened(client, "add", "echo") as session:
        observation: Observation = await done(session.run(source, functions))
        assert observation.usage.wall_ms <= observation.wall_time_ms
    assert (observation.status, observation.cursor) == ("completed", 6)
    assert texts(observation) == ["1", "3", "6", "{}", '{"deep":[null,"é"]}']
    assert observation.text.split("Output:\n")[1] == '\n1\n3\n6\n{}\n{"deep":[null,"é"]}'
    assert observation.text.startswith("Script completed\nWall time 0.")
    assert [notification.text for notification in observation.notifications] == ["almost"]
    assert observation.tool_calls == ToolCallCounts(completed=5)


async def test_calls_are_fulfilled_at_the_same_time(client: Client) -> None:
    """Each of the functions waits for the others to have been called."""
    together = threading.Barrier(5, timeout=PATIENCE_S)
    source = "text(await Promise.all([1, 2, 3, 4, 5].map(n => tools.meet({n}))))"
    async with opened(client, "meet") as session:
        observation = await done(session.run(source, {"meet": lambda given: (together.wait(), given["n"])[1]}))
    assert texts(observation) == ["[1,2,3,4,5]"]


async def test_a_slow_function_does_not_hold_up_a_quick_one(client: Client) -> None:
    """The script goes on with the quick result, and its next call lets the slow function end."""
    go_on = threading.Event()
    functions: dict[str, Callable[[Any], Any]] = {
        "slow": lambda _: go_on.wait(PATIENCE_S),
        "quick": lambda _: None,
        "release": lambda _: go_on.set(),
    }
    source = "const slow = tools.slow(); await tools.quick(); await tools.release(); text(await slow)"
    async with opened(client, *functions) as session:
        assert texts(await done(session.run(source, functions))) == ["true"]


async def test_a_function_that_outlives_the_script_is_not_waited_for(client: Client) -> None:
    """The answer comes when the script ends; what the function gives later is dropped, and harms nobody."""
    go_on = threading.Event()
    ended = threading.Event()

    def slow(_: Any) -> str:
        go_on.wait(PATIENCE_S)
        ended.set()
        return "too late"

    async with opened(client, "slow", "quick") as session:
        source = "tools.slow(); await tools.quick()"
        observation = await done(session.run(source, {"slow": slow, "quick": lambda _: None}))
        go_on.set()
        assert ended.wait(PATIENCE_S)
    assert observation.tool_calls == ToolCallCounts(completed=1, cancelled=1)
    assert observation.warnings == ["a call of slow was not awaited; it was cancelled when the script ended"]


def _fail(problem: BaseException) -> Any:
    raise problem


async def test_what_a_function_does_wrong_fails_its_call_alone(client: Client) -> None:
    """A ToolError says its text, another exception only its type; results that cannot be sent say why."""
    functions: dict[str, Callable[[Any], Any]] = {
        "refuse": lambda _: _fail(ToolError("not today")),
        "crash": lambda _: _fail(KeyError("/etc/secret")),
        "no_json": lambda _: {1, 2},
        "not_a_number": lambda _: float("nan"),
        "surrogate": lambda _: "\ud83d",
        "large": lambda _: "x" * 300_000,
        "huge": lambda _: "x" * 3_000_000,
    }
    source = """
        for (const name of ['refuse', 'crash', 'no_json', 'not_a_number', 'surrogate', 'large', 'huge', 'unknown'])
            try { await tools[name]({}); text('well') } catch (error) { text(error.message) }
    """
    async with opened(client, *functions, "unknown") as session:
        observation: Observation = await done(session.run(source, functions))
    beginnings = [
        "not today",
        "crash: it failed with KeyError",
        "no_json: its result cannot be written as JSON: Object of type set",
        "not_a_number: its result cannot be written as JSON: Out of range float",
        "the result was refused: the body is no JSON: ",
        "large: its result has 300002 bytes; at most 200000 are accepted",
        "the result was refused: the body has ",
        "unknown: the caller has no function that fulfils it",
    ]
    said = texts(observation)
    assert [text[: len(beginning)] for text, beginning in zip(said, beginnings, strict=True)] == beginnings
    assert said[1] == beginnings[1]


async def test_one_result_that_is_refused_takes_no_other_along(client: Client) -> None:
    """Results that are handed in together are handed in one by one when they are refused."""
    together = threading.Barrier(3, timeout=PATIENCE_S)

    def give(given: Any) -> str:
        together.wait()
        return "x" * int(given["size"])

    source = """
        const all = await Promise.allSettled([1, 2_000_000, 2].map(size => tools.give({size})));
        text(all.map(one => one.value ?? one.reason.message.slice(0, 23)))
    """
    async with opened(client, "give") as session:
        assert texts(await done(session.run(source, {"give": give}))) == ['["x","the result was refused:","xx"]']


async def test_the_budget_cuts_what_a_model_is_shown_alone(client: Client) -> None:
    """`output` has all, whether the budget comes from the caller, from the script's first line or from nobody."""
    line = "0123456789" * 100
    body = f"for (let i = 0; i < 60; i++) text('{line}'); await tools.f(); text('end')"
    cut = "Warning: truncated output (original token count: 15016)\nTotal output lines: 61\n\n"
    directive = '// @exec: {"max_output_tokens": 10}\n'
    async with opened(client, "f") as session:
        for source, budget, kept in [(body, None, 10_000), (body, 20, 20), (directive + body, 30, 10)]:
            functions = {"f": lambda _: None}
            observation: Observation = await done(session.run(source, functions, max_output_tokens=budget))
            assert texts(observation) == [line] * 60 + ["end"]
            assert observation.truncated
            shown = observation.model_output[1]["text"]
            assert shown.startswith(cut)
            assert len(shown) == len(cut) + kept * 4 + len(f"…{15_016 - kept} tokens truncated…")


async def test_a_model_is_shown_warnings_if_the_session_says_so(client: Client) -> None:
    """As the service shows them."""
    for wanted in (True, False):
        async with opened(client, model_warnings=wanted) as session:
            observation: Observation = await done(session.run("setTimeout(() => {}, 1e6)"))
        warning = "1 pending timer(s) were dropped when the script ended"
        assert observation.warnings == [warning]
        assert (f"Warnings:\n{warning}" in observation.text) is wanted


async def test_a_cell_that_runs_is_taken_to_its_end(client: Client) -> None:
    """With its pending calls, and with all output from its start, what was handed over before included."""
    async with opened(client, "f") as session:
        await done(session.exec("text('a'); text(await tools.f()); text('z')"))
        observation: Observation = await done(session.run_until_done("1", {"f": lambda _: "b"}, max_output_tokens=1))
        again: Observation = await done(session.run_until_done("1"))
        with pytest.raises(CellNotFound):
            await done(session.run_until_done("2"))
    assert texts(observation) == texts(again) == ["a", "b", "z"]
    assert (observation.truncated, again.truncated) == (True, False)


async def test_a_script_that_fails_raises_nothing(client: Client) -> None:
    """Its observation says why; only what cannot be run at all raises."""
    observation: Observation = await done(client.run("text('a'); null.f"))
    assert (observation.status, texts(observation)) == ("failed", ["a"])
    assert observation.error is not None
    assert observation.text.endswith(observation.error.text)
    with pytest.raises(InvalidSource):
        await done(client.run(" "))


async def test_async_functions_run_as_tasks(url: str) -> None:
    """At the same time as each other and as those of threads; what still runs is cancelled at the end."""
    met, release, cancelled = anyio.Event(), threading.Event(), []

    async def first(_: Any) -> str:
        await met.wait()
        return "first"

    async def second(_: Any) -> str:
        met.set()
        return "second"

    async def late(_: Any) -> None:
        release.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append("late")

    functions = {"first": first, "second": second, "late": late, "third": lambda _: release.wait(PATIENCE_S)}
    source = "tools.late(); text(await Promise.all([tools.first(), tools.second(), tools.third()]))"
    async with AsyncCodeModeClient(url) as client, opened(client, *functions) as session:
        observation: Observation = await done(session.run(source, functions))
    assert texts(observation) == ['["first","second",true]']
    assert cancelled == ["late"]


async def test_a_cancelled_run_terminates_its_cell(url: str) -> None:
    """Nobody would fulfil its calls any more."""
    async with AsyncCodeModeClient(url) as client, await client.create_session(tools=[{"name": "f"}]) as session:
        async with anyio.create_task_group() as tasks:

            async def give_up(_: Any) -> None:
                tasks.cancel_scope.cancel()
                await anyio.sleep_forever()

            tasks.start_soon(session.run, "await tools.f()", {"f": give_up})
        cells = await session.cells()
    assert [cell.status for cell in cells] == ["terminated"]


def test_an_interrupted_run_terminates_its_cell(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for a program that blocks and is interrupted from the keyboard."""
    is_over = threading.Event()
    with CodeModeClient(url) as client, client.create_session(tools=[{"name": "f"}]) as session:
        wait = session._flows.wait

        def interrupted(cell_id: str, **options: Any) -> Any:
            if not options.get("terminate"):
                raise KeyboardInterrupt
            return wait(cell_id, **options)

        monkeypatch.setattr(session._flows, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.run("await tools.f()", {"f": lambda _: is_over.wait(PATIENCE_S)})
        is_over.set()
        assert [cell.status for cell in session.cells()] == ["terminated"]
