"""The client for async programs; what its methods do and raise is said in `blocking`."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, Self, Unpack, overload

import anyio
import anyio.to_thread
import httpx

from codemode.cells.observation import Observation, PendingToolCall, ToolResult
from codemode.client import flows
from codemode.client.answers import CellDetail, CellInfo, SessionInfo, SessionSummary, SessionTool
from codemode.client.async_actions import AsyncActions
from codemode.client.flows import SessionFlows
from codemode.client.patience import LOST
from codemode.client.requests import (
    DEFAULT_MARGIN_S,
    DEFAULT_PATIENCE_S,
    ClientTool,
    ExecOptions,
    Flow,
    RunOptions,
    SessionOptions,
    WaitOptions,
    http_options,
)
from codemode.client.senders import AsyncSender
from codemode.client.tool_run import MOST_PARALLEL, ToolRun

_FAREWELL_S: Final = 5.0  # for ending what a cancelled task leaves behind


class _Calls(AsyncActions):
    """What a session can be asked."""

    def __init__(self, sender: AsyncSender, session: SessionFlows) -> None:
        self._sender = sender
        self._flows = session

    async def exec(self, source: str, **options: Unpack[ExecOptions]) -> Observation:
        """As `CodeModeClient.exec`. Cancelling it leaves the script running."""
        return await self._sender.run(self._flows.exec(source, **options))

    async def wait(self, cell_id: str, **options: Unpack[WaitOptions]) -> Observation:
        """As `CodeModeClient.wait`. Cancelling it leaves the cell running, for another to wait for."""
        return await self._sender.run(self._flows.wait(cell_id, **options))

    async def terminate(self, cell_id: str) -> Observation:
        """As `CodeModeClient.terminate`."""
        return await self._sender.run(self._flows.wait(cell_id, terminate=True))

    @overload
    async def tool_results(self, results: Iterable[ToolResult]) -> int: ...
    @overload
    async def tool_results(
        self, results: Iterable[ToolResult], *, cell_id: str, yield_time_ms: int | None = None
    ) -> Observation: ...
    async def tool_results(
        self, results: Iterable[ToolResult], *, cell_id: str | None = None, yield_time_ms: int | None = None
    ) -> int | Observation:
        """As `CodeModeClient.tool_results`."""
        if cell_id is None:
            return await self._sender.run(self._flows.hand_in(results))
        return await self._sender.run(self._flows.hand_in_and_wait(results, cell_id, yield_time_ms))

    async def events(self, after: int = 0, cell_id: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """As `CodeModeClient.events`."""
        following = self._flows.follow(after, cell_id)
        while not following.is_over:
            problem: Exception | None = None
            try:
                async with self._sender.stream(following.request()) as response:
                    if following.begins(response):
                        async for line in response.aiter_lines():
                            event = following.take(line)
                            if event is not None:
                                yield event
            except LOST as lost:
                problem = lost
            following.cut(problem)

    async def cells(self) -> list[CellInfo]:
        """As `CodeModeClient.cells`."""
        return await self._sender.run(self._flows.cells())

    async def cell(self, cell_id: str) -> CellDetail:
        """As `CodeModeClient.cell`."""
        return await self._sender.run(self._flows.cell(cell_id))

    async def run(
        self, source: str, tools: Mapping[str, ClientTool] | None = None, **options: Unpack[RunOptions]
    ) -> Observation:
        """As `CodeModeClient.run`, with functions that may be async.

        Async functions run as tasks, all at once, and are cancelled when the script has ended; the others
        run on threads. Cancelling this terminates the cell.
        """
        run = ToolRun(self._flows, tools or {})
        return await self._to_the_end(run, lambda start: run.execute(start, source, **options))

    async def run_until_done(
        self, cell_id: str, tools: Mapping[str, ClientTool] | None = None, *, max_output_tokens: int | None = None
    ) -> Observation:
        """As `CodeModeClient.run_until_done`, with functions as for `run`."""
        run = ToolRun(self._flows, tools or {})
        return await self._to_the_end(run, lambda start: run.follow(start, cell_id, budget=max_output_tokens))

    async def _to_the_end(
        self, run: ToolRun, flow: Callable[[Callable[[PendingToolCall], object]], Flow[Observation]]
    ) -> Observation:
        posting, threads = anyio.Lock(), anyio.CapacityLimiter(MOST_PARALLEL)
        problem: Exception | None = None
        try:
            async with anyio.create_task_group() as tasks:
                try:
                    return await self._sender.run(
                        flow(lambda call: tasks.start_soon(self._fulfil, run, call, posting, threads))
                    )
                except Exception as raised:  # from within, the group would wrap it
                    problem = raised
                finally:
                    run.is_over = True
                    tasks.cancel_scope.cancel()
            assert problem is not None
            raise problem
        except BaseException:
            with suppress(Exception), anyio.move_on_after(_FAREWELL_S, shield=True):
                await self._sender.run(run.abandon())
            raise

    async def _fulfil(
        self, run: ToolRun, call: PendingToolCall, posting: anyio.Lock, threads: anyio.CapacityLimiter
    ) -> None:
        try:
            result = run.gave(call, await _outcome(run.function(call), call.input, threads))
        except Exception as problem:
            result = run.raised(call, problem)
        run.finished.append(result)
        async with posting:
            await self._sender.run(run.hand_in())


async def _outcome(function: ClientTool, given: Any, threads: anyio.CapacityLimiter) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(given)
    output = await anyio.to_thread.run_sync(function, given, abandon_on_cancel=True, limiter=threads)
    return await output if inspect.isawaitable(output) else output


class AsyncClientSession(_Calls):
    """A session; as an async context manager it deletes the session at the end, which ends its cells."""

    def __init__(self, sender: AsyncSender, info: SessionInfo, patience_s: float) -> None:
        super().__init__(sender, SessionFlows(info.session_id, patience_s, model_warnings=info.model_warnings))
        self.info = info

    @property
    def session_id(self) -> str:
        """Its id, with which `AsyncCodeModeClient.session` finds it again."""
        return self.info.session_id

    @property
    def tools(self) -> list[SessionTool]:
        """Its tools, those of the server included."""
        return self.info.tools

    async def delete(self) -> None:
        """End its cells and forget it. Raises SessionNotFound."""
        await self._sender.run(self._flows.delete())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        delete = self._flows.delete(missing_ok=True)
        if kind is None:
            await self._sender.run(delete)
        else:  # the caller has to see that exception, not what comes of it
            with suppress(Exception), anyio.move_on_after(_FAREWELL_S, shield=True):
                await self._sender.run(delete)


class AsyncCodeModeClient(_Calls):
    """`CodeModeClient` for async programs: the same arguments, guarantees and errors.

    async with AsyncCodeModeClient(url) as client, await client.create_session(tools=…) as session:
        await session.run(source, tools={"get_weather": get_weather})
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        api_key: str | None = None,
        *,
        margin_s: float = DEFAULT_MARGIN_S,
        patience_s: float = DEFAULT_PATIENCE_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        http = httpx.AsyncClient(**http_options(base_url, api_key), transport=transport)
        super().__init__(AsyncSender(http, margin_s), SessionFlows("default", patience_s))
        self._patience_s = patience_s

    async def create_session(self, **options: Unpack[SessionOptions]) -> AsyncClientSession:
        """As `CodeModeClient.create_session`."""
        info = await self._sender.run(flows.create_session(**options, patience_s=self._patience_s))
        return AsyncClientSession(self._sender, info, self._patience_s)

    async def session(self, session_id: str) -> AsyncClientSession:
        """As `CodeModeClient.session`."""
        info = await self._sender.run(SessionFlows(session_id, self._patience_s).show())
        return AsyncClientSession(self._sender, info, self._patience_s)

    async def sessions(self) -> list[SessionSummary]:
        """As `CodeModeClient.sessions`."""
        return await self._sender.run(flows.sessions(self._patience_s))

    async def health(self) -> dict[str, Any]:
        """As `CodeModeClient.health`."""
        return await self._sender.run(flows.ask("/healthz"))

    async def ready(self) -> dict[str, Any]:
        """As `CodeModeClient.ready`."""
        return await self._sender.run(flows.ask("/readyz"))

    async def close(self) -> None:
        """Close the connections."""
        await self._sender.http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
