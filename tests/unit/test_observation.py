"""What a model is shown: the strings that models of the reference already know."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codemode.cells.observation import ScriptError, Status, model_output

KIB = 1024


def input_text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


@pytest.mark.parametrize(
    ("status", "header"),
    [
        ("completed", "Script completed"),
        ("failed", "Script failed"),
        ("running", "Script running with cell ID 7"),
        ("terminated", "Script terminated"),
    ],
)
def test_the_header_stands_alone(status: Status, header: str) -> None:
    """It is an item of its own, also without output; a running cell names its id."""
    assert model_output(status, "7", 49, [], None, None) == [input_text(f"{header}\nWall time 0.0 seconds\nOutput:\n")]


@pytest.mark.parametrize(
    ("milliseconds", "seconds"),
    [(0, "0.0"), (51, "0.1"), (999, "1.0"), (10_004, "10.0"), (3_600_000, "3600.0")],
)
def test_the_wall_time_has_one_decimal(milliseconds: int, seconds: str) -> None:
    """Seconds, as a model reads them."""
    (header,) = model_output("completed", "1", milliseconds, [], None, None)
    assert header == input_text(f"Script completed\nWall time {seconds} seconds\nOutput:\n")


def test_items_are_never_merged_and_detail_stands_only_where_given() -> None:
    """Each output item is one input item, in order; then the error, then the warnings."""
    output: list[dict[str, Any]] = [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
        {"type": "image", "image_url": "data:image/png;base64,AA==", "detail": None},
        {"type": "image", "image_url": "https://a.example/b.png", "detail": "low"},
        {"type": "audio", "audio_url": "data:audio/wav;base64,AA=="},
    ]
    error = ScriptError("script_error", "Error", "boom", 1, 7, "Error: boom\n    at exec_main.mjs:1:7", "a hint")
    assert model_output("failed", "1", 0, output, error, ["w1", "w2"])[1:] == [
        input_text("a"),
        input_text("b"),
        {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
        {"type": "input_image", "image_url": "https://a.example/b.png", "detail": "low"},
        {"type": "input_audio", "audio_url": "data:audio/wav;base64,AA=="},
        input_text("Script error:\nError: boom\n    at exec_main.mjs:1:7\na hint"),
        input_text("Warnings:\nw1\nw2"),
    ]


@pytest.mark.parametrize("warnings", [None, []])
def test_no_warnings_are_no_item(warnings: list[str] | None) -> None:
    """Whether they are not wanted or there are none."""
    assert len(model_output("completed", "1", 0, [], None, warnings)) == 1


def test_an_error_without_a_stack_shows_its_message() -> None:
    """As those of limits do."""
    assert ScriptError("deadline", None, "too late").text == "Script error:\ntoo late"


@given(st.sampled_from("aé中😀"), st.integers(0, 70 * KIB), st.integers(0, 3))
def test_the_text_of_an_error_is_bounded(letter: str, count: int, shift: int) -> None:
    """At most 64 KiB, head and tail kept in whole letters, and it says how much was left out."""
    stack = "x" * shift + letter * count
    shown = ScriptError("script_error", "Error", "m", 1, 1, stack).text.removeprefix("Script error:\n")
    size, most = len(stack.encode()), 64 * KIB
    if size <= most:
        assert shown == stack
    else:
        head, rest, tail = shown.partition(f"…{size - most} bytes omitted…")
        assert (stack.startswith(head), stack.endswith(tail), bool(rest)) == (True, True, True)
        assert most - 8 < len((head + tail).encode()) <= most
