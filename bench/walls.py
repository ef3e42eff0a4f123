"""What the kernel's walls cost each cell process: `python -m bench.walls`. Linux only.

Forks as the zygote does, and takes the time of the two steps in the child, where each page is touched first.
"""

from __future__ import annotations

import os
import statistics
import time

from codemode.isolation import isolate
from codemode.isolation.lockdown import Lockdown

_CHILDREN = 300
_SAID = 64  # bytes that a child says at most


def main() -> None:
    lifeline, _ = os.pipe()
    lockdown = Lockdown(lifeline)
    began = time.perf_counter()
    lockdown.enter()
    print(f"entering, once: {(time.perf_counter() - began) * 1e6:.0f} µs")
    isolate.initialise()
    steps = zip(*(_in_a_child(lockdown) for _ in range(_CHILDREN)), strict=True)
    for name, times in zip(("before the isolate", "the filter and the last limits"), steps, strict=True):
        ordered = sorted(times)
        print(f"{name}: p50 {statistics.median(ordered):.0f} µs, p95 {ordered[int(0.95 * _CHILDREN)]:.0f} µs")


def _in_a_child(lockdown: Lockdown) -> tuple[float, ...]:
    """Microseconds of each step."""
    reading, writing = os.pipe()
    own = lockdown.open_lifeline()
    pid = os.fork()
    if pid == 0:
        os.dup2(writing, 1)  # a cell process may write to standard output and error alone
        times = [time.perf_counter()]
        lockdown.step_down(own)
        times.append(time.perf_counter())
        isolate.Isolate().evaluate("1")
        times.append(time.perf_counter())
        lockdown.close()
        times.append(time.perf_counter())
        os.write(1, f"{times[1] - times[0]} {times[3] - times[2]}".encode())
        os._exit(0)
    os.waitpid(pid, 0)
    said = os.read(reading, _SAID).split()
    for descriptor in (reading, writing, own):
        os.close(descriptor)
    return tuple(float(each) * 1e6 for each in said)


if __name__ == "__main__":
    main()
