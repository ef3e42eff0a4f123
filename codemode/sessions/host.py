"""What a session needs of the service that it lives in, and how it is closed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, Self

from codemode.calls.hooks import Hook
from codemode.calls.slots import ToolThreads
from codemode.isolation.pool import Pool
from codemode.journal.journal import Journal
from codemode.mcp.config import McpServer
from codemode.tools.http import HttpTools
from codemode.workspace.paths import Root

if TYPE_CHECKING:
    from codemode.sessions.session import Session


class SessionHost(Protocol):
    """The service that a session lives in."""

    @property
    def pool(self) -> Pool: ...
    @property
    def http(self) -> HttpTools: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def threads(self) -> ToolThreads: ...
    @property
    def command_root(self) -> Root | None:
        """Where commands run; None where none may."""

    @property
    def hooks(self) -> Sequence[Hook]: ...
    @property
    def mcp_servers(self) -> Sequence[McpServer]: ...
    def check_open(self) -> None:
        """Raises ShuttingDown while it stops."""

    def admit_cell(self, key: str) -> None:
        """Raises TooManyCells, TooManyExecs or ShuttingDown if no further cell may start now; else counts one more."""

    def release_cell(self, key: str) -> None:
        """One cell of this key less."""

    def forget_session(self, session: Session) -> None:
        """The session was closed."""


class AsyncClosing:
    """Something that is closed when its `async with` is left."""

    async def close(self) -> None:
        """To be had from the class itself."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
