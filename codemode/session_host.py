"""What a session needs of the service that it lives in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from anyio import CapacityLimiter

from codemode.isolation.pool import Pool
from codemode.tools.http import HttpTools

if TYPE_CHECKING:
    from codemode.session import Session


class SessionHost(Protocol):
    """The service that a session lives in."""

    @property
    def pool(self) -> Pool: ...
    @property
    def http(self) -> HttpTools: ...
    @property
    def threads(self) -> CapacityLimiter: ...
    def admit_cell(self) -> None:
        """Raises TooManyCells or ShuttingDown if no further cell may start now; else counts one more."""

    def release_cell(self) -> None:
        """One cell less."""

    def forget_session(self, session: Session) -> None:
        """The session was closed."""
