"""A hook that is asked late is told of the end of a call that it was never asked about: that is no fault of the history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.receiver import ALLOW, Payload, Receiver, decision
from tests.acceptance.site import Client, Site, hooks_audited, site


class Gate:
    """A hook before those of the session: it answers as told, or kills the server. Its payloads are not recorded."""

    def __init__(self, receiver: Receiver, answer: Any) -> None:
        self.receiver = receiver
        receiver.gate = answer

    @property
    def hooks(self) -> list[dict[str, Any]]:
        receiver = self.receiver
        gate = {"event": "PreToolUse", "type": "http", "url": f"{receiver.url}/gate"}
        return [gate, *(receiver.hook(event, payload="minimal") for event in ("PreToolUse", "PostToolUse"))]


def only_end(client: Client, state: str) -> Payload:
    """The one payload that the session's hooks were told, which is the end."""
    post = client.receiver.until_told(client.session_id, "PostToolUse")
    assert client.told == [post]
    assert post["tool_status"]["state"] == state
    return post


def test_denied_by_an_earlier_hook(here: Site) -> None:
    """The later ones are not asked, and are told that it was denied."""
    client = here.session(hooks=Gate(here.receiver, decision("deny")).hooks)
    client.exec("await tools.echo({}).catch(() => 0)")
    only_end(client, "denied")
    here.receiver.gate = ALLOW
    client.exec("await tools.echo({})")
    assert len(client.told) == 3
    assert hooks_audited(client.session_id, client.told, is_over=True) == []


@pytest.mark.parametrize("direct", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_killed_while_an_earlier_hook_is_asked(tmp_path: Path, receiver: Receiver, direct: bool) -> None:
    """The next server does not know who was asked: all are told that it was lost."""
    flags = ("--data-dir", str(tmp_path / "data"))
    with site(receiver, tmp_path, *flags) as there:
        client = there.session(hooks=Gate(receiver, lambda: there.server.process.kill()).hooks)
        client.attempt(
            "tools/echo" if direct else "exec", **({"input": {}} if direct else {"source": "await tools.echo({})"})
        )
        there.server.process.wait(15)
    with site(receiver, tmp_path, *flags) as there:
        client = Client(there.server, receiver, client.session_id)
        only_end(client, "lost")
        assert client.lifecycle()["ok"]
        assert hooks_audited(client.session_id, client.told, is_over=True) == []


@pytest.mark.parametrize("state", ["completed", "failed", "exited", "cancelled", "timed_out"])
def test_an_end_of_any_other_kind_must_have_a_start(here: Site, state: str) -> None:
    """Its tool was reached, or might have been: so every hook was asked."""
    client = here.session()
    client.exec("await tools.echo({})")
    _, post = client.told
    status = {"state": state, "exit_code": 0 if state == "exited" else None}
    found = hooks_audited(client.session_id, [post | {"tool_status": status}], is_over=True)
    assert [each.code for each in found] == ["end_without_start"]
