"""What all tests share: the option `--all`, and the event loop of the async ones."""

import pytest
from hypothesis import settings

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


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Async tests and fixtures run on asyncio, which is what the service runs on."""
    return "asyncio"
