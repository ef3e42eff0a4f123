"""Bearer keys: the lines of a key file, and whose a presented key is.

    # a comment; blank lines are fine too
    cm_J2Zk…                        a plain key; its tenant is the first 16 hex digits of its SHA-256
    sha256:9f86d081… billing        the SHA-256 of a key, and its tenant
    sha256:60303ae2… prom operator  a key that is for the numbers of the whole service, and for nothing else

The name is the tenant: what two lines with one name may see is the same, so that a new key can be handed
out before the old one goes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from codemode.errors import InvalidRequest

MOST_KEY: Final = 1024  # characters
MOST_NAME: Final = 64
_HASHED: Final = b"sha256:"
_HASHED_LINE: Final = re.compile(rb"sha256:([0-9a-fA-F]{64})[ \t]+(.+)", re.DOTALL)
_OPERATOR: Final = re.compile(rb"(\S+)[ \t]+operator")
_NAME: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_PLAIN: Final = re.compile(rb"[!-~]+")
_BLANKS: Final = b" \t\r"
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_TENANT_DIGITS: Final = 16
_FINGERPRINT_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class Key:
    """A line of a key file. The key itself is not kept; `line` counts from 1.

    One of an operator is for what tells of all tenants, and has no sessions.
    """

    digest: bytes
    tenant: str
    line: int
    is_operator: bool = False

    @property
    def fingerprint(self) -> str:
        """What names the key where the key itself must not stand."""
        return self.digest.hex()[:_FINGERPRINT_DIGITS]


class Keys:
    """The keys that are valid together."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._keys = tuple(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._keys)

    def opens(self) -> frozenset[tuple[bytes, str, bool]]:
        """What they let in, wherever in the file they stand."""
        return frozenset((key.digest, key.tenant, key.is_operator) for key in self._keys)

    def tenant_of(self, presented: bytes) -> str | None:
        """Whose key this is; None for one that is not known."""
        key = self.find(presented)
        return None if key is None else key.tenant

    def find(self, presented: bytes) -> Key | None:
        """The line of this key; None for one that is not known.

        Every key is compared, in constant time each, whatever the outcome: 37 µs per 1 000 keys
        (measured with `timeit` on `hmac.compare_digest`).
        """
        if len(presented) > MOST_KEY:
            return None
        digest = digest_of(presented)
        found = None
        for key in self._keys:
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found


def digest_of(key: bytes) -> bytes:
    """What is kept of a key. A key is random and long, so a plain hash is enough: there is nothing to guess."""
    return hashlib.sha256(key).digest()


def parse_keys(content: bytes) -> list[Key]:
    """The keys of a file, in the order of its lines.

    Raises InvalidRequest, which names the line that is wrong and never says what stands in it.
    """
    found: list[Key] = []
    lines: dict[bytes, int] = {}
    for number, line in enumerate(content.removeprefix(_BYTE_ORDER_MARK).split(b"\n"), 1):
        text = line.strip(_BLANKS)
        if not text or text.startswith(b"#"):
            continue
        try:
            digest, tenant, is_operator = _parse(text)
        except ValueError as problem:
            raise InvalidRequest(f"line {number}: {problem}") from None
        if digest in lines:
            raise InvalidRequest(f"line {number}: this key stands in line {lines[digest]} already")
        lines[digest] = number
        found.append(Key(digest, tenant, number, is_operator))
    return found


def _parse(text: bytes) -> tuple[bytes, str, bool]:
    """Digest, tenant, and whether it is a key of an operator. Raises ValueError."""
    if text[: len(_HASHED)].lower() == _HASHED:  # never taken for a plain key, however wrong it is
        found = _HASHED_LINE.fullmatch(text)
        if found is None:
            raise ValueError("expected sha256: and directly after it 64 hex digits, then a blank and a name")
        operator = _OPERATOR.fullmatch(found[2])
        name = found[2] if operator is None else operator[1]
        return bytes.fromhex(found[1].decode()), check_name(name), operator is not None
    if not _PLAIN.fullmatch(text):
        raise ValueError("expected sha256:HEX NAME, or a key alone: printable ASCII without blanks")
    if len(text) > MOST_KEY:
        raise ValueError(f"the key has {len(text)} characters; at most {MOST_KEY} are accepted")
    digest = digest_of(text)
    return digest, digest.hex()[:_TENANT_DIGITS], False


def check_name(name: bytes) -> str:
    """A name that a tenant may have. Raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"a name is 1 to {MOST_NAME} of the characters A-Z a-z 0-9 . _ @ - and begins with a letter or digit"
        )
    return name.decode()


def hashed_line(digest: bytes, name: str, *, is_operator: bool = False) -> bytes:
    """A line, without its end, as `codemode keys` writes it."""
    return b"%b%b %b%b" % (_HASHED, digest.hex().encode(), name.encode(), b" operator" if is_operator else b"")
