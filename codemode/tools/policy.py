"""What a tool's declaration allows of its use. It is enforced here at the host, whatever a script does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal

from codemode.errors import InvalidRequest

Caller = Literal["direct", "programmatic"]
CALLERS: Final[tuple[Caller, ...]] = ("direct", "programmatic")
_LONGEST_MS: Final = 86_400_000
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """Bounds of a tool's use. Raises InvalidRequest for what makes no sense.

    `allowed_callers`: "direct" for calls of the API, "programmatic" for those of scripts. `timeout_ms`: how long one
    call may take, from when it is handed to the tool. `max_concurrency`: calls of this tool in a session that run at
    once, the others queue. `max_calls`: calls that one script may make. `max_result_bytes`: JSON length of a result,
    beside that of the session. `requires_approval`: a person decides about every call. `annotations` are those of
    MCP (`title`, `readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`); they are told, not enforced.
    """

    allowed_callers: Sequence[Caller] = CALLERS
    timeout_ms: int | None = None
    max_concurrency: int | None = None
    max_calls: int | None = None
    max_result_bytes: int | None = None
    requires_approval: bool = False
    annotations: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        callers = self.allowed_callers
        if not isinstance(callers, tuple | list) or not callers or not set(callers) <= set(CALLERS):
            raise InvalidRequest("allowed_callers: expected some of direct, programmatic")
        object.__setattr__(self, "allowed_callers", tuple(each for each in CALLERS if each in callers))
        for name, least in (("timeout_ms", 1), ("max_concurrency", 1), ("max_calls", 0), ("max_result_bytes", 0)):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < least):
                raise InvalidRequest(f"{name}: expected a whole number from {least}, got {str(value)[:40]}")
        if self.timeout_ms is not None and self.timeout_ms > _LONGEST_MS:
            raise InvalidRequest(f"timeout_ms: at most {_LONGEST_MS}, a day")
        for hint, value in self.annotations.items():
            if hint in _HINTS and not isinstance(value, bool):
                raise InvalidRequest(f"annotations.{hint}: expected true or false")

    def declared(self) -> dict[str, Any]:
        """As JSON; only what differs from no policy."""
        said = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in said.items() if value != getattr(NO_POLICY, name)}

    @classmethod
    def from_declared(cls, said: Mapping[str, Any]) -> ToolPolicy:
        """The policy in what a tool declares."""
        mine = {each.name: said[each.name] for each in fields(cls) if each.name in said}
        return cls(**mine) if mine else NO_POLICY


NO_POLICY: Final = ToolPolicy()
