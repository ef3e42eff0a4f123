"""Histories of random sessions, many at once, whose servers are stopped and killed at any moment: all are whole."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import httpx
import pytest

from tests.acceptance import damaged_hooks
from tests.acceptance.plays import Life, answer, begin
from tests.acceptance.receiver import Receiver
from tests.acceptance.site import Client, Event, Site, audited, check, hooked, hooks_audited, site
from tests.faults.rig import until_found
from tests.faults.tally import Tally
from tests.unit import history_faults

THREADS = 12
ENDS = ("kill", "stop", "delete")
STATES = {"completed", "failed", "exited", "cancelled", "denied", "timed_out", "lost"}
RESOLUTIONS = {"accepted", "declined", "cancelled", "expired", "withdrawn"}


class Rounds:
    """Plays sessions on one server after the other, and holds what was told of them against the rules."""

    def __init__(self, receiver: Receiver, folder: Path, seed: int) -> None:
        self.receiver = receiver
        self.folder = folder
        self.random = Random(seed)
        self.seed = seed
        self.seen: Counter[str] = Counter()
        self._gone = threading.Event()

    def play(self, sessions: int, end: str) -> None:
        """A server with so many sessions; it is killed, stopped, or all of them are deleted; and the next server."""
        self.receiver.clear()
        self.receiver.answers = answer
        self._gone.clear()
        flags = ("--data-dir", str(self.folder / "data"))
        seeds = [self.random.randrange(10**9) for _ in range(sessions)]
        lives: list[Life] = []
        with site(self.receiver, self.folder, *flags) as there, ThreadPoolExecutor(THREADS) as pool:
            done = [pool.submit(self._live, there, seed, lives) for seed in seeds]
            if end != "delete":
                wanted = self.random.randint(sessions // 2, sessions - 1)
                until_found(lambda: len(lives) >= wanted, "enough have begun", 60)
                time.sleep(self.random.uniform(0, 0.3))  # any moment is as good as another
                self._gone.set()
                self._end(there, end)
            for each in done:
                each.result(60)
        assert lives
        self.seen[end] += 1
        self.seen["histories"] += len(lives)
        left = [life for life in lives if not life.is_over]
        if left:
            for life in left:
                life.kills += end == "kill"
            with site(self.receiver, self.folder, *flags) as there, ThreadPoolExecutor(THREADS) as pool:
                list(pool.map(lambda life: self._after(there, life), left))

    def _end(self, there: Site, end: str) -> None:
        if end == "kill":
            there.server.process.kill()
            there.server.process.wait(15)
        else:
            there.server.terminate()
            assert there.server.status() == 0, there.server.said

    def _live(self, there: Site, seed: int, lives: list[Life]) -> None:
        """One session: until its server is lost, or it has lived enough."""
        if self._gone.is_set():
            return
        try:
            life = begin(there, seed)
            lives.append(life)
            life.play(life.random.randint(3, 7))
            fate = life.random.random()
            if fate < 0.3:
                life.wind_down()
                until_found(lambda: not life.client.lifecycle()["open"], f"seed {seed}: nothing is open")
            if fate < 0.7 or not self._gone.is_set():
                self._delete(life)
        except (httpx.HTTPError, AssertionError):
            if not self._gone.is_set():
                raise

    def _delete(self, life: Life) -> None:
        report = life.client.lifecycle()
        assert report["findings"] == [], life.client.session_id
        life.deleting = True
        events = life.client.delete()
        life.is_over = True
        assert events[-1]["type"] == "session/deleted"
        self._whole(life, events)

    def _after(self, there: Site, life: Life) -> None:
        """On the next server: nothing is open, nothing was lost that was told; it lives on, and is deleted."""
        before = life.follow().whole()
        again = Client(there.server, self.receiver, life.client.session_id)
        if life.deleting and there.server.client.get(f"/v1/sessions/{again.session_id}").status_code == 404:
            assert audited(again.session_id, before, is_over=False) == []
            return
        report = again.lifecycle()
        assert (report["ok"], report["complete"], report["open"]) == (True, True, []), (again.session_id, report)
        events = again.events()
        assert events[: len(before)] == before, again.session_id
        assert again.get("processes") == again.get("approvals") == []
        for event in hooked(events):  # they are told while the server begins to serve
            if (event.get("tool_status") or {}).get("state") == "lost":
                self.receiver.until_told(again.session_id, "PostToolUse", tool_use_id=event["tool_use_id"])
        self._holds(life, events)
        life.client = again
        if life.random.random() < 0.4:
            life.play(3)
        self._delete(life)

    def _whole(self, life: Life, events: list[Event]) -> None:
        """A history from its start to its end; and each damage of it is found."""
        self._holds(life, events)
        told, session = life.client.told, life.client.session_id
        if not life.kills:
            check(session, events, told, is_over=True)
            self._damage(damaged_hooks.FAULTS, told, lambda damaged: hooks_audited(session, damaged, is_over=True))
        self._damage(history_faults.FAULTS, events, lambda damaged: audited(session, damaged, is_over=True))
        self.seen.update(each["tool_status"]["state"] for each in events if each["type"] == "tool_call/ended")
        self.seen.update(f"approval {each['resolution']}" for each in events if each["type"] == "approval/resolved")
        self.seen.update(each["type"] for each in events)
        self.seen["payloads"] += len(told)

    def _damage(self, faults: list[Any], history: list[Event], audit: Any) -> None:
        for fault in self.random.sample(faults, 3):
            damaged = fault(self.random, history)
            if damaged is not None:
                found = {each.code for each in audit(damaged[0])}
                assert found & damaged[1], f"{fault.__name__} with seed {self.seed}: {found}, not {damaged[1]}"
                self.seen["damages"] += 1

    def _holds(self, life: Life, events: list[Event]) -> None:
        """What is guaranteed even if a server was killed: events are whole, hooks are told nothing twice or wrong.

        A hook may miss the end of a call if the server was killed between that end and the telling, and then that end
        is in the events.
        """
        session, told = life.client.session_id, life.client.told
        assert audited(session, events, is_over=True) == [], session
        if not life.kills:  # what a hook was told may not have been read yet
            wanted = len(hooked(events))
            until_found(lambda: len(life.client.told) >= wanted, f"{session}: hooks were told of all")
            told = life.client.told
        starts = {each["tool_use_id"]: each for each in events if each["type"] == "tool_call/started"}
        ends = {each["tool_use_id"]: each for each in events if each["type"] == "tool_call/ended"}
        for finding in hooks_audited(session, told, is_over=True):
            end = ends[finding.tool_use_id]
            assert life.kills, (session, finding, end)
            assert finding.code == "start_without_end", (session, finding, end)
            assert end["tool_status"]["state"] != "lost", (session, finding, end)
            self.seen[f"untold {end['tool_status']['state']}"] += 1
        for payload in told:
            is_pre = payload["hook_event_name"] == "PreToolUse"
            event = (starts if is_pre else ends)[payload["tool_use_id"]]
            for name in ("tool_name", "tool_source") if is_pre else ("tool_name", "tool_source", "tool_status"):
                assert payload[name] == event[name], (session, payload, event)


@pytest.mark.parametrize(
    ("histories", "sessions"), [(30, 10), pytest.param(1000, 60, marks=pytest.mark.slow)], ids=["short", "long"]
)
@pytest.mark.timeout(600)
def test_every_history_is_whole(
    tmp_path: Path,
    receiver: Receiver,
    histories: int,
    sessions: int,
    tally: Tally,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Sessions that live as they like, on servers that are killed, stopped, or go on; and damage is found."""
    seed = SystemRandom().randrange(10**6)
    playing = Rounds(receiver, tmp_path, seed)
    with capsys.disabled():
        print(f"\n  histories of seed {seed}", end="", flush=True)
        while playing.seen["histories"] < histories or not all(playing.seen[each] for each in ENDS):
            playing.play(sessions, ENDS[playing.seen["rounds"] % 3])
            playing.seen["rounds"] += 1
        print(f": {dict(sorted(playing.seen.items()))}", end="")
    seen = playing.seen
    tally.add("histories of random sessions, audited", tried=seen["histories"])
    tally.add("… damaged at random, and the damage looked for", tried=seen["damages"])
    if histories >= 1000:  # few may miss some
        assert set(seen) >= STATES | {"tool_call/yielded", "cell/ended"} | {f"approval {each}" for each in RESOLUTIONS}
