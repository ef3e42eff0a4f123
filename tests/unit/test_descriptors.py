"""How many connections there may be, beside cells, with so many descriptors."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest

from codemode.commands import doctor
from codemode.commands.cli import main
from tests.unit.cli_helpers import ROOT, codemode

ASK = "from codemode.commands.descriptors import most_connections; import resource; print(most_connections({}), resource.getrlimit(resource.RLIMIT_NOFILE)[0])"


def told(soft: int, hard: int, arguments: str) -> tuple[int, int]:
    """The connections, and the soft limit of descriptors afterwards."""
    limited = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"'
    command = ["bash", "-c", limited, "limited", sys.executable, "-c", ASK.format(arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=15, check=True)
    connections, limit = done.stdout.split()
    return int(connections), int(limit)


@pytest.mark.parametrize(
    ("soft", "hard", "arguments", "expected"),
    [
        (1024, 20_000, "512", (4096, 6208)),  # raised to what is needed, and no further
        (20_000, 20_000, "512", (4096, 20_000)),
        (1024, 4096, "512", (3008, 4096)),  # as far as it may be: cells have theirs
        (1024, 1024, "512", (256, 1024)),  # too few for all: a quarter
        (64, 64, "512", (16, 64)),
        (1024, 20_000, "512, 100", (100, 2212)),  # as the operator says
        (1024, 1024, "512, 5000", (256, 1024)),
        (1024, 20_000, "512, 3", (3, 2115)),
    ],
)
def test_connections_leave_descriptors_for_cells(
    soft: int, hard: int, arguments: str, expected: tuple[int, int]
) -> None:
    """By default as many as can be used; the limit is raised only as far as needed."""
    assert told(soft, hard, arguments) == expected


def test_doctor_tells_the_same(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """As `serve` will do: its numbers are not its own."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    with monkeypatch.context() as without:
        without.setattr(doctor, "_self_test", nothing_tried)
        without.setattr(doctor, "_engine_version", lambda: None)
        assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["file_descriptors"] == {"soft": 1024, "hard": 4096, "needed": 6208, "connections": 3008}
    assert any("3008 connections at most" in warning for warning in report["warnings"])


async def nothing_tried(_: object) -> tuple[list[object], list[object]]:
    return [], []


@pytest.mark.parametrize(
    "option",
    [["--max-connections", "0"], ["--max-connections", "x"], ["--request-timeout", "0"], ["--request-timeout", "nan"]]
    + [["--grace", "nan"], ["--grace", "-1"], ["--grace", "inf"]],
)
def test_bounds_that_cannot_be_are_refused(option: list[str]) -> None:
    """With the usage and status 2, before anything starts."""
    done = codemode("serve", *option)
    assert (done.returncode, option[0] in done.stderr, "Traceback" in done.stderr) == (2, True, False)
