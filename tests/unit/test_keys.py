"""The lines of a key file, whose key is whose, and how a request presents one."""

from __future__ import annotations

import hashlib
import importlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode._bundled import bundled
from codemode.errors import InvalidRequest
from codemode.keys.key import MOST_KEY, Key, Keys, digest_of, hashed_line, parse_keys

bundled("api")
presented_key = importlib.import_module("codemode.api.auth").presented_key

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", fullmatch=True)
PLAIN = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=80).filter(
    lambda key: not key.startswith("#") and not key.lower().startswith("sha256:")
)
IGNORED = st.sampled_from([b"", b"  \t", b"# a comment", b"\t# sha256:nonsense", b"#\xff\x00"])
HASH = hashlib.sha256(b"the key").hexdigest()


def complaint(content: bytes) -> str:
    with pytest.raises(InvalidRequest) as caught:
        parse_keys(content)
    return caught.value.detail


def test_every_kind_of_line() -> None:
    """Plain and hashed keys, comments and blank lines, ends of lines of both worlds, and a byte order mark."""
    content = f"\ufeff# who may\r\n\r\n  plain-key \nsha256:{HASH}\t billing\r\nsha256:{'AB' * 32} b@c.d\nsha256:{'CD' * 32} prom \t operator\r\nsha256:{'EF' * 32} operator".encode()
    plain = hashlib.sha256(b"plain-key")
    assert parse_keys(content) == [
        Key(plain.digest(), plain.hexdigest()[:16], 3),
        Key(bytes.fromhex(HASH), "billing", 4),
        Key(b"\xab" * 32, "b@c.d", 5),
        Key(b"\xcd" * 32, "prom", 6, is_operator=True),
        Key(b"\xef" * 32, "operator", 7),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "two words",
        "key # no comment",
        "sha256:",
        "sha256: x",
        f"sha256:{HASH}",
        f"sha256: {HASH} name",
        f"sha256:{HASH[1:]} name",
        f"sha256:{HASH}0 name",
        f"sha256:{HASH[1:]}g name",
        f"SHA256:{HASH} name",
        f"Sha256:{HASH}",
        f"sha256:{HASH} two names",
        f"sha256:{HASH} name Operator",
        f"sha256:{HASH} name operator operator",
        f"sha256:{HASH} na/me operator",
        f"sha256:{HASH} -name",
        f"sha256:{HASH} na/me",
        f"sha256:{HASH} näme",
        f"sha256:{HASH} {'n' * 65}",
        f"sha256:{HASH}\x0bname",
        "schlüssel",
        "nul\0",
        "escape\x1b[2J",
        "half\rline",
        "x" * (MOST_KEY + 1),
    ],
)
def test_a_wrong_line_is_named_and_not_shown(line: str) -> None:
    """By its number, with what was expected; what stands in it may be a key."""
    said = complaint(f"# first\ngood-key\n{line}\n".encode())
    shown = [word for word in re.split(r"[\s:]", line) if len(word) > 5 and word.lower() != "sha256"]
    assert (said.startswith("line 3: "), [word for word in shown if word in said]) == (True, [])


def test_a_key_stands_once() -> None:
    """As itself and as its hash it is the same key: it could have two tenants."""
    assert complaint(b"the key\nthe-key\n").startswith("line 1: ")
    said = complaint(f"the-key\n\nsha256:{hashlib.sha256(b'the-key').hexdigest()} other\n".encode())
    assert said == "line 3: this key stands in line 1 already"


@given(st.binary(max_size=300) | st.lists(st.sampled_from([b"a", b" ", b"#", b"sha256:", HASH.encode(), b"\n", b"\xff", b"\0"])).map(b"".join))  # fmt: skip
def test_any_file_is_read_or_refused_with_a_line(content: bytes) -> None:
    """Nothing else can happen, whatever stands in it."""
    lines = content.count(b"\n") + 1
    try:
        keys = parse_keys(content)
    except InvalidRequest as problem:
        found = re.match(r"line (\d+): ", problem.detail)
        assert found is not None
        assert 1 <= int(found[1]) <= lines
    else:
        assert len({key.digest for key in keys}) == len(keys) <= lines
        assert all(1 <= key.line <= lines for key in keys)


@given(st.lists(st.tuples(PLAIN, st.none() | NAMES), unique_by=lambda each: each[0], max_size=8), st.data())
def test_each_key_opens_what_its_line_says(given_keys: list[tuple[str, str | None]], data: st.DataObject) -> None:
    """Whatever stands between the lines; and no other key opens anything."""
    lines = []
    for key, name in given_keys:
        lines.append(data.draw(IGNORED))
        lines.append(key.encode() if name is None else hashed_line(digest_of(key.encode()), name))
    keys = Keys(parse_keys(b"\n".join(lines)))
    expected = [name or hashlib.sha256(key.encode()).hexdigest()[:16] for key, name in given_keys]
    assert [keys.tenant_of(key.encode()) for key, _ in given_keys] == expected
    stranger = data.draw(st.binary(max_size=100).filter(lambda one: one not in [key.encode() for key, _ in given_keys]))
    assert keys.tenant_of(stranger) is None


def test_keys_are_not_kept() -> None:
    """In memory there is their hash alone; and a hash is no key."""
    keys = parse_keys(b"the-secret-key\n")
    assert "the-secret-key" not in repr(keys)
    assert Keys(keys).tenant_of(keys[0].digest) is None
    assert Keys(keys).tenant_of(keys[0].digest.hex().encode()) is None
    assert Keys(keys).tenant_of(b"sha256:" + keys[0].digest.hex().encode()) is None


def test_the_longest_key() -> None:
    """It opens; a longer one is not even looked at."""
    longest = b"k" * MOST_KEY
    keys = Keys(parse_keys(longest))
    assert keys.tenant_of(longest) is not None
    assert keys.tenant_of(longest + b"k") is None


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ([b"Bearer abc"], b"abc"),
        ([b"bearer abc"], b"abc"),
        ([b"BEARER abc"], b"abc"),
        ([b"  Bearer \t  abc \t"], b"abc"),
        ([b"Bearer\tabc"], b"abc"),
        ([b"Bearer \xff\xfe"], b"\xff\xfe"),
        ([], None),
        ([b""], None),
        ([b"Bearer"], None),
        ([b"Bearer "], None),
        ([b"Bearerabc"], None),
        ([b"Basic abc"], None),
        ([b"Bearer abc def"], None),
        ([b"Bearer abc, Bearer def"], None),
        ([b"abc"], None),
        ([b"Bearer\xc2\xa0abc"], None),
        ([b"Bearer abc", b"Bearer abc"], None),
        ([b"Bearer abc", b""], None),
    ],
)
def test_how_a_request_presents_its_key(values: list[bytes], key: bytes | None) -> None:
    """In one header; the scheme in any case, with any blanks. Anything else is no key at all."""
    headers = [(b"host", b"here"), *((b"authorization", value) for value in values)]
    assert presented_key(headers) == key


@given(st.lists(st.binary(max_size=50), max_size=3))
def test_no_header_breaks_the_check(values: list[bytes]) -> None:
    """Bytes in, a key or None out."""
    key = presented_key([(b"authorization", value) for value in values])
    assert key is None or (len(values) == 1 and key in values[0])
