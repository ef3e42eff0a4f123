"""What a case expects of an answer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .answers import Answer
from .differences import Difference, brief, lacking, lacking_items, strings, texts, unequal, without


def check(expect: dict[str, Any], answer: Answer, cells: dict[str, str], slack: float) -> Iterator[Difference]:
    """Every difference between an answer and what the case says of it; host_alive is left to the player."""
    for key, want in expect.items():
        if key in ("max_ms", "min_ms"):
            if (answer.ms > want * slack) if key == "max_ms" else (answer.ms < want):
                yield Difference(f"{key} is {want}, it took {answer.ms:.0f} ms", timing=True)
        elif key == "one_of":
            tries = [list(check(alternative, answer, cells, slack)) for alternative in want]
            if all(tries):
                yield Difference("none of the alternatives: " + " / ".join(found[0].text for found in tries))
        elif key != "host_alive":
            yield from map(Difference, check_one(key, want, answer, cells))


def check_one(key: str, want: Any, answer: Answer, cells: dict[str, str]) -> Iterator[str]:
    body = answer.body if isinstance(answer.body, dict) else {}
    model_text = "\n".join(texts(body["model_output"])) if "model_output" in body else answer.text
    match key:
        case "status":
            yield from unequal(key, want, body.get(key, answer.text))
            if answer.is_observation:
                yield from unequal("http_status", 202 if want == "running" else 200, answer.http_status)
        case "code" | "detail" | "truncated" | "original_token_count":
            yield from unequal(key, want, body.get(key, answer.text))
        case "http_status":
            yield from unequal(key, want, answer.http_status)
        case "http_class":
            yield from unequal(key, want, answer.http_status // 100)
        case "detail_contains":
            yield from without("detail", want, str(body.get("detail")), fold=True)
        case "model_output":
            got: Any = body.get("model_output")
            if texts(got):
                got = [{**got[0], "text": re.sub(r"(\nWall time )\d+\.\d", r"\1<T>", str(got[0].get("text")), count=1)}, *got[1:]]
            yield from lacking_items(key, want, got, "input_text")
        case "output":
            yield from lacking_items(key, want, body.get("output"), "text")
        case "output_items":
            yield from unequal(key, want, len(body.get("output") or []))
        case "output_text":
            yield from unequal(key, want, "".join(texts(body.get("output"))))
        case "contains":
            yield from without("model_output", want, model_text)
        case "not_contains":
            yield from (f"model_output: there is {brief(part)} in {brief(model_text, 300)}" for part in strings(want) if part in model_text)
        case "contains_any":
            if not any(part in model_text for part in want):
                yield f"model_output: none of {brief(want)} in {brief(model_text, 300)}"
        case "error":
            yield from check_error(want, body)
        case "warnings_contain":
            warnings = "\n".join(map(str, body.get("warnings") or []))
            yield from without("warnings", want, warnings, fold=True)
        case "no_warnings":
            if bool(body.get("warnings")) is want:
                yield f"warnings are {brief(body.get('warnings'), 300)}"
        case "pending":
            calls = body.get("pending_tool_calls")
            if not isinstance(calls, list) or len(calls) != len(want):
                yield f"pending_tool_calls: want {len(want)} got {brief(calls, 300)}"
            else:
                yield from lacking("pending_tool_calls", want, calls)
        case "notifications":
            yield from unequal(key, want, [note.get("text") if isinstance(note, dict) else note for note in body.get(key) or []])
        case "cursor_increases":
            if (isinstance(body.get("cursor"), int) and body["cursor"] > (answer.cursor_before or 0)) is not want:
                yield f"cursor was {answer.cursor_before}, is {body.get('cursor')}"
        case "cell":
            yield from unequal("cell_id", cells.get(want), body.get("cell_id"))
        case "location":
            if not answer.headers.get("location", "").endswith(f"/cells/{body.get('cell_id')}"):
                yield f"Location is {answer.headers.get('location')!r}"
        case "headers":
            for name, pattern in want.items():
                if not re.search(pattern, answer.headers.get(name, "")):
                    yield f"header {name} is {answer.headers.get(name)!r}, no match for {pattern!r}"
        case "body":
            yield from lacking("body", want, answer.body)
        case "body_contains":
            yield from without("body", want, answer.text)
        case "body_not_contains":
            yield from (f"body: there is {brief(part)} in {brief(answer.text, 300)}" for part in strings(want) if part in answer.text)
        case "max_body_bytes":
            if (size := len(answer.text.encode(errors="surrogatepass"))) > want:
                yield f"a body of {size} bytes, at most {want} expected"
        case _:
            raise AssertionError(f"{key} is in EXPECT_KEYS but nobody checks it")


def check_error(want: dict[str, Any] | None, body: dict[str, Any]) -> Iterator[str]:
    got = body.get("error")
    if want is None or not isinstance(got, dict):
        yield from unequal("error", want, got)
        return
    for key, value in want.items():
        field = key.removesuffix("_contains")
        if key == "kind_in":
            if got.get("kind") not in value:
                yield f"error.kind: want one of {value} got {got.get('kind')!r}"
        elif key == "hint" and value is True:
            last_line = (texts(body.get("model_output")) or [""])[-1].rstrip("\n").split("\n")[-1]
            if not got.get("hint"):
                yield f"error.hint: there is none with {brief(got.get('message'))}"
            elif got["hint"].strip().split("\n")[-1] not in last_line:
                yield f"error.hint is not the last line of model_output: {brief(last_line)}"
        elif field == key:
            yield from unequal(f"error.{key}", value, got.get(key))
        else:
            yield from without(f"error.{field}", value, str(got.get(field)), fold=field == "hint")
