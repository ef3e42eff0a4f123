"""The main thread of a cell process: it starts the script, feeds it and carries its records out.

The isolate runs on a thread of its own, so this thread can read the ring, watch the clock and
notice the service's end while the script is busy.
"""

from __future__ import annotations

import json
import os
import queue
import secrets
import select
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

from codemode.isolation import sandbox
from codemode.isolation.confinement import Confinement
from codemode.isolation.isolate import EvaluationError, Isolate
from codemode.isolation.isolate import OutOfMemory as IsolateOutOfMemory
from codemode.isolation.ring import Ring
from codemode.isolation.stripping import Stripped, locate_unstripped, stripping
from codemode.isolation.syntax import Place, locate
from codemode.isolation.wire import Decoder, FromCell, ProtocolError, State, ToCell, frame, read_result

_MOST_FRAME: Final = 64 * sandbox.MIB  # of what the service says; the service is trusted
_SHORTEST_LOOK: Final = 0.001  # seconds between looks at the ring while the isolate is busy, at first
_LONGEST_LOOK: Final = 0.016  # and in the long run
_STATE_INTERVAL: Final = 0.1  # seconds between reports during a long turn
_HEAP_INTERVAL: Final = 0.01  # seconds of CPU time between looks at the heap: each costs up to 0.5 ms
_REHEARSALS: Final = 2  # the second one makes a script's first turn a third faster, a third one nothing
PLACEHOLDER: Final = "codemode_entry_points"
_YIELD: Final = frame(FromCell.YIELD)
_SYNTAX: Final = 9  # a record of the ring that stays in this process
Confine = Callable[[], Confinement]

_REHEARSAL: Final = {
    "source": "text('a'); store('k', {a: 1}); load('k'); setTimeout(() => text(2), 0); await tools.a({b: [1]});"
    "text([1]); try { null.x } catch (e) { text(e) } return 1",
    "tools": [["a", "function", ""]],
    "stored": {},
    "limits": {"max_tool_input_bytes": 1000, "max_store_bytes": 1000},
    "rehearsal": True,
}


class Worker:
    """One cell process from its fork to its end."""

    def __init__(self, connection: socket.socket, program: str, stripper: str, name: str) -> None:
        self._socket = connection
        self._isolate = Isolate()
        self._isolate.evaluate(program)
        self._name = name
        self._stripper = stripper
        self._ring = Ring(self._isolate.evaluate(f"{name}.ring"), _MOST_FRAME)
        self._decoder = Decoder(_MOST_FRAME)
        self._incoming: Iterator[tuple[int, bytes]] = iter(())
        self._began = time.monotonic()
        self._cpu_before = 0.0
        self._cpu_limit = float("inf")
        self._most_output = _MOST_FRAME
        self._output = 0
        self._source = ""
        self._may_strip = False  # when it does not parse
        self._unparsed: dict[str, Any] | None = None  # what is to be told of it then
        self._delivered = 0
        self._in_flight = 0
        self._next_timer: float | None = None
        self._heap = 0
        self._heap_seen = 0.0  # CPU time
        self._base = sandbox.MemoryInUse()
        self._state_sent = 0.0

    # The life of the process

    def run(self, confine: Confine, *, rehearse: bool) -> None:
        """Wait for a script and run it. Never returns.

        A spare has time to rehearse first; a script that is waited for would only wait longer. `confine` puts up
        the last walls, behind everything that opens a file and before anything is taken from the service.
        """
        if rehearse:
            self._rehearse()
        self._base = sandbox.memory_in_use()
        self._socket.sendall(frame(FromCell.READY, confine().encode()))
        frames: list[tuple[int, bytes]] = []
        while not frames:
            frames = list(self._frames(None))
        (kind, payload), *rest = frames
        if kind != ToCell.START:
            os._exit(0)
        self._incoming = iter(rest)
        self._start(payload)
        while True:
            self._take(self._frames(self._until_timer()))
            if self._until_timer() == 0:
                self._turn(f"{self._name}.fire({self._now()})")

    def _rehearse(self) -> None:
        """Run a script of ours through the whole path: it touches the pages that a fork shares."""
        for _ in range(_REHEARSALS):
            self._rehearse_once()
        self._heap = self._isolate.heap_bytes()

    def _rehearse_once(self) -> None:
        self._turn_quietly(f"{self._name}.start(0,{json.dumps(json.dumps(_REHEARSAL))})")
        self._turn_quietly(f'{self._name}.deliver(0,1,true,"[1]")')
        self._turn_quietly(f"{self._name}.fire(1)")

    def _turn_quietly(self, code: str) -> None:
        self._isolate.post(code)
        self._isolate.evaluate(f"{self._name}.status()")
        self._ring.drain()

    def _start(self, payload: bytes) -> None:
        config = json.loads(payload)
        limits = config["limits"]
        self._source = config["source"]
        self._may_strip = config.get("typescript", False)
        self._most_output = limits["max_output_bytes"]
        self._isolate.limit_memory(limits["memory_mb"] * sandbox.MIB)
        sandbox.limit_memory(self._base, limits["memory_mb"] * sandbox.MIB)
        self._began = time.monotonic()
        self._cpu_before = time.process_time()
        self._cpu_limit = limits["cpu_ms"] / 1000
        sandbox.limit_cpu(self._cpu_before + self._cpu_limit)
        self._turn(f"{self._name}.start(0,{json.dumps(payload.decode())})")

    def _take(self, frames: Iterator[tuple[int, bytes]]) -> None:
        """All results that have come are delivered in one turn."""
        now = self._now()
        deliveries = []
        for kind, payload in frames:
            if kind == ToCell.STOP:
                self._end("stopped")
            number, well, text = read_result(payload)
            deliveries.append(f"{self._name}.deliver({now},{number},{'true' if well else 'false'},{json.dumps(text)})")
        if deliveries:
            self._delivered += len(deliveries)
            self._turn(";".join(deliveries))

    # One turn of the isolate

    def _turn(self, code: str) -> None:
        """Run `code` and the microtasks that follow, carrying records out; at the script's end the process ends."""
        self._isolate.post(code)
        # An answer comes before the microtasks have run; the answer of what is posted behind it, after.
        status = self._answer(self._isolate.post(f"{self._name}.status()"))
        self._in_flight, self._next_timer = (0, None) if status == "ended" else json.loads(status)
        self._carry(b"" if status == "ended" else self._state(idle=True))
        if self._cpu() > self._cpu_limit:
            self._end("failed", "cpu_limit")
        if self._unparsed is not None:
            self._strip(self._unparsed)
        elif self._in_flight == 0 and self._next_timer is None:
            self._end("failed", "deadlock")

    def _answer(self, number: int) -> Any:
        """The isolate's answer of this number; what it puts out meanwhile is carried out."""
        isolate, look = self._isolate, _SHORTEST_LOOK
        while True:
            try:
                answer = isolate.wait(number, look)
                if isolate.is_out_of_memory:  # which does not always raise
                    self._end("failed", "out_of_memory")
                return answer
            except queue.Empty:
                look = _SHORTEST_LOOK if self._carry() else min(2 * look, _LONGEST_LOOK)
                self._watch()
            except EvaluationError as problem:
                ran_out = isinstance(problem, IsolateOutOfMemory) or isolate.is_out_of_memory
                self._end("failed", "out_of_memory" if ran_out else "worker_crashed", str(problem))

    def _strip(self, told: dict[str, Any]) -> None:
        """Take the types out of the source and run what is left; if none can be, say where it does not parse."""
        self._may_strip, self._unparsed = False, None
        stripped = Stripped.read(self._answer(self._isolate.post(stripping(self._stripper, self._source))))
        if stripped.text is None:
            self._end_unparsed(told, locate_unstripped(self._isolate, self._source, stripped))
        self._source = stripped.text
        self._turn(f"{self._name}.startAgain({self._now()},{json.dumps(stripped.text)})")

    def _watch(self) -> None:
        """What has to be looked at while the isolate is busy."""
        if self._cpu() > self._cpu_limit:
            self._end("failed", "cpu_limit")
        if time.monotonic() - self._state_sent > _STATE_INTERVAL:
            self._socket.sendall(self._state(idle=False))
        if select.select([self._socket], [], [], 0)[0]:
            held = list(self._receive())
            if any(kind == ToCell.STOP for kind, _ in held):
                self._carry()
                self._end("stopped")
            self._incoming = iter([*self._incoming, *held])

    # Records and frames

    def _carry(self, behind: bytes = b"") -> bool:
        """Send what is in the ring and `behind`; whether there was a record. A record of an end ends the process."""
        try:
            records = self._ring.drain()
        except ProtocolError:
            self._end("failed", "output_limit")
        frames: list[bytes] = []
        for kind, payload in records:
            if kind in (FromCell.DONE, _SYNTAX):
                self._socket.sendall(b"".join(frames))
                self._report(kind, payload)
                return True  # a source that did not parse; nothing comes behind that
            if kind in (FromCell.TEXT, FromCell.ITEM, FromCell.NOTIFY):
                self._output += len(payload)
                if self._output > self._most_output:
                    self._socket.sendall(b"".join(frames))
                    self._end("failed", "output_limit")
            if kind != FromCell.YIELD or not frames or frames[-1] != _YIELD:  # two in a row say what one says
                frames.append(frame(kind, payload))
        if frames or behind:
            self._socket.sendall(b"".join([*frames, behind]))
        return bool(records)

    def _report(self, kind: int, payload: bytes) -> None:
        told: dict[str, Any] = json.loads(payload)
        if kind == FromCell.DONE:
            if not told["halted"]:
                self._see_heap()
            self._end(told["status"], "script_error", error=told["error"], timers=told["timers"])
        if self._may_strip:
            self._unparsed = told
        else:
            self._end_unparsed(told, locate(self._isolate, self._source))

    def _end_unparsed(self, told: dict[str, Any], place: Place | None) -> NoReturn:
        if place is not None:
            told["text"] = f"{told['name']}: {place.message}"
            told |= {"message": place.message, "line": place.line, "column": place.column}
        self._end("failed", "syntax_error", error=told)

    def _end(self, status: str, kind: str = "", message: str = "", **told: Any) -> NoReturn:
        """Say how it ended and end this process."""
        if status == "stopped":
            self._drain_for_stop()
        said = {"status": status, "kind": kind if status == "failed" else None, "message": message, **told}
        self._socket.sendall(self._state(idle=False) + frame(FromCell.DONE, json.dumps(said).encode()))
        os._exit(0)

    def _drain_for_stop(self) -> None:
        frames = [frame(kind, payload) for kind, payload in self._ring.drain() if kind not in (FromCell.DONE, _SYNTAX)]
        self._socket.sendall(b"".join(frames))

    def _frames(self, timeout: float | None) -> Iterator[tuple[int, bytes]]:
        """The frames that have come, waited for at most `timeout` seconds."""
        held = list(self._incoming)
        self._incoming = iter(())
        if held:
            yield from held
        elif select.select([self._socket], [], [], timeout)[0]:
            yield from self._receive()

    def _receive(self) -> Iterator[tuple[int, bytes]]:
        data = self._socket.recv(1 << 18)
        if not data:
            os._exit(0)  # the service is gone
        return self._decoder.feed(data)

    # Numbers

    def _now(self) -> str:
        return f"{(time.monotonic() - self._began) * 1000:.3f}"

    def _until_timer(self) -> float | None:
        """Seconds until the next timer of the script is due."""
        if self._next_timer is None:
            return None
        return max(0.0, self._next_timer / 1000 - (time.monotonic() - self._began))

    def _cpu(self) -> float:
        return time.process_time() - self._cpu_before

    def _see_heap(self) -> None:
        """Look at the size of the heap, if enough has happened since the last time. The isolate has to be idle."""
        cpu = self._cpu()
        if cpu - self._heap_seen >= _HEAP_INTERVAL:
            self._heap_seen = cpu
            self._heap = max(self._heap, self._isolate.heap_bytes())

    def _state(self, *, idle: bool) -> bytes:
        if idle:
            self._see_heap()
        self._state_sent = time.monotonic()
        timers = self._next_timer is not None
        return State(idle, timers, self._delivered, int(self._cpu() * 1e6), self._heap).encode()


def serve(connection: socket.socket, runtime: str, stripper: str, confine: Confine, *, rehearse: bool) -> None:
    """Be a cell process on `connection`. `runtime` has a place for the name of its entry points. Never returns."""
    name = f"codemode_{secrets.token_hex(16)}"
    Worker(connection, runtime.replace(PLACEHOLDER, name), stripper, name).run(confine, rehearse=rehearse)
