"""Who sent a request, and whether it was refused: noted where that is found out, for whoever needs it elsewhere."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request

_PLACE: Final = "codemode.caller"


def _always() -> bool:
    return True


def _never(_: str) -> bool:
    return False


@dataclass(slots=True)
class Caller:
    """`tenant` is None until the key was checked, and empty where no keys are needed. `refusal` is a problem's code.

    `may_stay` says whether the key would be let in now, for answers that go on for hours. `is_full_for` says of a
    tenant whether it has been told so much already, and has not taken it in, that it is told no more.
    """

    tenant: str | None = None
    refusal: str | None = None
    may_stay: Callable[[], bool] = _always
    is_full_for: Callable[[str], bool] = _never

    @property
    def has_untaken(self) -> bool:
        """Whether there must not be another answer before clients have taken in earlier ones."""
        return self.is_full_for(self.tenant or "")


def enter(scope: MutableMapping[str, Any]) -> Caller:
    """The caller of this request, made when it is asked for first."""
    caller: Caller | None = scope.get(_PLACE)
    if caller is None:
        caller = scope[_PLACE] = Caller()
    return caller


def tenant(request: Request) -> str:
    """Whose sessions this request may see. A request that nobody has checked sees none: that is a fault of ours."""
    found = enter(request.scope).tenant
    if found is None:
        raise RuntimeError("a request reached a route without having passed the check of its key")
    return found
