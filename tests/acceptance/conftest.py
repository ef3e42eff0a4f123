"""One receiver of hooks for all, and one server for all tests that do not end it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.receiver import ALLOW, Receiver, receiving
from tests.acceptance.site import Site, options
from tests.faults.rig import SharedService


@pytest.fixture(scope="session")
def shared_receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def receiver(shared_receiver: Receiver) -> Iterator[Receiver]:
    """It has received nothing, and minds nothing."""
    shared_receiver.clear()
    yield shared_receiver
    shared_receiver.answers = lambda _: ALLOW


@pytest.fixture(scope="session")
def _shared_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("workspace")


@pytest.fixture(scope="session")
def _shared_service(
    tmp_path_factory: pytest.TempPathFactory, shared_receiver: Receiver, _shared_workspace: Path
) -> Iterator[SharedService]:
    with SharedService(tmp_path_factory, *options(shared_receiver, _shared_workspace)) as shared:
        yield shared


@pytest.fixture
def here(_shared_service: SharedService, receiver: Receiver, _shared_workspace: Path) -> Iterator[Site]:
    """The server of all; at the end its sessions are deleted, nothing runs any more, and it serves."""
    for server in _shared_service.lent():
        yield Site(server, receiver, _shared_workspace)
