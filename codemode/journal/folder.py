"""The data directory: one server's own, with the journal in it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Final

from codemode.errors import InvalidRequest
from codemode.journal.schema import connect, migrate

FILE: Final = "journal.sqlite3"
_LOCK: Final = "lock"
_MOST_CHECKED: Final = 256 * 1024 * 1024  # bytes; looking through a larger file would hold up the start for seconds


class DataFolder:
    """A data directory that is this process's alone until it is closed. Raises InvalidRequest, saying what is wrong.

    The directory is made if it is not there, for this user alone: it holds outputs of scripts. The lock ends with the
    process, however that ends.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as problem:
            is_file = isinstance(problem, FileExistsError)
            why = "is a file, no directory" if is_file else f"cannot be written: {problem.strerror}"
            raise InvalidRequest(
                f"the data directory {self.path} {why}; give another one (`--data-dir DIR`, `data_dir=`), or none to "
                "keep nothing over a restart"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise InvalidRequest(
                f"the data directory {self.path} is in use by another server or program; "
                "each one needs a directory of its own"
            ) from None

    @property
    def file(self) -> str:
        """The path of the journal's file."""
        return str(self.path / FILE)

    def open(self) -> sqlite3.Connection:
        """The journal, its tables up to date. Raises InvalidRequest for a damaged, unreadable or newer one."""
        try:
            connection = connect(self.file)
            if Path(self.file).stat().st_size <= _MOST_CHECKED:
                found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if found != "ok":
                    said = [line for line in str(found).splitlines() if not line.startswith("***")]  # a heading
                    raise sqlite3.DatabaseError(said[0] if said else "its check failed")
            migrate(connection)
            Path(self.file).chmod(0o600)
        except (sqlite3.Error, OSError) as problem:
            raise InvalidRequest(_said(self.file, problem)) from None
        return connection

    def close(self) -> None:
        """Let another server have it. Closing it twice does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _said(file: str, problem: Exception) -> str:
    if isinstance(problem, sqlite3.OperationalError | OSError):
        return f"the journal {file} cannot be opened or written: {problem}"
    return (
        f"the journal {file} is damaged ({problem}); put a copy of an earlier day in its place, or move it away with "
        "its -wal and -shm files and start with an empty one"
    )
