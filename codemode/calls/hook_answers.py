"""Reads what hooks answer. Whatever is not exactly an answer is none: a hook that cannot be understood denies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from codemode.calls.hooks import HookEvent

_MOST_SHOWN: Final = 60
_MOST_REASON: Final = 2000
WAIT_FIELD: Final = "waitUntilCompletion"
_FIELDS: Final[dict[HookEvent, tuple[str, ...]]] = {
    "PreToolUse": ("hookEventName", "permissionDecision", "permissionDecisionReason", "updatedInput"),
    "PostToolUse": ("hookEventName", "updatedOutput"),
}
NOTHING: Final = object()


class HookFailed(Exception):
    """A hook failed, was late or answered nonsense; the text says which, and nothing of where it is."""


class PreAnswer(NamedTuple):
    """What a hook wants of a use that is about to be."""

    decision: str = "allow"  # or deny, or ask
    reason: str = ""
    updated_input: Any = NOTHING


class Decision(NamedTuple):
    """What the hooks made of a use that is about to be: `denied` says why not; `asks` why a person has to say so."""

    denied: str | None
    asks: tuple[str, ...]
    text: bytes  # the input, as they left it
    waits_for_end: bool = False


def pre_answer(answer: Any) -> PreAnswer:
    """The answer of a PreToolUse hook. Raises HookFailed."""
    said = _output(answer, "PreToolUse")
    decision = said.get("permissionDecision")
    if decision is None:
        decision = "allow"
    if decision not in ("allow", "deny", "ask"):
        raise HookFailed(f"it answered with the unknown permissionDecision {_shown(decision)}")
    reason = said.get("permissionDecisionReason")
    if reason is None:
        reason = ""
    if not isinstance(reason, str):
        raise HookFailed("it answered with a permissionDecisionReason that is no text")
    return PreAnswer(decision, reason[:_MOST_REASON], _given(said, "updatedInput"))


def post_answer(answer: Any) -> Any:
    """The `updatedOutput` of a PostToolUse hook, or NOTHING. Raises HookFailed."""
    return _given(_output(answer, "PostToolUse"), "updatedOutput")


def _given(said: Mapping[str, Any], name: str) -> Any:
    """A field; null counts as absent, as in requests."""
    value = said.get(name)
    return NOTHING if value is None else value


def _output(answer: Any, event: HookEvent) -> Mapping[str, Any]:
    if not isinstance(answer, Mapping):
        raise HookFailed("it answered with what is no JSON object")
    _check_fields(answer, ("hookSpecificOutput",))
    said = answer.get("hookSpecificOutput")
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        raise HookFailed("it answered with a hookSpecificOutput that is no object")
    _check_fields(said, _FIELDS[event])
    named = said.get("hookEventName")
    if named is not None and named != event:
        raise HookFailed(f"it answered for the event {_shown(named)}")
    return said


def _check_fields(said: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in said:
        if name not in known:
            raise HookFailed(f"it answered with the unknown field {_shown(name)}")


def _shown(value: Any) -> str:
    return ascii(value)[:_MOST_SHOWN]
