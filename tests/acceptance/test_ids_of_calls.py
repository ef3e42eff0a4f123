"""The id of a call names one call of its session, whoever gives it: no history has it twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.receiver import Receiver
from tests.acceptance.site import Client, Site, site


def test_an_id_of_a_direct_call_is_not_taken_again(here: Site) -> None:
    """While it is under way, and after it has ended, well or not."""
    client = here.session()
    for tool, given in (("echo", {}), ("fail", {}), ("exec_command", {"cmd": "sleep 600", "yield_time_ms": 0})):
        client.call(tool, given, tool_use_id=f"mine-{tool}")
        again = client.post("tools/echo", input={}, tool_use_id=f"mine-{tool}")
        assert (again.status_code, again.json()["code"]) == (409, "tool_use_id_taken")
    client.is_whole(open_calls=1)


@pytest.mark.parametrize("end", ["stopped", pytest.param("killed", marks=pytest.mark.slow)])
def test_nor_after_a_restart(tmp_path: Path, receiver: Receiver, end: str) -> None:
    """The next server has the events of the first call, and so would have two of one id."""
    flags = ("--data-dir", str(tmp_path / "data"))
    with site(receiver, tmp_path, *flags) as there:
        client = there.session()
        client.call("echo", {}, tool_use_id="mine")
        client.call("exec_command", {"cmd": "sleep 600", "yield_time_ms": 0}, tool_use_id="mine too")
        there.server.terminate() if end == "stopped" else there.server.process.kill()
        there.server.process.wait(15)
    with site(receiver, tmp_path, *flags) as there:
        client = Client(there.server, receiver, client.session_id)
        client.is_whole()
        for tool_use_id in ("mine", "mine too"):
            again = client.post("tools/echo", input={}, tool_use_id=tool_use_id)
            assert (again.status_code, again.json()["code"]) == (409, "tool_use_id_taken")
        client.is_whole()


@pytest.mark.parametrize("runs_still", [False, True])
def test_an_id_of_a_nested_call_is_not_taken_either(here: Site, runs_still: bool) -> None:
    """Anybody who follows the session knows it."""
    client = here.session()
    client.exec("await tools.hang({})" if runs_still else "await tools.echo({})", yield_time_ms=500)
    taken = client.told[0]["tool_use_id"]
    again = client.post("tools/echo", input={}, tool_use_id=taken)
    assert (again.status_code, again.json()["code"]) == (409, "tool_use_id_taken"), client.lifecycle()["findings"]
    client.is_whole(open_calls=int(runs_still))
