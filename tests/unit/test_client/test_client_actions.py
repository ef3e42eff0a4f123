"""Both clients against a real server that allows commands: direct calls, turns, approvals, commands and the audit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import anyio
import anyio.to_thread
import pytest

import codemode
from codemode import TurnEnd
from codemode.client import (
    AnswerLost,
    ApprovalInfo,
    AsyncCodeModeClient,
    CallAnswer,
    CodeModeClient,
    CommandInfo,
    LifecycleReport,
    ProcessInfo,
    patience,
)
from codemode.errors import (
    ApprovalAlreadyResolved,
    ApprovalMismatch,
    ApprovalNotFound,
    CodeModeError,
    ExecNotAllowed,
    InvalidRequest,
    ProcessNotFound,
    SessionNotFound,
    ToolNotFound,
    ToolUseIdTaken,
)
from tests.unit.test_client.client_helpers import Client, Session, aside, done, opened, serving
from tests.unit.test_client.cutting_proxy import CuttingProxy, Fate, cutting_proxy

FLAGS = ("--spares=2", "--allow-exec", "--tools=tests.unit.test_client.direct_tools:TOOLS")
HOOK = {"event": "PreToolUse", "type": "http", "url": "http://127.0.0.1:9/hook", "matcher": "^add$"}
LONG = "sleep 1000"


@pytest.fixture(scope="module")
def acting_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "inner").mkdir()
    with serving(*FLAGS, f"--workspace={workspace}", "--allow-tool-url=http://127.0.0.1:9/") as url:
        yield url


@pytest.fixture(scope="module")
def proxy(acting_url: str) -> Iterator[CuttingProxy]:
    with cutting_proxy(acting_url) as proxy:
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
    async with opened(client, "mine", approval_policy="on_request") as session:
        proxy.requests.clear()
        yield session
        assert not proxy.fates


Until = Callable[..., Awaitable[list[dict[str, Any]]]]
Asked = Callable[[Session], Awaitable[ApprovalInfo]]


@pytest.fixture(scope="module")
def until(acting_url: str) -> Iterator[Until]:
    """Waits for so many events of a type; not through the proxy, which passes on whole answers."""
    with CodeModeClient(acting_url) as watcher:

        def watch(session: Session, type_: str, most: int) -> list[dict[str, Any]]:
            stream = watcher.session(session.session_id).events()
            found = list(islice((event for event in stream if event["type"] == type_), most))
            stream.close()  # type: ignore[attr-defined]
            return found

        async def until(session: Session, type_: str, most: int = 1) -> list[dict[str, Any]]:
            return await anyio.to_thread.run_sync(watch, session, type_, most)

        yield until


@pytest.fixture
def asked(until: Until) -> Asked:
    """Waits until a person is asked, and answers what."""

    async def asked(session: Session) -> ApprovalInfo:
        await until(session, "item/toolCall/requestApproval")
        [approval] = await done(session.approvals())
        assert isinstance(approval, ApprovalInfo)
        return approval

    return asked


# Direct calls


async def test_a_direct_call_answers_what_the_tool_gave(client: Client, session: Session, until: Until) -> None:
    """With the id that the caller gave, or one that was made; no input is an empty object, a freeform tool's a text."""
    made = await done(session.call_tool("add", {"a": 1, "b": 2}))
    assert made == CallAnswer(tool_use_id=made.tool_use_id, output=3)
    assert made.tool_use_id.startswith("tc_")
    named = await done(session.call_tool("shout", "é", tool_use_id="mine", turn_id="t"))
    assert named == CallAnswer(tool_use_id="mine", output="É")
    [_, ended] = await until(session, "tool_call/ended", 2)
    assert (ended["tool_use_id"], ended["turn_id"], ended["tool_source"]) == ("mine", "t", {"type": "direct"})
    assert (await done(client.call_tool("add", {"a": 1}))).output == 2  # in the session `default`


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("fail", None, {"message": "no luck", "code": "tool_failed"}),
        ("add", {"a": "x"}, "invalid_input"),
        ("mine", None, "caller_not_allowed"),
        ("odd/name?", None, "caller_not_allowed"),
    ],
)
async def test_a_direct_call_that_fails_is_an_answer(session: Session, name: str, value: Any, error: Any) -> None:
    """Its error has the text and the code that a script's ToolError would have."""
    answer: CallAnswer = await done(session.call_tool(name, value))
    assert answer.output is None
    assert answer.error is not None
    assert error in (answer.error, answer.error["code"])


async def test_what_json_cannot_hold_is_not_sent(session: Session, proxy: CuttingProxy) -> None:
    """It raises here."""
    with pytest.raises(TypeError):
        await done(session.call_tool("add", {"a": object()}))
    with pytest.raises(ValueError, match="JSON"):
        await done(session.call_tool("add", {"a": float("nan")}))
    assert proxy.requests == []


@pytest.mark.parametrize("fate", ["lose", "halve"])
async def test_a_lost_direct_call_is_not_made_again(
    session: Session, proxy: CuttingProxy, fate: Fate, until: Until
) -> None:
    """It raises with the id; asked again with that, the service says that the call was made."""
    key = f"{session.session_id}-{fate}"
    proxy.fates.append(fate)
    with pytest.raises(AnswerLost, match="may have run") as raised:
        await done(session.call_tool("count", {"key": key}))
    lost = raised.value
    assert lost.request.url.path.endswith("/tools/count")
    assert proxy.requests == ["count"]
    with pytest.raises(ToolUseIdTaken):
        await done(session.call_tool("count", {"key": key}, tool_use_id=lost.tool_use_id))
    [ended] = await until(session, "tool_call/ended")
    assert (ended["tool_use_id"], ended["tool_status"]["state"]) == (lost.tool_use_id, "completed")
    assert (await done(session.call_tool("count", {"key": key}))).output == 2


async def test_a_direct_call_whose_client_is_gone_is_cancelled(acting_url: str, until: Until) -> None:
    """Cancelling the task is enough."""
    async with AsyncCodeModeClient(acting_url) as client, await client.create_session() as session:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.call_tool, "never")
            await until(session, "tool_call/started")
            tasks.cancel_scope.cancel()
        [ended] = await until(session, "tool_call/ended")
    assert ended["tool_status"] == {"state": "cancelled", "exit_code": None}


async def test_hooks_of_a_session_are_asked(client: Client, asked: Asked) -> None:
    """One that cannot be reached denies; a URL that the operator does not allow is refused."""
    async with opened(client, hooks=[HOOK]) as session:
        answer = await done(session.call_tool("add", {"a": 1}))
        assert answer.error["code"] == "hook_denied"
        assert (await done(session.call_tool("shout", "a"))).output == "A"
    with pytest.raises(InvalidRequest):
        await done(client.create_session(hooks=[{**HOOK, "url": "http://example.org/"}]))


async def test_policies_of_a_sessions_tools_are_kept_to(client: Client) -> None:
    """They are fields of the declaration."""
    tool = {"name": "mine", "allowed_callers": ["direct"], "timeout_ms": 5}
    async with opened(client, tools=[tool]) as session:
        observation = await done(session.exec("await tools.mine()"))
    assert (observation.status, "mine" in observation.error.message) == ("failed", True)
    with pytest.raises(InvalidRequest):
        await done(client.create_session(tools=[{**tool, "allowed_callers": []}]))


# Turns


@pytest.mark.parametrize("turn_id", ["t", "..", "a/../b?#%", ""])
async def test_a_turn_ends_when_nothing_of_it_runs(session: Session, turn_id: str, until: Until) -> None:
    """Else it is told what does, until it is detached."""
    await done(session.exec("await tools.mine()", turn_id=turn_id))
    going_on: TurnEnd = await done(session.end_turn(turn_id))
    assert going_on.warning is not None
    assert going_on.warning.startswith(f"Turn {turn_id} cannot end yet: cell 1 still running.")
    assert going_on == TurnEnd(True, [{"type": "cell", "cell_id": "1"}], going_on.warning)
    assert await done(session.end_turn("another")) == TurnEnd(False)
    assert await done(session.end_turn(turn_id, detach=True)) == TurnEnd(False)
    assert await done(session.end_turn(turn_id)) == TurnEnd(False)
    ended = await until(session, "turn/ended", 3)
    assert [(event["turn_id"], event["detach"]) for event in ended] == [
        ("another", False),
        (turn_id, True),
        (turn_id, False),
    ]


async def test_a_lost_end_of_a_turn_is_asked_for_again(session: Session, proxy: CuttingProxy, until: Until) -> None:
    """It is told twice."""
    proxy.fates.append("lose")
    assert await done(session.end_turn("t")) == TurnEnd(False)
    assert len(await until(session, "turn/ended", 2)) == 2


# Approvals


async def test_a_person_decides_about_a_direct_call(session: Session, asked: Asked) -> None:
    """All that is needed is there, and the decision is answered with what became of it."""
    answers: list[CallAnswer] = []

    async def call() -> None:
        answers.append(await aside(lambda: session.call_tool("deploy", {"to": "here"}, tool_use_id="u")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        approval = await asked(session)
        decided = await done(session.decide(approval.approval_id, "accept", arguments_hash=approval.arguments_hash))
    assert answers == [CallAnswer(tool_use_id="u", output="deployed to here")]
    assert decided == codemode.ApprovalInfo(
        approval_id=approval.approval_id,
        reason=approval.reason,
        arguments_hash=approval.arguments_hash,
        tool_name="deploy",
        tool_use_id="u",
        tool_source={"type": "direct"},
        asked_at=approval.asked_at,
        expires_at=approval.expires_at,
        item={"type": "toolCall", "id": "u", "tool": "deploy", "input": {"to": "here"}, "status": "inProgress"},
        resolution="accepted",
    )
    assert approval.resolution is None
    assert approval.asked_at < datetime.now(UTC) < approval.expires_at
    assert await done(session.approvals()) == []


async def test_a_decision_may_be_for_the_session(session: Session, asked: Asked) -> None:
    """Then the same tool with the same arguments is not asked about again."""
    source = "text(await tools.deploy({to: 'here'}))"
    await done(session.exec(source, yield_time_ms=0))
    await done(session.decide((await asked(session)).approval_id, "accept", for_session=True))
    for cell_id in ("1", "2"):
        observation = await done(session.run_until_done(cell_id))
        assert (observation.status, observation.output[0]["text"]) == ("completed", "deployed to here")
        await done(session.exec(source))


@pytest.mark.parametrize(("verdict", "status"), [("decline", "failed"), ("cancel", "terminated")])
async def test_a_person_may_say_no(session: Session, verdict: Any, status: str, asked: Asked) -> None:
    """The call fails, or its cell ends."""
    await done(session.exec("await tools.deploy({to: 'here'})", yield_time_ms=0))
    await done(session.decide((await asked(session)).approval_id, verdict))
    assert (await done(session.run_until_done("1"))).status == status


async def test_a_decision_counts_once_and_for_what_was_asked(
    session: Session, proxy: CuttingProxy, until: Until, asked: Asked
) -> None:
    """One that was lost is told of by the exception of the second."""
    await done(session.exec("await tools.deploy({to: 'here'})", yield_time_ms=0))
    approval = await asked(session)
    with pytest.raises(ApprovalMismatch) as mismatch:
        await done(session.decide(approval.approval_id, "accept", arguments_hash="sha256:0"))
    assert mismatch.value.fields == {"arguments_hash": approval.arguments_hash}
    proxy.fates.append("lose")
    with pytest.raises(ApprovalAlreadyResolved) as resolved:
        await done(session.decide(approval.approval_id, "decline"))
    assert resolved.value.fields == {"resolution": "declined"}
    assert [event["resolution"] for event in await until(session, "approval/resolved")] == ["declined"]


# Commands


async def test_commands_of_calls_are_listed_and_ended(session: Session, proxy: CuttingProxy, until: Until) -> None:
    """A lost end is one; then the command is gone."""
    started = await done(session.call_tool("exec_command", {"cmd": LONG, "yield_time_ms": 0}, turn_id="t"))
    number = started.output["session_id"]
    [process] = await done(session.processes())
    assert process == ProcessInfo(
        session_id=number,
        command=LONG,
        workdir=".",
        tty=False,
        turn_id="t",
        cell_id=None,
        tool_use_id=started.tool_use_id,
        started_at=process.started_at,
    )
    assert (await done(session.end_turn("t"))).running[0]["session_id"] == number
    proxy.fates.append("lose")
    assert await done(session.end_process(number)) is None
    await until(session, "tool_call/ended")
    assert await done(session.processes()) == []
    with pytest.raises(ProcessNotFound):
        await done(session.end_process(number))


async def test_a_command_of_a_person_runs_beside(session: Session, until: Until) -> None:
    """It is listed, shown with its output when it has ended, and can be ended."""
    started: CommandInfo = await done(session.user_shell("echo é; pwd; exit 3", workdir="inner", turn_id="t"))
    [event] = await until(session, "item/completed")
    shown = await done(session.user_command(started.command_id))
    assert shown == CommandInfo(
        command_id=started.command_id,
        command="echo é; pwd; exit 3",
        cwd="inner",
        parsed=shown.parsed,
        status="failed",
        output=shown.output,
        exit_code=3,
        duration_ms=shown.duration_ms,
        source="userShell",
    )
    assert shown.output is not None
    assert [line.rpartition("/")[2] for line in shown.output.splitlines()] == ["é", "inner"]
    assert (event["turn_id"], event["item"]["id"]) == ("t", started.command_id)
    long: CommandInfo = await done(session.user_shell(LONG))
    assert (long.is_running, long.exit_code, long.duration_ms, shown.is_running) == (True, None, None, False)
    assert [each.command_id for each in await done(session.user_commands())] == [started.command_id, long.command_id]
    ended = await done(session.cancel_user_command(long.command_id))
    assert (ended.command_id, ended.is_running) == (long.command_id, False)
    assert await done(session.cancel_user_command(started.command_id)) == shown


async def test_a_command_of_a_person_has_its_time(session: Session, until: Until) -> None:
    """It is ended after it."""
    await done(session.user_shell(LONG, timeout_ms=50))
    [event] = await until(session, "item/completed")
    assert event["reason"] == "timed_out"


async def test_a_command_of_a_person_is_not_started_twice(session: Session, proxy: CuttingProxy) -> None:
    """A lost answer raises; the list shows whether it runs. To end it is asked again."""
    proxy.fates.append("lose")
    with pytest.raises(patience.LOST):
        await done(session.user_shell(LONG))
    assert proxy.requests == ["user_shell"]
    [command] = await done(session.user_commands())
    proxy.fates.append("lose")
    assert not (await done(session.cancel_user_command(command.command_id))).is_running


async def test_nothing_is_a_command_where_none_is_allowed(url: str) -> None:
    """There are none, and none is started."""
    with CodeModeClient(url) as client, client.create_session() as session:
        with pytest.raises(ExecNotAllowed):
            session.user_shell("true")
        assert (session.processes(), session.user_commands()) == ([], [])


# The audit


async def test_the_lifecycle_is_told(session: Session) -> None:
    """How many calls ended how, and that nothing is wrong."""
    await done(session.call_tool("add", {"a": 1}))
    await done(session.call_tool("fail"))
    await done(session.call_tool("exec_command", {"cmd": LONG, "yield_time_ms": 0}, tool_use_id="u"))
    report: LifecycleReport = await done(session.lifecycle())
    assert report == LifecycleReport(
        ok=True,
        complete=True,
        session_id=session.session_id,
        events=report.events,
        first_seq=1,
        last_seq=report.events,
        open=["u"],
        states=report.states,
        findings=[],
        more_findings=0,
    )
    assert {state: n for state, n in report.states.items() if n} == {"completed": 1, "failed": 1}


REFUSALS: list[tuple[type[CodeModeError], Callable[[Session], Any]]] = [
    (ToolNotFound, lambda session: session.call_tool("nope")),
    (ToolNotFound, lambda session: session.call_tool("..")),
    (InvalidRequest, lambda session: session.call_tool("add", {"a": 1}, tool_use_id="")),
    (InvalidRequest, lambda session: session.call_tool("add", [])),
    (ToolUseIdTaken, lambda session: session.call_tool("add", {"a": 1}, tool_use_id="taken")),
    (ApprovalNotFound, lambda session: session.decide("nope", "accept")),
    (InvalidRequest, lambda session: session.decide("nope", "perhaps")),  # type: ignore[arg-type]
    (ProcessNotFound, lambda session: session.end_process(7)),
    (ProcessNotFound, lambda session: session.user_command("..")),
    (ProcessNotFound, lambda session: session.cancel_user_command("nope")),
    (InvalidRequest, lambda session: session.user_shell("")),
    (InvalidRequest, lambda session: session.user_shell("true", workdir="../..")),
    (InvalidRequest, lambda session: session.user_shell("true", timeout_ms=10**9)),
]


@pytest.mark.parametrize(("kind", "attempt"), REFUSALS)
async def test_a_refusal_raises_the_exception_of_its_code(
    session: Session, kind: type[CodeModeError], attempt: Callable[[Session], Any]
) -> None:
    """And no other."""
    await done(session.call_tool("add", {"a": 1}, tool_use_id="taken"))
    with pytest.raises(CodeModeError) as raised:
        await done(attempt(session))
    assert type(raised.value) is kind
    assert str(raised.value) == raised.value.detail != ""


async def test_a_session_that_is_gone_says_so(session: Session) -> None:
    """Whatever it is asked."""
    await done(session.delete())
    attempts: list[Callable[[], Any]] = [
        lambda: session.call_tool("add", {"a": 1}),
        lambda: session.end_turn("t"),
        session.approvals,
        lambda: session.decide("a", "accept"),
        session.processes,
        lambda: session.end_process(1),
        lambda: session.user_shell("true"),
        session.user_commands,
        lambda: session.user_command("a"),
        lambda: session.cancel_user_command("a"),
        session.lifecycle,
    ]
    for attempt in attempts:
        with pytest.raises(SessionNotFound):
            await done(attempt())
