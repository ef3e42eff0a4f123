"""Hooks that are programs of the operator: what they are given, what they may answer, and what is left of them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from codemode.calls.hooks import Hook
from codemode.commands.config import load_hooks
from codemode.errors import InvalidRequest
from codemode.sessions.session import Session
from tests.faults.server import ROOT
from tests.unit.test_calls.call_helpers import Calls, Used, is_well, session_alone, until, use

pytestmark = pytest.mark.usefixtures("cm")  # an event loop for all tests: a process may end a little after its test
DENY = '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "é"}}'


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"], scope="session")
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    """Both event loops: the server runs on uvloop, programs on either."""
    return "asyncio", {"use_uvloop": request.param}


def shell(script: str, event: Any = "PreToolUse", **options: Any) -> Hook:
    return Hook(event=event, command=["/bin/sh", "-c", script], **options)


def hooked(*hooks: Hook) -> tuple[Session, Calls]:
    """A session with a tool `t`."""
    calls = Calls()
    return session_alone([calls.tool()], hooks=hooks), calls


def children(named: str) -> list[str]:
    """The processes whose command line has this in it."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if named in (text := place.read_bytes().replace(b"\0", b" ").decode(errors="replace")):
                found.append(text)
        except OSError:
            pass
    return found


async def test_a_program_is_given_the_payload_and_answers(tmp_path: Path) -> None:
    """On standard input and standard output; what it says on standard error is nobody's."""
    script = f"cat >> {tmp_path}/told; echo >> {tmp_path}/told; echo noise >&2; echo '{{}}'"
    session, _ = hooked(shell(script), shell(script, "PostToolUse"))
    assert await use(session, "direct", value={"a": "é"}) == Used({"got": {"a": "é"}})
    before, after = map(json.loads, (tmp_path / "told").read_text().splitlines())
    assert (before["hook_event_name"], before["tool_input"]) == ("PreToolUse", {"a": "é"})
    assert after == before | {
        "hook_event_name": "PostToolUse",
        "tool_response": {"got": {"a": "é"}},
        "tool_status": {"state": "completed", "exit_code": None},
    }


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (f"echo '{DENY}'", "denied by a hook: é"),
        (f"echo '{DENY}'; exit 1", "its command ended with status 1"),
        ("echo '{}'; kill -9 $$", "its command ended with status -9"),
        ("exit 2", "its command ended with status 2"),
        ("true", "it answered with what is no JSON"),
        ("echo allow", "it answered with what is no JSON"),
        ("echo '{}{}'", "it answered with what is no JSON"),
        ("echo []", "it answered with what is no JSON object"),
        ("printf '\\377{}'", "it answered with what is no JSON"),
        ("sleep 100", "it did not answer within 400 ms"),
        ("echo '{}'; exec >&-; sleep 100", "it did not answer within 400 ms"),
        ("sleep 100 & echo '{}'", "it did not answer within 400 ms"),
    ],
)
async def test_what_a_program_may_do_wrong(script: str, said: str) -> None:
    """Denies that call alone; nothing of it is left."""
    mark = f"mark_{os.getpid()}_{time.monotonic_ns()}"
    hook = shell(
        f": {mark}; {script}".replace("sleep 100", f"/bin/sh -c 'sleep 100; : {mark}'"),
        timeout_ms=400 if "within" in said else 10_000,
    )
    session, calls = hooked(hook)
    used = await use(session, "direct")
    assert (used.code, used.message.endswith(said), calls.inputs) == ("hook_denied", True, []), used
    await until(lambda: not children(mark))
    await is_well(session)


_FLOOD = """
import asyncio, gc, os, uvloop
from codemode.calls.hooks import Hook
from tests.unit.test_calls.call_helpers import Calls, session_alone, use

async def main():
    gc.disable()
    session = session_alone([Calls().tool()], hooks=[Hook(event="PreToolUse", command=["yes"])])
    counts = []
    for _ in range(6):
        used = await use(session, "direct")
        assert used.message.endswith("its answer is too long"), used
        await asyncio.sleep(0.05)
        counts.append(len(os.listdir("/proc/self/fd")))
    print(counts[-1] - counts[0])

uvloop.run(main())
"""


def test_a_program_that_says_too_much_leaves_nothing_open() -> None:
    """It is killed, and its pipes are closed without the garbage collector, on the event loop of the server."""
    done = subprocess.run([sys.executable, "-c", _FLOOD], cwd=ROOT, capture_output=True, text=True, timeout=15)
    assert done.stdout == "0\n", done.stderr[-2000:]


async def test_a_program_that_is_not_there() -> None:
    """Its place is not told."""
    session, _ = hooked(Hook(event="PreToolUse", command=["/nowhere/secret"]))
    used = await use(session, "direct")
    assert used == Used(
        None, "hook_denied", "t: denied, because a hook failed: it could not be called (FileNotFoundError)"
    )


@pytest.mark.parametrize("script", ["echo '{}'", "head -c 10 >/dev/null; echo '{}'", "exec <&-; sleep 0.05; echo '{}'"])
async def test_a_program_need_not_read_all(script: str) -> None:
    """It may answer before it has read a long payload, or without."""
    session, _ = hooked(shell(script), shell(script, "PostToolUse"))
    assert (await use(session, "direct", value={"a": "x" * 900_000})).code is None


async def test_a_program_may_answer_at_length() -> None:
    """As long as an input may be."""
    script = """python3 -c "import json; print(json.dumps({'hookSpecificOutput': {'updatedInput': {'a': 'x' * 900_000}}}))" """
    session, _ = hooked(shell(script))
    assert (await use(session, "direct")).output == {"got": {"a": "x" * 900_000}}


@pytest.mark.parametrize("milliseconds", [1, 2, 3, 5, 8, 13])
async def test_a_program_that_is_late_is_gone_whenever_that_is(milliseconds: int) -> None:
    """Also when it is noticed while the program is being started."""
    mark = f"{100_000 + os.getpid()}.{time.monotonic_ns()}"
    session, _ = hooked(Hook(event="PreToolUse", command=["sleep", mark], timeout_ms=milliseconds))
    codes = await asyncio.gather(*(use(session, "direct") for _ in range(5)))
    assert {each.code for each in codes} == {"hook_denied"}
    await until(lambda: not children(mark), "programs that were late are gone")


async def test_many_programs_at_once_hold_nobody_up() -> None:
    """Each call waits for its own."""
    session, calls = hooked(shell("sleep 0.2; echo '{}'"))
    begun = time.monotonic()
    await asyncio.gather(*(use(session, "direct", value={"n": n}) for n in range(20)))
    assert time.monotonic() - begun < 3
    assert len(calls.inputs) == 20


# The file of an operator


def test_hooks_of_a_file(tmp_path: Path) -> None:
    """In their order; a command, a URL, and what they may have beside them."""
    hooks = [
        {
            "event": "PreToolUse",
            "type": "command",
            "command": ["true", "--strict"],
            "matcher": "^x",
            "timeout_ms": 5,
        },
        {"event": "PostToolUse", "type": "http", "url": "http://127.0.0.1:1/x", "payload": "minimal"},
    ]
    file = tmp_path / "hooks.json"
    file.write_text(json.dumps(hooks))
    first, second = load_hooks([str(file)])
    assert first == Hook(event="PreToolUse", command=["true", "--strict"], matcher="^x", timeout_ms=5)
    assert second == Hook(event="PostToolUse", url="http://127.0.0.1:1/x", payload="minimal")


GOOD = {"event": "PreToolUse", "type": "command", "command": ["true"]}


WRONG: list[dict[str, Any]] = [
    {"type": "python"},
    {"type": None},
    {"event": "Stop"},
    {"event": None},
    {"command": "true"},
    {"command": []},
    {"command": [1]},
    {"command": None},
    {"url": "http://127.0.0.1"},
    {"matcher": "("},
    {"matcher": 5},
    {"timeout_ms": "5"},
    {"timeout_ms": None},
    {"payload": "all"},
    {"function": "x"},
    {"more": 1},
]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"{",
        b"\xff",
        b"{}",
        b"[1]",
        *(json.dumps([GOOD | wrong]).encode() for wrong in WRONG),
        b'[{"type": "command", "command": ["true"]}]',
        b'[{"event": "PreToolUse", "type": "http"}]',
        pytest.param(
            b'[{"event": "PreToolUse", "type": [], "command": ["true"]}]',
        ),
        pytest.param(
            b'[{"event": "PreToolUse", "type": "http", "url": 5}]',
        ),
        pytest.param(
            b'[{"event": "PreToolUse", "type": "http", "url": "example.com/hook"}]',
        ),
    ],
    ids=lambda said: said.decode(errors="replace")[:60],
)
def test_a_file_that_is_none(tmp_path: Path, said: bytes) -> None:
    """Is refused by name when the server starts."""
    file = tmp_path / "hooks.json"
    file.write_bytes(said)
    with pytest.raises(InvalidRequest, match=r"--hooks .*hooks\.json"):
        load_hooks([str(file)])


@pytest.mark.parametrize(
    "name", ["tests.faults.host_hooks", "tests.faults.host_hooks:nothing", "nowhere:hooks", ":", "/nowhere/hooks.json"]
)
def test_hooks_that_are_not_there(name: str) -> None:
    """As with tools."""
    with pytest.raises(InvalidRequest, match="--hooks"):
        load_hooks([name])
