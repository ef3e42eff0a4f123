"""The measurements, each a ratio or a figure with a target, against a running service."""

from __future__ import annotations

import concurrent.futures
import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench import floors
from bench.client import Connection, Service, prepared

_THINK_S = 0.02  # between two execs of one client: a warm spare is there again
_MIB = 1024 * 1024


class Row(NamedTuple):
    """One line of the table."""

    what: str
    measured: str
    floor: str
    ratio: float
    target: float
    unit: str = "×"

    @property
    def met(self) -> bool:
        return self.ratio >= self.target if self.unit == "of floor" else self.ratio <= self.target


def _p50(values: list[float]) -> float:
    return statistics.median(values)


def _timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def trivial(service: Service, rounds: int) -> tuple[float, float]:
    """p50 of an empty POST and of a trivial exec, alternating on one connection, in seconds."""
    with Connection(service.port) as connection:
        session = connection.observe("/v1/sessions", {})["session_id"]
        empty = prepared(f"/v1/sessions/{session}/tool_results", {"results": []})
        exec_ = prepared(f"/v1/sessions/{session}/exec", {"source": "text(1)"})
        empties, execs = [], []
        for _ in range(rounds):
            time.sleep(_THINK_S)
            empties.append(_timed(lambda: connection.send(empty)))
            execs.append(_timed(lambda: connection.send(exec_)))
        connection.get(f"/v1/sessions/{session}")
    return _p50(empties), _p50(execs)


def exec_latency(service: Service, rounds: int) -> Row:
    """Trivial exec with a warm spare."""
    empty, execution = trivial(service, rounds)
    return Row("trivial exec, warm spare, p50", _us(execution), f"empty POST {_us(empty)}", execution / empty, 4)


def journal(rounds: int) -> Row:
    """Trivial exec with a journal against one without, on two servers in turn."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        requests = []
        for data in ("none", folder):
            service = stack.enter_context(Service("--data-dir", data))
            connection = stack.enter_context(Connection(service.port))
            session = connection.observe("/v1/sessions", {})["session_id"]
            requests.append((connection, prepared(f"/v1/sessions/{session}/exec", {"source": "text(1)"})))
        took: list[list[float]] = [[], []]
        for _ in range(rounds):
            for times, (connection, request) in zip(took, requests, strict=True):
                time.sleep(3 * _THINK_S)  # the other one has refilled its spares as well
                times.append(_timed(partial(connection.send, request)))
    without, with_journal = map(_p50, took)
    return Row("trivial exec with a journal", _us(with_journal), f"without {_us(without)}", with_journal / without, 1.3)


def many_cells(service: Service, cells: int, rounds: int) -> Iterator[Row]:
    """The same beside many idle live cells, and the memory of one of them."""
    _, before = trivial(service, rounds)
    earlier = set(service.cell_processes())
    with Connection(service.port) as connection:
        sessions = [connection.observe("/v1/sessions", {})["session_id"] for _ in range(-(-cells // 50))]
        source = "text('idle'); await new Promise(r => setTimeout(r, 3e6))"
        for number in range(cells):
            path = f"/v1/sessions/{sessions[number // 50]}/exec"
            connection.observe(path, {"source": source, "yield_time_ms": 0})
        for session in sessions:
            answered = connection.get(f"/v1/sessions/{session}/cells")[1]
            if answered.count(b'"running"') != min(50, cells):
                raise RuntimeError("not all cells are alive")
        for session in sessions:  # each answers
            for cell in range(1, min(50, cells) + 1):
                path = f"/v1/sessions/{session}/wait"
                said = connection.observe(path, {"cell_id": str(cell), "yield_time_ms": 5000, "after": 0})
                if [item["text"] for item in said["output"]] != ["idle"]:
                    raise RuntimeError(f"cell {cell} said {said}")
        time.sleep(3)  # the machine settles
        _, beside = trivial(service, rounds)
        private = []
        for pid in set(service.cell_processes()) - earlier:
            with contextlib.suppress(OSError):  # it has just ended
                private.append(_private_bytes(pid))
        began = time.perf_counter()
        for session in sessions:
            connection.send(
                f"DELETE /v1/sessions/{session} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode()
            )
        ended = time.perf_counter() - began
    yield Row(f"the same at {cells} idle live cells", _us(beside), f"at none {_us(before)}", beside / before, 1.5)
    memory = _p50([float(size) for size in private]) / _MIB
    yield Row(
        "private memory of an idle live cell",
        f"{memory:.1f} MiB",
        f"{len(private)} processes, ended in {ended:.1f} s",
        memory,
        6,
        "MiB",
    )


def _private_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


def throughput(service: Service, execs: int, clients: int) -> Row:
    """Fresh-process execs a second, against the bare loop."""

    def work(times: int) -> None:
        with Connection(service.port) as connection:
            session = connection.observe("/v1/sessions", {})["session_id"]
            request = prepared(f"/v1/sessions/{session}/exec", {"source": "text(1)"})
            for _ in range(times):
                if b'"completed"' not in connection.send(request)[1]:
                    raise RuntimeError("an exec failed")

    ratios = []
    for _ in range(3):
        floor = floors.fork_loop(execs, 2)
        with concurrent.futures.ThreadPoolExecutor(clients) as pool:
            began = time.perf_counter()
            list(pool.map(work, [execs // clients] * clients))
            rate = execs / (time.perf_counter() - began)
        ratios.append((rate / floor, rate, floor))
    ratio, rate, floor = sorted(ratios)[1]
    return Row(
        "sustained fresh-process execs", f"{rate:.0f}/s", f"bare fork loop {floor:.0f}/s", ratio, 0.7, "of floor"
    )


def nested_calls(service: Service) -> Iterator[Row]:
    """Calls of an async Python tool, one after another and many at once."""
    with Connection(service.port) as connection:
        times = 1000
        one = f"const t=Date.now(); for(let i=0;i<{times};i++) await tools.add({{a:i,b:1}}); return Date.now()-t"
        many = (
            f"const t=Date.now(); for(let i=0;i<{times // 100};i++) await Promise.all("
            "Array.from({length:100}, (_, n) => tools.add({a:n,b:1}))); return Date.now()-t"
        )
        for what, source, target in (("sequential nested call", one, 300), ("nested call, 100 in parallel", many, 50)):
            took = [float(connection.observe("/v1/exec", {"source": source})["output"][0]["text"]) for _ in range(5)]
            each = _p50(took) * 1000 / times
            yield Row(what, f"{each:.0f} µs", "-", each, target, "µs")


def pure_javascript(service: Service) -> Iterator[Row]:
    """Scripts without tools, against Node.js."""
    for name, body in floors.PURE_JAVASCRIPT.items():
        ratios = []
        for _ in range(3):
            floor = floors.node(body)
            if floor is None:
                return
            with Connection(service.port) as connection:
                said = connection.observe(
                    "/v1/exec", {"source": f"{floors.timed(body)} return best", "yield_time_ms": 60000}
                )
            ours = float(said["output"][0]["text"])
            ratios.append((ours / floor, ours, floor))
        ratio, ours, floor = sorted(ratios)[1]
        yield Row(f"pure JavaScript: {name}", f"{ours:.0f} ms", f"Node.js {floor:.0f} ms", ratio, 1.1)


def output(service: Service) -> Row:
    """10 MB of text, end to end."""
    source = "const s='x'.repeat(100000); for(let i=0;i<100;i++) text(s)"
    with Connection(service.port) as connection:
        took = [
            _timed(lambda: connection.observe("/v1/exec", {"source": source, "yield_time_ms": 60000})) for _ in range(5)
        ]
    return Row("10 MB of text, end to end", f"{_p50(took):.2f} s", "-", _p50(took), 0.5, "s")


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs"
