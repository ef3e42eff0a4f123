"""Hooks: who is asked before a tool is used, and told after it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

import jsonschema_rs

from codemode.errors import InvalidRequest, ToolError
from codemode.tools.http import check_url

HookEvent = Literal["PreToolUse", "PostToolUse"]
EVENTS: Final = ("PreToolUse", "PostToolUse")
HookFunction = Callable[[dict[str, Any]], Awaitable[Mapping[str, Any] | None] | Mapping[str, Any] | None]

_MOST_MATCHER: Final = 500
_LONGEST_MS: Final = 600_000
_DEFAULT_MS: Final = 10_000
# The engine of the schemas' patterns: it can be bounded, and a session's caller may write any expression.
_ENGINE: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=1000)


@dataclass(frozen=True, kw_only=True)
class Hook:
    """A function, a URL or a command that sees each use of the tools whose name `matcher` is found in.

    Exactly one of `function` (sync or async, takes the payload and returns the answer or None), `url` (the payload is
    POSTed) and `command` (a program with its arguments; the payload on standard input, the answer on standard output)
    is to be given. An answer that is late (`timeout_ms`), or none, denies. With `payload` "minimal" neither inputs nor
    results are in it. Raises InvalidRequest.
    """

    event: HookEvent
    matcher: str = ""
    function: HookFunction | None = None
    url: str | None = None
    command: Sequence[str] | None = None
    timeout_ms: int = _DEFAULT_MS
    payload: Literal["full", "minimal"] = "full"

    def __post_init__(self) -> None:
        if self.event not in EVENTS:
            raise InvalidRequest(f"hook: event is {str(self.event)[:40]!r}; expected PreToolUse or PostToolUse")
        if self.payload not in ("full", "minimal"):
            raise InvalidRequest(f"hook: payload is {str(self.payload)[:40]!r}; expected full or minimal")
        if sum(each is not None for each in (self.function, self.url, self.command)) != 1:
            raise InvalidRequest("hook: expected exactly one of a function, a url and a command")
        if self.url is not None:
            check_url(self.url)
        if self.command is not None and (
            isinstance(self.command, str) or not self.command or not all(isinstance(each, str) for each in self.command)
        ):
            raise InvalidRequest('hook: command is a list of a program and its arguments, like ["./check", "--strict"]')
        if type(self.timeout_ms) is not int or not 1 <= self.timeout_ms <= _LONGEST_MS:
            raise InvalidRequest(f"hook: timeout_ms has to be from 1 to {_LONGEST_MS}")
        if len(self.matcher) > _MOST_MATCHER:
            raise InvalidRequest(f"hook: matcher has {len(self.matcher)} characters; at most {_MOST_MATCHER}")
        _ = self._pattern  # a wrong one shows now

    @cached_property
    def _pattern(self) -> Any:
        try:
            return jsonschema_rs.validator_for({"pattern": self.matcher}, pattern_options=_ENGINE)
        except (ValueError, TypeError):
            raise InvalidRequest(f"hook: matcher {self.matcher[:100]!r} is no regular expression") from None

    @property
    def place(self) -> str:
        """What it is, for the operator's log."""
        if self.url is not None:
            return self.url
        return " ".join(self.command) if self.command else getattr(self.function, "__qualname__", repr(self.function))

    def matches(self, tool_name: str) -> bool:
        """Whether it is asked about this tool; yes, if that would take too long to find out."""
        try:
            return bool(self._pattern.is_valid(tool_name))
        except ValueError:
            return True

    def declared(self) -> dict[str, Any]:
        """As JSON; of a function, all but the function."""
        about = {"event": self.event, "matcher": self.matcher, "timeout_ms": self.timeout_ms, "payload": self.payload}
        if self.url is not None:
            return {**about, "type": "http", "url": self.url}
        return {**about, "type": "python"} if self.command is None else about | {"type": "command"}


def hook_from_declared(said: Mapping[str, Any]) -> Hook:
    """The hook again. One whose function or command is gone fails, and so denies."""
    about = {name: said[name] for name in ("event", "matcher", "timeout_ms", "payload")}
    if said["type"] == "http":
        return Hook(**about, url=said["url"])
    return Hook(**about, function=_gone)


def gone(hook: Hook) -> Hook:
    """One that denies what this one was asked about, for one that cannot be asked any more."""
    return Hook(event=hook.event, matcher=hook.matcher, payload=hook.payload, function=_gone)


def _gone(_: dict[str, Any]) -> None:
    raise ToolError("it is no more: the program that had it has ended, or its URL is not allowed any more")


DENY_ALL: Final = Hook(event="PreToolUse", function=_gone)  # for a session whose hooks cannot be read any more


class Hooks:
    """The hooks of a session: those of the operator first, then its own, each in the order they were given."""

    def __init__(self, of_operator: Sequence[Hook], own: Sequence[Hook]) -> None:
        self._hooks = (*of_operator, *own)
        self._found: dict[tuple[HookEvent, str], tuple[Hook, ...]] = {}

    def of(self, event: HookEvent, tool_name: str) -> tuple[Hook, ...]:
        """Those that see this event of this tool."""
        if not self._hooks:
            return ()
        key = (event, tool_name)
        if key not in self._found:
            self._found[key] = tuple(each for each in self._hooks if each.event == event and each.matches(tool_name))
        return self._found[key]
