"""What is asked of a session, in which order, and what happens after a lost answer. Nothing here sends."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal
from urllib.parse import urlencode

import httpx

from codemode.cells.observation import Observation, ToolResult
from codemode.client import answers
from codemode.client.action_flows import ActionFlows
from codemode.client.answers import CellDetail, CellInfo, SessionInfo, SessionSummary
from codemode.client.events import Following
from codemode.client.memory import CellMemory
from codemode.client.patience import NOT_SENT, Patience, always, get, persistently
from codemode.client.requests import (
    Flow,
    Request,
    encode,
    encode_given,
    encode_result,
    exec_wait_s,
    session_path,
    wait_s,
)
from codemode.errors import CodeModeError, ToolCallAlreadyResolved


def ask(path: str) -> Flow[Any]:
    """The JSON of an answer of the service itself. Not retried: who asks wants to know how it is now."""
    return answers.read((yield from get(path)), lambda body: body)


def create_session(
    *,
    tools: Iterable[Mapping[str, Any]] | None = None,
    limits: Mapping[str, int] | None = None,
    metadata: Mapping[str, Any] | None = None,
    approval_policy: str | None = None,
    model_warnings: bool | None = None,
    lenient_source: bool | None = None,
    typescript: bool | None = None,
    hooks: Iterable[Mapping[str, Any]] | None = None,
    mcp_servers: Iterable[Mapping[str, Any]] | None = None,
    patience_s: float = 0.0,
) -> Flow[SessionInfo]:
    """A new session. Not asked for twice after a lost answer: that would leave one behind that nobody knows."""
    wanted = {
        "tools": None if tools is None else [dict(tool) for tool in tools],
        "limits": None if limits is None else dict(limits),
        "metadata": None if metadata is None else dict(metadata),
        "approval_policy": approval_policy,
        "model_warnings": model_warnings,
        "lenient_source": lenient_source,
        "typescript": typescript,
        "hooks": None if hooks is None else [dict(hook) for hook in hooks],
        "mcp_servers": None if mcp_servers is None else [dict(server) for server in mcp_servers],
    }
    request = Request("POST", "/v1/sessions", encode_given(wanted))
    sent = yield from persistently(always(request), Patience(patience_s), lost=NOT_SENT)
    return answers.read(sent.response, answers.session)


def sessions(patience_s: float) -> Flow[list[SessionSummary]]:
    """The sessions of the key."""
    response = yield from get("/v1/sessions", patience_s)
    return answers.read(response, lambda body: [answers.session_summary(each) for each in body])


class SessionFlows(ActionFlows):
    """The requests of one session."""

    def __init__(self, session_id: str, patience_s: float, *, model_warnings: bool = False) -> None:
        super().__init__(session_id, patience_s)
        self.model_warnings = model_warnings
        self._memory = CellMemory()

    def exec(
        self,
        source: str,
        *,
        yield_time_ms: int | None = None,
        max_output_tokens: int | None = None,
        tool_call_id: str | None = None,
        turn_id: str | None = None,
        idempotency_key: str | Literal[False] | None = None,
    ) -> Flow[Observation]:
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        wanted = {
            "source": source,
            "max_output_tokens": max_output_tokens,
            "tool_call_id": tool_call_id,
            "turn_id": turn_id,
        }

        def make(again: bool) -> Request:
            wait = 0 if again else yield_time_ms
            body = encode_given({**wanted, "yield_time_ms": wait})
            request = self._post("exec", body, exec_wait_s(source, wait))
            return request if key is False else replace(request, headers={"Idempotency-Key": key})

        sent = yield from persistently(make, Patience(0.0 if key is False else self._patience_s))
        observation = self._observed(sent.response)
        if sent.again and yield_time_ms != 0 and _brings_nothing(observation):
            cell_id = observation.cell_id
            return (yield from self.wait(cell_id, yield_time_ms=yield_time_ms, max_tokens=max_output_tokens, after=0))
        return observation

    def wait(
        self,
        cell_id: str,
        *,
        yield_time_ms: int | None = None,
        max_tokens: int | None = None,
        after: int | None = None,
        terminate: bool = False,
        patience_s: float | None = None,
    ) -> Flow[Observation]:
        """Where an answer may have been lost, the first look does not wait, and sees everything since the last answer.

        It may have named a call, and one that was named does not end another wait. Where all calls that wait
        are lost, but looks are answered, this ends after the yield time.
        """
        is_look = self._memory.is_doubtful(cell_id)
        asked_at = 0.0
        enough_at = time.monotonic() + wait_s(yield_time_ms)

        def make(again: bool) -> Request:
            nonlocal asked_at
            asked_at = time.monotonic()
            wait = 0 if is_look or again else yield_time_ms
            since = self._memory.cursor(cell_id) if after is None and self._memory.is_doubtful(cell_id) else after
            wanted = {"cell_id": cell_id, "yield_time_ms": wait, "max_tokens": max_tokens, "after": since}
            return self._post("wait", encode_given({**wanted, "terminate": terminate or None}), wait_s(wait))

        patience = Patience(self._patience_s if patience_s is None else patience_s)
        while True:
            sent = yield from persistently(make, patience, self._memory, cell_id)
            patience.answered()
            observation = self._observed(sent.response)
            self._memory.caught_up(cell_id, asked_at)
            was_look = (is_look or sent.again) and yield_time_ms != 0
            if not (was_look and _brings_nothing(observation) and time.monotonic() < enough_at):
                return observation
            is_look = False

    def hand_in(self, results: Iterable[ToolResult]) -> Flow[int]:
        """tool_results without an observation: how many were accepted."""
        taken = list(results)
        yield from self._tool_results(taken)
        return len(taken)

    def hand_in_and_wait(
        self, results: Iterable[ToolResult], cell_id: str, yield_time_ms: int | None = None
    ) -> Flow[Observation]:
        """tool_results, and the observation of a cell: in one request, unless an answer may have been lost."""
        if self._memory.is_doubtful(cell_id):
            yield from self._tool_results(list(results))
        else:
            response = yield from self._tool_results(list(results), cell_id, yield_time_ms)
            if response is not None:
                return self._observed(response)
        return (yield from self.wait(cell_id, yield_time_ms=yield_time_ms))

    def _tool_results(
        self, results: list[ToolResult], cell_id: str | None = None, yield_time_ms: int | None = None
    ) -> Flow[httpx.Response | None]:
        """The response with the observation of `cell_id`, if it was asked for and not lost."""

        def make(again: bool) -> Request:
            body = b'{"results":[%b]' % b",".join([encode_result(result) for result in results])
            if again or cell_id is None:
                return self._post("tool_results", body + b"}", 0.0)
            more = b',"cell_id":%b,"yield_time_ms":%b}' % (encode(cell_id), encode(yield_time_ms))
            return self._post("tool_results", body + more, wait_s(yield_time_ms))

        was_lost, patience = False, Patience(self._patience_s)
        while results:
            memory = None if was_lost or cell_id is None else self._memory
            sent = yield from persistently(make, patience, memory, cell_id or "")
            patience.answered()
            was_lost |= sent.again
            if not was_lost and cell_id is not None:
                return sent.response
            if sent.response.is_success:
                break
            refusal = answers.problem(sent.response)
            # The lost request took them all, or it took none, for this one was settled before: only asking tells.
            left = [result for result in results if not _is_of(refusal, result)]
            if not (was_lost and isinstance(refusal, ToolCallAlreadyResolved) and len(left) < len(results)):
                raise refusal
            results, cell_id = left, None
        return None

    def cells(self) -> Flow[list[CellInfo]]:
        response = yield from get(session_path(self.session_id, "cells"), self._patience_s)
        return answers.read(response, lambda body: [answers.cell(each) for each in body])

    def cell(self, cell_id: str) -> Flow[CellDetail]:
        response = yield from get(session_path(self.session_id, "cells", cell_id), self._patience_s)
        return answers.read(response, answers.cell_detail)

    def tool_specs(self, api: str) -> Flow[list[dict[str, Any]]]:
        path = session_path(self.session_id, "tool_specs")
        response = yield from get(f"{path}?{urlencode({'format': api})}", self._patience_s)
        return answers.read(response, list)

    def follow(self, after: int, cell_id: str | None) -> Following:
        return Following(self.session_id, after, cell_id, self._patience_s)

    def show(self) -> Flow[SessionInfo]:
        response = yield from get(session_path(self.session_id), self._patience_s)
        return answers.read(response, answers.session)

    def delete(self, *, missing_ok: bool = False) -> Flow[None]:
        request = Request("DELETE", session_path(self.session_id))
        sent = yield from persistently(always(request), Patience(self._patience_s))
        is_gone = answers.problem_code(sent.response) == "session_not_found"
        if not sent.response.is_success and not (is_gone and (sent.again or missing_ok)):
            raise answers.problem(sent.response)

    def _post(self, what: str, body: bytes, wait: float | None) -> Request:
        return Request("POST", session_path(self.session_id, what), body, wait_s=wait)

    def _observed(self, response: httpx.Response) -> Observation:
        observation = answers.read(response, answers.observation)
        self._memory.saw(observation.cell_id, observation.cursor)
        return observation


def _brings_nothing(observation: Observation) -> bool:
    return observation.is_running and not (
        observation.output or observation.notifications or observation.pending_tool_calls
    )


def _is_of(refusal: CodeModeError, result: ToolResult) -> bool:
    named = (refusal.fields.get("cell_id"), refusal.fields.get("runtime_tool_call_id"))
    return named == (result.cell_id, result.runtime_tool_call_id[:100])  # the service names no more of it
