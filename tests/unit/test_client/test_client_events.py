"""Both clients follow events: from any number, to the end, over connections that are cut."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import islice
from typing import Any

import httpx
import pytest

from codemode.client import AsyncCodeModeClient, CodeModeClient
from codemode.errors import CellNotFound
from tests.unit.test_client.client_helpers import Client, Session, done, opened
from tests.unit.test_client.cutting_proxy import cutting_proxy


async def events(source: Client | Session, most: int, after: int = 0, cell_id: str | None = None) -> list[Any]:
    """Number and type of so many, or of all if the stream ends before."""
    stream = source.events(after, cell_id)
    if isinstance(stream, AsyncIterator):
        found = []
        async for event in stream:
            found.append(event)
            if len(found) == most:
                break
        await stream.aclose()  # type: ignore[attr-defined]
    else:
        found = list(islice(stream, most))
        stream.close()  # type: ignore[attr-defined]
    return [(event["seq"], event["type"]) for event in found]


ONE_EXEC = [(2, "cell/started"), (3, "cell/output"), (4, "cell/ended")]


async def test_what_has_happened_and_what_comes(client: Client) -> None:
    """From the beginning, from a number, and of one cell until its end."""
    async with opened(client) as session:
        seen = await done(session.exec("text('a')"))
        assert await events(session, 4) == [(1, "session/created"), *ONE_EXEC]
        assert await events(session, 1, after=3) == ONE_EXEC[2:]
        assert await events(session, 99, cell_id=seen.cell_id) == ONE_EXEC
        assert await events(session, 99, after=4, cell_id=seen.cell_id) == []


async def test_a_cell_that_is_not_there(client: Client) -> None:
    """Is said by the exception of its code."""
    async with opened(client) as session:
        with pytest.raises(CellNotFound):
            await events(session, 1, cell_id="9")


@pytest.mark.parametrize("kind", [CodeModeClient, AsyncCodeModeClient])
async def test_a_cut_stream_goes_on_where_it_was(kind: type[Any], url: str) -> None:
    """Nothing is missing and nothing comes twice, whether nothing of the answer came or a half."""
    with cutting_proxy(url) as proxy:
        client = kind(proxy.url)
        session = await done(client.create_session())
        seen = await done(session.exec("for (let i = 0; i < 20; i++) text(i)"))
        proxy.fates.extend(["lose", "halve", "halve", "cut"])
        assert [seq for seq, _ in await events(session, 99, cell_id=seen.cell_id)] == list(range(2, 24))
        await done(session.delete())
        await done(client.close())


@pytest.mark.parametrize("kind", [CodeModeClient, AsyncCodeModeClient])
async def test_it_gives_up_at_last(kind: type[Any], url: str) -> None:
    """With the error of the connection."""
    with cutting_proxy(url) as proxy:
        client = kind(proxy.url, patience_s=0)
        session = await done(client.create_session())
        await done(session.exec("text(1)"))
        proxy.fates.append("cut")
        with pytest.raises(httpx.TransportError):
            await events(session, 99, cell_id="1")
        await done(session.delete())
        await done(client.close())
