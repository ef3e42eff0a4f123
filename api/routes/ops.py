"""Liveness and readiness, which need no key, and metrics, which need one of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import BaseModel

from codemode.service import CodeMode

from ..exchange import answer
from ..openapi import problems
from ..problems import problem


class Health(BaseModel):
    """The service's event loop runs."""

    status: str = "ok"


class Sandbox(BaseModel):
    """Which walls of the kernel were found around the cell process that got ready last."""

    seccomp: bool
    no_new_privs: bool
    unprivileged_user: bool
    not_dumpable: bool
    ends_with_service: bool
    network_namespace: bool


class Load(BaseModel):
    """What is going on; told in /readyz only where there are no keys, since it tells of all tenants."""

    spares: int
    starting: int
    live_cells: int
    sessions: int


class Readiness(BaseModel):
    """Scripts can be started."""

    ready: bool
    journal: dict[str, Any]
    sandbox: Sandbox


class ReadinessAndLoad(Load, Readiness):
    """The same, as a service without keys tells it."""


class _Collector(Collector):
    """Reads the service's numbers when somebody asks."""

    def __init__(self, service: CodeMode) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        pool = self._service.pool.statistics()
        yield GaugeMetricFamily("codemode_live_cells", "Cells that run.", self._service.live_cells)
        yield GaugeMetricFamily("codemode_sessions", "Sessions that are known.", self._service.session_count)
        yield GaugeMetricFamily("codemode_spare_processes", "Cell processes that are ready.", pool.spares)
        yield CounterMetricFamily("codemode_forked_processes", "Cell processes started.", pool.forked)
        trouble = self._service.journal.trouble is not None
        yield GaugeMetricFamily("codemode_journal_trouble", "1 while the journal cannot be written.", int(trouble))


def router(service: CodeMode, *, tells_all: bool) -> APIRouter:
    """The routes that are not under /v1. Without `tells_all`, /readyz says nothing of what tenants do."""
    routes = APIRouter(tags=["operation"])
    registry = CollectorRegistry()
    registry.register(_Collector(service))

    @routes.head("/healthz", include_in_schema=False)
    @routes.get("/healthz", response_model=Health, summary="Liveness")
    async def healthz() -> Response:
        return answer(Health())

    @routes.head("/readyz", include_in_schema=False)
    @routes.get(
        "/readyz",
        response_model=Readiness | ReadinessAndLoad,
        summary="Readiness",
        responses=problems("shutting_down", "isolation_unavailable"),
    )
    async def readyz() -> Response:
        pool = service.pool.statistics()
        if service.is_draining:
            return problem("shutting_down", "the service is shutting down")
        if not service.pool.is_ready:
            return problem("isolation_unavailable", "no cell process can be started at this moment")
        ready = Readiness(
            ready=True,
            journal=service.journal.statistics(),
            sandbox=Sandbox(**service.pool.confinement._asdict()),
        )
        if not tells_all:
            return answer(ready)
        load = Load(
            spares=pool.spares,
            starting=pool.starting,
            live_cells=service.live_cells,
            sessions=service.session_count,
        )
        return answer(ReadinessAndLoad(**dict(load), **dict(ready)))

    @routes.get("/metrics", summary="Metrics in Prometheus' text format", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

    return routes
