"""A session: the unit of trust. It owns its tools, limits, stored values and cells; sessions share nothing."""

from __future__ import annotations

import hashlib
import time
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from codemode.calls.call import new_tool_use_id
from codemode.cells.cell import Cell
from codemode.cells.observation import Observation, ToolResult
from codemode.cells.outcome import TERMINATED, failed, quoted_script
from codemode.cells.source import Source, read_source
from codemode.cells.waiting import check_numbers
from codemode.errors import CellNotFound, InvalidRequest, TooManyCells, TooManyFollowers
from codemode.journal.reading import SessionState
from codemode.journal.rows import SessionRow
from codemode.lifecycle.events import Event
from codemode.mcp.servers import SessionTools
from codemode.sessions.actions import SessionActions
from codemode.sessions.calling import SessionCalls
from codemode.sessions.client_results import hand_in
from codemode.sessions.commands import SessionCommands
from codemode.sessions.declaration import Declaration
from codemode.sessions.following import MOST_FOLLOWERS, follow, told
from codemode.sessions.host import AsyncClosing, SessionHost
from codemode.sessions.launcher import Launcher
from codemode.sessions.past import PastCell, past_cells
from codemode.sessions.recorder import Recorder
from codemode.sessions.shelf import AnyCell, CellShelf
from codemode.sessions.turns import Turns
from codemode.tools.tool import Tool


class Session(SessionActions, AsyncClosing):
    """Use `CodeMode.create_session` to make one. All methods are for the event loop's thread."""

    def __init__(self, host: SessionHost, about: SessionRow, tools: Iterable[Tool], declaration: Declaration) -> None:
        self.session_id = about.session_id
        self.key = about.key
        self.created_at = about.created_at
        self.used_at = about.used_at
        self.limits = declaration.limits
        self.metadata = declaration.metadata
        self.approval_policy = declaration.approval_policy
        self.model_warnings = declaration.model_warnings
        self.lenient_source, self.typescript = declaration.lenient_source, declaration.typescript
        number = about.number or host.journal.new_session()
        self.recorder = Recorder(host.journal, number)
        commands = SessionCommands(host.command_root, self.limits, self.recorder)
        servers = (*host.mcp_servers, *declaration.mcp_servers)
        self.tools = SessionTools([*tools, *commands.tools()], servers, self.limits, declaration.lost_mcp_servers)
        self._about = about._replace(number=number)
        self._host = host
        self._shelf = CellShelf(self.limits, self._forgotten)
        self._turns = Turns()
        self.calls = SessionCalls(self, host, declaration.hooks, commands, self._end_cell)
        self._last_cell = about.last_cell  # or that of the newest cell that is known
        self._live = 0
        self._launcher = Launcher(host.pool, self.limits, typescript=self.typescript)
        self._closed = self._deleted = False

    def begin(self) -> None:
        """It is new."""
        self.recorder.session_created(self.row)

    def restore(self, state: SessionState) -> None:
        """It is one of an earlier run: let it be as it was."""
        self.recorder.events.last = state.last_event
        self._launcher.store.load(state.values)
        for row in state.cells:
            self._last_cell = max(self._last_cell, row.cell)
            self.used_at = max(self.used_at, row.created_at)
        self._shelf.restore(past_cells(state.cells, self, self.recorder.read_cell))
        self.calls.restore(state)

    def row(self) -> SessionRow:
        """How it stands, for the journal."""
        return self._about._replace(used_at=self.used_at, last_cell=self._last_cell)

    # exec and wait

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
        """Run a script and answer when it ends, yields, or `yield_time_ms` (default 10 000) has passed.

        The source's first-line directive beats the arguments. With an `idempotency_key` the script runs
        once, however often this is repeated; a repeat answers with all output of that cell. Raises
        InvalidSource, PayloadTooLarge, TooManyCells, TooManyExecs, ShuttingDown; a failed script raises nothing.
        """
        check_numbers(yield_time_ms=yield_time_ms, max_output_tokens=max_output_tokens)
        read = read_source(source, self.limits.max_source_bytes, lenient=self.lenient_source)
        directive = read.directive
        yield_time = directive.yield_time_ms if directive.yield_time_ms is not None else yield_time_ms
        budget = directive.max_output_tokens if directive.max_output_tokens is not None else max_output_tokens
        digest = hashlib.sha256(source.encode()).digest()
        await self.tools_ready()
        known = None if idempotency_key is None else self._shelf.find_by_key(idempotency_key)
        if known is not None:
            return await self.recorder.told(self._repeat(known, digest, yield_time, budget))
        idempotency = None if idempotency_key is None else (idempotency_key, digest)
        cell = self._start(read, turn_id, tool_call_id, idempotency)
        return await self.recorder.told(cell.observe(yield_time, budget, is_exec=True))

    async def _repeat(self, cell: AnyCell, digest: bytes, yield_time: int | None, budget: int | None) -> Observation:
        if cell.idempotency is None or cell.idempotency[1] != digest:
            raise InvalidRequest("the Idempotency-Key was used for another source; use a new key for a new script")
        joined = await cell.join() if isinstance(cell, Cell) else None
        return joined if joined is not None else await cell.observe(yield_time, budget, after=0)

    async def wait(
        self,
        cell_id: str,
        *,
        yield_time_ms: int | None = None,
        max_tokens: int | None = None,
        after: int | None = None,
        terminate: bool = False,
    ) -> Observation:
        """What a cell has put out since the last answer, or its end; waits up to `yield_time_ms` for the end.

        `after` gives everything after that cursor again; `terminate` ends a running cell. Raises
        CellNotFound, and CellBusy while another wait is pending.
        """
        check_numbers(yield_time_ms=yield_time_ms, max_tokens=max_tokens, after=after)
        cell = self.cell(cell_id)
        return await self.recorder.told(cell.observe(yield_time_ms, max_tokens, after, terminate=terminate), cell)

    async def terminate(self, cell_id: str) -> Observation:
        """End a cell and get its remaining output; a cell that had ended answers its real end."""
        return await self.wait(cell_id, terminate=True)

    def tool_results(self, results: Iterable[ToolResult]) -> int:
        """Hand in results of client calls; all of them or, if one cannot be taken, none. Returns their number.

        Raises CellNotFound, ToolCallNotFound, ToolCallAlreadyResolved.
        """
        return hand_in(results, self.cell)

    def check_observable(self, cell_id: str) -> None:
        """Raises CellNotFound or CellBusy if a wait on this cell would, before anything has happened."""
        cell = self.cell(cell_id)
        if isinstance(cell, Cell):
            cell.check_observable()

    # Cells

    def cells(self) -> list[AnyCell]:
        """All cells that are known, in the order they were started."""
        return self._shelf.all()

    def cell(self, cell_id: str) -> AnyCell:
        """One cell. Raises CellNotFound, SessionNotFound."""
        self._check_open()
        self.used_at = time.time()
        cell = self._shelf.find(cell_id)
        if cell is None:
            raise CellNotFound(cell_id)
        return cell

    async def whole_cell(self, cell_id: str) -> AnyCell:
        """One cell with its ledger, which may have to be read. Raises what `cell` does, and JournalUnavailable."""
        cell = self.cell(cell_id)
        if isinstance(cell, PastCell):
            await cell.load()
        return cell

    def _start(
        self, source: Source, turn_id: str | None, tool_call_id: str | None, idempotency: tuple[str, bytes] | None
    ) -> Cell:
        self._check_open()
        if self._live >= self.limits.max_cells_session:
            raise TooManyCells(
                f"the session has {self._live} live cells, as many as it may; wait for one to end, or terminate one"
            )
        self._host.admit_cell(self.key)
        self._live += 1
        self._last_cell += 1
        self.used_at = time.time()
        parent = tool_call_id or new_tool_use_id()
        cell = Cell(str(self._last_cell), self, source.text, turn_id, tool_call_id, parent)
        cell.idempotency = idempotency
        self._shelf.add(cell)
        cell.bridge = self.calls.bridge(cell, cell.cell_id, turn_id, parent)
        self.tools.warn(cell.warn)
        self.recorder.cell_started(cell)
        if source.said is not None:
            cell.warn(source.said)
        quoted = quoted_script(source.text)
        if quoted is not None:
            cell.end(failed(quoted))
            return cell
        cell.start_again = lambda: self._launcher.launch(cell, source.text)
        self._launcher.launch(cell, source.text)
        return cell

    def events(self, after: int = 0, cell_id: str | None = None) -> AsyncGenerator[dict[str, Any], None]:
        """The events after a number, of the session or of one cell, as they come: objects as in docs/http.md.

        Ends with the session or the cell. Raises CellNotFound, SessionNotFound, TooManyFollowers, JournalUnavailable.
        """
        return told(self.follow(after, cell_id), self.session_id)

    def follow(self, after: int = 0, cell_id: str | None = None) -> AsyncGenerator[Event | None, None]:
        """The same events as this program has them; see `codemode.sessions.following.follow`.

        Raises CellNotFound, SessionNotFound, TooManyFollowers.
        """
        self._check_open()
        if self.recorder.followers >= MOST_FOLLOWERS:
            raise TooManyFollowers(f"{MOST_FOLLOWERS} follow the events of this session, as many as may")
        return follow(self.recorder, after, None if cell_id is None else self.cell(cell_id))

    # What cells ask of their session

    def commit(self, cell: Cell) -> list[str]:
        """Merge a cell's values, key by key; names the keys that another cell wrote while it ran."""
        warnings = self._launcher.commit(cell)
        values = self._launcher.store.values
        self.recorder.values_written({key: values.get(key) for key in cell.stored})
        return warnings

    def cell_ended(self, cell: Cell) -> None:
        """Count it off, and keep it for its time."""
        self._live -= 1
        self._host.release_cell(self.key)
        self._launcher.ended(cell)
        self.recorder.cell_ended(cell)
        self._shelf.ended(cell)

    def forget_oldest_cell(self) -> int:
        """Forget the cell that ended first, to make room; about the bytes that it held."""
        return self._shelf.forget_oldest()

    @property
    def oldest_end(self) -> float | None:
        """When the cell has ended that is kept for the longest time."""
        return self._shelf.oldest_end

    @property
    def is_in_use(self) -> bool:
        """Whether something runs in it, or somebody follows it."""
        return self._live > 0 or self.recorder.followers > 0 or self.calls.is_busy

    @property
    def live_cells(self) -> int:
        """How many cells run."""
        return self._live

    def _forgotten(self, cell: AnyCell) -> None:
        self.recorder.cell_forgotten(cell)
        self.recorder.session_changed(self.row)  # its id is in no other row any more, and must not be given again

    # The end

    def answer_now(self) -> None:
        """Answer every pending call with what there is."""
        for cell in self._shelf.running():
            cell.answer_now()

    async def end_work(self) -> None:
        """Terminate all cells that run and whatever else does, and tell the hooks of it."""
        running = self._shelf.running()
        for cell in running:
            cell.end(TERMINATED)
        for cell in running:
            await cell.wait_concluded()
        await self.calls.close()

    def _end_cell(self, cell_id: str) -> None:
        cell = self._shelf.find(cell_id)
        if isinstance(cell, Cell):
            cell.end(TERMINATED)

    async def close(self) -> None:
        """End all cells and forget everything. Closed again, it does nothing: its name may be another one's by then."""
        await self.leave()
        if not self._deleted:
            self._deleted = True
            self._shelf.forget_all()
            self._host.forget_session(self)
            self.recorder.session_deleted()

    async def leave(self) -> None:
        """End all cells; what lasts of the session is for a later run."""
        self._closed = True
        await self.end_work()
        await self.tools.close()
        self._shelf.close()
        self.recorder.events.close()
        self._launcher.close()
