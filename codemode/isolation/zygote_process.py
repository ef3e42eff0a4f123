"""The zygote as a child of the service."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from codemode.errors import SandboxUnavailable
from codemode.isolation.confinement import Confinement
from codemode.isolation.zygote_messages import REQUIRE

_ROOT: Final = Path(__file__).resolve().parents[2]
_END_TIMEOUT: Final = 2.0
_log: Final = logging.getLogger("codemode")


@dataclass(frozen=True, slots=True)
class ZygoteOptions:
    """How cell processes are to be made. `module` and `arguments` start another program, as tests do."""

    require_sandbox: bool = False
    module: str = "codemode.isolation.zygote"
    arguments: Sequence[str] = ()

    def refusal(self, found: Confinement) -> SandboxUnavailable | None:
        """What to raise if walls are required and missing around cell processes; if only missing, it is said loudly."""
        missing = ", ".join(found.required_missing())
        if missing and self.require_sandbox:
            return SandboxUnavailable(
                "a sandbox is required, and this machine does not give scripts a full one: "
                f"{missing} missing; `codemode doctor` says more"
            )
        if missing:
            _log.warning(
                "WARNING: scripts are NOT fully confined on this machine: %s missing. Do not run what nobody has read. "
                "`codemode doctor` says more; --require-sandbox refuses to start.",
                missing,
            )
        return None


@functools.cache
def _lifeline() -> int:
    """The reading end of a pipe whose other end closes when this process ends, and never before."""
    reading, _ = os.pipe()
    return reading


def start_zygote(control: socket.socket, options: ZygoteOptions) -> subprocess.Popen[bytes]:
    """Start it with an empty environment, and nothing open but its end of the control socket and the lifeline."""
    descriptors = [control.fileno(), _lifeline()]
    flags = [REQUIRE] if options.require_sandbox else []
    return subprocess.Popen(
        [sys.executable, "-m", options.module, *options.arguments, *map(str, descriptors), *flags],
        cwd=_ROOT,
        env={},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=descriptors,
    )


def end_zygote(process: subprocess.Popen[bytes]) -> None:
    """Wait for it to end by itself, as it does when its control socket closes; not for ever."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_END_TIMEOUT)
    if process.poll() is None:
        process.kill()
        process.wait()
