"""`python -m bench`: prints the table of speeds as ratios within one run, in Markdown. `--quick` for a first look."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterator

from bench import measures
from bench.client import Service
from bench.measures import Row


def rows(*, quick: bool) -> Iterator[Row]:
    """All measurements, one after another on one service."""
    rounds = 60 if quick else 300
    cells = 50 if quick else 500
    yield measures.journal(rounds)
    options = ["--tools", "bench.tools:add", "--limit", "max_cells_server=1200", "--limit", "lifetime_ms=36000000"]
    with Service(*options) as service:
        yield measures.exec_latency(service, rounds)
        yield measures.throughput(service, 200 if quick else 600, 4)
        yield from measures.nested_calls(service)
        yield measures.output(service)
        yield from measures.pure_javascript(service)
        yield from measures.many_cells(service, cells, rounds)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds and 50 idle cells instead of 500")
    quick = parser.parse_args().quick
    print(f"{os.cpu_count()} processors, {platform.machine()}, Python {platform.python_version()}\n")
    print("| what | measured | floor | ratio | target | |\n|---|---|---|---|---|---|", flush=True)
    for row in rows(quick=quick):
        target = f"{'≥' if row.unit == 'of floor' else '≤'} {row.target:g}"
        verdict = "met" if row.met else "missed"
        cells = (row.what, row.measured, row.floor, f"{row.ratio:.2f} {row.unit}", target, verdict)
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
