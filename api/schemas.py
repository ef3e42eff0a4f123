"""The bodies of requests and answers. Unknown fields are refused; null counts as absent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from codemode.cells.cell import Cell
from codemode.cells.observation import Observation, ScriptError, Status, ToolResult, Usage
from codemode.cells.report import usage
from codemode.errors import InvalidRequest
from codemode.session import Session
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
            return cls.model_validate_json(body)
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
        )


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

    tools: list[ToolBody] | None = None
    limits: dict[str, int] | None = None
    metadata: dict[str, Any] | None = None
    approval_policy: Literal["never", "on_request"] | None = None
    model_warnings: bool | None = None


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

    cell_id: str
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

    results: Annotated[list[ToolResultBody], Field(max_length=4096)]
    cell_id: str | None = None
    yield_time_ms: Milliseconds | None = None


class Accepted(BaseModel):
    """The answer of tool_results without a `cell_id`."""

    accepted: int


class SessionTool(BaseModel):
    """A tool as a session shows it."""

    name: str
    js_name: str
    kind: Literal["function", "freeform"]


class SessionView(BaseModel):
    """A session."""

    session_id: str
    created_at: datetime
    tools: list[SessionTool]
    limits: dict[str, int]
    metadata: dict[str, Any]
    approval_policy: Literal["never", "on_request"]
    model_warnings: bool

    @classmethod
    def of(cls, session: Session) -> SessionView:
        return cls(
            session_id=session.session_id,
            created_at=_time(session.created_at),
            tools=[
                SessionTool(name=each.tool.name, js_name=each.js_name, kind=each.tool.kind) for each in session.registry
            ],
            limits=session.limits.as_dict(),
            metadata=session.metadata,
            approval_policy=session.approval_policy,
            model_warnings=session.model_warnings,
        )


class CellSummary(BaseModel):
    """A cell in a list."""

    cell_id: str
    status: Status
    created_at: datetime
    ended_at: datetime | None
    turn_id: str | None
    tool_call_id: str | None

    @classmethod
    def of(cls, cell: Cell) -> CellSummary:
        return cls(**_summary(cell))


class NestedCall(BaseModel):
    """A nested call and where it came from."""

    runtime_tool_call_id: str
    tool_use_id: str
    tool_name: str
    tool_source: dict[str, Any]
    tool_status: dict[str, Any]
    started_at: datetime | None
    ended_at: datetime | None


class CellView(CellSummary):
    """One cell, with its record of nested calls."""

    error: ScriptError | None
    usage: Usage
    calls: list[NestedCall]

    @classmethod
    def of(cls, cell: Cell) -> CellView:
        calls = [
            NestedCall(
                runtime_tool_call_id=call.runtime_tool_call_id,
                tool_use_id=call.tool_use_id,
                tool_name=call.registered.tool.name,
                tool_source=cell.bridge.origin.tool_source(call),
                tool_status={"state": call.state, "exit_code": None},
                started_at=None if call.started_at is None else _time(call.started_at),
                ended_at=None if call.ended_at is None else _time(call.ended_at),
            )
            for call in cell.bridge.calls
        ]
        error = None if cell.outcome is None else cell.outcome.error
        return cls(**_summary(cell), error=error, usage=usage(cell), calls=calls)


def _summary(cell: Cell) -> dict[str, Any]:
    return {
        "cell_id": cell.cell_id,
        "status": cell.status,
        "created_at": _time(cell.created_at),
        "ended_at": None if cell.ended_at is None else _time(cell.ended_at),
        "turn_id": cell.turn_id,
        "tool_call_id": cell.tool_call_id,
    }


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


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


ObservationView = Observation
