"""The sessions of a service, each of one tenant, whose name is the `key` here: a tenant sees its own alone."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from codemode.calls.background import Background
from codemode.calls.hooks import DENY_ALL, Hook, gone
from codemode.errors import CodeModeError, InvalidRequest, SessionNotFound, TooManySessions
from codemode.journal.reading import SessionState
from codemode.journal.rows import SessionRow
from codemode.limits import Limits
from codemode.mcp.config import McpServer
from codemode.mcp.extra import check_installed
from codemode.sessions.declaration import Declaration
from codemode.sessions.host import SessionHost
from codemode.sessions.session import Session
from codemode.tools.declaration import unavailable
from codemode.tools.tool import HttpHandler, Tool

_log = logging.getLogger(__name__)

DEFAULT: Final = "default"


class Sessions:
    """All of them. `tools` are available in every session, beside its own."""

    def __init__(self, host: SessionHost, limits: Limits, tools: Sequence[Tool]) -> None:
        self._host = host
        self._limits = limits
        self._tools = tools
        self._sessions: dict[tuple[str, str], Session] = {}  # (key, session id)
        self._closing = Background()

    def __len__(self) -> int:
        return len(self._sessions)

    def all(self) -> list[Session]:
        """Those of every key."""
        return list(self._sessions.values())

    def of(self, key: str) -> list[Session]:
        """Those of one key, in the order they were made."""
        return [session for session in self._sessions.values() if session.key == key]

    def find(self, key: str, session_id: str) -> Session:
        """One of this key. Raises SessionNotFound."""
        session = self._sessions.get((key, session_id))
        if session is None:
            raise SessionNotFound(session_id)
        return session

    def has(self, key: str, session_id: str) -> bool:
        """Whether there is one."""
        return (key, session_id) in self._sessions

    def make(self, key: str, declaration: Declaration, session_id: str | None = None) -> Session:
        """A new one. Raises InvalidRequest, ToolNameCollision, TooManySessions."""
        mine = len(self.of(key))
        if mine >= self._limits.max_sessions_key:
            raise TooManySessions(f"there are {mine} sessions, as many as one tenant may have; delete one")
        if session_id is not None and self.has(key, session_id):
            raise InvalidRequest(f"there is a session {session_id} already")
        for tool in declaration.tools:
            self._check_url(tool)
        for hook in declaration.hooks:
            if hook.url is not None:
                self._host.http.allowed.check(hook.url)
        for server in declaration.mcp_servers:
            self._check_server(server)
        try:
            said = declaration.encode()
        except ValueError as problem:
            raise InvalidRequest(f"metadata or a tool's schema cannot be written as JSON: {problem}") from None
        now = time.time()
        row = SessionRow(0, session_id or secrets.token_hex(12), key, now, now, 0, said)
        session = Session(self._host, row, [*self._tools, *declaration.tools], declaration)
        session.begin()
        self._sessions[key, session.session_id] = session
        return session

    def restore(self, state: SessionState) -> None:
        """One of an earlier run, under the settings that there are now; what of it does not fit them is left out."""
        key, session_id = state.row.key, state.row.session_id
        try:
            declaration = Declaration.decode(state.row.declaration, self._limits)
        except (CodeModeError, ValueError, KeyError, TypeError, AttributeError):
            _log.exception("session %s is restored without its own tools and limits", session_id)
            declaration = Declaration(limits=self._limits, metadata={}, hooks=[DENY_ALL])
        try:
            declaration = self._with_usable_servers(declaration)
            own = [self._usable(tool) for tool in declaration.tools]
            declaration = replace(declaration, hooks=[self._usable_hook(hook) for hook in declaration.hooks])
            session = Session(self._host, state.row, [*self._tools, *own], declaration)
        except CodeModeError as problem:
            _log.warning("session %s is restored without its own tools: %s", session_id, problem.detail)
            session = Session(self._host, state.row, self._tools, declaration)
        session.restore(state)
        self._sessions[key, session_id] = session
        if declaration.is_transient:  # when its hooks were told what became of its calls
            self._closing.start(session.close())

    def forget(self, session: Session) -> None:
        """It was closed."""
        del self._sessions[session.key, session.session_id]

    def unused_since(self, moment: float) -> list[Session]:
        """Those that nobody has used since then."""
        return [each for each in self._sessions.values() if each.used_at < moment and not each.is_in_use]

    def forget_oldest_cells(self, enough: int) -> int:
        """Forget ended cells, those first that ended first, until they held so many bytes; how many they held."""
        freed = 0
        while freed < enough:
            ended = [session for session in self._sessions.values() if session.oldest_end is not None]
            if not ended:
                break
            freed += min(ended, key=lambda session: session.oldest_end or 0.0).forget_oldest_cell()
        return freed

    def _check_server(self, server: McpServer) -> None:
        if server.url is not None:
            self._host.http.allowed.check(server.url)

    def _with_usable_servers(self, declaration: Declaration) -> Declaration:
        usable, lost = [], [*declaration.lost_mcp_servers]
        taken = {each.name for each in self._host.mcp_servers}
        for server in declaration.mcp_servers:
            try:
                self._check_server(server)
                check_installed()
            except InvalidRequest:
                lost.append((server.name, "its URL is not allowed any more"))
            else:
                if server.name in taken:
                    lost.append((server.name, "the service has one of this name now"))
                else:
                    usable.append(server)
        return replace(declaration, mcp_servers=usable, lost_mcp_servers=lost)

    def _check_url(self, tool: Tool) -> None:
        if isinstance(tool.handler, HttpHandler):
            self._host.http.allowed.check(tool.handler.url)

    def _usable_hook(self, hook: Hook) -> Hook:
        """The hook, or one in its place that denies, if its URL is not allowed any more."""
        try:
            if hook.url is not None:
                self._host.http.allowed.check(hook.url)
        except InvalidRequest:
            return gone(hook)
        return hook

    def _usable(self, tool: Tool) -> Tool:
        try:
            self._check_url(tool)
        except InvalidRequest:
            return unavailable(tool, "its URL is not allowed any more")
        return tool
