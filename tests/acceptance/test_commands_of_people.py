"""A command of a person beside a running turn: seen by people, never by a model, and in nobody's way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acceptance.marked import marked, until_none
from tests.acceptance.site import Client, Site
from tests.faults.rig import texts, until_found

SECRET = "PERSONAL"
COMMAND = f"printf 'PERS%s' ONAL; until [ -e GO ]; do sleep 0.02; done; printf '+PERS%s' ONAL; : {SECRET}"


def shell(client: Client, command: str, **body: Any) -> dict[str, Any]:
    """The item of a command that was begun."""
    response = client.post("user_shell", command=command, **body)
    assert response.status_code == 202, response.text
    item: dict[str, Any] = response.json()
    return item


def until_ended(client: Client, command_id: str) -> dict[str, Any]:
    def ended() -> dict[str, Any] | None:
        item: dict[str, Any] = client.get(f"user_shell/{command_id}")
        return item if item["status"] != "inProgress" else None

    found: dict[str, Any] = until_found(ended, "the command has ended")
    return found


def test_only_people_see_its_output(here: Site) -> None:
    """Of a turn whose cells poll, notify, end, and are waited for meanwhile, no answer has a word of it."""
    client, go = here.session(approval_policy="on_request", model_warnings=True), here.workspace / "people-go"
    answers: list[Any] = []
    begin = "text(String((await tools.exec_command({cmd: 'cat', tty: true, yield_time_ms: 0})).session_id))"
    answers.append(client.exec(begin, turn_id="t-1"))
    number = int(texts(answers[0])[0])
    running = client.exec("text('on'); await tools.hang({})", turn_id="t-1", yield_time_ms=0)
    answers.append(running)
    item = shell(client, COMMAND.replace("GO", go.name), turn_id="t-1")
    assert (item["source"], item["status"], item["exitCode"]) == ("userShell", "inProgress", None)
    until_found(lambda: client.get(f"user_shell/{item['id']}")["aggregatedOutput"] == SECRET, "it has printed")

    poll = f"text(await tools.write_stdin({{session_id: {number}, yield_time_ms: 50}})); notify('polled')"
    answers.append(client.exec(poll, turn_id="t-1"))
    for other in (number + 1, number + 2, number - 1, 1000):
        refused = client.call("write_stdin", {"session_id": other})
        assert "error" in refused
        answers.append(refused["error"])
    answers.append(client.exec("text(Object.keys(globalThis).join()); text(await tools.exec_command({cmd: 'true'}))"))
    answers.append(client.wait(running["cell_id"], yield_time_ms=0))
    answers.append(client.get("processes"))
    assert [each["session_id"] for each in answers[-1]] == [number]
    refused = client.end_turn("t-1")
    answers.append(refused)
    assert [each["type"] for each in refused["running"]] == ["cell", "process"]
    go.touch()
    ended = until_ended(client, item["id"])
    assert ended["aggregatedOutput"] == f"{SECRET}+{SECRET}"
    answers.append(client.wait(running["cell_id"], terminate=True))
    answers.append(client.end_turn("t-1"))
    answers.append(client.get(f"cells/{running['cell_id']}"))
    answers.append(client.get("cells"))
    answers.append(client.told)
    answers.append(here.receiver.tools)
    assert SECRET not in json.dumps(answers)
    assert "on" in texts(running) + [text for each in answers if "output" in each for text in texts(each)]

    events = client.is_whole(open_calls=1)
    about = [each for each in events if SECRET in json.dumps(each)]
    assert {each["type"] for each in about} == {"item/started", "item/commandExecution/delta", "item/completed"}
    assert "".join(each["delta"] for each in about if "delta" in each) == f"{SECRET}+{SECRET}"
    assert {each["item_id"] if "item_id" in each else each["item"]["id"] for each in about} == {item["id"]}
    assert all("cell_id" not in each for each in about)
    assert client.get("user_shell") == [ended]


def test_it_holds_up_no_turn(here: Site) -> None:
    """That it was begun in one says whose it is, no more."""
    client = here.session()
    item = shell(client, "sleep 600; : mark-people-turn", turn_id="t-1")
    assert client.end_turn("t-1") == {"needs_follow_up": False}
    assert client.exec("text(1)", turn_id="t-1")["warnings"] == []
    assert client.get(f"user_shell/{item['id']}")["status"] == "inProgress"
    client.delete()
    assert marked("mark-people-turn") == []


def test_it_can_be_cancelled(here: Site) -> None:
    """With all that it has started; once more changes nothing."""
    client = here.session()
    item = shell(client, "sleep 600 & sleep 600; : mark-people-cancel")
    until_found(lambda: marked("mark-people-cancel"), "it runs")
    for _ in range(2):
        ended = client.post(f"user_shell/{item['id']}/cancel").json()
        assert (ended["id"], ended["status"], ended["exitCode"]) == (item["id"], "failed", None)
    until_none("mark-people-cancel")
    done = [each for each in client.events() if each["type"] == "item/completed"]
    assert [(each["item"]["id"], each["reason"]) for each in done] == [(item["id"], "cancelled")]
    assert client.post("user_shell/us_none/cancel").json()["code"] == "process_not_found"
    assert client.told == []


@pytest.mark.parametrize("by", ["request", "limit"])
def test_it_ends_after_its_time(here: Site, by: str) -> None:
    """That of the request, or of the session."""
    client = here.session(limits={"user_shell_ms": 200 if by == "limit" else 100_000})
    more = {"timeout_ms": 200} if by == "request" else {}
    mark = f"mark-people-time-{by}"
    item = shell(client, f"echo on; sleep 600; : {mark}", **more)
    ended = until_ended(client, item["id"])
    assert (ended["status"], ended["exitCode"], ended["aggregatedOutput"]) == ("failed", None, "on\n")
    done = client.until_event("item/completed")
    assert done["reason"] == "timed_out"
    until_none(mark)
    too_long = client.post("user_shell", command="true", timeout_ms=100_001)
    assert too_long.json()["code"] == "invalid_request", too_long.text


def test_its_ends_are_those_of_its_program(here: Site) -> None:
    """Exit codes, output that is no text, a workdir; what cannot be begun is refused and leaves nothing."""
    client = here.session()
    (here.workspace / "people").mkdir(exist_ok=True)
    for command, code in (("exit 0", 0), ("exit 9", 9), ("kill -9 $$", 137)):
        ended = until_ended(client, shell(client, command)["id"])
        assert (ended["exitCode"], ended["status"]) == (code, "failed" if code else "completed")
    ended = until_ended(client, shell(client, "pwd; printf '\\377'", workdir="people")["id"])
    assert ended["aggregatedOutput"] == f"{here.workspace / 'people'}\n\ufffd"
    for body in (
        {"command": ""},
        {"command": "true", "workdir": "../"},
        {"command": "a\0b"},
        {"command": "x" * 70_000},
    ):
        assert client.post("user_shell", **body).status_code in (400, 422), body
    assert len(client.get("user_shell")) == 4
    client.is_whole()
