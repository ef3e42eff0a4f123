"""What any answer says is written before it goes out; where it cannot be, or the file is gone, answers say so."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.faults.rig import Service, service, texts, until_found
from tests.faults.tally import Tally
from tests.faults.test_data_directory import COUNTER, full, killed, trouble


@contextmanager
def locked(data: Path) -> Iterator[None]:
    """Somebody else is about to write to the journal, and takes a while."""
    other = sqlite3.connect(data / "journal.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


def counted(server: Service) -> tuple[int, int]:
    """Live cells and sessions."""
    told = server.client.get("/readyz").json()
    return told["live_cells"], told["sessions"]


def test_nothing_is_shown_that_the_next_server_does_not_know(tmp_path: Path, tally: Tally) -> None:
    """Sessions, cells and numbers of events, looked at while the disk is slow; then the server is killed."""
    data = tmp_path / "data"
    shown: dict[str, Any] = {}
    with service(tmp_path, "--data-dir", str(data)) as server:
        session = server.session()
        server.exec("text('first')", session)
        places = ["", f"/{session}", f"/{session}/cells", f"/{session}/cells/2"]

        def run(work: Callable[[], Any]) -> None:
            with contextlib.suppress(httpx.HTTPError):
                work()

        def look(place: str) -> None:
            shown[place] = server.client.get(f"/v1/sessions{place}").json()

        def told_of(place: str) -> threading.Thread:
            return threading.Thread(target=run, args=(lambda: look(place),))

        with locked(data):
            work = [lambda: server.exec(COUNTER, session, yield_time_ms=0), server.session]
            lost = [threading.Thread(target=run, args=(each,)) for each in work]
            looks = [told_of(place) for place in places]
            for thread in lost:
                thread.start()
            until_found(lambda: counted(server) == (1, 2), "both have begun")
            for thread in looks:
                thread.start()
            for thread in looks:
                thread.join(0.2)  # an answer that should not come would come within that
            killed(server)
            for thread in [*lost, *looks]:
                thread.join()
    with service(tmp_path, "--data-dir", str(data)) as server:
        now = {place: server.client.get(f"/v1/sessions{place}").json() for place in places}
        wrong = [place for place, told in shown.items() if now[place] != told]
    tally.add("answers that show how things stand, on a slow disk", tried=len(places), lost=len(wrong))
    assert wrong == []


def test_a_file_that_is_moved_away_under_the_server(tmp_path: Path, tally: Tally) -> None:
    """The server goes on, says so in each answer, and makes no empty file in its place."""
    data = tmp_path / "data"
    with service(tmp_path, "--data-dir", str(data)) as server:
        session = server.session()
        server.exec("store('k', 1)", session)
        for path in data.glob("journal*"):
            path.rename(tmp_path / path.name)
        seen = server.exec("store('k', 2)", session)
        told = "moved, replaced or deleted" in "\n".join(seen["warnings"])
        tally.add("journals moved away under the server", lost=not told)
        assert told
        assert sorted(path.name for path in data.iterdir()) == ["lock"]
        for path in tmp_path.glob("journal*"):
            path.rename(data / path.name)
        until_found(lambda: trouble(server) is None, "written again")
        killed(server)
    with service(tmp_path, "--data-dir", str(data)) as server:
        assert texts(server.exec("text(load('k'))", session)) == ["2"]


def test_a_stop_in_order_right_after_a_full_disk(tmp_path: Path, tally: Tally) -> None:
    """There is room again, though nobody has tried yet."""
    data = tmp_path / "data"
    with service(tmp_path, "--data-dir", str(data)) as server:
        session = server.session()
        with full(server, data):
            for number in range(5):
                server.exec(f"store('k', {number}); text('x'.repeat(20000))", session)
            assert trouble(server) is not None
        server.terminate()
        assert server.status() == 0
    with service(tmp_path, "--data-dir", str(data)) as server:
        kept = texts(server.exec("text(load('k'))", session))
        tally.add("stops in order right after a full disk", lost=kept != ["4"])
        assert kept == ["4"]
