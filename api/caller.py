"""Who sent a request, and whether it was refused: noted where that is found out, for whoever needs it elsewhere."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request

_PLACE: Final = "codemode.caller"


def _always() -> bool:
    return True


@dataclass(slots=True)
class Caller:
    """`tenant` is None until the key was checked, and empty where no keys are needed. `refusal` is a problem's code.

    `may_stay` says whether the key would be let in now, for answers that go on for hours.
    """

    tenant: str | None = None
    refusal: str | None = None
    may_stay: Callable[[], bool] = _always


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
