"""Black-box runner for the codemode contract: plays case files against a server, over HTTP only.

  python -m tests.blackbox.runner --cases FILE --server-command "codemode serve --port {port} {flags}"    starts and stops the server itself
  python -m tests.blackbox.runner --cases FILE --base-url http://127.0.0.1:8000 --stub-port 9300          uses a server that is up already
  python -m tests.blackbox.runner --cases FILE --check                                                    only checks the form of the cases

One server is started per distinct "setup.server" of the cases; its settings become options in the place of {flags}:
  memory_mb, cpu_ms, lifetime_ms, idle_ms, keep_ms, max_…      --limit NAME=VALUE, repeated
  cpu_seconds, lifetime_seconds, idle_seconds, retain_seconds  the same in milliseconds: cpu_ms, lifetime_ms, idle_ms, keep_ms
  keys: [KEY, …]                                               --key-file FILE, one key a line; the first one is used
  data_dir: true                                               --data-dir DIR, fresh, kept over a restart by a "server" step
  workspace: {path: text}, allow_exec: true                    --workspace DIR with these files, --allow-exec
  require_sandbox: true                                        --require-sandbox
  allow_tool_url: [PREFIX, …]                                  --allow-tool-url PREFIX, repeated. The stub server's address is
                                                               always allowed, unless tool_urls is false
  exclusive: true                                              nothing; the cases of this server are played one at a time
In the server command {tmp} stands for a folder made for that one server.

Exit status: 0 if nothing failed and something passed, 1 if not, 2 if the call itself was wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import fnmatch
import json
import sys
from pathlib import Path
from typing import Any

from .differences import Difference
from .form import Form
from .results import Result, as_json
from .run import Run, load_cases, load_fixtures
from .stub import Stub


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, prog="python -m tests.blackbox.runner", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=Path, action="append", required=True, help="a case file (JSON lines); may be repeated")
    parser.add_argument(
        "--fixtures", type=Path, help="folder of tools.json and files.json (default: the cases' fixtures/, else those beside this package)"
    )
    parser.add_argument("--only", default="", help="ids or areas to play, separated by commas; * and ? are wildcards")
    parser.add_argument("--slow", action="store_true", help="play the cases marked slow too")
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--server-command", help='how to start the server, e.g. "codemode serve --port {port} {flags}"')
    where.add_argument("--base-url", help="a server that is up; cases that need a server of their own are skipped")
    where.add_argument("--check", action="store_true", help="only check the form of the cases")
    parser.add_argument("--key", help="bearer key for --base-url")
    parser.add_argument("--stub-port", type=int, default=0, help="port of the stub server, to allow it on a running server")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all results there, with the traffic of failed cases")
    parser.add_argument("--jobs", type=int, default=4, help="cases at once (default 4); those in which time matters run alone")
    parser.add_argument("--slack", type=float, default=1.0, help="factor on every max_ms (default 1)")
    parser.add_argument("--timing-retries", type=int, default=1, help="further tries for a case that differs in timing only (default 1)")
    parser.add_argument("--no-rules", action="store_true", help="check only what the cases say, not the rules that hold for every answer")
    parser.add_argument("--start-timeout", type=float, default=60, help="seconds for /readyz to answer 200 (default 60)")
    parser.add_argument("--stop-timeout", type=float, default=20, help="seconds from SIGTERM to the end (default 20)")
    parser.add_argument("--case-timeout", type=float, default=90, help="seconds a case may take (default 90), five times that if slow")
    parser.add_argument("--answer-timeout", type=float, default=20, help="seconds an answer may come later than asked for (default 20)")
    parser.add_argument("--keep-logs", action="store_true", help="print each server's log when it has stopped")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every case and every difference")
    options = parser.parse_args(arguments)
    if options.fixtures is None:
        places = [options.cases[0].parent / "fixtures", Path(__file__).parent.parent / "cases" / "fixtures"]
        options.fixtures = next((place for place in places if place.is_dir()), places[0])
    return options


def main(arguments: list[str] | None = None) -> int:
    options = options_of(arguments)
    sys.setrecursionlimit(20_000)  # TypeScript recurses as deep as the types it reads
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    tools, files = load_fixtures(options.fixtures)
    wanted = [pattern.strip() for pattern in options.only.split(",") if pattern.strip()]
    with Stub(files, options.stub_port) as stub:
        run = Run(options, stub, tools)
        playable: list[dict[str, Any]] = []
        seen: set[str] = set()
        for case in load_cases(options.cases):
            case = case if isinstance(case, dict) else {"not an object": case}
            if wanted and not any(fnmatch.fnmatchcase(str(case.get(key)), pattern) for key in ("id", "area") for pattern in wanted):
                continue
            problems = Form(case, set(tools)).problems
            if str(case.get("id")) in seen:
                problems.append("another case has the same id")
            seen.add(str(case.get("id")))
            if problems:
                run.report(Result(case, "error", list(map(Difference, problems))))
            elif case.get("slow") and not (options.slow or options.check):
                run.report(Result(case, "skipped", [Difference("slow")]))
            else:
                playable.append(case)
        if options.check:
            run.results += [Result(case, "passed") for case in playable]
        else:
            asyncio.run(run.all(playable))
    if options.json:
        options.json.write_text(json.dumps([as_json(result) for result in run.results], indent=1) + "\n")
    if late := [str(result.case["id"]) for result in run.results if result.tries > 1 and result.outcome == "passed"]:
        print(f"NOTE in time only at a further try: {', '.join(late)}")
    count = {outcome: sum(result.outcome == outcome for result in run.results) for outcome in ("passed", "failed", "error", "skipped")}
    failed = count["failed"] + count["error"]
    print(f"{count['passed']} passed, {failed} failed, {count['skipped']} skipped")
    return 0 if count["passed"] and not failed else 1
