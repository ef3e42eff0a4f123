"""Commands that daemonize, in all ways: none outlives its session or its server."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.marked import marked, until_none
from tests.acceptance.receiver import Receiver
from tests.acceptance.site import Client, Site, site
from tests.faults.server import until

# Each leaves one process behind that is called MARK, and ends.
DAEMONS = {
    "background": "sh -c 'sleep 600; : MARK' &",
    "hangups ignored": "nohup sh -c 'sleep 600; : MARK' >/dev/null 2>&1 &",
    "session of its own": "setsid sh -c 'sleep 600; : MARK' >/dev/null 2>&1 </dev/null &",
    "twice forked": "( ( setsid sh -c 'trap \"\" TERM HUP INT; sleep 600; : MARK' & ) & ) >/dev/null 2>&1",
    "without environment": "env -i setsid sh -c '/bin/sleep 600; : MARK' >/dev/null 2>&1 </dev/null &",
    "stopped": "setsid sh -c 'kill -STOP $$; sleep 600; : MARK' >/dev/null 2>&1 </dev/null &",
}


def populate(client: Client, mark: str) -> None:
    """One of each, by cells, direct calls and a person; the commands themselves have ended, but for one."""
    for number, (kind, command) in enumerate(DAEMONS.items()):
        given = {"cmd": command.replace("MARK", f"{mark} {kind}"), "yield_time_ms": 0 if number == 0 else 5000}
        if number % 2:
            client.call("exec_command", given)
        else:
            client.exec(f"await tools.exec_command({json.dumps(given)})")
    client.call("exec_command", {"cmd": f"sleep 600; : {mark} direct", "yield_time_ms": 0})
    last = DAEMONS["session of its own"].replace("MARK", f"{mark} person")
    assert client.post("user_shell", command=f"{last} sleep 600; : {mark} person too").status_code == 202
    until(lambda: len(marked(mark)) >= len(DAEMONS) + 3, "all are there")


def test_a_session_that_is_deleted_leaves_none(here: Site) -> None:
    """Those of another session go on."""
    client, other = here.session(), here.session()
    populate(client, "mark-deleted")
    populate(other, "mark-other")
    client.delete()
    assert marked("mark-deleted") == []
    assert len(marked("mark-other")) >= len(DAEMONS) + 3
    other.delete()
    assert marked("mark-other") == []


def test_a_server_that_is_told_to_stop_leaves_none(tmp_path: Path, receiver: Receiver) -> None:
    """They are gone when it is."""
    with site(receiver, tmp_path) as there:
        populate(there.session(), "mark-stopped")
        there.server.terminate()
        assert there.server.status() == 0
        assert marked("mark-stopped") == []


@pytest.mark.parametrize("whole_group", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_server_that_is_killed_leaves_none(tmp_path: Path, receiver: Receiver, whole_group: bool) -> None:
    """Nor if its cells are killed with it: within a moment."""
    mark = f"mark-killed-{whole_group}"
    with site(receiver, tmp_path) as there:
        populate(there.session(), mark)
        if whole_group:
            os.killpg(there.server.pid, signal.SIGKILL)
        else:
            there.server.process.kill()
        there.server.process.wait(10)
        until_none(mark, 5.0)
