"""Sends what flows ask for: one that blocks, and one for async programs."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import anyio
import httpx

from codemode.client.requests import Flow, Request

T = TypeVar("T")


class Sender:
    """Blocks."""

    def __init__(self, http: httpx.Client, margin_s: float) -> None:
        self.http = http
        self._margin_s = margin_s

    def run(self, flow: Flow[T]) -> T:
        """What the flow comes to. Raises what it raises."""
        try:
            request = next(flow)
            while True:
                time.sleep(request.delay_s)
                try:
                    response = self.http.send(request.build(self.http, self._margin_s))
                except httpx.TransportError as lost:
                    request = flow.throw(lost)
                else:
                    request = flow.send(response)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    @contextmanager
    def stream(self, request: Request) -> Iterator[httpx.Response]:
        """An answer whose body comes bit by bit; that of a refusal is read."""
        time.sleep(request.delay_s)
        response = self.http.send(request.build(self.http, self._margin_s), stream=True)
        try:
            if response.status_code != 200:
                response.read()
            yield response
        finally:
            response.close()


class AsyncSender:
    """For async programs."""

    def __init__(self, http: httpx.AsyncClient, margin_s: float) -> None:
        self.http = http
        self._margin_s = margin_s

    async def run(self, flow: Flow[T]) -> T:
        """As `Sender.run`."""
        try:
            request = next(flow)
            while True:
                await anyio.sleep(request.delay_s)
                try:
                    response = await self.http.send(request.build(self.http, self._margin_s))
                except httpx.TransportError as lost:
                    request = flow.throw(lost)
                else:
                    request = flow.send(response)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[httpx.Response]:
        """As `Sender.stream`."""
        await anyio.sleep(request.delay_s)
        response = await self.http.send(request.build(self.http, self._margin_s), stream=True)
        try:
            if response.status_code != 200:
                await response.aread()
            yield response
        finally:
            await response.aclose()
