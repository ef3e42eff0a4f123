"""The client for programs that block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Self, Unpack, overload

import httpx

from codemode.cells.observation import Observation, PendingToolCall, ToolResult
from codemode.client import flows
from codemode.client.actions import Actions
from codemode.client.answers import CellDetail, CellInfo, SessionInfo, SessionSummary, SessionTool
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
from codemode.client.senders import Sender
from codemode.client.tool_run import MOST_PARALLEL, ToolRun


class _Calls(Actions):
    """What a session can be asked. All methods may raise httpx.TransportError when no answer could be had."""

    def __init__(self, sender: Sender, session: SessionFlows) -> None:
        self._sender = sender
        self._flows = session

    def exec(self, source: str, **options: Unpack[ExecOptions]) -> Observation:
        """Run a script; answers when it ends, yields, needs a client tool, or `yield_time_ms` has passed.

        It runs once, and a lost answer is asked for again, unless `idempotency_key` is False; then a lost
        connection raises at once, and the script may have run or not. "Once" holds while the service knows the
        cell: in the session `default` of a service without a data directory it would run again if the answer
        is lost with the service. A script that fails raises nothing: see the observation's `error`. Raises
        InvalidRequest, InvalidSource, PayloadTooLarge, SessionNotFound, TooManyCells, TooManyExecs, ShuttingDown.
        """
        return self._sender.run(self._flows.exec(source, **options))

    def wait(self, cell_id: str, **options: Unpack[WaitOptions]) -> Observation:
        """What a cell has put out since the last answer, or its end, for which it waits `yield_time_ms`.

        After a lost answer it asks, first without waiting, for all since the last cursor that this client
        has seen of the cell: no output is lost, and `running` may come before the yield time has passed.
        Raises InvalidRequest, SessionNotFound, CellNotFound, and CellBusy while somebody else waits.
        """
        return self._sender.run(self._flows.wait(cell_id, **options))

    def terminate(self, cell_id: str) -> Observation:
        """End a cell; the output that was left. A cell that had ended answers its real end. Raises as `wait`."""
        return self._sender.run(self._flows.wait(cell_id, terminate=True))

    @overload
    def tool_results(self, results: Iterable[ToolResult]) -> int: ...
    @overload
    def tool_results(
        self, results: Iterable[ToolResult], *, cell_id: str, yield_time_ms: int | None = None
    ) -> Observation: ...
    def tool_results(
        self, results: Iterable[ToolResult], *, cell_id: str | None = None, yield_time_ms: int | None = None
    ) -> int | Observation:
        """Hand in results of `pending_tool_calls`, all or none; how many, or as `wait` the observation of `cell_id`.

        After a lost answer they are handed in once all the same; those that are found settled are left out.
        Raises as `wait`, and ToolCallNotFound, ToolCallAlreadyResolved, with the call in `fields`, PayloadTooLarge;
        ValueError or TypeError for what JSON cannot hold.
        """
        if cell_id is None:
            return self._sender.run(self._flows.hand_in(results))
        return self._sender.run(self._flows.hand_in_and_wait(results, cell_id, yield_time_ms))

    def cells(self) -> list[CellInfo]:
        """The cells that are known, in the order of their start. Raises SessionNotFound."""
        return self._sender.run(self._flows.cells())

    def cell(self, cell_id: str) -> CellDetail:
        """One cell with its record of nested calls. Raises SessionNotFound, CellNotFound."""
        return self._sender.run(self._flows.cell(cell_id))

    def events(self, after: int = 0, cell_id: str | None = None) -> Iterator[dict[str, Any]]:
        """The events after a number, of the session or of one cell, as they come; see docs/http.md for what they say.

        Ends with the session or the cell. A stream that is cut is asked for again from where it was, until the
        client's patience ends; each event and each heartbeat gives it back whole. Raises SessionNotFound,
        CellNotFound, TooManyFollowers.
        """
        following = self._flows.follow(after, cell_id)
        while not following.is_over:
            problem: Exception | None = None
            try:
                with self._sender.stream(following.request()) as response:
                    for line in response.iter_lines() if following.begins(response) else ():
                        event = following.take(line)
                        if event is not None:
                            yield event
            except LOST as lost:
                problem = lost
            following.cut(problem)

    def run(
        self, source: str, tools: Mapping[str, ClientTool] | None = None, **options: Unpack[RunOptions]
    ) -> Observation:
        """Run a script to its end; `tools` are functions, by tool name, that fulfil its client calls.

        The observation has all `output`, uncut; `max_output_tokens` cuts `model_output` alone. Functions
        take the call's input, run on threads, up to 64 at once, and give a JSON value. One that raises
        fails its call with the text of a ToolError, or the type's name of any other exception. Functions
        still running when the script has ended go on, and their results are dropped. If this raises, as
        `exec` and `wait` do, the cell is terminated.
        """
        run = ToolRun(self._flows, tools or {})
        return self._to_the_end(run, lambda start: run.execute(start, source, **options))

    def run_until_done(
        self, cell_id: str, tools: Mapping[str, ClientTool] | None = None, *, max_output_tokens: int | None = None
    ) -> Observation:
        """As `run`, for a cell that runs already: calls that are pending are fulfilled, output is all since its start.

        Raises as `wait`.
        """
        run = ToolRun(self._flows, tools or {})
        return self._to_the_end(run, lambda start: run.follow(start, cell_id, budget=max_output_tokens))

    def _to_the_end(
        self, run: ToolRun, flow: Callable[[Callable[[PendingToolCall], object]], Flow[Observation]]
    ) -> Observation:
        posting = threading.Lock()
        threads = ThreadPoolExecutor(MOST_PARALLEL, "codemode-tool")
        try:
            return self._sender.run(flow(lambda call: threads.submit(self._fulfil, run, call, posting)))
        except BaseException:
            with suppress(Exception):
                self._sender.run(run.abandon())
            raise
        finally:
            run.is_over = True
            threads.shutdown(wait=False, cancel_futures=True)

    def _fulfil(self, run: ToolRun, call: PendingToolCall, posting: threading.Lock) -> None:
        try:
            result = run.gave(call, run.function(call)(call.input))
        except BaseException as problem:  # a thread's SystemExit would leave the script waiting
            result = run.raised(call, problem)
        run.finished.append(result)
        with posting:
            self._sender.run(run.hand_in())


class ClientSession(_Calls):
    """A session; as a context manager it deletes the session at the end, which ends its cells."""

    def __init__(self, sender: Sender, info: SessionInfo, patience_s: float) -> None:
        super().__init__(sender, SessionFlows(info.session_id, patience_s, model_warnings=info.model_warnings))
        self.info = info

    @property
    def session_id(self) -> str:
        """Its id, with which `CodeModeClient.session` finds it again."""
        return self.info.session_id

    @property
    def tools(self) -> list[SessionTool]:
        """Its tools, those of the server included."""
        return self.info.tools

    def delete(self) -> None:
        """End its cells and forget it. Raises SessionNotFound."""
        self._sender.run(self._flows.delete())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        delete = self._flows.delete(missing_ok=True)
        if kind is None:
            self._sender.run(delete)
        else:  # the caller has to see that exception, not what comes of it
            with suppress(Exception):
                self._sender.run(delete)


class CodeModeClient(_Calls):
    """A client of the service at `base_url`; its own exec, wait, … act on the session named `default`.

    `api_key` is sent as a bearer token. `margin_s` seconds may pass for connecting, for sending, and for an
    answer beyond what the service was asked to wait. While the service is away, or refuses with a 503 (after
    its `Retry-After`), it is asked again wherever that is harmless, until an outage has lasted `patience_s`
    seconds; then httpx.TransportError is raised, or the exception of the refusal. With 0 nothing is asked
    again. Refusals raise the exception of codemode.errors that has their code, else CodeModeError; a 429 is
    not asked again. May be used by several threads. Use it as a context manager, or `close` it.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        api_key: str | None = None,
        *,
        margin_s: float = DEFAULT_MARGIN_S,
        patience_s: float = DEFAULT_PATIENCE_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        http = httpx.Client(**http_options(base_url, api_key), transport=transport)
        super().__init__(Sender(http, margin_s), SessionFlows("default", patience_s))
        self._patience_s = patience_s

    def create_session(self, **options: Unpack[SessionOptions]) -> ClientSession:
        """A new session. It is not asked for twice: when the answer to a request that was sent is lost, this raises.

        Raises InvalidRequest, ToolNameCollision, TooManySessions, ShuttingDown.
        """
        info = self._sender.run(flows.create_session(**options, patience_s=self._patience_s))
        return ClientSession(self._sender, info, self._patience_s)

    def session(self, session_id: str) -> ClientSession:
        """A session that exists, perhaps made by another program. Raises SessionNotFound."""
        info = self._sender.run(SessionFlows(session_id, self._patience_s).show())
        return ClientSession(self._sender, info, self._patience_s)

    def sessions(self) -> list[SessionSummary]:
        """The sessions of this client's key, in the order they were made; `default` if it was used."""
        return self._sender.run(flows.sessions(self._patience_s))

    def health(self) -> dict[str, Any]:
        """The answer of /healthz: the service is alive. Not retried."""
        return self._sender.run(flows.ask("/healthz"))

    def ready(self) -> dict[str, Any]:
        """The answer of /readyz: scripts can be started. Not retried.

        Raises ShuttingDown, or CodeModeError with code `isolation_unavailable`, if they cannot.
        """
        return self._sender.run(flows.ask("/readyz"))

    def close(self) -> None:
        """Close the connections."""
        self._sender.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
