"""The whole run: which cases there are, on which servers they are played, and in what order."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .differences import Difference
from .player import Player
from .results import Result
from .rules import Rules
from .stub import Stub
from .target import CannotServe, Target


def load_cases(paths: list[Path]) -> Iterator[Any]:
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except ValueError as problem:
                    yield {"id": f"{path.name}:{number}", "area": "", "steps": [], f"not JSON ({problem})": True}


def load_fixtures(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The stub tools' declarations by name, and the files that read_file knows."""
    tools = json.loads((folder / "tools.json").read_text(encoding="utf-8"))
    files = json.loads((folder / "files.json").read_text(encoding="utf-8"))
    return tools, {path: file["text"] * file["times"] for path, file in files.items()}


def wants_quiet(case: dict[str, Any]) -> bool:
    """Whether a case is played alone: time matters in it, or it does things to the server."""
    if case.get("slow") or case.get("setup", {}).get("server", {}).get("exclusive"):
        return True
    text = json.dumps(case["steps"])
    if re.search(r'"(max_ms|min_ms|abort_client_after|sleep|delay_ms|parallel|server|source_gen)"', text):
        return True
    return any(0 < int(ms) < 5000 for ms in re.findall(r'yield_time_ms\\*": *(\d+)', text))


class Run:
    """Plays cases, reports them as they end, and keeps the results."""

    def __init__(self, options: argparse.Namespace, stub: Stub, tools: dict[str, Any]) -> None:
        self.options, self.stub, self.tools = options, stub, tools
        self.results: list[Result] = []
        self.rules = Rules()

    def report(self, result: Result) -> None:
        self.results.append(result)
        name = f"{result.case.get('id')} [{result.case.get('area')}]"
        if result.outcome in ("failed", "error"):
            shown = result.differences if self.options.verbose else result.differences[:2]
            more = f" (+{len(result.differences) - len(shown)} more)" if len(shown) < len(result.differences) else ""
            word = "FAIL" if result.outcome == "failed" else "ERROR"
            print(f"{word} {name} {' | '.join(found.text for found in shown)}{more}", flush=True)
        elif self.options.verbose:
            print(f"{result.outcome} {name} {result.seconds:.2f} s{f', try {result.tries}' if result.tries > 1 else ''}", flush=True)

    async def all(self, cases: list[dict[str, Any]]) -> None:
        groups: dict[str, list[dict[str, Any]]] = {}
        for case in cases:
            groups.setdefault(json.dumps(case.get("setup", {}).get("server", {}), sort_keys=True), []).append(case)
        for settings, members in groups.items():
            if self.options.base_url:
                for case in [case for case in members if settings != "{}" or '"do": "server"' in json.dumps(case)]:
                    self.report(Result(case, "skipped", [Difference("needs a server of its own")]))
                    members.remove(case)
            if members:
                await self.group(json.loads(settings), members)
        for result in () if self.options.no_rules else self.rules.results():
            self.report(result)

    async def group(self, settings: dict[str, Any], cases: list[dict[str, Any]]) -> None:
        """All cases for one and the same server."""
        with tempfile.TemporaryDirectory(prefix="blackbox-", ignore_cleanup_errors=True) as folder:
            target = Target(self.options, self.stub, settings, Path(folder))
            before = len(self.results)
            try:
                await self.play_all(target, cases)
            except CannotServe as problem:
                print(f"NOTE the server {json.dumps(settings)} does not come up: {problem}", flush=True)
                reported = [id(result.case) for result in self.results[before:]]
                for case in cases:
                    if id(case) not in reported:
                        self.report(Result(case, "failed", [Difference("there is no server to play it on")]))
            finally:
                await target.stop()
                for note in target.notes if target.hopeless is None else ():
                    print(f"NOTE the server {json.dumps(settings)}: {note}", flush=True)
                if self.options.keep_logs and target.process is not None:
                    print(target.log.read_text(errors="replace"), flush=True)

    async def play_all(self, target: Target, cases: list[dict[str, Any]]) -> None:
        alone = [case for case in cases if self.options.jobs == 1 or wants_quiet(case)]
        together = [case for case in cases if case not in alone]
        gate = asyncio.Semaphore(self.options.jobs)

        async def play_one_of_many(case: dict[str, Any]) -> None:
            async with gate:
                result, died = await self.play(target, case)
            if died:  # perhaps by the deed of another case: played alone it will show
                alone.append(case)
            else:
                self.report(result)

        outcomes = await asyncio.gather(*map(play_one_of_many, together), return_exceptions=True)
        for problem in filter(None, outcomes):
            raise problem
        for case in alone:
            result, died = await self.play(target, case)
            while result.only_timing and not died and result.tries <= self.options.timing_retries:
                tries = result.tries + 1
                result, died = await self.play(target, case)
                result.tries = tries
            if died:
                result.outcome = "failed"
                result.differences.insert(0, Difference("the server died"))
            self.report(result)

    async def play(self, target: Target, case: dict[str, Any]) -> tuple[Result, bool]:
        """The result, and whether the server died meanwhile."""
        starts = await target.ensure_up()
        result = await Player(case, target, self.stub, self.tools, self.rules, self.options).play()
        restarts = json.dumps(case["steps"]).count('"do": "server"')
        return result, target.dead or (target.starts != starts and not restarts)
