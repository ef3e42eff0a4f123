"""A history that was really told has no finding; damaged in any way, it has one, and the right one."""

from __future__ import annotations

import copy
from random import Random, SystemRandom

import pytest

from tests.acceptance import damaged_hooks
from tests.acceptance.receiver import Payload, decision
from tests.acceptance.site import Event, Site, audited, check, hooks_audited
from tests.faults.rig import until_found
from tests.unit import history_faults

SOURCE = """
    const shell = await tools.exec_command({cmd: 'sleep 600', yield_time_ms: 0});
    await Promise.all([tools.echo({}), tools.fail({}).catch(() => 0), tools.exec_command({cmd: 'exit 4'})]);
    await tools.shell_command({command: 'sleep 60', timeout_ms: 30});
    await tools.read_file({path: 'no'}).catch(() => 0);
    tools.hang({});
    await tools.list_dir({path: '.'});
"""


@pytest.fixture
def recorded(here: Site) -> tuple[str, list[Event], list[Payload]]:
    """A session with a call of each end but `lost`, two cells and direct calls: its id, its events and payloads."""
    here.receiver.answers = lambda told: decision("deny") if told["tool_name"] == "read_file" else {}
    client = here.session()
    client.exec(SOURCE, tool_call_id="exec-1", turn_id="t-1")
    client.call("echo", {}, turn_id="t-1")
    client.call("exec_command", {"cmd": "exit 1", "yield_time_ms": 0})
    cell = client.exec("await tools.hang({})", tool_call_id="exec-2", yield_time_ms=0)["cell_id"]
    until_found(
        lambda: client.receiver.told(client.session_id, "PreToolUse", tool_name="hang", turn_id=None), "it hangs"
    )
    client.wait(cell, terminate=True)
    client.is_whole(open_calls=1)
    assert client.lifecycle()["ok"]
    events = client.delete()
    check(client.session_id, events, client.told, is_over=True)
    states = {each["tool_status"]["state"] for each in client.told if "tool_status" in each}
    assert states == {"completed", "failed", "exited", "cancelled", "denied", "timed_out"}
    return client.session_id, events, client.told


def test_every_damage_is_found(recorded: tuple[str, list[Event], list[Payload]]) -> None:
    """Of each kind many, at random places; and nothing in what was not damaged."""
    session, events, told = recorded
    before = copy.deepcopy((events, told))
    seed = SystemRandom().randrange(10**6)
    random = Random(seed)
    for fault in history_faults.FAULTS:
        tried = [damaged for _ in range(25) if (damaged := fault(random, events)) is not None]
        assert tried, f"no place for {fault.__name__}"
        for history, codes in tried:
            found = {each.code for each in audited(session, history, is_over=True)}
            assert found & codes, f"{fault.__name__} with seed {seed}: {found}, not {codes}"
    for hook_fault in damaged_hooks.FAULTS:
        tried = [damaged for _ in range(25) if (damaged := hook_fault(random, told)) is not None]
        assert tried, f"no place for {hook_fault.__name__}"
        for payloads, codes in tried:
            found = {each.code for each in hooks_audited(session, payloads, is_over=True)}
            assert found & codes, f"{hook_fault.__name__} with seed {seed}: {found}, not {codes}"
    assert (events, told) == before
