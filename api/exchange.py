"""Reads bodies, writes answers, and lets go of a cell when its client has hung up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from codemode.cells.observation import Observation

from . import caller

T = TypeVar("T")
UNTAKEN: Final = "earlier answers wait to be taken in, and have as many bytes as may be"
_OBSERVATION: Final = TypeAdapter(Observation)


class ClientGone(Exception):
    """The client hung up before the answer: nobody is there to be told."""


class Untaken(Exception):
    """Clients have taken in so little of earlier answers that there must not be another one."""


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`, cancelled as soon as the client hangs up. The body has to be read before.

    Raises ClientGone, and Untaken.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnect(request))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        result = task.result()
        if caller.enter(request.scope).has_untaken:  # many may have waited for this moment
            raise Untaken
        return result
    finally:
        gone.cancel()
        task.cancel()


async def _disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def observed(observation: Observation) -> Response:
    """202 with the cell's place while it runs, 200 when it has ended."""
    try:
        body = to_json(observation, inf_nan_mode="null")
    except PydanticSerializationError:  # a lone surrogate in the input of a pending call: JSON can say it, UTF-8 cannot
        body = json.dumps(_OBSERVATION.dump_python(observation), allow_nan=False).encode()
    if not observation.is_running:
        return Response(body, 200, media_type="application/json")
    place = f"/v1/sessions/{observation.session_id}/cells/{observation.cell_id}"
    return Response(body, 202, {"Location": place}, "application/json")


def answer(value: BaseModel | dict[str, Any] | list[Any], status: int = 200) -> Response:
    """Any other answer."""
    return Response(to_json(value), status, media_type="application/json")
