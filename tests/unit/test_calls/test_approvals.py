"""Calls that a person decides about: they wait, nothing runs twice, and the script sees nothing of it."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from codemode import CodeMode
from codemode.calls.approvals import Approval, arguments_hash
from codemode.errors import ApprovalAlreadyResolved, ApprovalMismatch, ApprovalNotFound
from codemode.sessions.session import Session
from codemode.tools.policy import ToolPolicy
from tests.unit.test_calls.call_helpers import Calls, How, Told, Used, is_well, until, use, wants

ASKS = ToolPolicy(requires_approval=True)
ASK = wants(permissionDecision="ask", permissionDecisionReason="it looks odd")


def asking(cm: CodeMode, calls: Calls, told: Told | None = None, **options: Any) -> Session:
    """A session with a tool that a person has to decide about."""
    hooks = [] if told is None else told.both()
    return cm.create_session([calls.tool(policy=ASKS)], hooks=hooks, **{"approval_policy": "on_request"} | options)


async def asked(session: Session, count: int = 1) -> list[Approval]:
    """The questions, when there are so many."""
    found: list[Approval] = await until(lambda: len(session.approvals()) == count and session.approvals())
    return found


async def resolutions(session: Session) -> list[str]:
    """What became of all questions, as events tell it."""
    last = session.recorder.events.last
    found = []
    async for event in session.events():
        if event["type"] == "approval/resolved":
            found.append(event["resolution"])
        if event["seq"] == last:
            break
    return found


@pytest.mark.parametrize("why", ["policy", "hook"])
async def test_nobody_is_asked_under_the_policy_never(cm: CodeMode, how: How, why: str) -> None:
    """What needs a person's consent is declined at once; the hooks are told so."""
    told, calls = Told(), Calls()
    hooks = [*told.both(), *([Told().hook("PreToolUse", ASK)] if why == "hook" else [])]
    tool = calls.tool(policy=ASKS) if why == "policy" else calls.tool()
    session = cm.create_session([tool], hooks=hooks)
    used = await use(session, how)
    assert (used.code, calls.inputs, told.states) == ("approval_declined", [], ["denied"])
    assert session.approvals() == []
    await is_well(session)


async def test_a_call_that_is_accepted_goes_on(cm: CodeMode, how: How) -> None:
    """With the input that was asked about, once; the question has all that a person needs."""
    told, calls = Told(), Calls()
    session = asking(cm, calls, told)
    using = asyncio.ensure_future(use(session, how, value={"a": 1}))
    (approval,) = await asked(session)
    assert (approval.input, calls.inputs, told.states) == ({"a": 1}, [], [])
    assert approval.arguments_hash == arguments_hash("t", {"a": 1})
    assert approval.told()["reason"] == "the tool requires approval"
    assert approval.told()["tool_use_id"] == told.payloads[0]["tool_use_id"]
    assert session.decide(approval.approval_id, "accept").resolution == "accepted"
    assert await using == Used({"got": {"a": 1}})
    assert (calls.inputs, told.states, await resolutions(session)) == ([{"a": 1}], ["completed"], ["accepted"])
    await is_well(session)


async def test_a_call_that_is_declined_fails(cm: CodeMode, how: How) -> None:
    """And its script goes on."""
    told, calls = Told(), Calls()
    session = asking(cm, calls, told)
    using = asyncio.ensure_future(use(session, how))
    (approval,) = await asked(session)
    session.decide(approval.approval_id, "decline")
    assert (await using).code == "approval_declined"
    assert (calls.inputs, told.states, await resolutions(session)) == ([], ["denied"], ["declined"])
    await is_well(session)


async def test_a_call_that_is_cancelled_ends_its_cell(cm: CodeMode) -> None:
    """As terminated; no line of the script runs on."""
    told, calls = Told(), Calls()
    session = asking(cm, calls, told)
    running = asyncio.ensure_future(session.exec("try { await tools.t({}) } finally { text('seen') }"))
    (approval,) = await asked(session)
    session.decide(approval.approval_id, "cancel")
    seen = await running
    assert (seen.status, seen.output, calls.inputs) == ("terminated", [], [])
    await until(lambda: told.states)
    assert (told.states, await resolutions(session)) == (["cancelled"], ["cancelled"])
    await is_well(session)


async def test_a_direct_call_that_is_cancelled(cm: CodeMode) -> None:
    """Is an error of that call alone: it has no cell."""
    told, calls = Told(), Calls()
    session = asking(cm, calls, told)
    using = asyncio.ensure_future(use(session, "direct"))
    (approval,) = await asked(session)
    session.decide(approval.approval_id, "cancel")
    assert ((await using).code, told.states, calls.inputs) == ("cancelled", ["cancelled"], [])
    await is_well(session)


async def test_a_question_expires(cm: CodeMode, how: How) -> None:
    """After the limit `approval_ms`."""
    told, calls = Told(), Calls()
    session = asking(cm, calls, told, limits={"approval_ms": 50})
    begun = time.time()
    using = asyncio.ensure_future(use(session, how))
    (approval,) = await asked(session)
    assert abs(approval.expires_at - approval.asked_at - 0.05) < 0.001
    assert (await using).code == "approval_expired"
    assert time.time() - begun >= 0.045
    assert (calls.inputs, told.states, await resolutions(session)) == ([], ["denied"], ["expired"])
    with pytest.raises(ApprovalAlreadyResolved, match="expired"):
        session.decide(approval.approval_id, "accept")
    await is_well(session)


async def test_a_decision_for_the_session_counts_for_the_same_arguments(cm: CodeMode, how: How) -> None:
    """In whatever order they are written; for other arguments and other tools a person is asked again."""
    calls = Calls()
    tools = [calls.tool(name, ASKS) for name in ("t", "other")]
    session = cm.create_session(tools, approval_policy="on_request")
    using = asyncio.ensure_future(use(session, how, value={"a": 1, "b": 2}))
    (approval,) = await asked(session)
    session.decide(approval.approval_id, "accept", for_session=True)
    await using
    assert (await use(session, how, value={"b": 2, "a": 1})).code is None
    assert session.approvals() == []
    others: list[tuple[str, Any]] = [("t", {"a": 1}), ("other", {"a": 1, "b": 2}), ("t", {"a": 1, "b": "2"})]
    for name, value in others:
        using = asyncio.ensure_future(use(session, how, name, value))
        (approval,) = await asked(session)
        session.decide(approval.approval_id, "decline", for_session=True)
        assert (await using).code == "approval_declined"
    assert len(calls.inputs) == 2
    assert await resolutions(session) == ["accepted", "accepted", *["declined"] * 3]
    using = asyncio.ensure_future(use(session, how, value={"a": 1}))  # a decline is for that call alone
    (approval,) = await asked(session)
    session.decide(approval.approval_id, "accept")
    assert (await using).code is None
    await is_well(session)


async def test_a_decision_about_other_arguments_decides_nothing(cm: CodeMode, how: How) -> None:
    """The right one does, once; a second one is told what became of the first."""
    calls = Calls()
    session = asking(cm, calls)
    using = asyncio.ensure_future(use(session, how, value={"a": 1}))
    (approval,) = await asked(session)
    for verdict in ("accept", "decline", "cancel"):
        with pytest.raises(ApprovalMismatch) as caught:
            session.decide(approval.approval_id, verdict, arguments_hash=arguments_hash("t", {"a": 2}))
        assert caught.value.fields == {"arguments_hash": approval.arguments_hash}
    assert session.approvals() == [approval]
    session.decide(approval.approval_id, "accept", arguments_hash=approval.arguments_hash)
    for digest in (None, approval.arguments_hash, "other"):
        with pytest.raises(ApprovalAlreadyResolved, match="accepted"):
            session.decide(approval.approval_id, "decline", arguments_hash=digest)
    with pytest.raises(ApprovalNotFound):
        session.decide("ap_unknown", "accept")
    assert await using == Used({"got": {"a": 1}})
    assert calls.inputs == [{"a": 1}]


async def test_a_person_is_asked_about_what_hooks_made_of_the_input(cm: CodeMode, how: How) -> None:
    """And why: by each that asks."""
    calls = Calls()
    hooks = [
        Told().hook("PreToolUse", ASK),
        Told().hook("PreToolUse", wants(updatedInput={"n": 2})),
        Told().hook("PreToolUse", wants(permissionDecision="ask")),
    ]
    session = cm.create_session([calls.tool(policy=ASKS)], hooks=hooks, approval_policy="on_request")
    using = asyncio.ensure_future(use(session, how, value={"n": 1}))
    (approval,) = await asked(session)
    assert (approval.input, approval.arguments_hash) == ({"n": 2}, arguments_hash("t", {"n": 2}))
    assert approval.told()["reason"] == "it looks odd; a hook asks; the tool requires approval"
    session.decide(approval.approval_id, "accept")
    assert await using == Used({"got": {"n": 2}})


@pytest.mark.parametrize("end", ["terminate", "close", "script"])
async def test_the_end_of_a_cell_withdraws_its_questions(cm: CodeMode, end: str) -> None:
    """The call never runs, whatever is decided later."""
    told, calls = Told(), Calls()
    session = asking(cm, calls, told)
    source = "const p = tools.t({}); p.catch(() => text('caught')); await new Promise((go) => setTimeout(go, 100))"
    running = asyncio.ensure_future(session.exec(source if end == "script" else f"{source}; await p"))
    (approval,) = await asked(session)
    if end == "terminate":
        await session.terminate("1")
    elif end == "close":
        await session.close()
    assert (await running).output == []
    await until(lambda: told.states)
    await until(lambda: approval.resolution)
    assert (approval.resolution, told.states, calls.inputs) == ("withdrawn", ["cancelled"], [])
    if end != "close":
        with pytest.raises(ApprovalAlreadyResolved, match="withdrawn"):
            session.decide(approval.approval_id, "accept")
        assert await resolutions(session) == ["withdrawn"]
        await is_well(session)


async def test_a_direct_call_whose_caller_goes_away_asks_no_more(cm: CodeMode) -> None:
    """Its question is withdrawn."""
    calls = Calls()
    session = asking(cm, calls)
    using = asyncio.ensure_future(session.call_tool("t"))
    (approval,) = await asked(session)
    using.cancel()
    await until(lambda: approval.resolution)
    assert (approval.resolution, session.approvals(), calls.inputs) == ("withdrawn", [], [])
    await is_well(session)


@pytest.mark.parametrize("limit", ["lifetime_ms", "idle_ms"])
async def test_the_time_of_a_cell_stands_still_while_a_person_is_asked(cm: CodeMode, limit: str) -> None:
    """Also when two are asked about at once, and one is decided; it goes on when all are."""
    calls = Calls()
    session = asking(cm, calls, limits={limit: 150})
    source = "await Promise.all([tools.t({a: 1}), tools.t({a: 2})]); text('b'); await new Promise((go) => setTimeout(go, 1e6))"
    cell_id = (await session.exec(source, yield_time_ms=0)).cell_id
    first, second = await asked(session, 2)
    await asyncio.sleep(0.2)
    session.decide(first.approval_id, "accept")
    await asyncio.sleep(0.2)
    assert session.cell(cell_id).status == "running"
    session.decide(second.approval_id, "accept")
    cell = session.cell(cell_id)
    await until(lambda: cell.status == "failed")
    assert cell.outcome is not None
    assert cell.outcome.error is not None
    assert (cell.outcome.error.kind, len(calls.inputs)) == ("deadline", 2)
    await is_well(session)


async def test_a_script_does_not_see_that_a_person_is_asked(cm: CodeMode) -> None:
    """A race with a timer goes on; the call runs once when it is accepted, and its promise has the result."""
    calls = Calls()
    session = asking(cm, calls)
    source = """
    const call = tools.t({a: 1});
    const timer = new Promise((go) => setTimeout(() => go('timer'), 5));
    text(await Promise.race([call.then(() => 'call', (e) => 'error'), timer]));
    yield_control();
    text(JSON.stringify(await call));
    """
    seen = await session.exec(source)
    assert [each["text"] for each in seen.output] == ["timer"]
    (approval,) = await asked(session)
    session.decide(approval.approval_id, "accept")
    seen = await session.wait(seen.cell_id)
    assert [each["text"] for each in seen.output] == ['{"got":{"a":1}}']
    assert calls.inputs == [{"a": 1}]
    await is_well(session)


async def test_questions_are_held_up_by_no_other(cm: CodeMode) -> None:
    """They are listed in the order they were asked, decided in any, and a tool that needs nobody runs meanwhile."""
    calls, free = Calls(), Calls()
    session = cm.create_session([calls.tool(policy=ASKS), free.tool("free")], approval_policy="on_request")
    source = """
    const calls = [1, 2, 3].map((n) => tools.t({n}).then((r) => text(r.got.n), (e) => text(e.code)));
    await tools.free({}); await Promise.all(calls);
    """
    running = asyncio.ensure_future(session.exec(source))
    first, second, third = await asked(session, 3)
    await until(lambda: free.inputs)
    assert [each.input["n"] for each in (first, second, third)] == [1, 2, 3]
    for approval, verdict in ((third, "accept"), (first, "decline"), (second, "accept")):
        session.decide(approval.approval_id, verdict)
    seen = await running
    assert sorted(each["text"] for each in seen.output) == ["2", "3", "approval_declined"]
    assert sorted(each["n"] for each in calls.inputs) == [2, 3]
    assert seen.status == "completed"
