"""The data directory: one server's own, with the journal in it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable
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
    process, however that ends. Where the process goes later, or a link points to, changes nothing.
    """

    _lock = -1

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._file_id: tuple[int, int] | None = None
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path = self.path.resolve()
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
            self.close()
            raise InvalidRequest(
                f"the data directory {self.path} is in use by another server or program; "
                "each one needs a directory of its own"
            ) from None

    @property
    def file(self) -> str:
        """The path of the journal's file."""
        return str(self.path / FILE)

    def prepare(self, work: Callable[[sqlite3.Connection], None]) -> None:
        """Bring the tables up to date, and do `work` on them.

        Raises InvalidRequest for a file that is damaged, unreadable, newer, or in somebody's hands.
        """
        try:
            os.close(os.open(self.file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            Path(self.file).chmod(0o600)  # before its log is made, which gets the same rights
            connection = connect(self.file)
            try:
                if Path(self.file).stat().st_size <= _MOST_CHECKED:
                    found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                    if found != "ok":
                        said = [line for line in str(found).splitlines() if not line.startswith("***")]  # a heading
                        raise sqlite3.DatabaseError(said[0] if said else "its check failed")
                migrate(connection)
                work(connection)
            finally:
                connection.close()
            self._file_id = _id_of(self.file)
        except (sqlite3.Error, OSError) as problem:
            raise InvalidRequest(_said(self.file, problem)) from None

    def connect(self) -> sqlite3.Connection:
        """One more connection. Raises sqlite3.Error as `check` does: another file must not meet this one's log."""
        self.check()
        return connect(self.file)

    def check(self) -> None:
        """Raises sqlite3.OperationalError if the file is no longer the one that was prepared.

        SQLite writes on into a file that was deleted or moved away, and the next server would find nothing of it.
        """
        try:
            if _id_of(self.file) == self._file_id:
                return
        except OSError:
            pass
        raise sqlite3.OperationalError("its file was moved, replaced or deleted; start the server again")

    def close(self) -> None:
        """Let another server have it. Closing it twice does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __del__(self) -> None:
        """Of a service that was never entered nobody takes leave."""
        self.close()


def _id_of(file: str) -> tuple[int, int]:
    status = Path(file).stat()
    return status.st_dev, status.st_ino


def _said(file: str, problem: Exception) -> str:
    if isinstance(problem, sqlite3.OperationalError | OSError):
        return f"the journal {file} cannot be opened or written: {problem}"
    return (
        f"the journal {file} is damaged ({problem}); put a copy of an earlier day in its place, or move it away with "
        "its -wal and -shm files and start with an empty one"
    )
