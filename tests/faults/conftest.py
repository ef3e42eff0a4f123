"""One server for all tests that do not end it; each of them has to leave it serving, and with nothing running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.escapes import table
from tests.faults.rig import Service, SharedService
from tests.faults.tables import hostile_table


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedService]:
    with SharedService(tmp_path_factory, "--tools", "tests.faults.host_tools:tools") as shared:
        yield shared


@pytest.fixture
def server(shared_service: SharedService) -> Iterator[Service]:
    """The server; at the end its sessions are deleted, no cell runs any more, and it serves."""
    yield from shared_service.lent()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What native code and hostile processes have tried, and what came of it."""
    for line in table():
        terminalreporter.write_line(line)
    lines = hostile_table()
    if lines:
        terminalreporter.section("hostile processes")
        for line in lines:
            terminalreporter.line(line)
