"""The examples run as their texts say, so that a newcomer can start from them."""

import shlex
import subprocess
import sys

import httpx
import pytest

from codemode.commands.config import load_tools
from tests.unit.cli_helpers import CODEMODE, LONGEST, ROOT, codemode, pipe_of, started

EXAMPLES = ROOT / "examples"


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST)


def test_main_job_does_it_all_over_http() -> None:
    """A survey in one step, a cell waited for twice and ended, and a service that stops in order."""
    done = run("examples.main_job")
    assert (done.returncode, done.stderr) == (0, "")
    states = [line for line in done.stdout.splitlines() if line.startswith("Script ")]
    assert states == ["Script completed", *["Script running with cell ID 2"] * 3, "Script terminated"]
    assert "20 steps to go" in done.stdout


def test_main_job_tells_what_went_wrong() -> None:
    """Without its scripts it fails, says so in a line, and leaves no service behind."""
    program = "import pathlib, examples.main_job as job; job.HERE = pathlib.Path('/nowhere'); exit(job.main())"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=LONGEST)
    assert done.returncode == 1
    assert done.stderr == "main_job: [Errno 2] No such file or directory: '/nowhere/survey.js'\n"


def test_own_tools_shows_the_library() -> None:
    """Its cells end, in this order, as its comments say."""
    done = run("examples.own_tools")
    headings = [line for line in done.stdout.splitlines() if line.startswith("--- ")]
    states = ["1: completed", "2: running", "2: running", "2: terminated", "3: failed"]
    assert (done.returncode, done.stderr) == (0, "")
    assert headings == [f"--- cell {state}" for state in states]
    assert "the basket had 4 articles" in done.stdout
    assert "The nearest are: price_of." in done.stdout


def test_tools_module_gives_tools_to_scripts() -> None:
    """The command that its text names works, and its tools do what they promise."""
    script = """
    text(await tools.convert({amount: 3, unit: "km"}));
    text(await tools.working_days({start: "2024-02-29", days: 3}));
    text(await tools.stock({article: "nut"}));
    for (const call of [tools.convert({amount: 1, unit: "ell"}), tools.stock({article: "x"})]) {
      text(await call.catch((error) => error.message.split(":")[0]));
    }
    """
    done = codemode("run", "-", "--tools", "examples.tools_module:tools", script=script)
    assert done.stdout.splitlines() == [
        '{"metres":3000,"text":"3 km are 3000 m"}',
        '["2024-02-29","2024-03-01","2024-03-04"]',
        "800",
        "convert",
        "no article 'x'; there are bolt, nut",
    ]


def test_client_tools_fulfils_calls_in_rounds() -> None:
    """All four calls come in one round, and what the program answers is what the script sees."""
    with started(*CODEMODE, "serve", "--port", "0") as service:
        url = pipe_of(service.stdout).readline().decode().split()[-1]
        done = run("examples.client_tools", url)
        assert httpx.get(f"{url}/metrics", timeout=LONGEST).text.count("codemode_sessions 0.0") == 1
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 calls to fulfil\nScript completed\n" in done.stdout
    assert done.stdout.endswith("Bern: 11 degrees\nOslo: -4 degrees\nAtlantis: no city Atlantis\nCairo: 29 degrees\n\n")


def test_client_tools_says_what_to_do_without_a_service() -> None:
    """In a line, without a traceback."""
    done = run("examples.client_tools", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith("client_tools: no answer from http://127.0.0.1:9 (")
    assert done.stderr.endswith("; start a service: codemode serve --port 8000\n")


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example_is_short(path: object) -> None:
    """A newcomer reads it at one sitting; the main job may be longer."""
    name = str(path)
    most = {"main_job.py": 160, "verifier_collector.py": 200}.get(name.rpartition("/")[2], 80)
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) <= most


def test_commands_in_the_texts_exist() -> None:
    """Each `python -m examples.…` and each `--tools …` in a docstring names something that is there."""
    texts = [path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")]
    words = [word.strip("`") for text in texts for line in text.splitlines() for word in line.split()]
    modules = {word for word in words if word.startswith("examples.") and ":" not in word}
    named = {word for word in words if word.startswith("examples.") and ":" in word}
    assert all((ROOT / f"{shlex.quote(module).replace('.', '/')}.py").is_file() for module in modules)
    assert load_tools(sorted(named))
