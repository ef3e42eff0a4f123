"""The first-line directive, and which sources may run at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.cells.source import Directive, is_quoted_script, read_directive
from codemode.errors import CodeModeError, InvalidSource, PayloadTooLarge

MOST = 1000
SAFE = 2**53 - 1

numbers = st.one_of(st.none(), st.integers(0, SAFE))
blanks = st.text(" \t", max_size=3)


def refusal(source: str, most: int = MOST) -> str:
    """Why a source may not run."""
    with pytest.raises(InvalidSource) as caught:
        read_directive(source, most)
    return caught.value.detail


@given(
    st.sampled_from(["", "\ufeff"]),
    st.tuples(blanks, blanks, blanks, blanks),
    st.fixed_dictionaries({}, optional={"yield_time_ms": numbers, "max_output_tokens": numbers}),
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_directive_is_read_whatever_blanks_are_around_it(
    mark: str, around: tuple[str, str, str, str], values: dict[str, int | None], end: str
) -> None:
    """A byte order mark, blanks anywhere and either line end change nothing; null counts as absent."""
    before, inside, behind, last = around
    source = f"{mark}{before}//{inside}@exec:{behind}{json.dumps(values)}{last}{end}text(1)"
    assert read_directive(source, MOST) == Directive(**values)


@pytest.mark.parametrize(
    "source",
    [
        "text(1)",
        '\n// @exec: {"yield_time_ms": 1}\ntext(1)',
        '// @exec {"yield_time_ms": 1}\ntext(1)',
        '// @Exec: {"yield_time_ms": 1}\ntext(1)',
        '/* @exec: {"yield_time_ms": 1} */ text(1)',
        'text(1) // @exec: {"yield_time_ms": 1}',
        '/// @exec: {"yield_time_ms": 1}\ntext(1)',
        "// only a comment",
        "#!/usr/bin/env node\ntext(1)",
    ],
)
def test_a_plain_comment_is_no_directive(source: str) -> None:
    """Elsewhere, in other words or with other signs it means nothing."""
    assert read_directive(source, MOST) == Directive()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("{} {}", "is not JSON"),
        ("{'yield_time_ms': 1}", "is not JSON"),
        ("yield_time_ms=1", "is not JSON"),
        ('{"yield_time_ms": NaN}', "is not JSON"),
        ('{"yield_time_ms": Infinity}', "is not JSON"),
        ('{"yield_time_ms": -Infinity}', "is not JSON"),
        ('{"yield_time_ms": 1' + "0" * 5000 + "}", "is not JSON"),
        ("[" * 400, "is not JSON"),
        ("[1]", "is no JSON object"),
        ("null", "is no JSON object"),
        ("1", "is no JSON object"),
        ('{"timeout": 1}', "'timeout'"),
        ('{"yield_time_ms": 1, "\\ud800": 1}', "'\\ud800'"),
        ('{"yield_time_ms": -1}', "yield_time_ms"),
        ('{"yield_time_ms": 1.5}', "yield_time_ms"),
        ('{"yield_time_ms": "1"}', "yield_time_ms"),
        ('{"yield_time_ms": true}', "yield_time_ms"),
        ('{"yield_time_ms": [1]}', "yield_time_ms"),
        ('{"max_output_tokens": {}}', "max_output_tokens"),
        (f'{{"max_output_tokens": {2**53}}}', "max_output_tokens"),
        ('{"max_output_tokens": 1e300}', "max_output_tokens"),
        ('{"max_output_tokens": 1e999}', "max_output_tokens"),
        ('{"yield_time_ms": -1e999}', "yield_time_ms"),
    ],
    ids=lambda value: value[:30],
)
def test_a_wrong_directive_says_what_is_wrong(text: str, said: str) -> None:
    """Nothing runs, and the detail names the key or what was expected."""
    detail = refusal(f"// @exec:{text}\ntext(1)", most=10_000)
    assert (said in detail, len(detail) < 500) == (True, True)


@given(st.text(max_size=60).filter(lambda text: "\n" not in text))
def test_any_text_behind_the_colon_is_read_or_refused(text: str) -> None:
    """Nothing but an error for the caller ever comes of it."""
    try:
        directive = read_directive(f"// @exec:{text}\ntext(1)", MOST)
    except CodeModeError:
        return
    assert all(value is None or 0 <= value <= SAFE for value in directive)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=5), st.lists, max_leaves=5))
def test_any_value_of_a_key_is_read_or_refused(value: Any) -> None:
    """Whole numbers in range, also written as floats, and null are read; all else is refused."""
    is_whole = isinstance(value, float) and value.is_integer() and 0 <= value <= SAFE
    source = f'// @exec: {{"yield_time_ms": {json.dumps(value)}}}\ntext(1)'
    if value is None or is_whole:
        assert read_directive(source, MOST) == Directive(yield_time_ms=None if value is None else int(value))
    else:
        refusal(source)


@pytest.mark.parametrize("source", ["", " ", "\n\t\r\n", "\ufeff", "\u00a0\u2028\u2029\v\f"])
def test_an_empty_source_is_refused(source: str) -> None:
    """Blanks of JavaScript are no script."""
    assert refusal(source) == "the source is empty; expected JavaScript"


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n  \t\n"])
def test_a_directive_alone_is_refused(end: str) -> None:
    """There has to be something below it."""
    assert "no source below the first-line directive" in refusal(f'// @exec: {{"yield_time_ms": 1}}{end}')


@pytest.mark.parametrize(("letter", "bytes_each"), [("a", 1), ("é", 2), ("中", 3), ("😀", 4)])
def test_the_limit_is_in_bytes_of_utf_8(letter: str, bytes_each: int) -> None:
    """A source of exactly the limit may run; one byte more may not, and both numbers are told."""
    fits = "//" + letter * 100
    size = 2 + 100 * bytes_each
    assert read_directive(fits, size) == Directive()
    with pytest.raises(PayloadTooLarge) as caught:
        read_directive(fits, size - 1)
    assert caught.value.detail == f"the source has {size} bytes; at most {size - 1} are accepted"


def test_a_source_that_is_no_utf_8_is_refused() -> None:
    """A lone surrogate cannot be sent on, so it is named rather than replaced."""
    assert "lone surrogate" in refusal("text('\ud83d')")


@given(st.text(), st.text(" \t\r\n\ufeff", max_size=3), st.text(" \t\r\n", max_size=3))
def test_a_script_sent_as_a_json_string_is_noticed(script: str, before: str, behind: str) -> None:
    """Whatever it holds: it would parse, run and do nothing."""
    assert is_quoted_script(f"{before}{json.dumps(script)}{behind}")


@pytest.mark.parametrize(
    "source", ['"a" + "b"', '"use strict";', '"a"\n"b"', "'a'", "`a`", '"\\x41"', 'text("a")', '"', '{"a": "b"}']
)
def test_javascript_that_only_looks_quoted_may_run(source: str) -> None:
    """Only what is one JSON string as a whole is taken for one."""
    assert not is_quoted_script(source)
