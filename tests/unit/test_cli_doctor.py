"""`codemode doctor`: an honest account of this machine, and a self-test."""

import json
import os
import sys
from typing import Any

import pytest

from codemode.commands.cli import main
from codemode.errors import IsolationUnavailable
from codemode.isolation import walls
from codemode.isolation.confinement import Confinement
from codemode.isolation.pool import Pool
from codemode.limits import Limits
from tests.unit.cli_helpers import codemode

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_text_says_what_holds_and_what_does_not() -> None:
    """Every limit is listed, the self-test's outcome comes last, and the exit status is 0."""
    done = codemode("doctor", "--limit", "memory_mb=64")  # by itself: this process may have other children
    shown = done.stdout
    assert (done.returncode, shown.endswith("The self-test passed.\n"), done.stderr) == (0, True, "")
    assert [name for name in Limits().as_dict() if f"\n  {name} " not in shown] == []
    assert "memory_mb=64" in shown


@ON_LINUX
def test_json_tells_of_the_walls_as_they_are() -> None:
    """All are named, and on Linux all can be had but the network of its own, which containers may forbid."""
    done = codemode("doctor", "--json", "--limit", "max_cells_server=1000000")
    report: dict[str, Any] = json.loads(done.stdout)
    active = {wall["name"]: wall["active"] for wall in report["isolation"]}
    assert active.pop("network of its own") in (True, False)
    assert active == {
        "process of its own": True,
        "engine": True,
        "memory wall": True,
        "CPU limit": True,
        "no core dumps": True,
        "no writing to files": True,
        "no environment, no open file": True if os.geteuid() == 0 else None,  # others may not look
        "seccomp": True,
        "no new privileges": True,
        "user without rights": True,
        "not to be looked into": True,
        "ends with the service": True,
    }
    assert (done.returncode, report["passed"]) == (0, True)
    assert [check["passed"] for check in report["self_test"]] == [True] * 4
    assert report["engine"].startswith("14.")
    assert report["dependencies"]["mini-racer"] == "0.14.1"
    assert report["limits"] == Limits(max_cells_server=1000000).as_dict()
    assert any("max_cells_server" in warning for warning in report["warnings"])


def test_cell_that_cannot_be_looked_at_is_not_praised() -> None:
    """Without a process to look at, only what holds by construction is said to."""
    unseen = {wall.name: wall.active for wall in walls.walls_around(None, Limits(), Confinement(seccomp=True))}
    assert {name for name, active in unseen.items() if active} == {"process of its own", "engine"}


def test_machine_without_cells_fails_the_self_test(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is made all the same, says what failed, and the exit status is 1."""

    async def no_start(_: Pool) -> Pool:
        raise IsolationUnavailable("no cell process can be started")

    monkeypatch.setattr(Pool, "__aenter__", no_start)
    assert main(["doctor"]) == 1
    shown = capsys.readouterr().out
    assert "  FAILED the service starts: no cell process can be started\n" in shown
    assert shown.endswith("The self-test FAILED.\n")


def test_settings_that_cannot_be_are_a_wrong_call(capsys: pytest.CaptureFixture[str]) -> None:
    """They are named, and the exit status is 2."""
    assert main(["doctor", "--workspace", "/nowhere"]) == 2
    assert capsys.readouterr() == ("", "codemode: the workspace /nowhere is no directory\n")
