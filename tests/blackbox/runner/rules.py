"""What holds for every answer, whatever the case says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .answers import Answer
from .differences import Difference, brief, texts
from .form import ERROR_FIELDS
from .results import Result

HEADER = re.compile(
    r"(Script completed|Script failed|Script terminated|Script running with cell ID (\S+))\nWall time (\d+\.\d) seconds\nOutput:\n"
)
HEADS = {"completed": "Script completed", "failed": "Script failed", "terminated": "Script terminated"}
OBSERVATION_FIELDS = {
    "session_id", "cell_id", "status", "output", "cursor", "truncated", "original_token_count", "wall_time_ms", "error",
    "warnings", "notifications", "pending_tool_calls", "model_output",
}  # fmt: skip
ACCOUNT_FIELDS = {
    "usage": {"cpu_ms", "wall_ms", "tool_wait_ms", "queue_ms", "heap_peak_bytes"},
    "tool_calls": {"completed", "failed", "in_flight", "queued", "cancelled"},
}
ERROR_KINDS = {
    "script_error", "syntax_error", "out_of_memory", "cpu_limit", "deadline", "output_limit", "tool_call_limit", "deadlock",
    "worker_crashed", "server_restarted",
}  # fmt: skip
PROBLEM_STATUS = {
    "invalid_request": 422, "invalid_source": 422, "unauthorized": 401, "session_not_found": 404, "cell_not_found": 404,
    "tool_not_found": 404, "cell_busy": 409, "tool_call_already_resolved": 409, "tool_name_collision": 422,
    "payload_too_large": 413, "too_many_cells": 429, "shutting_down": 503,
}  # fmt: skip


def rule_fields(body: dict[str, Any], answer: Answer) -> Iterator[str]:
    """An observation has all its fields."""
    if missing := OBSERVATION_FIELDS - body.keys():
        yield f"the observation lacks {', '.join(sorted(missing))}"
    if body.get("status") not in ("running", *HEADS):
        yield f"status is {body.get('status')!r}"


def rule_account(body: dict[str, Any], answer: Answer) -> Iterator[str]:
    """usage and tool_calls are there, and safe_to_retry is said at an end that is not completed, and only there."""
    for field, names in ACCOUNT_FIELDS.items():
        got = body.get(field)
        numbers = isinstance(got, dict) and all(isinstance(got.get(name), (int, float)) and got[name] >= 0 for name in names)
        if not numbers:
            yield f"{field} is {brief(got)}"
    if "safe_to_retry" not in body or isinstance(body["safe_to_retry"], bool) is not (body.get("status") in ("failed", "terminated")):
        yield f"safe_to_retry is {body.get('safe_to_retry', 'missing')!r} of a {body.get('status')} cell"


def rule_http_status(body: dict[str, Any], answer: Answer) -> Iterator[str]:
    """202 and a Location while running, 200 when ended."""
    running = body.get("status") == "running"
    if answer.http_status != (202 if running else 200):
        yield f"HTTP status {answer.http_status} for a {body.get('status')} cell"
    location = answer.headers.get("location", "")
    if running and not location.endswith(f"/sessions/{body.get('session_id')}/cells/{body.get('cell_id')}"):
        yield f"Location is {location!r} for running cell {body.get('cell_id')} of session {body.get('session_id')}"


def rule_error(body: dict[str, Any], answer: Answer) -> Iterator[str]:
    """A failed cell has an error with all its fields and a known kind; a running or completed one has none."""
    status, error = body.get("status"), body.get("error")
    if (error is None) is (status == "failed") and status != "terminated":
        yield f"status {status} with error {brief(error)}"
    if error is not None and not (isinstance(error, dict) and error.keys() >= ERROR_FIELDS and error["kind"] in ERROR_KINDS):
        yield f"error is {brief(error)}"


def rule_header(body: dict[str, Any], answer: Answer) -> Iterator[str]:
    """The first item of model_output says the state and the time of this call."""
    first = (body.get("model_output") or [{}])[0]
    head = HEADER.fullmatch(str(first.get("text")))
    if head is None or first.get("type") != "input_text":
        yield f"model_output starts with {brief(first)}"
    elif head[1] != HEADS.get(str(body.get("status")), f"Script running with cell ID {body.get('cell_id')}"):
        yield f"model_output says {head[1]!r} of a {body.get('status')} cell {body.get('cell_id')}"
    elif abs(float(head[3]) * 1000 - body["wall_time_ms"]) > 51:
        yield f"model_output says {head[3]} seconds, wall_time_ms {body['wall_time_ms']}"
    if not 0 <= body["wall_time_ms"] <= answer.ms + 100:
        yield f"wall_time_ms is {body['wall_time_ms']}, the call took {answer.ms:.0f} ms"


def rule_cursor(body: dict[str, Any], answer: Answer) -> Iterator[str]:
    """The cursor is a number that never goes back."""
    cursor = body.get("cursor")
    if not isinstance(cursor, int) or isinstance(cursor, bool) or cursor < (answer.cursor_before or 0):
        yield f"cursor is {cursor!r}, it was {answer.cursor_before}"


def rule_shown(body: dict[str, Any], answer: Answer) -> Iterator[str]:
    """model_output shows the output item by item, then the error of a failed script, then warnings where the session wants them."""
    shown = list((body.get("model_output") or [])[1:])
    failed, output = body.get("status") == "failed", body.get("output") or []
    if len(shown) > len(output) + failed and str(shown[-1].get("text")).startswith("Warnings:\n"):
        shown.pop()
    if failed:
        last = shown.pop() if shown else {}
        if not str(last.get("text")).startswith("Script error:\n"):
            yield f"model_output of a failed script ends with {brief(last)}"
    want = [(f"input_{item.get('type')}", item.get("text")) for item in output]
    got = [(item.get("type"), item.get("text")) for item in shown]
    if want != got:
        yield f"model_output does not show the output: {brief(got)} for {brief(want)}"


def rule_problem(body: Any, answer: Answer) -> Iterator[str]:
    """A refusal is an RFC 9457 problem whose code and status belong together, and shows nothing of the inside."""
    if not answer.headers.get("content-type", "").startswith("application/problem+json") or not isinstance(body, dict):
        yield f"HTTP {answer.http_status} comes as {answer.headers.get('content-type')!r}, no problem+json: {brief(answer.text)}"
        return
    if missing := {"type", "title", "status", "detail", "code"} - body.keys():
        yield f"the problem lacks {', '.join(sorted(missing))}"
    if body.get("status") != answer.http_status or PROBLEM_STATUS.get(str(body.get("code")), answer.http_status) != answer.http_status:
        yield f"code {body.get('code')}, status {body.get('status')} in an answer with HTTP status {answer.http_status}"
    if leak := re.search(r"Traceback \(most|File \\?\"/|site-packages", answer.text):
        yield f"the problem shows the inside of the server: {brief(answer.text[max(0, leak.start() - 20) :])}"


def rule_problem_text(body: Any, answer: Answer) -> Iterator[str]:
    """A problem that a model can cause and mend has a text for it."""
    code = body.get("code") if isinstance(body, dict) else None
    if code in ("invalid_source", "cell_not_found", "cell_busy") and not texts(body.get("model_output")):
        yield f"code {code} without model_output"


OBSERVATION_RULES = (rule_fields, rule_account, rule_http_status, rule_error, rule_header, rule_cursor, rule_shown)


class Rules:
    """What holds for every observation and every refusal. Each rule is reported once, as a case of its own."""

    def __init__(self) -> None:
        self.answers: dict[str, int] = {}
        self.breaches: dict[str, dict[str, str]] = {}  # rule: {case: the first breach in it}

    def look(self, answer: Answer, case: str) -> None:
        rules = OBSERVATION_RULES if answer.is_observation else (rule_problem, rule_problem_text) if answer.http_status >= 400 else ()
        for rule in rules:
            name = rule.__name__.replace("_", "-")
            self.answers[name] = self.answers.get(name, 0) + 1
            try:
                breach = next(rule(answer.body, answer), None)
            except Exception as problem:
                breach = f"no observation of the contract ({problem!r}): {brief(answer.text)}"
            if breach:
                self.breaches.setdefault(name, {}).setdefault(case, breach)

    def results(self) -> Iterator[Result]:
        for name, count in self.answers.items():
            breaches = self.breaches.get(name, {})
            differences = [Difference(f"broken in {len(breaches)} cases")] if breaches else []
            differences += [Difference(f"{case}: {breach}") for case, breach in breaches.items()]
            yield Result({"id": name, "area": "rules", "answers": count}, "failed" if breaches else "passed", differences)
