"""The events of a session as the library tells them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from codemode import CellNotFound, CodeMode, InvalidRequest, SessionNotFound, Tool
from codemode._bundled import bundled

SOURCE = "text('a'); notify('n'); await tools.ask({q: 1}); text('never')"


async def _over_http(cm: CodeMode, path: str) -> list[dict[str, Any]]:
    bundled("api")
    from codemode.api.app import create_app

    transport = httpx.ASGITransport(create_app(cm))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        lines = (await client.get(path)).text.splitlines()
    return [json.loads(line[5:]) for line in lines if line.startswith("data:")]


async def test_they_are_those_of_the_http_api(tmp_path: Path) -> None:
    """Plain objects, the same to the last field, from any number on, until the cell has ended; after a restart, too."""
    async with CodeMode([Tool(name="ask")], spares=1, data_dir=tmp_path) as cm:
        session = cm.create_session()
        await session.exec(SOURCE)
        await session.terminate("1")
        told = [event async for event in session.events(cell_id="1")]
        assert told == await _over_http(cm, f"/v1/sessions/{session.session_id}/cells/1/events")
        assert [event["type"] for event in told] == [
            "cell/started",
            "cell/output",
            "cell/notification",
            "tool_call/started",
            "tool_call/ended",
            "cell/ended",
        ]
        assert told[1]["item"] == {"type": "text", "text": "a"}
        assert [event async for event in session.events(4, "1")] == told[3:]
    async with CodeMode([Tool(name="ask")], spares=1, data_dir=tmp_path) as cm:
        assert [event async for event in cm.session(session.session_id).events(1, "1")] == told


async def test_a_stream_that_is_left_holds_no_place() -> None:
    """Heartbeats are not seen, and a follower counts until it is closed."""
    async with CodeMode(spares=0) as cm:
        session = cm.create_session()
        stream = session.events()
        assert (await anext(stream))["type"] == "session/created"
        assert session.is_in_use
        await stream.aclose()
        assert not session.is_in_use
        with pytest.raises(CellNotFound):
            session.events(cell_id="1")
        rest = session.events(after=1)
        await session.close()
        assert [event["type"] async for event in rest] == ["session/deleted"]
        with pytest.raises(SessionNotFound):
            session.events()


def test_a_data_directory_that_cannot_be_says_what_to_do_here_and_there(tmp_path: Path) -> None:
    """In the words of the command and of the library."""
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequest) as raised:
        CodeMode(data_dir=tmp_path / "file" / "data")
    assert str(raised.value).endswith(
        ": Not a directory; give another one (`--data-dir DIR`, `data_dir=`), or none to keep nothing over a restart"
    )
