"""`codemode keys`: what it prints, and what it leaves in the file."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codemode.commands.cli import main
from codemode.commands.key_commands import add_key, list_keys, revoke_keys
from codemode.errors import InvalidRequest
from codemode.keys.key import Keys, digest_of, parse_keys
from tests.unit.cli_helpers import codemode


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a command."""
    status = main(["keys", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_add_list_revoke(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The key is printed once and alone; the file has its hash; what is listed has neither."""
    at = ["--key-file", str(file)]
    status, out, err = run(capsys, "add", "billing", *at)
    key = out.removesuffix("\n")
    digest = digest_of(key.encode()).hex()
    assert (status, key.startswith("cm_"), len(key) > 40, "\n" in key, key in err) == (0, True, True, False, False)
    assert (file.read_text(), mode(file)) == (f"sha256:{digest} billing\n", 0o600)

    assert run(capsys, "list", *at) == (0, f"billing\t{digest[:8]}\n", "")
    assert run(capsys, "revoke", "billing", *at) == (0, "", "codemode: 1 key of billing revoked\n")
    assert (file.read_text(), run(capsys, "list", *at)) == ("", (0, "", ""))


def test_a_key_of_an_operator(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its line says so, and the list."""
    at = ["--key-file", str(file)]
    key = run(capsys, "add", "prom", "--operator", *at)[1].strip()
    digest = digest_of(key.encode()).hex()
    assert file.read_text() == f"sha256:{digest} prom operator\n"
    assert run(capsys, "list", *at) == (0, f"prom\t{digest[:8]}\toperator\n", "")
    assert revoke_keys("prom", file) == 1


def test_as_a_command_of_its_own(file: Path) -> None:
    """A shell can keep the key in a variable."""
    done = codemode("keys", "add", "shell", "--key-file", str(file))
    assert done.returncode == 0
    assert Keys(list_keys(file)).tenant_of(done.stdout.strip().encode()) == "shell"


def test_rotation(file: Path) -> None:
    """Two keys of one name are one tenant; each can go alone, by its fingerprint."""
    old, new = add_key("a", file), add_key("a", file)
    keys = Keys(list_keys(file))
    assert [keys.tenant_of(key.encode()) for key in (old, new)] == ["a", "a"]
    assert revoke_keys("a", file, next(iter(keys)).fingerprint) == 1
    keys = Keys(list_keys(file))
    assert [keys.tenant_of(key.encode()) for key in (old, new)] == [None, "a"]
    add_key("a", file)
    assert (revoke_keys("a", file), list_keys(file)) == (2, [])


def test_other_lines_stay_as_they_are(file: Path) -> None:
    """Comments, blank lines, ends of lines, plain keys; an end of a line that is missing is added."""
    file.write_bytes(b"# \xff mine\r\n\r\nplain-key\n\n# last")
    add_key("new", file)
    before, added, rest = file.read_bytes().partition(b"sha256:")
    assert (before, added, rest.count(b"\n")) == (b"# \xff mine\r\n\r\nplain-key\n\n# last\n", b"sha256:", 1)
    revoke_keys("new", file)
    assert file.read_bytes() == before
    revoke_keys(list_keys(file)[0].tenant, file)
    assert file.read_bytes() == b"# \xff mine\r\n\r\n\n# last\n"


NAMES = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(st.tuples(st.sampled_from(["add", "revoke"]), NAMES), max_size=8)


@given(STEPS)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip(tmp_path: Path, steps: list[tuple[str, str]]) -> None:
    """After any adds and revokes exactly those keys open that were added and not revoked since."""
    file = tmp_path / "keys"
    file.write_bytes(b"# kept\nplain\n")
    made: list[tuple[str, str]] = []
    gone: list[str] = []
    for step, name in steps:
        if step == "add":
            made.append((name, add_key(name, file)))
        elif mine := [key for owner, key in made if owner == name]:
            assert revoke_keys(name, file) == len(mine)
            gone += mine
            made = [each for each in made if each[0] != name]
        else:
            with pytest.raises(InvalidRequest):
                revoke_keys(name, file)
    keys = Keys(list_keys(file))
    assert [keys.tenant_of(key.encode()) for _, key in made] == [name for name, _ in made]
    assert [keys.tenant_of(key.encode()) for key in gone] == [None] * len(gone)
    assert file.read_bytes().startswith(b"# kept\nplain\n")
    assert len(keys) == len(made) + 1


def test_two_at_once_lose_nothing(file: Path) -> None:
    """The second waits for the first."""
    barrier = threading.Barrier(8)

    def add(name: str) -> None:
        barrier.wait()
        add_key(name, file)

    threads = [threading.Thread(target=add, args=(f"name-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key.tenant for key in list_keys(file)) == [f"name-{number}" for number in range(8)]
    assert list(file.parent.iterdir()) == [file]


def test_a_file_that_exists_keeps_who_may_read_it(file: Path) -> None:
    """Its group, if its owner let it; everybody else never."""
    file.write_bytes(b"")
    file.chmod(0o644)
    add_key("a", file)
    assert mode(file) == 0o640


def test_a_link_stays_one(file: Path) -> None:
    """What it leads to is changed."""
    real = file.parent / "real"
    real.write_bytes(b"")
    file.symlink_to(real)
    add_key("a", file)
    assert (file.is_symlink(), len(parse_keys(real.read_bytes()))) == (True, 1)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["add", "two words"], "NAME: a name is 1 to 64 of the characters"),
        (["add", ""], "NAME: a name is 1 to 64"),
        (["add", "\ud800"], "NAME: a name is 1 to 64"),
        (["add", "a", "--key-file", "{folder}/missing/keys"], "No such file or directory"),
        (["add", "a", "--key-file", "{folder}"], "Is a directory"),
        (["add", "a", "--key-file", "{folder}/wrong"], "wrong: line 2: expected"),
        (["list", "--key-file", "{folder}/missing"], "missing: No such file or directory"),
        (["list", "--key-file", "{folder}/wrong"], "wrong: line 2: expected"),
        (["list", "--key-file", "{folder}"], "Is a directory"),
        (["revoke", "nobody"], "no key has the name 'nobody'"),
        (["revoke", "someone", "--fingerprint", "00000000"], "no key has this name and the fingerprint '00000000'"),
        (["revoke", "a", "--key-file", "{folder}/wrong"], "wrong: line 2: expected"),
    ],
)
def test_wrong_calls_are_explained(
    arguments: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, and the file stays as it was; no key is shown."""
    (tmp_path / "wrong").write_text("fine\nnot fine\n")
    add_key("someone", tmp_path / "keys")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    arguments = [each.format(folder=tmp_path) for each in arguments]
    if "--key-file" not in arguments:
        arguments += ["--key-file", str(tmp_path / "keys")]
    status, out, err = run(capsys, *arguments)
    assert (status, out, complaint in err, "not fine" in err) == (2, "", True, False), err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
