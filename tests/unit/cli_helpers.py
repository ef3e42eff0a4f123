"""Runs the command `codemode` and the examples as a user would: in processes of their own, with a time limit."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 15  # seconds that any of these processes may take

CODEMODE = (sys.executable, "-m", "codemode")


def codemode(*arguments: str, script: str = "", cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """The command, with `script` on its standard input."""
    return subprocess.run(
        [*CODEMODE, *arguments], cwd=cwd, input=script, capture_output=True, text=True, timeout=LONGEST
    )


@contextmanager
def started(
    *command: str,
    cwd: Path = ROOT,
    stdout: int = subprocess.PIPE,
    stderr: int | None = None,
    env: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is still at work; killed at the end if it is then."""
    process = subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=stdout, stderr=stderr, env=env)
    try:
        yield process
    finally:
        process.kill()
        process.wait(LONGEST)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def pipe_of(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def send(process: subprocess.Popen[bytes], script: str) -> None:
    """All of standard input."""
    pipe_of(process.stdin).write(script.encode())
    pipe_of(process.stdin).close()


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """What Ctrl-C does."""
    process.send_signal(signal.SIGINT)


def read_until(descriptor: int, wanted: bytes) -> bytes:
    """What comes, up to the moment when `wanted` is in it."""
    seen = b""
    while wanted not in seen:
        chunk = os.read(descriptor, 4096)
        assert chunk, f"the output ended without {wanted!r}: {seen!r}"
        seen += chunk
    return seen


def read_all(descriptor: int) -> bytes:
    """What comes until the end of a pipe or a terminal."""
    seen = b""
    try:
        while chunk := os.read(descriptor, 4096):
            seen += chunk
    except OSError:  # how Linux tells that a terminal's other side is closed
        pass
    return seen
