"""What all tests share: the option `--all`, the table of damage, and the event loop of the async ones."""

import pytest
from hypothesis import settings

from tests.faults.tally import Tally

TALLY = pytest.StashKey[Tally]()

# Machines differ in speed: the time of one example says nothing. On top of the profile that hypothesis has chosen.
settings.register_profile("codemode", settings(deadline=None))
settings.load_profile("codemode")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run the tests that are marked slow too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--all"):
        return
    skip_slow = pytest.mark.skip(reason="slow: run with --all")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip_slow)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TALLY] = Tally()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What was damaged and what was lost; see tests/faults/tally.py."""
    if table := config.stash[TALLY].table():
        terminalreporter.section("what was tried, and what was lost")
        terminalreporter.write_line("\n".join(table))


@pytest.fixture
def tally(pytestconfig: pytest.Config) -> Tally:
    """Where a test says what it did to the service, and what that lost."""
    return pytestconfig.stash[TALLY]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests and fixtures run on asyncio, which is what the service runs on."""
    return "asyncio"
