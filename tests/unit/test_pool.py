"""The pool of cell processes, with a real zygote: leases, spares, and what happens when something dies."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from codemode.errors import IsolationUnavailable, ShuttingDown
from codemode.isolation.pool import Pool
from codemode.isolation.process import CellProcess
from codemode.isolation.wire import FromCell
from codemode.isolation.zygote_messages import FAILED, SPAWNED, Exit, message
from codemode.isolation.zygote_process import start_zygote

CONFIG = (
    b'{"source":"text(1)","tools":[],"stored":{},"rehearsal":false,"limits":{"max_tool_input_bytes":1000,'
    b'"max_store_bytes":1000,"max_output_bytes":1000,"memory_mb":64,"cpu_ms":5000}}'
)


@dataclass
class Listener:
    """Owner of a process: notes what it sends and its end."""

    frames: list[int] = field(default_factory=list)
    lost: asyncio.Event = field(default_factory=asyncio.Event)

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
    return FromCell.TEXT in listener.frames and FromCell.DONE in listener.frames


async def spares_are(pool: Pool, count: int) -> None:
    """Wait until there are so many spares and nothing is under way."""
    async with asyncio.timeout(10):
        while pool.statistics()[:2] != (count, 0):
            await asyncio.sleep(0.005)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def zygote_of(pool: Pool) -> int:
    assert pool._zygote is not None
    return pool._zygote.pid


async def gone(pid: int) -> None:
    """Wait until a process is no more."""
    async with asyncio.timeout(10):
        while is_alive(pid):
            await asyncio.sleep(0.005)


async def test_a_leased_process_runs_a_script_and_is_never_seen_again() -> None:
    """Each lease is another process, and the spares are filled up behind it."""
    async with Pool(2) as pool:
        await spares_are(pool, 2)
        leased = [await pool.lease() for _ in range(5)]
        assert len({process.pid for process in leased}) == 5
        assert [await runs(process) for process in leased] == [True] * 5
        await spares_are(pool, 2)
        assert pool.statistics().forked == 7


async def test_many_leases_at_once_are_all_served() -> None:
    """First come, first served, without any spare."""
    async with Pool(0) as pool:
        leased = await asyncio.wait_for(asyncio.gather(*[pool.lease() for _ in range(20)]), 15)
        assert len({process.pid for process in leased}) == 20
        await spares_are(pool, 0)


async def test_a_lease_that_is_given_up_leaves_no_process_behind() -> None:
    """Whether it was given up before or after its process was ready."""
    async with Pool(0) as pool:
        leases = [asyncio.ensure_future(pool.lease()) for _ in range(3)]
        await asyncio.sleep(0)
        leases[0].cancel()
        assert await runs(await asyncio.wait_for(leases[1], 5))
        if not leases[2].cancel():
            leases[2].result().kill()
        async with asyncio.timeout(10):
            while len(pool._processes) > pool.statistics().spares:
                await asyncio.sleep(0.005)


async def test_a_spare_that_dies_is_replaced() -> None:
    """It is never handed out."""
    async with Pool(2) as pool:
        await spares_are(pool, 2)
        victims = children_of(zygote_of(pool))
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        for pid in victims:
            await gone(pid)
        process = await asyncio.wait_for(pool.lease(), 5)
        assert (process.pid in victims, await runs(process)) == (False, True)
        await spares_are(pool, 2)


async def test_a_spare_that_has_just_died_is_not_handed_out() -> None:
    """Before anybody has noticed: the lease looks whether it still lives."""
    async with Pool(2) as pool:
        await spares_are(pool, 2)
        victims = children_of(zygote_of(pool))
        for descriptor in map(os.pidfd_open, victims):  # without a turn of the event loop, which would notice
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            assert select.select([descriptor], [], [], 10)[0], "all its threads have ended"
            os.close(descriptor)
        process = await asyncio.wait_for(pool.lease(), 10)
        assert (process.pid in victims, await runs(process)) == (False, True)


async def test_the_exit_of_a_process_is_told() -> None:
    """With its status, as the zygote saw it."""
    async with Pool(0) as pool:
        process = await pool.lease()
        listener = Listener()
        process.serve(listener)
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.wait_for(listener.lost.wait(), 5)
        told = await asyncio.wait_for(process.exit, 5)
        assert told is not None
        assert (told.pid, told.status, told.said_out_of_memory) == (process.pid, signal.SIGKILL, False)


async def test_leaving_ends_every_process() -> None:
    """Spares, leased ones and the zygote; who waits for a process is told that there will be none."""
    async with Pool(2) as pool:
        await spares_are(pool, 2)
        await pool.lease()
        zygote = zygote_of(pool)
        pids = [zygote, *children_of(zygote)]
    for pid in pids:
        await gone(pid)
    with pytest.raises(ShuttingDown):
        await pool.lease()
    with pytest.raises(ShuttingDown):
        pool.lease_nowait()


async def test_a_lease_that_waits_when_the_pool_closes_is_told() -> None:
    """It does not wait for ever."""
    async with Pool(0) as pool:
        os.kill(zygote_of(pool), signal.SIGSTOP)
        waiting = asyncio.ensure_future(pool.lease())
        await asyncio.sleep(0)
        os.kill(zygote_of(pool), signal.SIGCONT)
    with pytest.raises(ShuttingDown):
        await asyncio.wait_for(waiting, 5)


async def test_a_lost_zygote_is_replaced_and_its_children_go_on() -> None:
    """Leased processes work as before; new leases come from the new zygote."""
    async with Pool(1) as pool:
        await spares_are(pool, 1)
        leased = await pool.lease()
        await spares_are(pool, 1)
        old = zygote_of(pool)
        os.kill(old, signal.SIGKILL)
        await gone(old)
        fresh = [await asyncio.wait_for(pool.lease(), 10) for _ in range(3)]
        assert [await runs(process) for process in [leased, *fresh]] == [True] * 4
        assert (zygote_of(pool) != old, pool.is_ready) == (True, True)


async def test_a_lease_in_the_moment_of_the_zygotes_death_is_served() -> None:
    """Before anybody has noticed: the order for a process cannot go out, and the lease waits for the next zygote."""
    async with Pool(0) as pool:
        zygote = zygote_of(pool)
        os.kill(zygote, signal.SIGKILL)
        while is_alive(zygote):  # without a turn of the event loop, which would notice
            pass
        process = await asyncio.wait_for(pool.lease(), 10)
        assert await runs(process)


async def test_leases_that_find_no_zygote_in_the_same_turn_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two would share one place: the socket of the first would be forgotten, and watched without end."""
    started: list[int] = []

    def counted(control: socket.socket) -> subprocess.Popen[bytes]:
        started.append(control.fileno())
        return start_zygote(control)

    async with Pool(0) as pool:
        monkeypatch.setattr("codemode.isolation.pool.start_zygote", counted)
        pool._close_control()
        os.kill(zygote_of(pool), signal.SIGKILL)
        leased = await asyncio.wait_for(asyncio.gather(*[pool.lease() for _ in range(3)]), 15)
    assert (len(started), len(leased)) == (1, 3)


async def test_processes_of_a_lost_zygote_are_forgotten_when_they_end() -> None:
    """Nobody reports their exits any more; the pool's numbers come down all the same."""
    async with Pool(0) as pool:
        leased = await pool.lease()
        zygote = zygote_of(pool)
        os.kill(zygote, signal.SIGKILL)
        await gone(zygote)
        assert await runs(leased)
        async with asyncio.timeout(5):
            while pool.statistics().live > 0:
                await asyncio.sleep(0.005)


async def test_a_zygote_that_does_not_come_up_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a few attempts, and nothing is left behind."""
    monkeypatch.setattr("codemode.isolation.zygote_process.sys.executable", "/bin/false")
    monkeypatch.setattr("codemode.isolation.pool._RETRY_DELAYS", (0.0, 0.0))
    with pytest.raises(IsolationUnavailable):
        async with Pool(1):
            pass


async def test_a_zygote_that_cannot_be_replaced_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wants a process meanwhile is told that there is none, and does not wait for ever; later there are some."""
    monkeypatch.setattr("codemode.isolation.pool._RETRY_DELAYS", (0.0, 0.0))
    async with Pool(0) as pool:
        with monkeypatch.context() as broken:
            broken.setattr("codemode.isolation.zygote_process.sys.executable", "/bin/false")
            os.kill(zygote_of(pool), signal.SIGKILL)
            for _ in range(3):
                with pytest.raises(IsolationUnavailable):
                    await asyncio.wait_for(pool.lease(), 2)
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(IsolationUnavailable):
                    process = await pool.lease()
                    break
                await asyncio.sleep(0.05)
        assert await runs(process)


# With a zygote that only a test speaks for


@asynccontextmanager
async def spoken_for() -> AsyncIterator[tuple[Pool, socket.socket]]:
    """A pool whose control socket ends here."""
    pool = Pool(0)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    pool._control = ours
    asyncio.get_running_loop().add_reader(ours.fileno(), pool._on_control)
    try:
        yield pool, theirs
    finally:
        pool._closed = True
        pool._close_control()
        theirs.close()
        for process in pool._processes.values():
            if process._transport is not None:
                process._transport.abort()
        await asyncio.sleep(0)


def spawned(control: socket.socket, pid: int, before: bytes = b"", behind: bytes = b"") -> socket.socket:
    """Say that a process was forked; returns the process's end of its socket."""
    mine, his = socket.socketpair()
    with mine:
        if before:
            control.sendall(before)
        socket.send_fds(control, [message(SPAWNED, pid) + behind], [mine.fileno()])
    return his


NO_PID = 2**22 + 1  # more than any process has
READY = b"\0\0\0\0" + bytes([FromCell.READY])


async def test_a_failed_fork_fails_one_lease() -> None:
    """The next one is asked for again."""
    async with spoken_for() as (pool, control):
        waiting = [asyncio.ensure_future(pool.lease()) for _ in range(2)]
        await asyncio.sleep(0)
        control.sendall(message(FAILED))
        with pytest.raises(IsolationUnavailable):
            await asyncio.wait_for(waiting[0], 5)
        with spawned(control, NO_PID) as process:
            process.sendall(READY)
            assert (await asyncio.wait_for(waiting[1], 5)).pid == NO_PID


@pytest.mark.parametrize("exits", [0, 1, 150, 157, 158, 200, 400])
async def test_messages_may_come_in_any_pieces(exits: int) -> None:
    """Many reports, a new process behind them: its socket belongs to it, also when its message was cut in two."""
    async with spoken_for() as (pool, control):
        waiting = asyncio.ensure_future(pool.lease())
        await asyncio.sleep(0)
        reports = b"".join(Exit(NO_PID + 1 + number, 0, 0, 0, False).encode() for number in range(exits))
        with spawned(control, NO_PID, before=reports) as process:
            process.sendall(READY)
            assert (await asyncio.wait_for(waiting, 5)).pid == NO_PID


@pytest.mark.parametrize(
    "frame", [b"\0\0\0\0\x01", b"\0\0\0\0\x08", b"\xff\xff\xff\xff\x0b", b"garbage that is no frame"]
)
async def test_a_spare_that_says_anything_else_is_let_go(frame: bytes) -> None:
    """It never reaches a cell."""
    async with spoken_for() as (pool, control):
        waiting = asyncio.ensure_future(pool.lease())
        await asyncio.sleep(0)
        with spawned(control, NO_PID) as bad, spawned(control, NO_PID + 1) as good:
            bad.sendall(frame)
            assert await asyncio.wait_for(asyncio.to_thread(bad.recv, 10), 5) == b""
            good.sendall(READY)
            assert (await asyncio.wait_for(waiting, 5)).pid == NO_PID + 1


async def test_a_spare_that_says_ready_twice_is_one_spare() -> None:
    """A process may lie before it has run anything; it must not stand in line twice."""
    async with spoken_for() as (pool, control):
        waiting = asyncio.ensure_future(pool.lease())
        await asyncio.sleep(0)
        with spawned(control, NO_PID) as process:
            process.sendall(READY + READY + READY)
            leased = await asyncio.wait_for(waiting, 5)
            for _ in range(5):
                await asyncio.sleep(0)
            assert (leased.pid, pool.lease_nowait()) == (NO_PID, None)


async def test_orders_name_what_is_missing() -> None:
    """One byte for each process that is wanted, and no more when more are wanted meanwhile than were asked for."""
    async with spoken_for() as (pool, control):
        waiting = [asyncio.ensure_future(pool.lease()) for _ in range(3)]
        await asyncio.sleep(0)
        control.settimeout(5)
        assert len(control.recv(100)) == 3
        for each in waiting:
            each.cancel()


async def test_more_are_asked_for_than_the_zygote_reads_at_once() -> None:
    """What its socket does not take is asked for later: nobody waits for ever."""
    async with Pool(1) as pool:
        await spares_are(pool, 1)
        control = pool._control
        assert control is not None
        control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the system rounds up, to a few messages
        leases = [asyncio.create_task(pool.lease()) for _ in range(40)]
        async with asyncio.timeout(20):
            for process in await asyncio.gather(*leases):
                process.kill()
        await spares_are(pool, 1)
