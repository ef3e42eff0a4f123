"""Results that arrive while a script is busy."""

from __future__ import annotations

import time

import pytest

from tests.faults.rig import Service, texts

BUSY = "const end = Date.now() + %d; while (Date.now() < end);"


@pytest.mark.parametrize("busy_ms", [0, 30, 100, 300])
@pytest.mark.parametrize("size", [10, 8_000_000])
def test_a_result_that_arrives_during_the_first_turn_is_taken(server: Service, busy_ms: int, size: int) -> None:
    """Whole or in pieces, with the script busy all the while or part of it."""
    end = server.exec(f"const result = tools.big({{size: {size}}}); {BUSY % busy_ms} text((await result).length)")
    assert (end["status"], texts(end)) == ("completed", [str(size)]), end["error"]


@pytest.mark.parametrize("busy_ms", [0, 100])
def test_a_client_call_is_told_of_at_once_behind_such_a_result(server: Service, busy_ms: int) -> None:
    """The early answer does not wait for the yield."""
    session = server.session(tools=[{"name": "caller"}])
    began = time.monotonic()
    source = f"const result = tools.echo({{value: 1}}); {BUSY % busy_ms} await result; await tools.caller({{}})"
    answer = server.exec(source, session, yield_time_ms=10_000)
    took = time.monotonic() - began
    assert (answer["status"], len(answer["pending_tool_calls"]), took < 5) == ("running", 1, True), took


def test_many_large_results_during_busy_turns(server: Service) -> None:
    """Several at once, each followed by a busy moment."""
    source = f"""
        const lengths = [];
        const one = async (n) => {{
          const got = await tools.big({{size: n * 500_000}});
          {BUSY % 20}
          lengths.push(got.length);
        }};
        const all = Promise.all([1, 2, 3, 4, 5, 6, 7, 8].map(one));
        {BUSY.replace("end", "stop") % 50}
        await all;
        text(lengths.sort((a, b) => a - b).join());
    """
    end = server.exec(source, yield_time_ms=20_000)
    expected = ",".join(str(number * 500_000) for number in range(1, 9))
    assert (end["status"], texts(end)) == ("completed", [expected]), end["error"]
