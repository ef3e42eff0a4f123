"""Which MCP servers there are: as a program, a session's request or the operator's file names them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from codemode.errors import InvalidRequest

DEFAULT_TIMEOUT_MS: Final = 60_000
MOST_SERVERS: Final = 64
_LONGEST_TIMEOUT_MS: Final = 3_600_000
_LONGEST_NAME: Final = 64
_MOST_HEADERS: Final = 32
_LONGEST_HEADER: Final = 8192
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
# What HTTP and MCP say with them is ours to say.
_OUR_HEADERS: Final = {"host", "content-length", "transfer-encoding", "connection", "content-type", "accept"} | {
    "accept-encoding",
    "mcp-session-id",
    "mcp-protocol-version",
    "last-event-id",
}
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_]\w*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """An MCP server: a `command` that speaks on its standard input and output, or the `url` of one over HTTP.

    `env` comes on top of a minimal environment. `headers` and `bearer_token` go with every request; they are in no
    answer, log or journal. `timeout_ms` bounds one call. Raises InvalidRequest for what cannot be.
    """

    name: str
    command: str | None = None
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    timeout_ms: int = DEFAULT_TIMEOUT_MS

    def __post_init__(self) -> None:
        where = f"MCP server {self.name[:_LONGEST_NAME]!r}"
        if not (0 < len(self.name) <= _LONGEST_NAME and self.name.isprintable()):
            raise InvalidRequest(f"{where}: a name has 1 to {_LONGEST_NAME} characters that can be printed")
        if (self.command is None) == (self.url is None):
            raise InvalidRequest(f"{where}: expected either a command or a url")
        if type(self.timeout_ms) is not int or not 1 <= self.timeout_ms <= _LONGEST_TIMEOUT_MS:
            raise InvalidRequest(f"{where}: timeout_ms is a whole number from 1 to {_LONGEST_TIMEOUT_MS}")
        if self.url is None:
            texts = [self.command, *self.args, *self.env, *self.env.values(), *([] if self.cwd is None else [self.cwd])]
            if not all(isinstance(text, str) and "\0" not in text for text in texts) or not self.command:
                raise InvalidRequest(f"{where}: command, args, env and cwd are texts without NUL")
        if self.url is None and (self.headers or self.bearer_token is not None):
            raise InvalidRequest(f"{where}: headers and bearer_token are for a url")
        if self.url is not None:
            self._check_headers(where)

    def _check_headers(self, where: str) -> None:
        if len(self.headers) > _MOST_HEADERS:
            raise InvalidRequest(f"{where}: at most {_MOST_HEADERS} headers")
        names = [name.lower() for name in self.headers]
        if len(set(names)) < len(names) or (self.bearer_token is not None and "authorization" in names):
            raise InvalidRequest(f"{where}: a header is given twice")
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or name.lower() in _OUR_HEADERS:
                raise InvalidRequest(f"{where}: {name[:100]!r} is no header that can be set")
            if not _is_header_value(value):
                raise InvalidRequest(f"{where}: the value of the header {name} cannot be sent")
        if self.bearer_token is not None and not (_is_header_value(self.bearer_token) and self.bearer_token):
            raise InvalidRequest(f"{where}: the bearer_token cannot be sent")

    @property
    def has_secrets(self) -> bool:
        """Whether it must not be written down: its credentials, or a command, whose environment may hold some."""
        return self.url is None or bool(self.headers) or self.bearer_token is not None or "?" in self.url

    def sent_headers(self) -> dict[str, str]:
        """All headers of its own that a request to it has."""
        token = {} if self.bearer_token is None else {"Authorization": f"Bearer {self.bearer_token}"}
        return {**self.headers, **token}


def _is_header_value(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _LONGEST_HEADER and value.isascii() and value.isprintable()


def check_servers(servers: Iterable[McpServer]) -> list[McpServer]:
    """These servers. Raises InvalidRequest for what is none, for too many, and for two of one name."""
    found = list(servers)
    names: set[str] = set()
    for each in found:
        if not isinstance(each, McpServer):
            raise InvalidRequest(f"mcp_servers: {type(each).__name__} is no codemode.McpServer")
        if each.name in names:
            raise InvalidRequest(f"there are two MCP servers {each.name!r}; rename one (the service may have its own)")
        names.add(each.name)
    if len(found) > MOST_SERVERS:
        raise InvalidRequest(f"{len(found)} MCP servers; a session has at most {MOST_SERVERS}")
    return found


def read_config(file: Path) -> list[McpServer]:
    """The servers of a file `{"mcpServers": {NAME: {"command", "args", "env", "cwd"} or {"url", "headers"}}}`.

    `${NAME}` and `${NAME:-default}` stand for variables of the environment. Other fields are passed over, since such
    files are shared with other programs; a server with `"disabled": true` is left out. Raises InvalidRequest.
    """
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InvalidRequest(f"--mcp-config {file}: {problem.strerror}") from problem
    except ValueError as problem:
        raise InvalidRequest(f"--mcp-config {file}: it is no JSON: {problem}") from problem
    servers = said.get("mcpServers") if isinstance(said, dict) else None
    if not isinstance(servers, dict):
        raise InvalidRequest(f'--mcp-config {file}: expected {{"mcpServers": {{NAME: …}}}}')
    try:
        return check_servers(_read_server(name, each) for name, each in servers.items() if not _is_disabled(each))
    except InvalidRequest as problem:
        raise InvalidRequest(f"--mcp-config {file}: {problem.detail}") from None


def _is_disabled(said: Any) -> bool:
    return isinstance(said, dict) and said.get("disabled") is True


def _read_server(name: str, said: Any) -> McpServer:
    where = f"MCP server {name[:_LONGEST_NAME]!r}"
    if not isinstance(said, dict):
        raise InvalidRequest(f"{where}: expected an object")
    kind = said.get("type", "http" if "url" in said else "stdio")
    if kind not in ("stdio", "http", "streamable-http"):
        raise InvalidRequest(f"{where}: the type {str(kind)[:40]!r} is not spoken here; there are stdio and http")
    mine = ("url", "headers") if kind != "stdio" else ("command", "args", "env", "cwd")
    shapes: dict[str, type] = {"args": list, "env": dict, "headers": dict}
    given: dict[str, Any] = {}
    for key in mine:
        value = said.get(key)
        if value is None:
            continue
        if not isinstance(value, shapes.get(key, str)):
            raise InvalidRequest(f"{where}: {key} has the wrong type")
        given[key] = _expanded(where, value)
    if isinstance(said.get("timeout_ms"), int):
        given["timeout_ms"] = said["timeout_ms"]
    return McpServer(name=name, **given)


def _expanded(where: str, value: Any) -> Any:
    """With the values of environment variables."""
    if isinstance(value, list):
        return [_expanded(where, each) for each in value]
    if isinstance(value, dict):
        return {name: _expanded(where, each) for name, each in value.items()}
    if not isinstance(value, str):
        raise InvalidRequest(f"{where}: expected texts in it")

    def replaced(found: re.Match[str]) -> str:
        known = os.environ.get(found[1], found[2])
        if known is None:
            raise InvalidRequest(f"{where}: there is no environment variable {found[1]}")
        return known

    return _VARIABLE.sub(replaced, value)
