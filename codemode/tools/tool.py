"""What a tool is, and the decorator that makes one of a Python function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticUserError

from codemode.errors import InvalidRequest, ToolError
from codemode.tools.command import CommandHandler
from codemode.tools.policy import NO_POLICY, ToolPolicy

Json = Any
Kind = Literal["function", "freeform"]


@dataclass(frozen=True, slots=True)
class PythonHandler:
    """Fulfils calls with a function of this process; `run` takes the input, validated by then."""

    run: Callable[[Json], Awaitable[Json]] | Callable[[Json], Json]
    is_async: bool
    function: Callable[..., Any] | None = None  # what the tool was made of
    is_heavy: bool = False  # a sync function that computes: few of them run at once, for they hold up the event loop


@dataclass(frozen=True, slots=True)
class HttpHandler:
    """Fulfils calls by a POST to `url`; given up after `timeout_ms`."""

    url: str
    timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class ClientHandler:
    """Calls are handed out to the caller, who posts the results back."""


class Progress(NamedTuple):
    """How far a call has come, in units of its tool."""

    progress: float
    total: float | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class McpHandler:
    """Fulfils calls with an MCP server; `run` takes the input, and what it is to tell of the progress."""

    run: Callable[[Json, Callable[[Progress], None]], Awaitable[Json]]


Handler = PythonHandler | HttpHandler | ClientHandler | CommandHandler | McpHandler


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool: its declaration and its handler. `kind` "function" takes an object, "freeform" a string."""

    name: str
    description: str = ""
    kind: Kind = "function"
    input_schema: Json = None
    output_schema: Json = None
    namespace: str | None = None
    handler: Handler = ClientHandler()
    policy: ToolPolicy = NO_POLICY

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the function that the tool was made of, as if it had not been decorated."""
        function = self.handler.function if isinstance(self.handler, PythonHandler) else None
        if function is None:
            raise TypeError(f"tool {self.name} was not made of a function")
        return function(*arguments, **named)

    @property
    def handler_type(self) -> Literal["host", "http", "client", "mcp"]:
        """How it is fulfilled, in the words of the API."""
        match self.handler:
            case PythonHandler() | CommandHandler():
                return "host"
            case HttpHandler():
                return "http"
            case ClientHandler():
                return "client"
            case McpHandler():
                return "mcp"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    kind: Kind = "function",
    policy: ToolPolicy = NO_POLICY,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    kind: Kind = "function",
    policy: ToolPolicy = NO_POLICY,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, sync or async.

    Its parameters and their annotations become the input schema, its return annotation the output
    schema, its docstring the description. The script's object is validated and converted by
    pydantic before the function is called; what the function returns goes back as JSON (models,
    dataclasses, dates and the like as pydantic writes them). A sync function runs on a thread, so
    it may block; an async one must not. Raises InvalidRequest for a signature that cannot be
    described.
    """

    def make(target: Callable[..., Any]) -> Tool:
        return replace(_from_function(target, name, description, kind), policy=policy)

    return make if function is None else make(function)


def _from_function(function: Callable[..., Any], name: str | None, description: str | None, kind: Kind) -> Tool:
    label: str = name or getattr(function, "__name__", "") or ""
    is_async = inspect.iscoroutinefunction(function)
    signature = inspect.signature(function, eval_str=True)
    run: Callable[[Json], Any]
    if kind == "freeform":
        run, schema = function, None
    else:
        model = _model(label, signature)
        schema = model.model_json_schema()
        schema.pop("title", None)
        names = tuple(model.model_fields)

        def run(given: Json) -> Any:
            try:
                arguments = model.model_validate(given)
            except ValidationError as problem:
                raise ToolError(f"{label}: {_said(problem)}") from None
            return function(**{key: getattr(arguments, key) for key in names})

    return Tool(
        name=label,
        description=description if description is not None else inspect.getdoc(function) or "",
        kind=kind,
        input_schema=schema,
        output_schema=_output_schema(signature),
        handler=PythonHandler(run=run, is_async=is_async, function=function),
    )


def _said(problem: ValidationError) -> str:
    """What pydantic found wrong with an input, its place first."""
    found = problem.errors(include_url=False, include_context=False, include_input=False)[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in found["loc"])
    return f"input{place}: {found['msg'].removeprefix('Value error, ')}"


def _model(label: str, signature: inspect.Signature) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidRequest(
                f"tool {label}: parameter {parameter.name} has no name of its own (*args, **kwargs or "
                "positional-only); a tool takes named parameters"
            )
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        fields[parameter.name] = (annotation, ... if parameter.default is parameter.empty else parameter.default)
    try:
        return create_model(label or "tool", __config__=ConfigDict(extra="forbid"), **fields)
    except (PydanticUserError, NameError) as problem:
        raise InvalidRequest(f"tool {label}: its parameters cannot be described as JSON: {problem}") from problem


def _output_schema(signature: inspect.Signature) -> Json:
    annotation = signature.return_annotation
    if annotation in (signature.empty, Any, None):
        return None
    try:
        return TypeAdapter(annotation).json_schema(mode="serialization")
    except PydanticUserError:
        return None
