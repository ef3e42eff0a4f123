"""What is taken off a source where a session is lenient: one fence around the whole, or the quotes of JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.cells.source import Directive, read_source
from codemode.cells.wrapping import BLANK, unwrapped
from codemode.errors import CodeModeError, InvalidSource, PayloadTooLarge

MOST = 1000
LINE_ENDS = "\n\r\u2028\u2029"


def script_of(source: str) -> str | None:
    """What would run of it, without the blanks around; None if nothing was taken off."""
    found = unwrapped(source)
    return None if found is None else found.text.strip(BLANK)


@pytest.mark.parametrize(
    "source",
    [
        "```\ntext(1)\n```",
        "```js\ntext(1)\n```",
        "```javascript\ntext(1)\n```\n",
        "``` JS \ntext(1)\n```",
        "```ts\ntext(1)\n```",
        "```TypeScript\r\ntext(1)\r\n```\r\n",
        "````mjs\ntext(1)\n````",
        "```js\ntext(1)\n`````",
        "\n\n \t```js\ntext(1)\n  ```  \n\n",
        "\ufeff```js\n\n\ntext(1)\n\n```",
        '"text(1)"',
        ' \n"\\ttext(1)\\n" \n',
    ],
)
def test_a_wrapping_around_the_whole_is_taken_off(source: str) -> None:
    """Whatever blanks are around it and however the fence is tagged."""
    assert script_of(source) == "text(1)"


@pytest.mark.parametrize(
    "source",
    [
        "text(1)",
        "```js\ntext(1)",
        "text(1)\n```",
        "Here it is:\n```js\ntext(1)\n```",
        "```js\ntext(1)\n```\nThat was it.",
        "```js\ntext(1)\n```\n```js\ntext(2)\n```",
        "```python\nprint(1)\n```",
        "```js title=x\ntext(1)\n```",
        "```js text(1) ```",
        "``js\ntext(1)\n``",
        "````js\ntext(1)\n```",
        "```js\ntext(`\n```\n`)\n```",
        "~~~js\ntext(1)\n~~~",
        "```",
        "``````",
        "```js\n```js",
        "'text(1)'",
        '{"source": "text(1)"}',
        '["text(1)"]',
        '"text(1)" + ""',
        '"text(1)',
    ],
)
def test_anything_else_stays_as_it_is(source: str) -> None:
    """A text with a script in it, another language, a fence that is not closed, or that closes twice."""
    assert script_of(source) is None
    assert read_source(source, MOST, lenient=True).text == source


@given(
    st.text(" \n\r\t\u2028\ufeff", max_size=4),
    st.sampled_from(["```", "```js", "````TS ", "``` javascript\t"]),
    st.sampled_from(["\n", "\r\n"]),
    st.text().filter(lambda text: "```" not in text),
    st.text(" \n\r\t", max_size=4),
)
def test_a_fence_becomes_blanks(before: str, opening: str, end: str, script: str, behind: str) -> None:
    """Each character of the script stays at its place, and so do the ends of lines around it."""
    source = f"{before}{opening}{end}{script}{end}{'`' * opening.count('`')}{behind}"
    found = unwrapped(source)
    assert found is not None
    start = len(before) + len(opening) + len(end)
    assert (found.start, found.text[start : start + len(script)]) == (start, script)
    assert len(found.text) == len(source)
    assert [c if c in LINE_ENDS else " " for c in found.text[:start]] == [
        c if c in LINE_ENDS else " " for c in source[:start]
    ]
    assert "`" not in found.text.replace(script, "")


@given(st.text())
def test_a_quoted_script_is_what_was_quoted(script: str) -> None:
    """As JSON has it."""
    for quoted in (json.dumps(script), json.dumps(script, ensure_ascii=False)):
        found = unwrapped(quoted)
        assert found is not None
        assert (found.text, found.start) == (script, 0)


@pytest.mark.parametrize(
    "source",
    [
        '```js\n// @exec: {"yield_time_ms": 5}\ntext(1)\n```',
        '\n\n```\r\n  //@exec: {"yield_time_ms": 5}\r\ntext(1)\r\n```',
        json.dumps('// @exec: {"yield_time_ms": 5}\ntext(1)'),
        '// @exec: {"yield_time_ms": 5}\ntext(1)',
    ],
)
def test_the_first_line_within_is_the_directive(source: str) -> None:
    """As it would be without the wrapping."""
    assert read_source(source, MOST, lenient=True).directive == Directive(yield_time_ms=5)


def test_a_line_further_down_is_no_directive() -> None:
    """The line of the fence does not count for it, the others do."""
    source = '```js\n\n// @exec: {"yield_time_ms": 5}\ntext(1)\n```'
    assert read_source(source, MOST, lenient=True).directive == Directive()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("```js\n```", "empty"),
        ("```\n \n```", "empty"),
        ('"  "', "empty"),
        ("```js\n// @exec: {}\n```", "no source below"),
        ("```js\n// @exec: nothing\ntext(1)\n```", "not JSON"),
        ('"\\ud800"', "lone surrogate"),
        (json.dumps("// @exec: []\ntext(1)"), "no JSON object"),
    ],
)
def test_what_is_refused_is_refused_within(source: str, words: str) -> None:
    """Nothing runs of it."""
    with pytest.raises(InvalidSource, match=words):
        read_source(source, MOST, lenient=True)


def test_the_length_is_that_of_what_was_sent() -> None:
    """A wrapping hides nothing from the limit."""
    with pytest.raises(PayloadTooLarge):
        read_source(json.dumps("\u4e2d" * 100), 400, lenient=True)


@given(st.text())
def test_a_strict_reading_takes_nothing_off(source: str) -> None:
    """And a lenient one of any text ends well or is refused."""
    for lenient in (False, True):
        try:
            read = read_source(source, MOST, lenient=lenient)
        except CodeModeError:
            continue
        assert (read.text == source) == (read.said is None) or lenient
