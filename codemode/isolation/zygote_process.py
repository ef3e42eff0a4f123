"""The zygote as a child of the service."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).resolve().parents[2]
_END_TIMEOUT: Final = 2.0


def start_zygote(control: socket.socket, command: Sequence[str] | None = None) -> subprocess.Popen[bytes]:
    """Start it with an empty environment and nothing open but its end of the control socket.

    `command` starts another program in its place, as tests do; the number of the descriptor comes behind it.
    """
    return subprocess.Popen(
        [*(command or (sys.executable, "-m", "codemode.isolation.zygote")), str(control.fileno())],
        cwd=_ROOT,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[control.fileno()],
    )


def end_zygote(process: subprocess.Popen[bytes]) -> None:
    """Wait for it to end by itself, as it does when its control socket closes; not for ever."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_TIMEOUT)
    if process.poll() is None:
        process.kill()
        process.wait()
