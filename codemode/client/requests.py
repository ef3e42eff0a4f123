"""What is sent: the requests, their options, and how long an answer may take."""

from __future__ import annotations

import ipaddress
import json
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypedDict, TypeVar
from urllib.parse import quote

import httpx

from codemode.cells.observation import ToolResult
from codemode.cells.source import Directive, read_source
from codemode.errors import CodeModeError

T = TypeVar("T")

# Fulfils calls of a tool: takes the input (an object, or a string for freeform tools), gives a JSON value.
ClientTool: TypeAlias = Callable[[Any], Any]

DEFAULT_MARGIN_S: Final = 20.0
DEFAULT_PATIENCE_S: Final = 60.0
DEFAULT_BUDGET: Final = 10_000  # tokens
_DEFAULT_YIELD_MS: Final = 10_000
_GRACE_ABOVE_MS: Final = 10_000
_GRACE_MS: Final = 1_000
_LONGEST_TIMEOUT_S: Final = 1e6  # sockets cannot be told to wait much longer


class SessionOptions(TypedDict, total=False):
    """Of create_session."""

    tools: Iterable[Mapping[str, Any]]  # declarations: name, description, kind, input_schema, handler, policy fields
    hooks: Iterable[Mapping[str, Any]]  # event, type "http", url, and matcher, timeout_ms, payload
    mcp_servers: Iterable[Mapping[str, Any]]  # name, url, and headers, bearer_token, timeout_ms
    limits: Mapping[str, int]  # by name, each at most the server's
    metadata: Mapping[str, Any]
    approval_policy: Literal["never", "on_request"]
    model_warnings: bool  # whether models are shown `warnings`
    lenient_source: bool  # whether a Markdown fence or the quotes of JSON are taken off a source
    typescript: bool  # whether the types of a source are taken out of it


class RunOptions(TypedDict, total=False):
    """Of run. A first-line directive in the source beats `max_output_tokens`."""

    max_output_tokens: int | None  # budget of the model's text, 10 000 by default; a token is 4 bytes of UTF-8
    tool_call_id: str | None  # the model's call of exec that this is
    turn_id: str | None
    idempotency_key: str | Literal[False] | None  # None: one is made; False: none, and no retry


class ExecOptions(RunOptions, total=False):
    """Of exec. A first-line directive in the source beats the first two."""

    yield_time_ms: int | None  # 10 000 by default; above that the service waits a second longer than asked


class WaitOptions(TypedDict, total=False):
    """Of wait."""

    yield_time_ms: int | None  # as for exec
    max_tokens: int | None  # budget of this answer, 10 000 by default
    after: int | None  # a cursor: all output after it again


def encode_result(result: ToolResult) -> bytes:
    """A result as JSON. Raises ValueError, TypeError or RecursionError for an output that JSON cannot hold."""
    given = {"output": result.output} if result.error is None else {"error": result.error}
    return encode({"cell_id": result.cell_id, "runtime_tool_call_id": result.runtime_tool_call_id, **given})


@dataclass(frozen=True, slots=True)
class Request:
    """One request. The service may take `wait_s` to answer because it was asked to wait so long."""

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float | None = 0.0
    delay_s: float = 0.0  # before it is sent

    def build(self, http: httpx.Client | httpx.AsyncClient, margin_s: float) -> httpx.Request:
        """For httpx, with timeouts that end `margin_s` later than the service answers."""
        read = None if self.wait_s is None else max(0.0, self.wait_s) + margin_s
        if read is not None and read > _LONGEST_TIMEOUT_S:
            read = None
        timeout = httpx.Timeout(connect=margin_s, read=read, write=margin_s, pool=None)
        headers = {**self.headers} if self.body is None else {"Content-Type": "application/json", **self.headers}
        return http.build_request(self.method, self.path, content=self.body, headers=headers, timeout=timeout)


# Something that takes several requests: yields each, is sent its response or thrown the TransportError instead of it.
Flow: TypeAlias = Generator[Request, httpx.Response, T]


def http_options(base_url: str, api_key: str | None) -> dict[str, Any]:
    """How both httpx clients are made.

    Proxies of the environment are for other machines: on loopback they would be sent scripts, results and
    the key, and could not reach the service anyway, so there the environment is not trusted. Connections
    are not limited in number, since each pending wait holds one and none may time out in a queue for it.
    """
    return {
        "base_url": base_url,
        "headers": {} if api_key is None else {"Authorization": f"Bearer {api_key}"},
        "trust_env": not _is_loopback(httpx.URL(base_url).host),
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=100),
    }


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def session_path(session_id: str, *more: str) -> str:
    """The path of a session, or of something in it."""
    return "/".join(["/v1/sessions", *map(_quoted, (session_id, *more))])


def _quoted(part: str) -> str:
    """A part of a path; "." and ".." would lead elsewhere."""
    return part.replace(".", "%2E") if part in (".", "..") else quote(part, safe="")


def encode(value: Any) -> bytes:
    """A value as JSON. Raises ValueError, TypeError or RecursionError."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which only an escape can say
        return json.dumps(value, allow_nan=False).encode()


def encode_given(values: Mapping[str, Any]) -> bytes:
    """A request's body: the values that are not None."""
    return encode({name: value for name, value in values.items() if value is not None})


def wait_s(yield_time_ms: int | None) -> float:
    """How long the service may wait with its answer: above 10 000 ms there is a second of grace on top."""
    wanted = _DEFAULT_YIELD_MS if yield_time_ms is None else yield_time_ms
    return (wanted + (_GRACE_MS if wanted > _GRACE_ABOVE_MS else 0)) / 1000


def directive_of(source: str) -> Directive | None:
    """The first-line directive of a source; None if only the service can tell: it refuses it, unless it is newer.

    That in a Markdown fence counts: where the session is strict, such a source fails at once.
    """
    try:
        return read_source(source, sys.maxsize, lenient=True).directive
    except CodeModeError:
        return None


def exec_wait_s(source: str, yield_time_ms: int | None) -> float | None:
    """How long the service may wait with the answer of an exec; None if only the service can tell."""
    directive = directive_of(source)
    if directive is None:
        return None
    return wait_s(yield_time_ms if directive.yield_time_ms is None else directive.yield_time_ms)
