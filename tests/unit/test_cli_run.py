"""`codemode run`: a script's output as it comes, and an exit status that tells how it ended."""

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from codemode.cells.observation import ErrorKind
from codemode.commands.cli import main
from codemode.commands.running import EXIT_STATUS
from codemode.commands.screen import harmless, shown
from codemode.isolation.walls import only_cell_process
from tests.unit.cli_helpers import CODEMODE, LONGEST, codemode, interrupt, pipe_of, read_all, read_until, send, started

RUN_STDIN = (*CODEMODE, "run", "-")
FOREVER = "await new Promise((resolve) => setTimeout(resolve, 1e6));"

GATES = """
import pathlib
from codemode import tool

@tool
def gate() -> str:
    "What is written to the pipe, as soon as it is."
    return pathlib.Path("pipe").read_text()

@tool
def broken() -> None:
    raise RuntimeError("out of order")

tools = [gate, broken]
"""


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    """A folder with tools, one of which waits for the test."""
    (tmp_path / "gates.py").write_text(GATES, encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


# Output


def test_output_goes_to_standard_output_and_messages_to_standard_error() -> None:
    """Each item is a line, media a placeholder; notifications and warnings stay out of the way."""
    script = """
    text("a\\nb"); notify("half way"); text({c: 1}); setTimeout(() => 0, 1000);
    image("data:image/png;base64,iVBORw0KGgo="); audio("https://example.com/a.mp3"); text("\\x1b[1m");
    """
    done = codemode("run", "-", script=script)
    expected = 'a\nb\n{"c":1}\n[image: image/png, 8 bytes]\n[audio: https://example.com/a.mp3]\n\x1b[1m\n'
    assert (done.returncode, done.stdout) == (0, expected)
    assert done.stderr == "half way\nwarning: 1 pending timer(s) were dropped when the script ended\n"


def test_output_arrives_while_the_script_runs(gates: Path) -> None:
    """What was handed over before a call is read before that call gets its result."""
    with started(*RUN_STDIN, "--tools", "gates:tools", cwd=gates) as process:
        send(process, 'text("before"); text(await tools.gate());')
        output = pipe_of(process.stdout).fileno()
        assert read_until(output, b"before\n") == b"before\n"
        (gates / "pipe").write_text("opened", encoding="utf-8")
        assert (read_all(output), process.wait(LONGEST)) == (b"opened\n", 0)


def test_no_output_is_lost_however_much_there_is() -> None:
    """Twenty times the usual budget comes out whole, whatever a first-line directive says."""
    directive = '// @exec: {"yield_time_ms": 60000, "max_output_tokens": 1}\n'
    script = directive + 'for (let i = 0; i < 80; i++) text("é".repeat(5e3))'
    done = codemode("run", "-", script=script)
    assert (done.returncode, done.stdout, done.stderr) == (0, ("é" * 5000 + "\n") * 80, "")


def test_budget_of_the_user_counts(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A `--limit max_output_tokens` that is given is kept to."""
    (tmp_path / "script.js").write_text('text("x".repeat(1000))', encoding="utf-8")
    status = main(["run", str(tmp_path / "script.js"), "--limit", "max_output_tokens=5"])
    assert (status, capfd.readouterr().out.startswith("Warning: truncated output")) == (0, True)


def test_reader_that_goes_away_ends_the_run() -> None:
    """As with `| head`: nothing is complained about, and the exit status is that of a broken pipe."""
    with started(*RUN_STDIN, stderr=subprocess.PIPE) as process:
        send(process, 'for (let i = 0; ; i++) { text("y".repeat(100)); await new Promise((r) => setTimeout(r, 1)); }')
        output = pipe_of(process.stdout)
        assert output.readline() == b"y" * 100 + b"\n"
        output.close()
        assert (process.wait(LONGEST), pipe_of(process.stderr).read()) == (141, b"")


def test_json_is_one_whole_observation() -> None:
    """`--json` prints what one call with enough patience would have got, also of a script that failed."""
    script = "text(1); notify('n'); yield_control(); await null; text(2); throw new Error('no')"
    done = codemode("run", "-", "--json", script=script)
    seen: dict[str, Any] = json.loads(done.stdout)
    items = [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]
    assert (done.returncode, done.stderr) == (1, "")
    assert (seen["status"], seen["output"], seen["error"]["kind"]) == ("failed", items, "script_error")
    assert [each["text"] for each in seen["notifications"]] == ["n"]
    first_lines = [item["text"].split("\n")[0] for item in seen["model_output"]]
    assert first_lines == ["Script failed", "1", "2", "Script error:"]


def test_failing_tool_of_the_user_shows_its_traceback(gates: Path) -> None:
    """The script learns no more than the exception's type; whoever wrote the tool sees where it came from."""
    script = "try { await tools.broken() } catch (error) { text(error.message) }"
    done = codemode("run", "-", "--tools", "gates:tools", script=script, cwd=gates)
    assert (done.returncode, done.stdout) == (0, "broken: it failed with RuntimeError\n")
    assert "tool broken failed" in done.stderr
    assert "RuntimeError: out of order" in done.stderr


# Exit status


@pytest.mark.parametrize(
    ("script", "option", "status", "complaint"),
    [
        ("\n throw new TypeError('bad')", "", 1, "Script error:\nTypeError: bad\n    at exec_main.mjs:2:8\n"),
        ("fetch('x')", "", 1, "fetch is not defined"),
        ("let a: string = 1", "", 1, "This looks like TypeScript. Send plain JavaScript, without type annotations.\n"),
        ("await new Promise(() => {})", "", 1, "nothing can settle any more"),
        ("const a = []; for (;;) a.push(new Array(1e5).fill(1.5))", "memory_mb=32", 3, "32 MiB of memory"),
        ("for (;;);", "cpu_ms=500", 3, "500 ms of CPU time"),
        (FOREVER, "lifetime_ms=300", 3, "longer than 300 ms"),
        ("for (;;) text('x'.repeat(1e4))", "max_output_bytes=100000", 3, "100000 bytes of output"),
        ("await tools.list_dir({})", "max_tool_calls=0", 3, "0 tool calls"),
    ],
)
def test_exit_status_tells_how_it_ended(script: str, option: str, status: int, complaint: str) -> None:
    """1 for a script that failed, 3 for a limit; standard error says why."""
    limit = ["--limit", option] if option else []
    done = codemode("run", "-", "--workspace", ".", *limit, script=script)
    assert (done.returncode, complaint in done.stderr, "Traceback" in done.stderr) == (status, True, False), done.stderr


@pytest.mark.parametrize(
    ("script", "arguments", "complaint"),
    [
        ("", [], "the source is empty; expected JavaScript\n"),
        ("// @exec: {}", [], "there is no source below the first-line directive"),
        ("text(1)", ["--limit", "cpu=1"], "--limit 'cpu' is no limit"),
        ("text(1)", ["--limit", "max_source_bytes=3"], "- is longer than 3 bytes (see --limit max_source_bytes)\n"),
        ("text(1)", ["--tools", "nothing:here"], "--tools nothing:here: No module named 'nothing'\n"),
    ],
)
def test_script_that_cannot_be_run_is_a_wrong_call(
    script: str,
    arguments: list[str],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nothing ran, and the exit status is 2."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(script.encode())))
    assert main(["run", "-", *arguments]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err[: len("codemode: " + complaint)]) == ("", f"codemode: {complaint}")


@pytest.mark.skipif(sys.platform != "linux", reason="finds the process in /proc")
def test_lost_process_is_a_status_of_its_own() -> None:
    """A cell whose process was killed from outside has handed over what it had, and the run ends with 4."""
    with started(*RUN_STDIN, stderr=subprocess.PIPE) as process:
        send(process, 'text("on"); for (;;);')
        read_until(pipe_of(process.stdout).fileno(), b"on\n")
        cell = only_cell_process(process.pid)
        assert cell is not None
        os.kill(cell, signal.SIGKILL)
        assert process.wait(LONGEST) == 4
        assert b"the process of the cell was lost: it was ended by SIGKILL\n" in pipe_of(process.stderr).read()


def test_every_kind_of_failure_has_its_exit_status() -> None:
    """A kind that is added gets a status here too."""
    assert set(EXIT_STATUS) == set(get_args(ErrorKind))


def test_script_is_read_from_a_file(tmp_path: Path) -> None:
    """Also with a line for the shell and with the line ends of Windows."""
    file = tmp_path / "script.js"
    file.write_bytes(b"#!/usr/bin/env codemode\r\ntext('h\xc3\xa9');\r\n throw 1")
    done = codemode("run", str(file))
    assert (done.returncode, done.stdout) == (1, "hé\n")
    assert done.stderr.startswith("Script error:\n")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(None, "cannot read {file}: No such file or directory"), (b"\xff", "{file} is not UTF-8: byte 1 cannot be read")],
)
def test_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    """Nothing ran, and the exit status is 2."""
    file = tmp_path / "script.js"
    if content is not None:
        file.write_bytes(content)
    done = codemode("run", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"codemode: {complaint.format(file=file)}\n")


def test_ctrl_c_ends_the_script_and_shows_its_output() -> None:
    """Also out of a busy loop, and with output that nobody had been handed yet."""
    with started(*RUN_STDIN, stderr=subprocess.PIPE) as process:
        send(process, 'text("on"); for (let i = 0; ; i++) if (i === 1e6) text("more");')
        output = pipe_of(process.stdout).fileno()
        read_until(output, b"on\n")
        interrupt(process)
        rest = read_all(output)
        assert process.wait(LONGEST) == 130
        assert (b"Traceback" in rest, pipe_of(process.stderr).read()) == (False, b"Script terminated\n")


# A terminal


class Terminal:
    """What a person sees: lines, carriage returns and erasing, as far as they are used here."""

    def __init__(self) -> None:
        self.lines = [""]
        self.column = 0
        self.was_seen: list[str] = []  # each line at the moment before it changed by an escape or a line end

    def feed(self, data: bytes) -> None:
        for part in re.findall(r"\x1b\[K|\r|\n|[^\x1b\r\n]+", data.decode()):
            line = self.lines[-1]
            if part in ("\r", "\n"):
                self.was_seen.append(line)
                self.column = 0
                self.lines += [""] if part == "\n" else []
            elif part == "\x1b[K":
                self.lines[-1] = line[: self.column]
            else:
                self.lines[-1] = line[: self.column] + part + line[self.column + len(part) :]
                self.column += len(part)


def test_progress_is_shown_on_a_terminal_and_never_stays(gates: Path) -> None:
    """The calls in flight are named, and neither output nor the end of the run finds a rest of the line."""
    ours, theirs = pty.openpty()
    script = 'text("one"); const waiting = tools.gate(); await tools.list_dir({}); await waiting; text("\\x1b[31mtwo");'
    environment = os.environ | {"TERM": "xterm"}
    command = (*RUN_STDIN, "--tools", "gates:tools", "--workspace", ".")
    with started(*command, cwd=gates, env=environment, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        send(process, script)
        terminal = Terminal()
        terminal.feed(read_until(ours, b" s \xc2\xb7 gate"))
        (gates / "pipe").write_text("", encoding="utf-8")
        terminal.feed(read_all(ours))
        assert process.wait(LONGEST) == 0
    os.close(ours)
    assert terminal.lines == ["one", "\\x1b[31mtwo", ""]
    assert any(re.fullmatch(r"running \d+\.\d s · gate", line) for line in terminal.was_seen)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "text", "text": "t"}, "t"),
        ({"type": "image", "image_url": "data:image/png;base64,QUJDRA=="}, "[image: image/png, 4 bytes]"),
        ({"type": "image", "image_url": "DATA:image/svg+xml,%3Csvg/%3E"}, "[image: image/svg+xml, 6 bytes]"),
        ({"type": "audio", "audio_url": "data:;base64,QUJD"}, "[audio: text/plain, 3 bytes]"),
        ({"type": "image", "image_url": "https://example.com/a,b.png"}, "[image: https://example.com/a,b.png]"),
    ],
)
def test_media_are_shown_as_placeholders(item: dict[str, Any], expected: str) -> None:
    """With the type and the size of what they hold, or with their address."""
    assert shown(item) == expected


def test_terminal_is_out_of_a_scripts_reach() -> None:
    """Control characters are shown, line ends and tabs stay what they are."""
    assert harmless("a\tb\r\nc\rd\x1b]0;t\x07\x9b1m\x7f") == "a\tb\r\nc\\x0dd\\x1b]0;t\\x07\\x9b1m\\x7f"
