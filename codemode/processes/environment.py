"""What a command is run with: its shell and its environment, in which nothing of the service's own is."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Final

from codemode.errors import ToolError
from codemode.workspace.paths import shown

_PASSED_ON: Final = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR")
_FIXED: Final = {"NO_COLOR": "1", "PAGER": "cat", "GIT_PAGER": "cat"}  # nobody turns pages, nobody sees colours
MARK: Final = "CODEMODE_COMMANDS"  # says of a process which keeper it belongs to
_DEFAULT_SHELL: Final = "/bin/sh"


def environment(*, tty: bool) -> dict[str, str]:
    """The whole environment of a command: who and where its user is, and how to print. No other variable of ours."""
    ours = os.environ
    found = {name: ours[name] for name in _PASSED_ON if name in ours}
    found |= {name: value for name, value in ours.items() if name.startswith("LC_")}
    found.setdefault("PATH", os.defpath)
    return found | _FIXED | {"TERM": "xterm-256color" if tty else "dumb"}


def kill_marked(mark: str) -> None:
    """Kill every process that was started with this mark and still shows it, on Linux.

    For what a keeper has left behind that was killed by one of its commands: there is no other way to find it.
    """
    wanted = f"{MARK}={mark}".encode()
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)
        except OSError:  # it has ended, or is another user's
            continue


def arguments(command: str, shell: str | None, *, login: bool) -> list[str]:
    """The shell's path and its arguments. Raises ToolError for a shell that is not there, or an impossible command."""
    if "\0" in command:
        raise ToolError("command: has a NUL character in it; no command can")
    try:
        command.encode()
    except UnicodeEncodeError:
        raise ToolError("command: has a lone surrogate in it; give text that is valid Unicode") from None
    return [_users_shell() if shell is None else _found(shell), "-lc" if login else "-c", command]


def _users_shell() -> str:
    shell = os.environ.get("SHELL", "")
    return shell if _is_executable(shell) else _DEFAULT_SHELL


def _found(shell: str) -> str:
    path = shell
    if "/" not in shell and shell and "\0" not in shell:
        path = shutil.which(shell, path=os.environ.get("PATH", os.defpath)) or ""
    if not _is_executable(path):
        raise ToolError(
            f"shell: {shown(shell)} is no program; give an absolute path, or a name that is found on the PATH, or "
            "leave it out for the user's shell"
        )
    return path


def _is_executable(path: str) -> bool:
    try:
        return path.startswith("/") and Path(path).is_file() and os.access(path, os.X_OK)
    except ValueError:  # a NUL character
        return False
