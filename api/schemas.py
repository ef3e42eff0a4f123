"""The bodies of requests and answers. Unknown fields are refused; null counts as absent."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import from_json

from codemode.calls.hooks import Hook
from codemode.cells.observation import ToolResult
from codemode.errors import InvalidRequest
from codemode.mcp.config import McpServer
from codemode.tools.policy import Caller, ToolPolicy
from codemode.tools.tool import ClientHandler, Handler, HttpHandler, Tool

from .problems import invalid_request

Milliseconds = Annotated[int, Field(ge=0, le=2**53 - 1)]
Tokens = Annotated[int, Field(ge=0, le=2**53 - 1)]
_MOST_DIGITS: Final = 16  # of a number in a query
ShortText = Annotated[str, Field(max_length=512)]


class Body(BaseModel):
    """A request body."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @classmethod
    def read(cls, body: bytes) -> Any:
        """The body, from JSON. Raises InvalidRequest with the fields that are wrong."""
        try:
            value = from_json(body)
        except ValueError as problem:
            raise InvalidRequest(
                f"the body is no JSON: {problem}; for a bare script send Content-Type: text/javascript"
            ) from None
        if isinstance(value, dict):  # one is enough: a body of a million unknown fields is not explained field by field
            for name in value:
                if name not in cls.model_fields:
                    raise InvalidRequest(f"{name[:100]}: there is no such field")
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            raise invalid_request(error) from None


class HttpHandlerBody(Body):
    """Calls of the tool are POSTed to `url`, which the operator has to allow."""

    type: Literal["http"]
    url: str
    timeout_ms: Annotated[int, Field(ge=1, le=3_600_000)] | None = None


class ClientHandlerBody(Body):
    """Calls of the tool are handed out in `pending_tool_calls`; the caller posts their results."""

    type: Literal["client"]


class ToolBody(Body):
    """A tool that the session declares. Without a handler the caller fulfils its calls."""

    name: str
    description: str | None = None
    kind: Literal["function", "freeform"] | None = None
    input_schema: dict[str, Any] | bool | None = None
    output_schema: dict[str, Any] | bool | None = None
    namespace: str | None = None
    handler: Annotated[HttpHandlerBody | ClientHandlerBody, Field(discriminator="type")] | None = None
    allowed_callers: Annotated[list[Caller], Field(min_length=1, max_length=2)] | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=86_400_000)] | None = None
    max_concurrency: Annotated[int, Field(ge=1)] | None = None
    max_calls: Annotated[int, Field(ge=0)] | None = None
    max_result_bytes: Annotated[int, Field(ge=0)] | None = None
    annotations: dict[str, Any] | None = None
    requires_approval: bool | None = None

    def tool(self) -> Tool:
        """The tool that it declares."""
        handler: Handler = ClientHandler()
        if isinstance(self.handler, HttpHandlerBody):
            timeout = self.handler.timeout_ms
            handler = HttpHandler(self.handler.url) if timeout is None else HttpHandler(self.handler.url, timeout)
        return Tool(
            name=self.name,
            description=self.description or "",
            kind=self.kind or "function",
            input_schema=self.input_schema,
            output_schema=self.output_schema,
            namespace=self.namespace,
            handler=handler,
            policy=ToolPolicy.from_declared(self.model_dump(exclude_none=True)),
        )


class HookBody(Body):
    """A hook of the session: a URL that the operator has to allow."""

    event: Literal["PreToolUse", "PostToolUse"]
    type: Literal["http"]
    url: str
    matcher: str | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=600_000)] | None = None
    payload: Literal["full", "minimal"] | None = None

    def hook(self) -> Hook:
        """The hook that it declares."""
        return Hook(**self.model_dump(exclude={"type"}, exclude_none=True))


class McpServerBody(Body):
    """An MCP server over streamable HTTP, at a URL that the operator has to allow. Its headers are not shown again."""

    name: Annotated[str, Field(min_length=1, max_length=64)]
    url: str
    headers: dict[str, str] | None = None
    bearer_token: str | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=3_600_000)] | None = None

    def server(self) -> McpServer:
        """The server that it declares."""
        return McpServer(**self.model_dump(exclude_none=True))


class SessionRequest(Body):
    """`POST /v1/sessions`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "tools": [
                        {
                            "name": "get_weather",
                            "description": "The weather of a city.",
                            "input_schema": {
                                "type": "object",
                                "properties": {"city": {"type": "string"}},
                                "required": ["city"],
                            },
                        }
                    ],
                    "limits": {"cpu_ms": 5000},
                }
            ]
        }
    )

    tools: Annotated[list[ToolBody], Field(max_length=1000)] | None = None
    hooks: Annotated[list[HookBody], Field(max_length=100)] | None = None
    mcp_servers: Annotated[list[McpServerBody], Field(max_length=16)] | None = None
    limits: dict[str, int] | None = None
    metadata: dict[str, Any] | None = None
    approval_policy: Literal["never", "on_request"] | None = None
    model_warnings: bool | None = None
    lenient_source: bool | None = None
    typescript: bool | None = None


class ExecRequest(Body):
    """`POST …/exec`. The source's first-line directive beats `yield_time_ms` and `max_output_tokens`."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"source": "text(await tools.read_file({path: 'README.md'}))"}]}
    )

    source: str
    yield_time_ms: Milliseconds | None = None
    max_output_tokens: Tokens | None = None
    tool_call_id: ShortText | None = None
    turn_id: ShortText | None = None


class WaitRequest(Body):
    """`POST …/wait`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"cell_id": "1", "yield_time_ms": 5000}]})

    cell_id: ShortText
    yield_time_ms: Milliseconds | None = None
    max_tokens: Tokens | None = None
    terminate: bool | None = None
    after: Annotated[int, Field(ge=0, le=2**53 - 1)] | None = None


class ToolResultBody(Body):
    """The result of one client call: `output` (any JSON, null too) or `error` (a text)."""

    cell_id: str
    runtime_tool_call_id: str
    output: Any = None
    error: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> ToolResultBody:
        if ("output" in self.model_fields_set) == (self.error is not None):
            raise ValueError("expected either output or error")
        return self

    def result(self) -> ToolResult:
        """The result that it gives."""
        return ToolResult(self.cell_id, self.runtime_tool_call_id, self.output, self.error)


class ToolResultsRequest(Body):
    """`POST …/tool_results`. With a `cell_id` the answer is an observation of that cell."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "results": [{"cell_id": "1", "runtime_tool_call_id": "call-1", "output": {"degrees": 21}}],
                    "cell_id": "1",
                }
            ]
        }
    )

    results: Annotated[list[ToolResultBody], Field(max_length=1000)]
    cell_id: str | None = None
    yield_time_ms: Milliseconds | None = None


class ToolCallRequest(Body):
    """`POST …/tools/{name}`. `tool_use_id` names the call; one is made without it."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"input": {"path": "README.md"}}]})

    input: dict[str, Any] | str | None = None
    tool_use_id: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    turn_id: ShortText | None = None


class TurnEndRequest(Body):
    """`POST …/turns/{tid}/end`. With `detach` the turn ends also while something of it runs, and that lives on."""

    detach: bool | None = None


class UserShellRequest(Body):
    """`POST …/user_shell`. `timeout_ms` is at most the session's `user_shell_ms`, which is the default too."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"command": "git status"}]})

    command: str
    workdir: str | None = None
    turn_id: ShortText | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=2**53 - 1)] | None = None


class AcceptSettings(Body):
    """`for_session` accepts the same tool with the same arguments from now on."""

    for_session: bool | None = None


class DecisionRequest(Body):
    """`POST …/approvals/{id}`. With `arguments_hash`, only if that is what is asked about."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"decision": "accept"}]})

    decision: Literal["accept", "decline", "cancel"]
    accept_settings: AcceptSettings | None = None
    arguments_hash: str | None = None


def exec_from_query(source: str, query: dict[str, str]) -> ExecRequest:
    """An exec whose source is the whole body: its other fields are query parameters."""
    if "source" in query:
        raise InvalidRequest("source: the body is the source; there is no such query parameter")
    values: dict[str, Any] = {**query, "source": source}
    for name in ("yield_time_ms", "max_output_tokens"):
        if name in query:
            if not query[name].isdecimal() or len(query[name]) > _MOST_DIGITS:
                raise InvalidRequest(f"{name}: expected a whole number, got {query[name][:40]!r}")
            values[name] = int(query[name])
    try:
        return ExecRequest.model_validate(values)
    except ValidationError as error:
        raise invalid_request(error) from None
