"""The lines of the audit: what stands in them, that a flood is summed up, and where they go."""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import logging.config
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from codemode._bundled import bundled
from codemode.commands.audit_lines import _Background, audit_to
from codemode.errors import InvalidRequest
from tests.faults.server import until

bundled("api")
AuditLog = importlib.import_module("codemode.api.audit").AuditLog
LOG = logging.getLogger("codemode.audit")
AS_UVICORN_DOES = {"version": 1, "disable_existing_loggers": False}  # it closes every handler, and enables every logger


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def scope(**more: Any) -> dict[str, Any]:
    return {
        "type": "http",
        "client": ("192.0.2.7", 4711),
        "method": "POST",
        "path": "/v1/exec",
        "query_string": b"token=secret",
        "headers": [(b"authorization", b"Bearer secret"), (b"cookie", b"secret")],
        **more,
    }


def written(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Without their times."""
    told = [json.loads(record.getMessage()) for record in caplog.records if record.name == LOG.name]
    assert all(each.pop("time").endswith("+00:00") for each in told)
    return told


def test_what_a_line_holds(caplog: pytest.LogCaptureFixture) -> None:
    """Who, what, and why not; nothing of the query, the headers or the body but the request's id."""
    with_id = [*scope()["headers"], (b"x-request-id", b"r-1")]
    log = AuditLog()
    log.refused(scope(headers=with_id), "billing", "too_many_cells")
    log.refused(scope(client=None, headers=[]), None, "unauthorized")
    assert written(caplog) == [
        {
            "event": "refused",
            "client": "192.0.2.7",
            "method": "POST",
            "path": "/v1/exec",
            "status": 429,
            "code": "too_many_cells",
            "tenant": "billing",
            "request_id": "r-1",
        },
        {
            "event": "refused",
            "client": "-",
            "method": "POST",
            "path": "/v1/exec",
            "status": 401,
            "code": "unauthorized",
            "tenant": "-",
            "request_id": "-",
        },
    ]
    assert "secret" not in caplog.text


def test_nothing_breaks_out_of_its_line(caplog: pytest.LogCaptureFixture) -> None:
    """Ends of lines, escapes for terminals, lone surrogates, and a length without end."""
    odd = '/v1/\n{"event": "refused"}\r\x1b[2J\x7f\u2028\x9b\ud800'
    AuditLog().refused(scope(path=odd, headers=[(b"x-request-id", b"\n\xff" * 100)]), "", "not_found")
    AuditLog().refused(scope(path="/" + "x" * 10_000, method="M" * 500), "", "not_found")
    first, second = [record.getMessage() for record in caplog.records]
    assert (first.isascii() and first.isprintable(), json.loads(first)["path"] == odd) == (True, True)
    assert (len(json.loads(second)["path"]), len(second) < 600) == (200, True)


async def test_a_flood_is_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    """Some lines pass, the others are counted; and other refusals have their own room."""
    clock = Clock()
    log = AuditLog(clock)
    for _ in range(500):
        log.refused(scope(), None, "unauthorized")
    log.refused(scope(), "a", "session_not_found")
    told = written(caplog)
    assert [each["code"] for each in told] == ["unauthorized"] * 20 + ["session_not_found"]
    log.sum_up()
    assert written(caplog)[-1] == {"event": "left_out", "codes": {"unauthorized": 480}}
    log.sum_up()
    clock.now += 1
    for _ in range(10):
        log.refused(scope(), None, "unauthorized")
    assert [each["event"] for each in written(caplog)[22:]] == ["refused"] * 5
    log.sum_up()
    assert written(caplog)[-1]["codes"] == {"unauthorized": 5}


async def test_the_sum_comes_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    """Also when nothing more is refused."""
    log = AuditLog(Clock())
    for _ in range(21):
        log.refused(scope(), None, "unauthorized")
    async with asyncio.timeout(10):
        while written(caplog)[-1]["event"] != "left_out":
            await asyncio.sleep(0.01)


async def test_it_can_be_turned_off(caplog: pytest.LogCaptureFixture) -> None:
    """Then nothing is counted either."""
    log = AuditLog(Clock())
    with audit_to("off"):
        logging.config.dictConfig(AS_UVICORN_DOES)
        for _ in range(30):
            log.refused(scope(), None, "unauthorized")
    log.sum_up()
    assert written(caplog) == []


def test_into_a_file(tmp_path: Path) -> None:
    """For its owner alone, appended to, and made again when it was moved away; what waits is written at the end."""
    file = tmp_path / "audit"
    file.write_text("before\n")
    with audit_to(str(file)):
        logging.config.dictConfig(AS_UVICORN_DOES)
        LOG.warning("one")
        until(lambda: file.read_text() == "before\none\n", "written")
        file.rename(tmp_path / "audit.1")
        for number in range(100):
            LOG.warning("%s", number)
    assert (tmp_path / "audit.1").read_text() == "before\none\n"
    assert file.read_text().splitlines() == [str(number) for number in range(100)]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_file_that_cannot_be_had(tmp_path: Path) -> None:
    """Is told at the start."""
    with pytest.raises(InvalidRequest, match=r"--audit-log .*/missing/audit: No such file"):
        with audit_to(str(tmp_path / "missing" / "audit")):
            pass


def test_a_pipe_that_nobody_reads_is_told_at_the_start(tmp_path: Path) -> None:
    """Opening it used to wait for a reader, without a word."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InvalidRequest, match=r"--audit-log .*/pipe: "), audit_to(str(pipe)):
        pass
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with audit_to(str(pipe)):
            logging.getLogger("codemode.audit").warning("a line")
        assert os.read(reader, 100) == b"a line\n"
    finally:
        os.close(reader)


def test_the_logger_is_as_before_afterwards(tmp_path: Path) -> None:
    """And its thread has ended."""
    before = (LOG.handlers, LOG.propagate, LOG.level, threading.active_count())
    for destination in ("stderr", "off", str(tmp_path / "audit")):
        with audit_to(destination):
            pass
        assert (LOG.handlers, LOG.propagate, LOG.level, threading.active_count()) == before


def test_a_reader_that_does_not_read_holds_up_nobody(tmp_path: Path) -> None:
    """A full pipe: lines beyond a bound are dropped, and when there is room again the log says how many."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    sent = 5000
    with audit_to(str(pipe)), ThreadPoolExecutor(1) as threads:
        for _ in range(sent):
            LOG.warning("x" * 1000)
        read = threads.submit(everything, reader)
        (handler,) = LOG.handlers
        assert isinstance(handler, _Background)
        until(handler._lines.empty, "all written that was not dropped")
        LOG.warning("end")
        handler.finish()
        lines = read.result().decode().splitlines()
    dropped = [json.loads(line) for line in lines if line.startswith("{")]
    assert {each["event"] for each in dropped} == {"dropped"}
    assert (lines[-1], sum(each["lines"] for each in dropped)) == ("end", sent - lines.count("x" * 1000))


def everything(descriptor: int) -> bytes:
    """What comes out of a pipe until its writer closes it."""
    with open(descriptor, "rb") as stream:
        return stream.read()
