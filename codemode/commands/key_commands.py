"""`codemode keys`: makes, lists and revokes the keys of a key file."""

from __future__ import annotations

import argparse
import fcntl
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from codemode.errors import InvalidRequest
from codemode.keys.key import Key, check_name, digest_of, hashed_line, parse_keys
from codemode.keys.key_file import read_key_file

_PREFIX: Final = "cm_"  # tells people and scanners for leaked secrets what it is
_RANDOM_BYTES: Final = 32
_FOR_OTHERS: Final = 0o640  # what a file may keep of its mode: whoever made it readable for a group meant it


def add_key(name: str, path: Path, *, is_operator: bool = False) -> str:
    """A new random key, whose hash is appended to the file; the key is nowhere else but in the answer.

    The file is made if there is none. Raises InvalidRequest.
    """
    tenant = _checked(name)
    key = f"{_PREFIX}{secrets.token_urlsafe(_RANDOM_BYTES)}"
    with _locked(path) as file:
        content = read_key_file(file)[0] if file.exists() else b""
        _keys_in(file, content)  # a wrong file stays as it is
        if content and not content.endswith(b"\n"):
            content += b"\n"
        line = hashed_line(digest_of(key.encode()), tenant, is_operator=is_operator)
        _replace(file, content + line + b"\n")
    return key


def list_keys(path: Path) -> list[Key]:
    """The keys of the file, in its order. Raises InvalidRequest."""
    return _keys_in(path, read_key_file(path)[0])


def revoke_keys(name: str, path: Path, fingerprint: str | None = None) -> int:
    """Take the lines of this name out of the file, or of them that with the fingerprint; how many they were.

    Raises InvalidRequest, if there is none too.
    """
    with _locked(path) as file:
        content = read_key_file(file)[0]
        named = [key for key in _keys_in(file, content) if key.tenant == name]
        gone = {key.line for key in named if fingerprint in (None, key.fingerprint)}
        if not gone:
            what = f"the name {name[:100]!r}" if not named else f"this name and the fingerprint {fingerprint!r:.50}"
            raise InvalidRequest(f"--key-file {path}: no key has {what}; `codemode keys list` shows what there is")
        lines = content.split(b"\n")
        _replace(file, b"\n".join(line for number, line in enumerate(lines, 1) if number not in gone))
    return len(gone)


def _checked(name: str) -> str:
    try:
        return check_name(name.encode("utf-8", "replace"))
    except ValueError as problem:
        raise InvalidRequest(f"NAME: {problem}") from None


def _keys_in(path: Path, content: bytes) -> list[Key]:
    try:
        return parse_keys(content)
    except InvalidRequest as problem:
        raise InvalidRequest(f"--key-file {path}: {problem.detail}") from problem


@contextmanager
def _locked(path: Path) -> Iterator[Path]:
    """The file itself, where links lead to, while no other of these commands changes it.

    The lock is on its folder: the file is replaced, so a lock on it would be one on what is gone.
    Raises InvalidRequest for whatever the system refuses meanwhile.
    """
    try:
        file = path.resolve()
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield file
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as problem:
        raise InvalidRequest(f"--key-file {path}: {problem.strerror}") from problem


def _replace(file: Path, content: bytes) -> None:
    """Whoever reads it sees what was there before, or all of this. Raises OSError.

    A new file is for its owner alone; one that exists keeps its owner, so that the service still may read it.
    """
    before = file.stat() if file.exists() else None
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with open(descriptor, "wb") as stream:  # noqa: PTH123  a descriptor has no path
            stream.write(content)
            stream.flush()
            if before is not None:
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode) & _FOR_OTHERS | stat.S_IRUSR | stat.S_IWUSR)
            os.fsync(descriptor)
        Path(name).replace(file)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


# The command line


def add_keys_command(parser: argparse.ArgumentParser) -> None:
    """`codemode keys` and its parts."""
    parts = parser.add_subparsers(required=True, metavar="COMMAND")
    add = parts.add_parser("add", help="make a key and print it, this once; FILE gets its hash")
    add.add_argument("name", metavar="NAME", help="the tenant; all its keys see the same sessions")
    add.add_argument("--operator", action="store_true", help="a key for /metrics, which tells of all; for nothing else")
    add.set_defaults(run=_add)
    shown = parts.add_parser("list", help="print name and fingerprint of each key, and `operator` where it is one's")
    shown.set_defaults(run=_list)
    revoke = parts.add_parser("revoke", help="take keys out of FILE")
    revoke.add_argument("name", metavar="NAME", help="the tenant whose keys")
    revoke.add_argument("--fingerprint", metavar="HEX", help="only the key with this fingerprint, as `list` shows it")
    revoke.set_defaults(run=_revoke)
    for part in (add, shown, revoke):
        part.add_argument("--key-file", type=Path, required=True, metavar="FILE", help="the key file")


def _add(options: argparse.Namespace) -> int:
    key = add_key(options.name, options.key_file, is_operator=options.operator)
    sys.stderr.write(f"codemode: this key of {options.name} is shown once; send it as Authorization: Bearer KEY\n")
    _say(f"{key}\n")
    return 0


def _list(options: argparse.Namespace) -> int:
    rows = [(key.tenant, key.fingerprint, *["operator"] * key.is_operator) for key in list_keys(options.key_file)]
    _say("".join("\t".join(row) + "\n" for row in rows))
    return 0


def _revoke(options: argparse.Namespace) -> int:
    count = revoke_keys(options.name, options.key_file, options.fingerprint)
    sys.stderr.write(f"codemode: {count} key{'s' if count > 1 else ''} of {options.name} revoked\n")
    return 0


def _say(text: str) -> None:
    """On standard output. Raises InvalidRequest if nobody takes it."""
    if sys.stdout is None:
        raise InvalidRequest("standard output is closed")
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as problem:
        raise InvalidRequest(f"the output cannot be written: {problem.strerror}") from problem
