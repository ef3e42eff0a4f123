"""What hooks make of the inputs and results of uses, and what many of them together decide."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codemode import CodeMode
from codemode.calls.hooks import Hook
from codemode.errors import ToolError
from codemode.tools.policy import ToolPolicy
from tests.unit.test_calls.call_helpers import Calls, How, Told, Used, is_well, python, session_alone, until, use, wants


def spoil_response(payload: dict[str, Any]) -> None:
    payload["tool_response"].append("spoilt")


def _raise(problem: BaseException) -> Any:
    raise problem


# Changing


async def test_an_updated_input_is_what_everybody_sees(cm: CodeMode, how: How) -> None:
    """The later hooks, the tool, and the hooks that are told of the end; each hook works on what the earlier made."""
    told, calls = Told(), Calls()
    more = lambda payload: wants(updatedInput={"n": payload["tool_input"].get("n", 0) + 1})  # noqa: E731
    hooks = [told.hook("PreToolUse", more), told.hook("PreToolUse", more), *told.both()]
    session = cm.create_session([calls.tool()], hooks=hooks)
    assert await use(session, how, value={"n": 5, "old": True}) == Used({"got": {"n": 7}})
    assert [each["tool_input"] for each in told.payloads] == [{"n": 5, "old": True}, {"n": 6}, {"n": 7}, {"n": 7}]
    assert calls.inputs == [{"n": 7}]


async def test_an_updated_input_of_a_freeform_tool_is_a_text(cm: CodeMode, how: How) -> None:
    """And nothing else."""
    answers: list[Any] = [wants(updatedInput="other"), wants(updatedInput={"a": 1})]
    hook = Told().hook("PreToolUse", lambda _: answers.pop(0))
    session = cm.create_session([Calls().tool(kind="freeform")], hooks=[hook])
    assert await use(session, how, value="this") == Used({"got": "other"})
    assert (await use(session, how, value="this")).code == "hook_denied"


async def test_what_a_hook_does_to_its_payload_changes_nothing(cm: CodeMode, how: How) -> None:
    """Answers count, and nothing else."""
    told, calls = Told(), Calls()

    def spoils(payload: dict[str, Any]) -> None:
        payload["tool_input"]["n"] = "spoilt"
        payload["tool_use_id"] = "spoilt"

    session = cm.create_session([calls.tool()], hooks=[Hook(event="PreToolUse", function=spoils), *told.both()])
    assert await use(session, how, value={"n": 1}) == Used({"got": {"n": 1}})
    assert {each["tool_input"]["n"] for each in told.payloads} == {1}
    told.check()


async def test_a_hook_cannot_change_where_a_call_comes_from(cm: CodeMode, how: How) -> None:
    """For the later ones."""
    told = Told()

    def spoils(payload: dict[str, Any]) -> None:
        payload["tool_source"]["type"] = "spoilt"

    session = cm.create_session([Calls().tool()], hooks=[Hook(event="PreToolUse", function=spoils), *told.both()])
    await use(session, how)
    assert "spoilt" not in {each["tool_source"]["type"] for each in told.payloads}


async def test_a_function_sees_the_result_as_json(cm: CodeMode, how: How) -> None:
    """As a URL and a command do, and as its caller gets it; it has no hold on what the tool keeps."""
    told, kept = Told(), [1, (2, 3)]

    async def run(_: Any) -> Any:
        return kept

    hooks = [told.hook("PostToolUse"), Told().hook("PostToolUse", spoil_response)]
    session = cm.create_session([python(run)], hooks=hooks)
    assert await use(session, how) == Used([1, [2, 3]])
    assert (told.payloads[0]["tool_response"][:2], kept) == ([1, [2, 3]], [1, (2, 3)])


async def test_a_hook_cannot_change_the_result_for_the_next_one(cm: CodeMode, how: How) -> None:
    """But by its answer."""
    told = Told()

    async def run(_: Any) -> Any:
        return [1]

    hooks = [Told().hook("PostToolUse", spoil_response), told.hook("PostToolUse")]
    session = cm.create_session([python(run)], hooks=hooks)
    assert await use(session, how) == Used([1])
    assert told.payloads[0]["tool_response"] == [1]


async def test_hooks_are_told_of_a_result_that_is_nested_too_deeply(cm: CodeMode, how: How) -> None:
    """Something, and of the end in any case."""
    told = Told()
    deep: Any = []
    for _ in range(220):
        deep = [deep]

    async def run(_: Any) -> Any:
        return deep

    session = cm.create_session([python(run)], hooks=told.both())
    await use(session, how)
    assert told.states == ["completed"]


async def test_an_updated_output_replaces_the_result(cm: CodeMode, how: How) -> None:
    """Of several the last; each sees what the earlier ones made of it, and falsy ones count."""
    told = Told()
    answers: list[Any] = [wants(updatedOutput={"x": 1}), wants(), wants(updatedOutput=0, hookEventName="PostToolUse")]
    hooks = [told.hook("PostToolUse", answer) for answer in answers]
    session = cm.create_session([Calls().tool()], hooks=hooks)
    assert await use(session, how) == Used(0)
    assert [each["tool_response"] for each in told.payloads] == [{"got": {}}, {"x": 1}, {"x": 1}]


async def test_an_updated_output_is_bounded_as_a_result_is(cm: CodeMode, how: How) -> None:
    """By the tool's policy."""
    hook = Told().hook("PostToolUse", wants(updatedOutput="x" * 100))
    session = cm.create_session([Calls().tool(policy=ToolPolicy(max_result_bytes=50))], hooks=[hook])
    assert (await use(session, how)).code == "result_too_large"


async def test_the_text_of_an_error_may_be_replaced_but_not_undone(cm: CodeMode, how: How) -> None:
    """A failure stays one."""

    async def fails(_: Any) -> None:
        raise ToolError("it has a secret")

    told = Told()
    answers: list[Any] = [wants(updatedOutput="no secret"), wants(updatedOutput={"ok": True})]
    session = cm.create_session([python(fails)], hooks=[told.hook("PostToolUse", lambda _: answers.pop(0))])
    assert await use(session, how) == Used(None, "tool_failed", "no secret")
    used = await use(session, how)
    assert (used.code, "secret" in used.message) == ("result_withheld", False)
    assert told.payloads[0]["tool_response"] == {"error": {"message": "it has a secret", "code": "tool_failed"}}
    assert told.states == ["failed", "failed"]


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: _raise(ValueError("a secret")),
        wants(updatedInput={}),
        wants(permissionDecision="deny"),
        "text",
        {"continue": False},
        wants(updatedOutput={"a": object()}),
    ],
    ids=lambda each: str(each)[:40],
)
async def test_a_hook_that_fails_afterwards_withholds_the_result(cm: CodeMode, how: How, answer: Any) -> None:
    """The others are told all the same, and of the true end."""
    told = Told()
    hooks = [told.hook("PostToolUse", answer), told.hook("PostToolUse", wants(updatedOutput="other"))]
    session = cm.create_session([Calls().tool()], hooks=hooks)
    used = await use(session, how)
    assert (used.code, used.output, told.states) == ("result_withheld", None, ["completed", "completed"])
    await is_well(session)


# The rules, with many hooks at once

answers = st.one_of(
    st.none(),
    st.just(wants(permissionDecision="deny")),
    st.just("nonsense"),
    st.just(wants(permissionDecision="ask")),
    st.integers(0, 9).map(lambda n: wants(updatedInput={"n": n})),
    st.just(wants(updatedInput=[])),
)


@settings(max_examples=100)
@given(before=st.lists(answers, max_size=4), policy=st.sampled_from(["never", "on_request"]))
async def test_the_first_that_does_not_allow_decides(before: list[Any], policy: Any) -> None:
    """Until then each is asked once; the input is that of the last one that changed it; `ask` counts after all."""
    told, calls = Told(), Calls()
    expected, value, is_asked, code = 0, {}, False, None
    for answer in before:
        expected += 1
        if answer in ("nonsense", wants(permissionDecision="deny"), wants(updatedInput=[])):
            code = "hook_denied"
            break
        is_asked = is_asked or answer == wants(permissionDecision="ask")
        if answer is not None and "updatedInput" in answer["hookSpecificOutput"]:
            value = answer["hookSpecificOutput"]["updatedInput"]
    if code is None and is_asked and policy == "never":
        code = "approval_declined"
    hooks = [*(told.hook("PreToolUse", each) for each in before), told.hook("PostToolUse")]
    session = session_alone([calls.tool()], hooks=hooks, approval_policy=policy)
    using = asyncio.ensure_future(use(session, "direct"))
    if code is None and is_asked:
        (approval,) = await until(session.approvals)
        assert approval.input == value
        session.decide(approval.approval_id, "accept")
    used = await using
    assert used == (Used({"got": value}) if code is None else Used(None, code, used.message))
    assert (len(told.of("PreToolUse")), len(told.of("PostToolUse"))) == (expected, 1)
    assert told.of("PostToolUse")[0]["tool_input"] == (value if code != "hook_denied" else {})
    await is_well(session)
