"""The processes that cells come from: whatever dies, hangs or lies is noticed, replaced and logged; nobody waits for ever."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time

import pytest

from codemode.errors import IsolationUnavailable
from codemode.isolation.pool import Pool
from codemode.isolation.process import CellProcess
from codemode.isolation.wire import FromCell
from codemode.isolation.zygote_link import Patience
from codemode.isolation.zygote_process import _lifeline
from tests.faults.hostile_server import hostile_options
from tests.faults.rig import descriptors_of, living_children, state_of, until_found
from tests.faults.server import is_alive

CONFIG = (
    b'{"source":"text(1)","tools":[],"stored":{},"rehearsal":false,"limits":{"max_tool_input_bytes":1000,'
    b'"max_store_bytes":1000,"max_output_bytes":1000,"memory_mb":64,"cpu_ms":5000}}'
)


class Listener:
    """Owner of a process: notes what it sends and its end."""

    def __init__(self) -> None:
        self.frames: list[int] = []
        self.lost = asyncio.Event()

    def on_frame(self, kind: int, _: bytes) -> None:
        self.frames.append(kind)

    def on_lost(self, _: str | None) -> None:
        self.lost.set()


async def runs(process: CellProcess) -> bool:
    """Whether a script runs on it to its end."""
    listener = Listener()
    process.serve(listener)
    process.start(CONFIG)
    await asyncio.wait_for(listener.lost.wait(), 5)
    return FromCell.DONE in listener.frames


async def holds(condition: object, seconds: float = 10) -> None:
    assert callable(condition)
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def zygote_of(pool: Pool) -> int:
    assert pool._link is not None
    assert pool._link.pid is not None
    return pool._link.pid


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    until_found(lambda: state_of(pid) == "T", "stopped")


@pytest.fixture(autouse=True)
def nothing_left() -> object:
    """After each of these tests, the tests' own process has no child that it did not have before."""
    before = set(living_children(os.getpid()))
    _lifeline()  # two descriptors for the life of this process
    descriptors = descriptors_of(os.getpid())
    yield
    until_found(lambda: set(living_children(os.getpid())) <= before, "no process left")
    until_found(lambda: descriptors_of(os.getpid()) <= descriptors + 1, "no descriptor left")


# Processes that do not become ready


@pytest.mark.parametrize("fault", ["never_ready", "ready_by_halves", "dead_at_once", "talks_before_it_is_ready"])
async def test_a_process_that_does_not_become_ready_is_replaced(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is killed, and whoever waits gets the next one."""
    patience = Patience(ready=0.3, frame=0.2)
    async with Pool(1, hostile_options(f"{fault}:3"), patience=patience) as pool:
        began = time.monotonic()
        process = await asyncio.wait_for(pool.lease(), 10)
        assert await runs(process)
        assert time.monotonic() - began < 5
        await holds(lambda: pool.statistics()[:2] == (1, 0))
        await holds(lambda: len(living_children(zygote_of(pool))) == 1)
    assert fault != "never_ready" or "was not ready after 0.3 s" in caplog.text


async def test_a_lease_that_nobody_can_serve_is_refused() -> None:
    """No process becomes ready at all: after some time that is said."""
    patience = Patience(ready=0.2, lease=0.7)
    async with Pool(1, hostile_options("never_ready:1000"), patience=patience) as pool:
        began = time.monotonic()
        with pytest.raises(IsolationUnavailable, match=r"no cell process became ready within 0.7 s"):
            await asyncio.wait_for(pool.lease(), 5)
        assert time.monotonic() - began < 2
        await holds(lambda: not pool.is_ready)


# Zygotes


async def test_a_zygote_that_never_starts_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed."""
    monkeypatch.setattr("codemode.isolation.pool._RETRY_DELAYS", (0.0, 0.0))
    began = time.monotonic()
    with pytest.raises(IsolationUnavailable):
        async with Pool(1, hostile_options("", "silent"), patience=Patience(start=0.3)):
            pass
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("fault", ["garbage", "spawns nobody"])
async def test_a_zygote_that_says_what_makes_no_sense_is_replaced(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    """Again and again, but not as fast as can be; who waits is told in the end."""
    patience = Patience(lease=1)
    async with Pool(1, hostile_options("", fault), patience=patience) as pool:
        with pytest.raises(IsolationUnavailable):
            await asyncio.wait_for(pool.lease(), 5)
    assert 1 <= caplog.text.count("it said what makes no sense") <= 10, caplog.text


async def test_a_zygote_that_hangs_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    """It is killed, which is logged; who waits gets a process of the next one; running processes go on."""
    async with Pool(1, patience=Patience(silence=0.5)) as pool:
        await holds(lambda: pool.statistics()[:2] == (1, 0))
        old = zygote_of(pool)
        running = await pool.lease()
        await holds(lambda: pool.statistics()[:2] == (1, 0))
        stop(old)
        began = time.monotonic()
        assert pool.is_ready  # there is a spare
        leases = [asyncio.ensure_future(pool.lease()) for _ in range(4)]
        await holds(lambda: not pool.is_ready)
        assert [await runs(process) for process in await asyncio.gather(*leases)] == [True] * 4
        assert time.monotonic() - began < 4
        assert (is_alive(old), zygote_of(pool) != old, await runs(running)) == (False, True, True)
        await holds(lambda: pool.is_ready)
    levels = {record.levelno for record in caplog.records if record.name.startswith("codemode")}
    assert (levels, "did not answer for 0.5 s" in caplog.text) == ({logging.WARNING}, True), caplog.text


async def test_a_zygote_that_rests_is_not_taken_for_hung() -> None:
    """Nothing was asked of it: that it is stopped for a while changes nothing."""
    async with Pool(1, patience=Patience(silence=0.2)) as pool:
        await holds(lambda: pool.statistics()[:2] == (1, 0))
        old = zygote_of(pool)
        stop(old)
        await asyncio.sleep(0.6)  # three times its patience
        os.kill(old, signal.SIGCONT)
        assert await runs(await pool.lease())
        assert zygote_of(pool) == old


async def test_a_zygote_that_hangs_does_not_hold_up_the_end() -> None:
    """Leaving the pool kills it, and what it had forked."""
    async with Pool(2) as pool:
        await holds(lambda: pool.statistics()[:2] == (2, 0))
        zygote = zygote_of(pool)
        family = [zygote, *living_children(zygote)]
        stop(zygote)
        began = time.monotonic()
    assert time.monotonic() - began < 4
    until_found(lambda: not any(map(is_alive, family)), "all are gone", 2)


def test_zygotes_that_die_in_a_burst_leave_nothing() -> None:
    """Zygotes die while they send and while others wait: nothing adds up, and there is one of them in the end."""

    others = living_children(os.getpid())

    async def lose_zygotes() -> None:
        async with Pool(2) as pool:
            await holds(lambda: pool.statistics()[:2] == (2, 0))
            before = descriptors_of(os.getpid())
            for _ in range(4):
                leases = [asyncio.ensure_future(pool.lease()) for _ in range(6)]
                await asyncio.sleep(0.005)  # some are forked by then, some are not
                os.kill(zygote_of(pool), signal.SIGKILL)
                for process in await asyncio.gather(*leases):
                    process.kill()
                await holds(lambda: pool._link is not None)
            await holds(lambda: pool.statistics()[:2] == (2, 0) and pool.statistics().live == 2)
            assert {*living_children(os.getpid())} - {*others} == {zygote_of(pool)}
            await holds(lambda: descriptors_of(os.getpid()) <= before + 1)

    asyncio.run(lose_zygotes())
