"""The documents name everything there is, and their examples run."""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import get_args

import httpx
import pytest

import codemode
from codemode import CodeMode, errors
from codemode._bundled import bundled
from codemode.cells.observation import ErrorKind, Observation
from codemode.commands.cli import _parser
from codemode.isolation.confinement import Confinement
from codemode.limits import Limits

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A real server on a real port, with this checkout as its workspace."""
    command = [sys.executable, "-m", "codemode", "serve", "--port", "0", "--workspace", str(ROOT)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=15)


def blocks(text: str, language: str) -> list[str]:
    """The code blocks of one language."""
    return [found[2] for found in BLOCK.finditer(text) if found[1] == language]


def rows(page: str, columns: int) -> list[list[str]]:
    """The rows of a page's tables that have so many columns and begin with a name in backticks."""
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in DOCS[page].splitlines()]
    return [row for row in cells if len(row) == columns and re.fullmatch(r"`\w+`", row[0])]


def test_the_page_of_error_codes_is_that_of_the_code() -> None:
    """Every code with its status and its exception, in the order of the table; no other."""
    bundled("api")
    from codemode.api.problems import STATUS

    exceptions = {
        kind.code: kind.__name__
        for kind in reversed(vars(errors).values())
        if isinstance(kind, type) and issubclass(kind, errors.CodeModeError)
    }
    exceptions["isolation_unavailable"] = "IsolationUnavailable"  # of which there is a special kind
    expected = [
        [f"`{code}`", str(status), f"`{exceptions.get(code, 'CodeModeError')}`"] for code, status in STATUS.items()
    ]
    assert [row[:3] for row in rows("errors.md", 5)] == expected


def test_the_page_of_limits_is_that_of_the_code() -> None:
    """Every limit with its default, its unit and who may set it, in the order of the table; no other."""
    expected = [
        [
            f"`{limit.name}`",
            f"{limit.default} {limit.metadata['unit']}",
            "server" if limit.metadata["server_only"] else "server, session",
        ]
        for limit in fields(Limits)
    ]
    assert [row[:3] for row in rows("limits.md", 5)] == expected


def test_every_kind_of_failure_is_documented() -> None:
    """So is each kind of failure of a script."""
    assert [kind for kind in get_args(ErrorKind) if f"`{kind}`" not in DOCS["script.md"]] == []


def test_every_field_of_an_observation_is_documented() -> None:
    """A caller finds each field of an answer."""
    assert [field.name for field in fields(Observation) if f"`{field.name}`" not in DOCS["http.md"]] == []


def test_every_option_is_documented() -> None:
    """An operator finds each option of `serve`."""
    commands = next(action for action in _parser()._actions if isinstance(action.choices, dict))
    assert isinstance(commands.choices, dict)
    serve = commands.choices["serve"]
    options = [option for action in serve._actions for option in action.option_strings if option.startswith("--")]
    assert [option for option in options if option != "--help" and f"`{option}" not in DOCS["operation.md"]] == []


def test_the_threat_model_names_every_wall_and_real_tests() -> None:
    """What SECURITY.md says is shown by tests that exist, and it leaves out no wall that the service reports."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert [wall for wall in Confinement._fields if f"`{wall}`" not in text] == []
    named = set(re.findall(r"`((?:tests|codemode)/[^`]*)`", text))
    assert len(named) >= 7
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_links_lead_somewhere() -> None:
    """No link between the documents is broken."""
    for folder, text in [(ROOT, README), *((ROOT / "docs", text) for text in DOCS.values())]:
        targets = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]
        assert [target for target in targets if not (folder / target).exists()] == []


def test_readme_library_example(tmp_path: Path) -> None:
    """The first Python example of the README runs as it stands."""
    program = tmp_path / "example.py"
    program.write_text(blocks(README, "python")[0], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=ROOT, capture_output=True, text=True, timeout=15, check=True
    )
    assert done.stdout == "completed ['apple: 1.2', 'pear: 1.5', 'plum: there is no plum']\n"


def test_readme_client_example(tmp_path: Path, url: str) -> None:
    """The second one runs against a server."""
    program = tmp_path / "example.py"
    program.write_text(blocks(README, "python")[1].replace("http://127.0.0.1:8000", url), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], cwd=ROOT, capture_output=True, text=True, timeout=15, check=True
    )
    assert done.stdout.endswith("Well? Yes.\n")


def test_library_examples(tmp_path: Path, url: str) -> None:
    """Those of docs/library.md run too."""
    said = []
    for number, block in enumerate(blocks(DOCS["library.md"], "python")):
        program = tmp_path / f"example{number}.py"
        program.write_text(block.replace("http://127.0.0.1:8000", url), encoding="utf-8")
        done = subprocess.run([sys.executable, str(program)], cwd=ROOT, capture_output=True, text=True, timeout=15)
        assert done.returncode == 0, done.stderr
        said += done.stdout.splitlines()
    assert (said[0], said[2]) == ("completed [{'type': 'text', 'text': '3'}]", "running terminated")
    assert said[3:8] == ["2 cell/started ", "3 cell/output 1", "4 cell/ended ", "cell 1 1", "cell 2 2"]
    assert (said[8], said[12], said[-1]) == ("2 cell/started", "6 cell/ended", "42")


def test_names_of_the_library_can_be_imported() -> None:
    """Every class that its pages and the table of errors name is a public name, and so is every error."""
    words = re.findall(r"`([A-Z]\w+)(?=[`(.])", DOCS["library.md"] + DOCS["errors.md"])
    named = {word for word in words if re.fullmatch(r"([A-Z][a-z]+)+", word) or word.startswith("CodeMode")}
    assert len(named) > 30
    assert sorted(name for name in named | {"SandboxUnavailable"} if name not in codemode.__all__) == []
    every = {kind.__name__ for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert sorted(every - {*codemode.__all__}) == []
    assert [name for name in codemode.__all__ if getattr(codemode, name).__name__ != name] == []


def test_readme_curl_lines(url: str) -> None:
    """The curl lines of the README, one after another in one shell, do what it says."""
    lines = (
        "".join(blocks(README, "sh")[1:]).replace("http://127.0.0.1:8000", url).replace("curl -s", "curl -sS -w '\\n'")
    )
    done = subprocess.run(["bash", "-ec", lines], cwd=ROOT, capture_output=True, text=True, timeout=15, check=True)
    files, running, more, end = [httpx.Response(200, text=line).json() for line in done.stdout.splitlines()]
    assert any(item["text"].startswith("README.md: ") for item in files["output"])
    assert [running["status"], more["status"], end["status"]] == ["running", "running", "terminated"]
    assert (running["cell_id"], running["output"][0]["text"]) == ("2", "0")


async def test_script_examples_run() -> None:
    """Each script in the documents completes in the workspace of this checkout."""
    async with CodeMode(workspace=ROOT, spares=0) as cm:
        for source in (block for text in DOCS.values() for block in blocks(text, "js")):
            observation = await cm.exec(source)
            assert (observation.status, observation.error) == ("completed", None)
