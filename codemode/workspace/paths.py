"""Opening what lies inside one directory, for a caller who may not leave it.

A path is walked one component at a time, each opened relative to the directory before it and never
through a symbolic link: links are read and resolved here, inside the root. What was checked is thus
what is open, whoever swaps a link meanwhile. Error texts speak of the path as the caller gave it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from codemode.errors import InvalidRequest, ToolError

MAX_PATH_BYTES = 4096
"""Longest path taken from a script: what Linux itself takes (PATH_MAX)."""

MAX_STEPS = 256
"""Components walked for one path, those of links included: deeper than real trees, cheap to refuse."""

MAX_LINKS = 40
"""Symbolic links followed for one path, as in the Linux kernel; more is taken for a loop."""

SHOWN_CHARS = 200
"""Longest piece of a script's path that is repeated in an error text."""

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_SPECIAL = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}
_CHANGED = "changed while it was being opened; try again"

Parts = tuple[str, ...]


class Refusal(Exception):
    """Why something is not served: the rest of a sentence that begins with the path."""


@contextmanager
def refusals(tool: str, path: str) -> Iterator[None]:
    """Turn a Refusal or OSError of the block into the ToolError that a script is shown."""
    try:
        yield
    except Refusal as refusal:
        raise ToolError(f"{tool}: {shown(path)} {refusal}") from None
    except OSError as problem:
        hint = "; part directories with /, not \\" if problem.errno == errno.ENOENT and "\\" in path else ""
        raise ToolError(f"{tool}: {shown(path)} {_reason(problem)}{hint}") from None


def shown(text: str) -> str:
    """A script's text in a form that is safe to repeat: bounded, and without control characters."""
    cut = text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"
    return cut if cut and cut.isprintable() else ascii(cut)


def plain(name: str) -> str:
    """A name of the file system as text: bytes that are not UTF-8 become U+FFFD."""
    return os.fsencode(name).decode("utf-8", "replace")


def parse(path: str) -> Parts:
    """The components of a script's path; raises Refusal for a path that cannot be inside."""
    if not path:
        raise Refusal('is an empty path; use "." for the workspace itself')
    if "\0" in path:
        raise Refusal("has a NUL character in it; no file has such a name")
    try:
        length = len(path.encode())
    except UnicodeEncodeError:
        raise Refusal("has a lone surrogate in it; no file has such a name") from None
    if length > MAX_PATH_BYTES:
        raise Refusal(f"is a path of {length} bytes; the longest allowed is {MAX_PATH_BYTES}")
    if path.startswith("/"):
        raise Refusal("is an absolute path; give it relative to the workspace, like src/app.py")
    return tuple(part for part in path.split("/") if part not in ("", "."))


@dataclass(frozen=True, slots=True)
class Place:
    """Something open inside the root: a directory, or a regular file."""

    fd: int
    info: os.stat_result

    @property
    def is_folder(self) -> bool:
        """Whether it is a directory; if not, it is a regular file."""
        return stat.S_ISDIR(self.info.st_mode)


class Root:
    """A directory that no path leads out of.

    It is opened anew for every path, so nothing has to be closed and a workspace that was replaced
    is found. Raises InvalidRequest for a directory that cannot be one.
    """

    def __init__(self, directory: Path) -> None:
        try:
            self.real = os.path.realpath(directory, strict=True)
        except OSError as problem:
            raise InvalidRequest(f"workspace {directory}: {os.strerror(problem.errno or 0)}") from problem
        if not os.path.isdir(self.real):
            raise InvalidRequest(f"workspace {directory} is not a directory")

    @contextmanager
    def opened(self, parts: Sequence[str]) -> Iterator[Place]:
        """Open what `parts` lead to, links resolved; raises Refusal or OSError, and closes it after the block."""
        walk = _Walk(self.real)
        try:
            walk.follow(parts)
            yield Place(walk.fd, os.fstat(walk.fd))
        finally:
            os.close(walk.fd)


def open_file(folder: int, name: str) -> int:
    """Open a regular file of an open directory for reading, without ever waiting for anything.

    Looked at before the open too, since opening a device can do things.
    """
    _require_file(os.stat(name, dir_fd=folder, follow_symlinks=False))
    fd = os.open(name, _FILE, dir_fd=folder)
    try:
        _require_file(os.fstat(fd))
    except BaseException:
        os.close(fd)
        raise
    return fd


class _Walk:
    """One walk from the root; `fd` is where it stands, and is open at all times."""

    def __init__(self, real: str) -> None:
        self._real = real
        self._below: list[str] = []
        self._steps = 0
        self._links = 0
        self.fd = self._open_root()

    def follow(self, parts: Sequence[str]) -> None:
        """Go to the end of `parts`; stands on a readable directory or regular file then."""
        pending = list(reversed(parts))
        try:
            while pending:
                self._step(pending)
            if stat.S_ISDIR(os.fstat(self.fd).st_mode):
                self._move(os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.fd))
        except FileNotFoundError:
            if self._links:
                raise Refusal("leads through a symbolic link to something that is not there") from None
            raise

    def _step(self, pending: list[str]) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise Refusal(f"has more than {MAX_STEPS} parts")
        name = pending.pop()
        if name == "..":
            self._up()
            return
        mode = os.stat(name, dir_fd=self.fd, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            pending.extend(reversed(self._target(name)))
        elif stat.S_ISDIR(mode):
            self._move(os.open(name, _FOLDER, dir_fd=self.fd))
            self._below.append(name)
        elif pending:
            raise Refusal("is not there: a part before its last is a file, not a directory")
        else:
            self._move(open_file(self.fd, name))

    def _up(self) -> None:
        """Go to the parent by walking again from the root: `..` of a moved directory may lie outside."""
        if not self._below:
            raise Refusal("leads out of the workspace; only what is inside it can be read")
        self._below.pop()
        self._move(self._open_root())
        for name in self._below:
            self._move(os.open(name, _FOLDER, dir_fd=self.fd))

    def _target(self, name: str) -> list[str]:
        """The components that a link stands for, as seen from here, or from the root if it is absolute."""
        self._links += 1
        if self._links > MAX_LINKS:
            raise Refusal(f"leads through more than {MAX_LINKS} symbolic links; they may form a loop")
        try:
            target = os.readlink(name, dir_fd=self.fd)
        except OSError as problem:
            raise Refusal(_CHANGED if problem.errno == errno.EINVAL else _reason(problem)) from None
        if target.startswith("/"):
            root = self._real.rstrip("/")
            if target != root and not target.startswith(root + "/"):
                raise Refusal("leads out of the workspace through a symbolic link")
            target = target.removeprefix(root)
            self._move(self._open_root())
            self._below.clear()
        return [part for part in target.split("/") if part not in ("", ".")]

    def _open_root(self) -> int:
        try:
            return os.open(self._real, _FOLDER)
        except OSError:
            raise Refusal("cannot be read: the workspace itself is not there any more") from None

    def _move(self, fd: int) -> None:
        self.fd, left = fd, self.fd
        os.close(left)


def _require_file(info: os.stat_result) -> None:
    if not stat.S_ISREG(info.st_mode):
        kind = _SPECIAL.get(stat.S_IFMT(info.st_mode))
        raise Refusal(f"is {kind}, not a file" if kind else _CHANGED)


def _reason(problem: OSError) -> str:
    match problem.errno:
        case errno.ENOENT:
            return "is not there; list_dir shows what is"
        case errno.EACCES | errno.EPERM:
            return "may not be read by the service (permission denied)"
        case errno.ENAMETOOLONG:
            return "has a part that is too long for a file name"
        case errno.ELOOP | errno.ENOTDIR:
            return _CHANGED
        case errno.EMFILE | errno.ENFILE:
            return "cannot be opened just now: the service has too many files open; try again"
        case code:
            return f"cannot be read ({os.strerror(code) if code else 'input/output error'})"
