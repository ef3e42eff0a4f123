"""The shared cases, played over HTTP: one test a case, and one for each rule that holds for every answer.

All selected cases are played in one run, before the first test that needs a result: a server is started once for each of
the settings that cases ask for, and cases in which time does not matter run side by side.
"""

import json
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .runner.form import Form
from .runner.rules import OBSERVATION_RULES, rule_problem, rule_problem_text
from .runner.run import load_cases, load_fixtures

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CASE_FILE = HERE / "cases" / "shared.jsonl"
CASES: dict[str, dict[str, Any]] = {case["id"]: case for case in load_cases([CASE_FILE])}  # the runner refuses an id given twice
RULES = [rule.__name__.replace("_", "-") for rule in (*OBSERVATION_RULES, rule_problem, rule_problem_text)]
NOT_BUILT: dict[str, dict[str, str]] = tomllib.loads((HERE / "not_built.toml").read_text(encoding="utf-8"))
SERVER = f"{shlex.quote(sys.executable)} -m codemode serve --port {{port}} {{flags}}"
RUN_SECONDS = 1400  # for the whole run, generously

# The time of the whole run counts for the test that happens to be the first.
pytestmark = pytest.mark.timeout(RUN_SECONDS + 100, func_only=False)


def marks_of(case: dict[str, Any], config: pytest.Config) -> Iterator[pytest.MarkDecorator]:
    if reason := NOT_BUILT["areas"].get(case["area"]) or NOT_BUILT["cases"].get(case["id"]):
        yield pytest.mark.skip(reason=f"not built: {reason}")
    if case.get("slow"):
        yield pytest.mark.slow
        if not config.getoption("--all", default=False):
            yield pytest.mark.skip(reason="slow: played with --all")
    if reason := NOT_BUILT["wrong"].get(case["id"]):
        yield pytest.mark.xfail(reason=f"held to be wrong: {reason}", strict=True)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case_id" in metafunc.fixturenames:
        metafunc.parametrize("case_id", [pytest.param(name, marks=[*marks_of(case, metafunc.config)]) for name, case in CASES.items()])


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the runner says of each case that is selected, and of each rule. Rules alone are judged on all that is built."""
    mine = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == Path(__file__)]
    chosen = [
        str(item.callspec.params["case_id"]) for item in mine if item.originalname == "test_case" and not item.get_closest_marker("skip")
    ]
    built = [name for name, case in CASES.items() if all(mark.name != "skip" for mark in marks_of(case, request.config))]
    return play(chosen or built, tmp_path_factory.mktemp("blackbox"), request.config)


def play(case_ids: list[str], folder: Path, config: pytest.Config) -> dict[str, dict[str, Any]]:
    """Run the runner, which stops its servers whichever way it ends."""
    found, log = folder / "results.json", folder / "runner.log"
    options = ["--cases", str(CASE_FILE), "--only", ",".join(case_ids), "--slow", "--json", str(found), "--server-command", SERVER]
    with log.open("wb") as output:
        runner = subprocess.Popen(
            [sys.executable, "-m", "tests.blackbox.runner", *options],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        runner.wait(RUN_SECONDS)
    except subprocess.TimeoutExpired:
        pytest.fail(f"the run took more than {RUN_SECONDS} s\n{tail_of(log)}", pytrace=False)
    finally:
        if runner.poll() is None:
            runner.terminate()
            try:
                runner.wait(60)
            except subprocess.TimeoutExpired:
                runner.kill()
    if not found.exists():
        pytest.fail(f"the runner gave no results, status {runner.returncode}\n{tail_of(log)}", pytrace=False)
    config.pluginmanager.register(Notes(log))
    return {result["id"]: result | {"traffic": found} for result in json.loads(found.read_text(encoding="utf-8"))}


class Notes:
    """Shows at the end what the runner noticed of the servers themselves: one that died, or did not end when it was told to."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        if notes := [line for line in lines if line.startswith("NOTE")]:
            terminalreporter.section(f"notes of the black-box run ({self.log})")
            terminalreporter.write_line("\n".join(notes))


def tail_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-3000:]


def judge(result: dict[str, Any], said: str) -> None:
    if result["outcome"] != "passed":
        shown, more = result["differences"][:20], len(result["differences"]) - 20
        lines = [said, *shown, *([f"… and {more} more"] if more > 0 else []), f"(traffic: {result['traffic']})"]
        pytest.fail("\n".join(lines), pytrace=False)


def test_case(case_id: str, results: dict[str, dict[str, Any]]) -> None:
    judge(results[case_id], CASES[case_id].get("why", case_id))


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule: str, results: dict[str, dict[str, Any]]) -> None:
    if rule not in results:
        pytest.skip("no answer in this run that the rule is about")
    judge(results[rule], "a rule for every answer")


def test_all_cases_are_well_formed() -> None:
    """Those too that are not played."""
    tools, _ = load_fixtures(CASE_FILE.parent / "fixtures")
    problems = {name: Form(case, set(tools)).problems for name, case in CASES.items()}
    assert {name: found for name, found in problems.items() if found} == {}


def test_what_is_not_built_names_cases_that_exist() -> None:
    assert NOT_BUILT["areas"].keys() <= {case["area"] for case in CASES.values()}
    assert NOT_BUILT["cases"].keys() | NOT_BUILT["wrong"].keys() <= CASES.keys()
    assert not {name for name in NOT_BUILT["cases"] if CASES[name]["area"] in NOT_BUILT["areas"]}, "said twice"
