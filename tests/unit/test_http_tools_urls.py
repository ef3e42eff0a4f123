"""Which URLs tools may be called at: compared by their parts, never as text."""

from __future__ import annotations

from urllib.parse import unquote

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.errors import InvalidRequest
from codemode.tools.http import AllowedUrls

PREFIX = "https://tools.example/api"


def is_allowed(url: str, *prefixes: str) -> bool:
    try:
        AllowedUrls(prefixes or (PREFIX,)).check(url)
    except InvalidRequest:
        return False
    return True


@pytest.mark.parametrize(
    "url",
    [
        "https://tools.example/api",
        "https://tools.example/api/",
        "https://tools.example/api/x/y?z=1#there",
        "https://tools.example:443/api/x",
        "HTTPS://TOOLS.example/api/x",
        "https://tools.example./api/x",
        "https://tools.example/api/%78",
        "https://tools.example/api/a%20b",
        "https://tools.example/api/x.y/..z",
        "https://tools.example/api//x",
        "https://tools.example/%61pi/x",
    ],
)
def test_what_lies_under_the_prefix_is_allowed(url: str) -> None:
    """However scheme, host and port are written."""
    assert is_allowed(url)


@pytest.mark.parametrize(
    "url",
    [
        # the prefix as text
        "https://tools.example.evil/api/x",
        "https://tools.example/api2",
        "https://tools.example/apix/y",
        "https://tools.example/API/x",
        "https://tools.exampleapi/x",
        "https://evil.example/https://tools.example/api/x",
        "https://evil.example/?https://tools.example/api/x",
        "https://evil.example/#https://tools.example/api/x",
        "https://eviltools.example/api/x",
        "https://x.tools.example/api/x",
        # another server
        "http://tools.example/api/x",
        "https://tools.example:444/api/x",
        "https://tools.example:80/api/x",
        "https://127.0.0.1/api/x",
        "https://[::1]/api/x",
        # above the prefix
        "https://tools.example/",
        "https://tools.example",
        "https://tools.example/ap",
        "https://tools.example/?/api/x",
        # user information
        "https://tools.example@evil.example/api/x",
        "https://user@tools.example/api/x",
        "https://user:secret@tools.example/api/x",
        "https://@tools.example/api/x",
        "https://tools.example:443@evil.example/api/x",
        "https://tools.example%40evil.example/api/x",
        # dot segments
        "https://tools.example/api/../admin",
        "https://tools.example/api/./x",
        "https://tools.example/api/..",
        "https://tools.example/api/%2e%2e/admin",
        "https://tools.example/api/%2E./admin",
        "https://tools.example/api/x/%2e%2e%2f%2e%2e/admin",
        "https://tools.example/api%2f..%2fadmin",
        "https://tools.example/api/..%2fadmin",
        # backslashes, blanks, control characters
        "https://tools.example\\@evil.example/api/x",
        "https://tools.example/api\\..\\admin",
        "https://tools.example/api/..%5cadmin",
        "https://evil.example\\.tools.example/api/x",
        "https://tools.example/api/x y",
        " https://tools.example/api/x",
        "https://tools.example/api/x\n",
        "https://tools.example/\tapi/x",
        "https://to\tols.example/api/x",
        "ht\ntps://tools.example/api/x",
        "\x00https://tools.example/api/x",
        "https://tools.example/api/\x7f",
        # no URL of the kind
        "",
        "/api/x",
        "//tools.example/api/x",
        "tools.example/api/x",
        "https:tools.example/api/x",
        "https:/tools.example/api/x",
        "https:///tools.example/api/x",
        "ftp://tools.example/api/x",
        "file:///api/x",
        "javascript://tools.example/api/x",
        "data:text/plain,https://tools.example/api/x",
        "unix://tools.example/api/x",
        "https://tools.example:port/api/x",
        "https://tools.example:99999/api/x",
        "https://tools.example:-1/api/x",
        "https://[tools.example/api/x",
        "https://[::1]tools.example/api/x",
        "https://tools.example]/api/x",
        "https://:443/api/x",
        # other alphabets and forms
        "https://tööls.example/api/x",
        "https://tools。example/api/x",
        "https://tools．example/api/x",
        "https://ｔｏｏｌｓ.example/api/x",
        "https://tools.example\u2100/api/x",
        "https://tools.example／api/x",
    ],
    ids=ascii,
)
def test_tricks_with_the_text_are_refused(url: str) -> None:
    """Whatever only looks like the prefix, or would leave it on its way, is not allowed."""
    assert not is_allowed(url)


def test_an_encoded_slash_makes_no_segment() -> None:
    """`/api%2Fx` is one segment beside `/api` for the server that gets it, and nothing below it."""
    assert not is_allowed("https://tools.example/api%2Fx")


@pytest.mark.parametrize(
    ("prefix", "url", "allowed"),
    [
        ("http://a.example", "http://a.example/anything", True),
        ("http://a.example", "http://a.example", True),
        ("http://a.example/", "http://a.example", True),
        ("http://a.example:80", "http://a.example/x", True),
        ("http://a.example", "http://a.example:0/x", False),
        ("http://a.example/x/", "http://a.example/x/y", True),
        ("http://a.example/x/", "http://a.example/x", False),
        ("http://a.example/x?q=1", "http://a.example/x/y", True),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080/x", True),
        ("http://127.0.0.1:8080/", "http://127.1:8080/x", False),
        ("http://127.0.0.1:8080/", "http://2130706433:8080/x", False),
        ("http://127.0.0.1:8080/", "http://localhost:8080/x", False),
        ("http://127.0.0.1:8080/", "http://0x7f.0.0.1:8080/x", False),
        ("http://[::1]:8080/", "http://[::1]:8080/x", True),
        ("http://[::1]:8080/", "http://[::1]:8081/x", False),
        ("http://[::1]:8080/", "http://[::ffff:127.0.0.1]:8080/x", False),
        ("http://[::1]/", "http://[::1].evil.example/x", False),
        ("http://[fe80::1]/", "http://[fe80::1%25eth0]/x", False),
        ("http://A.Example/x", "http://a.example/x/y", True),
        ("http://a.example./x", "http://a.example/x/y", True),
    ],
)
def test_prefixes_of_other_forms(prefix: str, url: str, allowed: bool) -> None:
    """Ports by default, IPv6, trailing dots and slashes, case: on the operator's side as well."""
    assert is_allowed(url, prefix) == allowed


def test_nothing_is_allowed_by_default() -> None:
    """Without a prefix of the operator's there is no URL for tools."""
    with pytest.raises(InvalidRequest, match="is not allowed here"):
        AllowedUrls().check(PREFIX)


@pytest.mark.parametrize(
    "prefix", ["", "tools.example", "ftp://a.example", "http://", "http://u@a.example", "http://a/../b"]
)
def test_a_prefix_that_is_no_url_is_refused_at_the_start(prefix: str) -> None:
    """An operator's slip must not allow more than was meant."""
    with pytest.raises(InvalidRequest):
        AllowedUrls([prefix])


# Pieces that URLs are made of, and signs that parsers differ about.
PIECES = "https:// http:// https: // / \\ tools.example tools . .. example evil.example @ : 443 444 0 api api/ /api %2e %2F %5c"
SIGNS = "%40 ? # [ ] ::1 ; İ \u212a ｅ 。 \u200b %00 & user"
parts = st.sampled_from([*PIECES.split(), *SIGNS.split(), " ", "\t"])


@given(st.lists(parts, max_size=10).map("".join))
def test_what_is_allowed_goes_where_the_prefix_says(tail: str) -> None:
    """The client parses URLs in its own way: it goes to the prefix's server and below its path."""
    for url in (tail, f"https://tools.example{tail}", f"{PREFIX}{tail}", f"{PREFIX}/{tail}"):
        if not is_allowed(url):
            continue
        try:
            target = httpx.URL(url)
        except httpx.InvalidURL:
            continue  # the call fails
        where = (target.scheme, target.host.rstrip("."), target.port, target.userinfo)
        path = unquote(target.raw_path.decode().partition("?")[0])
        inside = path == "/api" or path.startswith("/api/")
        assert (where, inside, ".." in path.split("/")) == (("https", "tools.example", None, b""), True, False)
