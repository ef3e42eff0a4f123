"""What stands around a cell in tests: a process that is none, a session that only notes, a clock that is set."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar, cast

from anyio import CapacityLimiter

from codemode.calls.approvals import Approvals, CallListener
from codemode.calls.background import Background
from codemode.calls.bridge import ToolBridge
from codemode.calls.call import CallOrigin
from codemode.calls.hooks import Hook, Hooks
from codemode.calls.runner import CallRunner
from codemode.calls.slots import CallPlaces, ToolThreads
from codemode.cells.cell import Cell
from codemode.isolation.process import CellProcess
from codemode.isolation.wire import FromCell, ProtocolError, State, ToCell
from codemode.isolation.zygote_messages import Exit
from codemode.journal.journal import Journal
from codemode.limits import Limits
from codemode.sessions.recorder import Recorder
from codemode.tools.http import AllowedUrls, HttpTools
from codemode.tools.registry import ToolRegistry
from codemode.tools.tool import Tool

T = TypeVar("T")


class SetClock(asyncio.SelectorEventLoop):
    """An event loop whose time passes only when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.faults: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.faults.append(context))

    def time(self) -> float:
        return self.now

    def settle(self) -> None:
        """Run all that can run at this moment."""
        self.run_until_complete(_many_turns())

    def pass_time(self, seconds: float) -> None:
        """Let timers fire, each at its time or a little later."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + max(0.05, seconds / 20))
            self.settle()

    def clear_up(self) -> None:
        """Leave nothing behind, also after a failure."""
        for task in asyncio.all_tasks(self):
            task.cancel()
        self.settle()
        self.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.run_until_complete(work)


async def _many_turns() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


class ProcessOwner(Protocol):
    def on_frame(self, kind: int, payload: bytes) -> None: ...
    def on_lost(self, reason: str | None) -> None: ...


class FakeProcess:
    """Does what `CellProcess` promises to its owner, and sends what a test wants it to send."""

    def __init__(self) -> None:
        self.pid = 4_000_000
        self.exit: asyncio.Future[Exit | None] = asyncio.get_running_loop().create_future()
        self.owner: ProcessOwner | None = None
        self.got: list[tuple[int, Any]] = []  # what the service said
        self.is_lost = False
        self.is_paused = False
        self.was_killed = False
        self.ends_by_itself = False

    # What a cell may do

    def serve(self, owner: ProcessOwner, room: Callable[[bool], None] = lambda _: None) -> None:
        self.owner = owner
        self.room = room

    def start(self, config: bytes) -> None:
        self._say(ToCell.START, config)

    def result(self, number: int, well: bool, payload: bytes) -> None:
        self._say(ToCell.RESULT, (number, well, payload))

    def stop(self) -> None:
        self.resume()
        self._say(ToCell.STOP, None)

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def release(self, *, ends_by_itself: bool) -> None:
        self.is_lost = True
        self.ends_by_itself = ends_by_itself
        if not ends_by_itself:
            self.kill()

    def kill(self) -> None:
        self.was_killed = True

    def _say(self, kind: int, what: Any) -> None:
        if not self.is_lost:
            self.got.append((kind, what))

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left behind."""
        return self.was_killed or self.ends_by_itself or self.is_lost

    # What a test may do

    def send(self, *frames: tuple[int, bytes]) -> None:
        """Frames that come in one piece."""
        assert self.owner is not None
        try:
            for kind, payload in frames:
                if self.is_lost:
                    return
                self.owner.on_frame(kind, payload)
        except ProtocolError as problem:
            self.lose(f"it broke the protocol: {problem}")

    def lose(self, reason: str | None = None) -> None:
        """The end of the connection."""
        if self.is_lost:
            return
        assert self.owner is not None
        self.is_lost = True
        self.kill()
        self.owner.on_lost(reason)

    def text(self, text: str) -> None:
        self.send((FromCell.TEXT, text.encode()))

    def state(self, *, idle: bool, timers: bool = False, delivered: int = 0) -> None:
        self.send((FromCell.STATE, State(idle, timers, delivered, 5000, 100).encode()[5:]))

    def done(self, **told: Any) -> None:
        self.send((FromCell.DONE, done(**told)))


def done(status: str = "completed", kind: str | None = None, **told: Any) -> bytes:
    """The payload of a report of the end."""
    return json.dumps({"status": status, "kind": kind, "message": "", "timers": 0, **told}).encode()


def thrown(message: str = "boom", **told: Any) -> bytes:
    """The payload of a report of a script that threw."""
    error = {"name": "Error", "message": message, "text": f"Error: {message}", "line": 1, "column": 7, **told}
    return done("failed", "script_error", error=error)


@dataclass
class FakeSession:
    """Notes what its cell tells it. Tool 0 is the caller's, tool 1 runs here and waits for `gate`."""

    limits: Limits
    session_id: str = "s"
    model_warnings: bool = False
    typescript: bool = False
    committed: list[dict[str, str | None]] = field(default_factory=list)
    ended: int = 0
    tools: list[Tool] = field(default_factory=lambda: [Tool(name="caller")])

    def __post_init__(self) -> None:
        self.registry = ToolRegistry(self.tools)
        self.recorder = Recorder(Journal(), 0)

    def commit(self, cell: Cell) -> list[str]:
        self.committed.append(dict(cell.stored))
        return []

    def cell_ended(self, _: Cell) -> None:
        self.ended += 1

    def cell(self, source: str = "source") -> Cell:
        """A new cell of this session, with its bridge."""
        made = Cell("1", self, source, None, None, "tu")
        origin = CallOrigin("s", "1", None, "tu")
        places = CallPlaces(self.limits.max_in_flight)
        made.bridge = ToolBridge(made, origin, self.registry, self.limits, places, runner_of(self.limits))
        return made


def runner_of(
    limits: Limits,
    http: HttpTools | None = None,
    hooks: Sequence[Hook] = (),
    approvals: Approvals | None = None,
) -> CallRunner:
    """What brings calls to their tools, with nobody who may be asked unless `approvals` says so."""
    return CallRunner(
        limits=limits,
        http=http or HttpTools(AllowedUrls()),
        threads=ToolThreads(CapacityLimiter(8), CapacityLimiter(8), CapacityLimiter(8)),
        hooks=Hooks((), hooks),
        approvals=approvals or Approvals("never", limits.approval_ms, CallListener()),
        listener=CallListener(),
        background=Background(),
        settled=Journal().settled,
    )


def begin(cell: Cell) -> FakeProcess:
    """Give a cell its process."""
    process = FakeProcess()
    cell.begin(cast("CellProcess", process), b"{}")
    return process
