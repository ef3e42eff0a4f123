"""One cell: a running or ended script. All transitions happen here, without an await in between. The end is decided
once, in `_decide`; `end` then asks the process for its last output, and `_conclude` answers everybody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, Literal

from codemode.calls.background import Background
from codemode.calls.call import Call
from codemode.cells.conduct import Conduct
from codemode.cells.deadlines import Deadlines
from codemode.cells.failures import failure, of_loss, was_killed
from codemode.cells.live import LiveFacts
from codemode.cells.observation import ErrorKind, Notification, Observation
from codemode.cells.outcome import TERMINATED, Outcome, failed, read_done, unfinished
from codemode.cells.owner import CellOwner
from codemode.cells.records import read_call, read_item, read_store
from codemode.cells.report import observation
from codemode.cells.truncation import Item
from codemode.cells.waiting import Observer, Waiting, patience
from codemode.cells.writes import StoreWrites
from codemode.errors import CellBusy
from codemode.isolation.process import CellProcess
from codemode.isolation.wire import FromCell, ProtocolError

_STOP_GRACE_MS: Final = 100  # that a process has to hand over its last output
_MOST_WARNINGS: Final = 64
_LONGEST_WARNING: Final = 1000


class Cell(LiveFacts):
    """A script from its exec until it is forgotten. Everything public may be read at any time."""

    def __init__(
        self,
        cell_id: str,
        owner: CellOwner,
        source: str,
        turn_id: str | None,
        tool_call_id: str | None,
        parent_tool_use_id: str,
    ) -> None:
        super().__init__(cell_id, turn_id, tool_call_id, parent_tool_use_id, time.time())
        self.stored = StoreWrites(owner.limits.max_store_bytes)
        self.start_again: Callable[[], None] | None = None  # set by the session as well
        self._conduct = Conduct(owner.limits)
        self._owner = owner
        self._source = source
        self._process: CellProcess | None = None
        self._waiting = Waiting(self._report, self._freed)
        self._concluded = asyncio.get_running_loop().create_future()
        self._deadlines = Deadlines()
        self.person_asked = self._deadlines.stand_still  # about one of its calls
        self._background = Background()
        self._set_deadline("lifetime", owner.limits.lifetime_ms, "the cell ran longer than {} ms")
        self._set_idle_deadline()

    # Its life

    def begin(self, process: CellProcess, config: bytes) -> None:
        """Run on this process, unless the end was decided while waiting for it."""
        if self.outcome is not None:
            process.kill()
            return
        self._process = process
        self.started = time.monotonic()
        process.serve(self, self.bridge.make_room)
        process.start(config)

    def end(self, outcome: Outcome) -> None:
        """End a running cell for a reason that its script does not know; does nothing to an ended one."""
        if not self._decide(outcome):
            return
        if self._process is None or self._process.is_lost:
            self._conclude()
        else:
            self._process.stop()
            self._deadlines.set("stop", _STOP_GRACE_MS, self._conclude)

    def fail(self, kind: ErrorKind, message: str = "") -> None:
        """End it because of a limit."""
        self.end(failed(failure(kind, self._owner.limits, message)))

    def _decide(self, outcome: Outcome) -> bool:
        """The one place where the end is decided; False if it had been."""
        if self.outcome is not None:
            return False
        self.outcome = outcome
        self._deadlines.cancel_all()
        for text in unfinished(outcome, self.bridge):
            self.warn(text)
        return True

    def _conclude(self, *, said_so: bool = False) -> None:
        """Nothing more will come: record the end and answer everybody. `said_so`: the process has reported its end."""
        if self.ended is not None:
            return
        assert self.outcome is not None
        self.status = self.outcome.status
        self.ended, self.ended_at = time.monotonic(), time.time()
        self._deadlines.cancel_all()
        if self.outcome.keeps_store:
            self.warnings += self._owner.commit(self)
        if self._process is not None:
            self._process.release(ends_by_itself=said_so)
            self._process = None
        self._waiting.answer()
        self._concluded.set_result(None)
        self._owner.cell_ended(self)

    # Observing

    async def observe(
        self,
        yield_time_ms: int | None = None,
        max_tokens: int | None = None,
        after: int | None = None,
        *,
        terminate: bool = False,
        is_exec: bool = False,
    ) -> Observation:
        """Wait for the end, for `yield_control()`, or until the yield time has passed; then answer.

        Cancelling it frees the cell for another observer and takes no output along. Raises CellBusy
        while somebody else waits, except with `terminate`.
        """
        observer = Observer(max_tokens, after, is_exec)
        if after is not None:  # an answer may have been lost, and with it what it told of pending calls
            self.bridge.client_calls.announce_again()
        if terminate:
            taken = self.output.taken
            if self.ended is None:
                self.end(TERMINATED)
                await asyncio.shield(self._concluded)
                observer.after = taken if after is None else after
            return self._report(observer)
        seen = self.ended is not None or (after is not None and self.output.cursor > after)
        if self.ended is None:
            self.check_observable()
        seconds = patience(yield_time_ms)
        if seen or seconds == 0:
            answer = self._report(observer)
            self._looked_after()
            return answer
        self._waiting.take(observer, seconds)
        self._looked_after()
        self.client_call_began()
        return await self._waiting.share(observer)

    def check_observable(self) -> None:
        """Raises CellBusy while somebody waits for the end."""
        if self._waiting.is_taken:
            raise CellBusy(self.cell_id)

    def answer_now(self) -> None:
        """Answer whoever waits, with what there is."""
        self._waiting.answer()

    async def wait_concluded(self) -> None:
        """Wait until the end of a cell is recorded."""
        await asyncio.shield(self._concluded)

    async def join(self) -> Observation | None:
        """Share the answer of the exec that is pending on this cell; None if there is none."""
        return await self._waiting.join()

    def _report(self, observer: Observer) -> Observation:
        return observation(self, self._owner, observer)

    def _freed(self) -> None:
        self._looked_after()
        self._pause_if_full()

    def _looked_after(self) -> None:
        """Somebody was here, or still is: the cell is not idle, and its script may write on."""
        if self.outcome is None:
            self._deadlines.cancel("idle")
            if not self._waiting.is_taken:
                self._set_idle_deadline()
            if self._process is not None:
                self._process.resume()

    # From the process

    def on_frame(self, kind: int, payload: bytes) -> None:
        self._conduct.count(kind, len(payload))
        match kind:
            case FromCell.TEXT | FromCell.ITEM | FromCell.NOTIFY:
                self._put_out(kind, payload)
            case FromCell.STATE:
                self.state = self._conduct.state(payload, self.bridge.resolved)
                self.client_call_began()
            case FromCell.DONE:
                self._done(payload)
            case _ if self.outcome is not None:
                pass  # it is being stopped
            case FromCell.CALL:
                self._call(payload)
            case FromCell.YIELD:
                self._waiting.answer()
            case FromCell.STORE:
                self.stored.put(*read_store(payload))
            case FromCell.WARN:
                self.warn(payload.decode("utf-8", "replace"))
            case _:
                raise ProtocolError(f"a frame of kind {kind}")

    def on_lost(self, reason: str | None) -> None:
        """The process is gone: by itself, or for a `reason` of ours."""
        if self.outcome is not None:
            self._conclude()
        elif reason is not None:
            self.fail("worker_crashed", reason)
        else:
            self._background.start(self._after_loss())

    async def _after_loss(self) -> None:
        assert self._process is not None
        process, again = self._process, self.start_again
        error = await of_loss(process, self._owner.limits)
        if again is not None and was_killed(process) and self._conduct.may_start_again():  # it was killed as a spare
            self._process = None
            again()
        else:
            self.end(failed(error))

    def _put_out(self, kind: int, payload: bytes) -> None:
        most = self._owner.limits.max_output_bytes
        if self.outcome is not None and self.output.total_bytes > most:
            return  # it is being stopped, and floods
        entry: Item | Notification
        if kind == FromCell.NOTIFY:
            entry = self.output.notify(payload, round((time.monotonic() - self.started) * 1000))
        else:
            entry = payload if kind == FromCell.TEXT else read_item(payload)
            self.output.append(entry, len(payload))
        self._owner.recorder.put_out(self, entry)
        if self.outcome is None and self.output.total_bytes > most:
            self.fail("output_limit")
        else:
            self._pause_if_full()

    def _pause_if_full(self) -> None:
        """Let the script wait for a reader while it has written more than is kept for nobody."""
        full = self.output.undelivered_bytes > self._owner.limits.max_undelivered_bytes
        if full and not self._waiting.is_taken and self.outcome is None and self._process is not None:
            self._process.pause()

    def _call(self, payload: bytes) -> None:
        call = read_call(payload, len(self.bridge.calls) + 1, len(self.bridge.registry))
        if len(self.bridge.calls) >= self._owner.limits.max_tool_calls:
            self.fail("tool_call_limit")
        else:
            self.bridge.call(call.tool, call.input)

    def _done(self, payload: bytes) -> None:
        outcome = read_done(payload, self._source, self.bridge.registry, self._owner.limits, self._owner.typescript)
        if self.outcome is None:
            if outcome is None:
                raise ProtocolError("it stopped without being told to")
            self._decide(outcome)
        self._conclude(said_so=True)

    # From the tools

    def call_resolved(self, number: int, well: bool, payload: bytes, code: str = "") -> None:
        """Hand a result to the script."""
        if self._process is not None and self.outcome is None:
            self._process.result(number, well, payload if well else code.encode() + b"\n" + payload)

    def call_changed(self, call: Call) -> None:
        """A call was made, has begun or has ended."""
        self._owner.recorder.call_changed(self, call)

    async def noted(self) -> None:
        """Return when the calls so far would be known after a crash of the server."""
        await self._owner.recorder.settled()

    def warn(self, text: str) -> None:
        """Name something in `warnings`."""
        if len(self.warnings) < _MOST_WARNINGS:
            self.warnings.append(text[:_LONGEST_WARNING])

    def client_call_began(self) -> None:
        """Answer early when the script can do nothing more without the result of a call that nobody was told of."""
        state = self.state
        is_settled = state.idle and not state.timers and state.delivered == self.bridge.resolved
        if is_settled and self.bridge.waits_for_client_alone:
            self._waiting.answer()

    # Its deadlines

    def _set_idle_deadline(self) -> None:
        self._set_deadline("idle", self._owner.limits.idle_ms, "nobody waited for the cell for {} ms")

    def _set_deadline(self, name: Literal["lifetime", "idle"], milliseconds: int, message: str) -> None:
        self._deadlines.set(name, milliseconds, lambda: self.fail("deadline", message.format(milliseconds)))
