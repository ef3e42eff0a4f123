"""CodeMode: the whole service without HTTP. It owns the sessions and the pool of cell processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Literal

from anyio import CapacityLimiter

from codemode.calls.approvals import ApprovalPolicy
from codemode.calls.hooks import Hook
from codemode.calls.slots import ToolThreads
from codemode.cells.observation import Observation
from codemode.errors import InvalidRequest, ShuttingDown, TooManyCells
from codemode.isolation.pool import Pool
from codemode.isolation.zygote_process import ZygoteOptions
from codemode.journal.journal import Journal
from codemode.journal.sqlite_journal import SqliteJournal
from codemode.keys.quotas import Quotas
from codemode.limits import Limits
from codemode.mcp.config import McpServer
from codemode.mcp.servers import usable_servers
from codemode.processes.table import Processes
from codemode.processes.tools import command_tools
from codemode.sessions.declaration import Declaration, checked_hooks, checked_tools
from codemode.sessions.housekeeping import Housekeeping
from codemode.sessions.registry import DEFAULT, Sessions
from codemode.sessions.session import Session
from codemode.tools.http import AllowedUrls, HttpTools
from codemode.tools.registry import ToolRegistry
from codemode.tools.tool import Tool
from codemode.workspace.files import workspace_tools
from codemode.workspace.paths import Root

_TOOL_THREADS: Final = 64  # sync Python tools that run at once
_HOOK_THREADS: Final = 32
_HEAVY_THREADS: Final = 3  # of the file tools: each may hold Python's lock for 5 ms at a time


def default_spares() -> int:
    """How many cell processes are kept ready: two for each processor, at least two."""
    return max(2, 2 * (os.cpu_count() or 1))


class CodeMode:
    """Runs scripts that call tools. Use it as an async context manager:

        async with CodeMode(tools=[my_tool]) as cm:
            observation = await cm.exec("text(await tools.my_tool({a: 1}))")

    `tools` are available in every session, as are the read-only file tools when a `workspace` is given, and with
    `allow_exec` those that run commands in it, and those of `mcp_servers`, which each session has for itself. `hooks`
    see every use of a tool, before those of a session. `allow_tool_urls` are the URL prefixes that http tools may be
    called at, `tool_secret` signs those calls. `spares` cell processes are kept ready. With a `data_dir`, sessions,
    their stored values, cells and events last: the next CodeMode with the same directory has them. Raises
    InvalidRequest for settings that cannot be, IsolationUnavailable if no cell process can be started; with
    `require_sandbox` SandboxUnavailable where the kernel does not confine them (without, that is a warning).
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        workspace: str | os.PathLike[str] | None = None,
        limits: Limits | Mapping[str, int] | None = None,
        allow_tool_urls: Iterable[str] = (),
        tool_secret: str | None = None,
        hooks: Iterable[Hook] = (),
        mcp_servers: Iterable[McpServer] = (),
        allow_exec: bool = False,
        spares: int | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        require_sandbox: bool = False,
    ) -> None:
        self.limits = limits if isinstance(limits, Limits) else Limits.of(limits or {})
        self.pool = Pool(default_spares() if spares is None else spares, ZygoteOptions(require_sandbox))
        self.http = HttpTools(AllowedUrls(allow_tool_urls), tool_secret)
        self.hooks = checked_hooks(hooks)
        self.mcp_servers = usable_servers(mcp_servers)
        self.command_root = _command_root(workspace) if allow_exec else None
        self._tools = [*checked_tools(tools), *(_workspace(workspace) if workspace is not None else ())]
        commands = () if self.command_root is None else command_tools(Processes(self.command_root, self.limits))
        ToolRegistry([*self._tools, *commands])  # a collision among them shows at the start
        self.sessions = Sessions(self, self.limits, self._tools)
        self._live = 0
        self._quotas = Quotas(self.limits)
        self._phase: Literal["new", "open", "draining", "closed"] = "new"
        self._idle: asyncio.Event | None = None  # set when the last cell has ended, while draining
        self._stack = AsyncExitStack()
        self.journal = Journal() if data_dir is None else SqliteJournal(data_dir)

    async def __aenter__(self) -> CodeMode:
        if self._phase != "new":  # its data directory may be another one's by now, and what it read of it old
            raise RuntimeError("CodeMode can be entered once; make another one")
        self._phase = "closed"  # until everything is there
        self.threads = ToolThreads(*map(CapacityLimiter, (_TOOL_THREADS, _HEAVY_THREADS, _HOOK_THREADS)))
        try:
            self._stack.push_async_callback(self.journal.close)
            await self._stack.enter_async_context(self.http)
            await self._stack.enter_async_context(self.pool)
            self.journal.start()
            for state in self.journal.sessions:
                self.sessions.restore(state)
            self.journal.sessions = ()  # what is in it may be many megabytes, and is old soon
            await self._stack.enter_async_context(Housekeeping(self.journal, self.sessions, self.limits))
        except BaseException:
            await self._stack.aclose()
            raise
        self._phase = "open"
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._phase = "closed"
        await asyncio.gather(*(session.leave() for session in self.sessions.all()))
        await self._stack.aclose()

    # Sessions. `key` is whoever the session belongs to: it sees its own alone.

    def create_session(
        self,
        tools: Iterable[Tool] = (),
        *,
        hooks: Iterable[Hook] = (),
        mcp_servers: Iterable[McpServer] = (),
        limits: Mapping[str, int] | Limits | None = None,
        metadata: Mapping[str, Any] | None = None,
        approval_policy: ApprovalPolicy = "never",
        model_warnings: bool = False,
        lenient_source: bool = False,
        typescript: bool = False,
        is_transient: bool = False,
        key: str = "",
        session_id: str | None = None,
    ) -> Session:
        """A new session with the service's tools and these, and these hooks after the service's own.

        `lenient_source` unwraps a source, `typescript` takes out its types (docs/script.md). URLs of its `mcp_servers`
        have to be allowed, as those of tools and hooks. A later run does not have one that `is_transient`. Raises
        InvalidRequest, ToolNameCollision, TooManySessions, ShuttingDown.
        """
        self.check_open()
        if approval_policy not in ("never", "on_request"):
            raise InvalidRequest(f"approval_policy is {str(approval_policy)[:40]!r}; expected never or on_request")
        declaration = Declaration(
            limits=self.limits.lowered(limits or {}),
            tools=checked_tools(tools),
            hooks=checked_hooks(hooks),
            mcp_servers=usable_servers(mcp_servers),
            metadata=dict(metadata or {}),
            approval_policy=approval_policy,
            model_warnings=model_warnings,
            lenient_source=lenient_source,
            typescript=typescript,
            is_transient=is_transient,
        )
        return self.sessions.make(key, declaration, session_id)

    def session(self, session_id: str, key: str = "") -> Session:
        """A session of this key; `default` is made on first use. Raises SessionNotFound."""
        return self.default_session(key) if session_id == DEFAULT else self.sessions.find(key, session_id)

    def default_session(self, key: str = "") -> Session:
        """The session named `default` of this key, with the service's own tools."""
        if self.sessions.has(key, DEFAULT):
            return self.sessions.find(key, DEFAULT)
        return self.create_session(key=key, session_id=DEFAULT)

    async def delete_session(self, session_id: str, key: str = "") -> None:
        """End its cells and forget it. Raises SessionNotFound."""
        await self.session(session_id, key).close()
        await self.journal.settled()

    def forget_session(self, session: Session) -> None:
        """It was closed."""
        self.sessions.forget(session)

    # The default session, for programs that need one only

    async def exec(
        self,
        source: str,
        *,
        yield_time_ms: int | None = None,
        max_output_tokens: int | None = None,
        tool_call_id: str | None = None,
        turn_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Observation:
        """`Session.exec` on the default session."""
        return await self.default_session().exec(
            source,
            yield_time_ms=yield_time_ms,
            max_output_tokens=max_output_tokens,
            tool_call_id=tool_call_id,
            turn_id=turn_id,
            idempotency_key=idempotency_key,
        )

    async def wait(
        self,
        cell_id: str,
        *,
        yield_time_ms: int | None = None,
        max_tokens: int | None = None,
        after: int | None = None,
    ) -> Observation:
        """`Session.wait` on the default session."""
        session = self.default_session()
        return await session.wait(cell_id, yield_time_ms=yield_time_ms, max_tokens=max_tokens, after=after)

    async def terminate(self, cell_id: str) -> Observation:
        """`Session.terminate` on the default session."""
        return await self.default_session().terminate(cell_id)

    # The whole

    @property
    def live_cells(self) -> int:
        """Cells that run."""
        return self._live

    @property
    def session_count(self) -> int:
        """Sessions that are known."""
        return len(self.sessions)

    @property
    def is_draining(self) -> bool:
        """Whether no new work is taken."""
        return self._phase in ("draining", "closed")

    def check_open(self) -> None:
        """Raises ShuttingDown while stopping, RuntimeError for a program that uses it before or after."""
        if self._phase == "draining":
            raise ShuttingDown
        if self._phase != "open":
            state = "is closed" if self._phase == "closed" else "is not started"
            raise RuntimeError(f"CodeMode {state}; use it within `async with CodeMode(…) as cm:`")

    def admit_cell(self, key: str) -> None:
        """Count one more live cell. Raises TooManyCells, TooManyExecs or ShuttingDown."""
        self.check_open()
        if self._live >= self.limits.max_cells_server:
            raise TooManyCells(f"the server runs {self._live} cells, as many as it may; try again when some have ended")
        self._quotas.admit(key)
        self._live += 1

    def release_cell(self, key: str) -> None:
        """Count one live cell less."""
        self._live -= 1
        self._quotas.release(key)
        if self._live == 0 and self._idle is not None:
            self._idle.set()

    async def drain(self, grace: float) -> None:
        """Take no new work, answer open waits; after `grace` seconds end cells, calls and commands."""
        self._phase = "draining"
        for session in self.sessions.all():
            session.answer_now()
        waited = [session.calls.direct.settled(grace) for session in self.sessions.all()]
        if self._live:
            self._idle = asyncio.Event()
            waited.append(_until(self._idle, grace))
        await asyncio.gather(*waited)
        await asyncio.gather(*(session.end_work() for session in self.sessions.all()))
        for session in self.sessions.all():  # whoever follows them would hold up the end
            session.recorder.events.close()


async def _until(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


def _command_root(workspace: str | os.PathLike[str] | None) -> Root:
    if workspace is None:
        raise InvalidRequest("commands run in a workspace: allow_exec (--allow-exec) needs one (--workspace DIR)")
    return Root(Path(workspace))


def _workspace(folder: str | os.PathLike[str]) -> list[Tool]:
    if not Path(folder).is_dir():
        raise InvalidRequest(f"the workspace {folder} is no directory")
    return workspace_tools(Path(folder))
