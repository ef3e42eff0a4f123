"""A key file is looked at again: what counts when, and what happens when it is wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path

import pytest

from codemode.errors import InvalidRequest
from codemode.keys import key_file
from codemode.keys.key_file import KeyFile

LONG_AGO_NS = 1_000_000_000 * 10**9


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "keys"
    made.write_text("first-key\n")
    return made


def opens(file: KeyFile, key: str) -> bool:
    return file.keys.tenant_of(key.encode()) is not None


def which(file: KeyFile) -> list[str]:
    return [key for key in ("first-key", "other-key") if opens(file, key)]


def test_what_was_written_counts_at_the_next_look(path: Path) -> None:
    """In place or by another file in its place."""
    file = KeyFile(path)
    path.write_text("first-key\nother-key\n")
    file.look()
    assert which(file) == ["first-key", "other-key"]
    new = path.with_name("new")
    new.write_text("other-key\n")
    new.replace(path)
    file.look()
    assert which(file) == ["other-key"]


def test_a_write_right_after_the_look_is_not_missed(path: Path) -> None:
    """The same length, the same file, the same times as far as the file system tells: read again, for it may be."""
    file = KeyFile(path)
    status = path.stat()
    path.write_text("other-key\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    file.look()
    assert which(file) == ["other-key"]


def test_a_file_that_has_not_changed_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is old enough to be sure of that; `anyway` reads it all the same."""
    file = KeyFile(path, clock=lambda: time.time_ns() + 10**10)
    reads = []
    read = key_file.read_key_file
    monkeypatch.setattr(key_file, "read_key_file", lambda at: (reads.append(at), read(at))[1])
    file.look()
    assert reads == []
    file.look(anyway=True)
    assert reads == [path]


@pytest.mark.parametrize("harm", ["wrong", "missing", "folder", "pipe"])
def test_a_file_that_cannot_be_used_changes_nothing(path: Path, harm: str, caplog: pytest.LogCaptureFixture) -> None:
    """The log says so once, names the line, and shows no key; when it is well again it counts."""
    file = KeyFile(path)
    path.unlink()
    if harm == "wrong":
        path.write_text("other-key\nsecret words\n")
    elif harm == "folder":
        path.mkdir()
    elif harm == "pipe":
        os.mkfifo(path)
    for _ in range(3):
        file.look()
    assert (which(file), [record.levelno for record in caplog.records]) == (["first-key"], [logging.ERROR])
    assert ("line 2" in caplog.text, "secret" in caplog.text) == (harm == "wrong", False)

    if harm == "folder":
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.write_text("other-key\n")
    file.look()
    file.look()
    assert (which(file), len(caplog.records)) == (["other-key"], 2)
    assert caplog.messages[1] == "the key file was read: 1 key of 1 tenant"


def test_a_change_is_told_of_and_nothing_else(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """At a level that is shown by default: other keys, the same under another name; or when somebody asked."""
    file = KeyFile(path)
    first = path.read_text()
    line = f"sha256:{'ab' * 32} a\n"
    for content in (
        first + line,
        f"# moved\n\n{line}{first}",
        f"{first}{line[:-1]} operator\n",
        first + line + f"sha256:{'cd' * 32} a\n",
    ):
        path.write_text(content)
        for _ in range(3):
            file.look()
    file.look(anyway=True)
    told = ["2 keys of 2 tenants", "2 keys of 2 tenants", "3 keys of 2 tenants", "3 keys of 2 tenants"]
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, f"the key file was read: {each}") for each in told
    ]
    assert "ab" * 32 not in caplog.text


def test_a_file_without_keys_lets_nobody_in(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The last key was revoked: to go on with the old ones would be to not revoke it."""
    file = KeyFile(path)
    path.write_text("# none\n")
    for _ in range(3):
        file.look()
    assert (which(file), [record.levelno for record in caplog.records]) == ([], [logging.WARNING])


@pytest.mark.parametrize(("content", "said"), [("a b\n", "line 1: expected"), (None, "No such file or directory")])
def test_a_file_that_is_wrong_at_the_start(path: Path, content: str | None, said: str) -> None:
    """Is told to the operator, who is there."""
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidRequest, match=said):
        KeyFile(path)


def test_a_file_that_is_much_too_long(path: Path) -> None:
    """It is some other file."""
    with path.open("r+b") as stream:
        stream.truncate(key_file.MOST_BYTES + 1)
    with pytest.raises(InvalidRequest, match="longer than"):
        KeyFile(path)


async def changed(file: KeyFile, expected: list[str]) -> None:
    """Wait until these keys open."""
    async with asyncio.timeout(10):
        while which(file) != expected:
            await asyncio.sleep(0.01)


async def test_while_it_is_watched_a_change_counts_by_itself(path: Path) -> None:
    """After a second or so."""
    file = KeyFile(path)
    async with file.watched():
        path.write_text("other-key\n")
        await changed(file, ["other-key"])


async def test_a_hint_makes_it_look_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again and again; before and after the watch it does nothing."""
    monkeypatch.setattr(key_file, "_LOOK_S", 3600)
    file = KeyFile(path)
    file.look_soon()
    async with file.watched():
        for content in ("other-key\n", "first-key\n"):
            path.write_text(content)
            file.look_soon()
            await changed(file, [content.strip()])
    file.look_soon()


async def test_the_watch_survives_whatever_happens(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in one look is logged, and the next one is made."""
    monkeypatch.setattr(key_file, "_LOOK_S", 0.01)
    file = KeyFile(path)
    look, looks = file.look, []

    def broken_once(*, anyway: bool = False) -> None:
        looks.append(anyway)
        if len(looks) == 1:
            raise RuntimeError("a fault")
        look(anyway=anyway)

    monkeypatch.setattr(file, "look", broken_once)
    async with file.watched():
        path.write_text("other-key\n")
        await changed(file, ["other-key"])
