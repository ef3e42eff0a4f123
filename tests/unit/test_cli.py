"""The command `codemode` itself, and what `codemode serve` prints."""

import shlex
import signal
import socket

import httpx
import pytest

import codemode as package
from codemode.commands.cli import main
from tests.unit.cli_helpers import CODEMODE, LONGEST, codemode, pipe_of, started


def test_version_is_told() -> None:
    """`--version` prints the package's version and nothing else."""
    done = codemode("--version")
    assert (done.returncode, done.stdout) == (0, f"codemode {package.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "required: COMMAND"),
        (["serve", "--limit", "cells=3"], "'cells' is no limit; there are max_source_bytes,"),
        (["serve", "--host", "0.0.0.0"], "--host 0.0.0.0 is reachable from elsewhere"),
        (["doctor", "--limit", "cpu_ms=none"], "--limit cpu_ms: expected a whole number from 1, got 'none'"),
        (["serve", "--limit", "cpu_ms=-1"], "--limit cpu_ms: expected a whole number from 1, got '-1'"),
        (["serve", "--limit", "keep_ms=-1"], "--limit keep_ms: expected a whole number from 0, got '-1'"),
        (["serve", "--grace", "-1"], "--grace: expected a number of seconds from 0, got '-1'"),
        (["serve", "--grace", "soon"], "--grace: expected a number of seconds from 0, got 'soon'"),
        (["serve", "--request-timeout", "x"], "--request-timeout: expected a number of seconds from 0, got 'x'"),
        (["serve", "--data-dir", __file__], "test_cli.py is a file, no directory; give another one"),
    ],
)
def test_wrong_calls_are_explained(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that cannot be says why, and its exit status is 2."""
    try:
        status = main(arguments)
    except SystemExit as end:  # how argparse ends the program
        status = end.code if isinstance(end.code, int) else 1
    captured = capsys.readouterr()
    assert (status, captured.out, complaint in captured.err) == (2, "", True)


@pytest.mark.parametrize("more", [[], ["--insecure"]])
def test_a_host_name_that_does_not_resolve(
    more: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """That is what is wrong with it, not that it is reachable from elsewhere."""

    def no_such_name(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_name)
    assert main(["serve", "--host", "bogus.invalid", *more]) == 2
    assert capsys.readouterr().err == (
        "codemode: --host bogus.invalid does not resolve to an address: Name or service not known\n"
    )


def test_serve_prints_its_address_and_a_line_to_paste() -> None:
    """The first line is for programs; the second one, pasted into a shell, runs a script; the third tells the walls."""
    with started(*CODEMODE, "serve", "--port", "0") as process:
        output = pipe_of(process.stdout)
        first, second, third, fourth = (output.readline().decode() for _ in range(4))
        heading, _, url = first.rstrip("\n").rpartition(" on ")
        assert heading == f"codemode {package.__version__}"
        assert fourth.startswith("data: in memory")
        told = httpx.get(f"{url}/readyz", timeout=LONGEST).json()["sandbox"]
        active, _, missing = third.removeprefix("sandbox: ").rstrip("\n").partition("; MISSING: ")
        assert active == (", ".join(name for name, holds in told.items() if holds) or "none")
        assert missing == ", ".join(name for name, holds in told.items() if not holds)

        words = shlex.split(second.removeprefix("try it: "))
        assert words[:4] == ["curl", f"{url}/v1/exec", "-H", "Content-Type: text/javascript"]
        name, value = words[3].split(": ")
        answer = httpx.post(words[1], headers={name: value}, content=words[5], timeout=LONGEST)
        assert answer.json()["output"] == [{"type": "text", "text": "6 times 7 is 42"}]

        process.send_signal(signal.SIGTERM)
        assert (process.wait(LONGEST), output.read()) == (0, b"")
