"""The settings of a service as they come from the command line."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar

from codemode.calls.hooks import Hook
from codemode.errors import CodeModeError, InvalidRequest
from codemode.limits import Limits
from codemode.mcp.config import read_config
from codemode.service import CodeMode
from codemode.tools.tool import Tool

T = TypeVar("T")
_PLACES: Final = {"http": "url", "command": "command"}
_MAYBE: Final = "matcher, timeout_ms, payload"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator may set about the service itself, as given: nothing is checked yet."""

    tools: Sequence[str] = ()  # MODULE:NAME
    workspace: Path | None = None
    limits: Sequence[str] = ()  # NAME=VALUE
    allow_tool_urls: Sequence[str] = ()
    tool_secret_file: Path | None = None
    hooks: Sequence[str] = ()  # MODULE:NAME, or a JSON file
    allow_exec: bool = False
    spares: int | None = None
    data_dir: Path | None = None
    require_sandbox: bool = False
    mcp_configs: Sequence[Path] = ()

    def service(self) -> CodeMode:
        """The service with these settings, not started. Raises InvalidRequest, saying which setting is wrong."""
        return CodeMode(
            load_tools(self.tools),
            workspace=self.workspace,
            limits=Limits.parse(self.limits),
            allow_tool_urls=self.allow_tool_urls,
            tool_secret=_secret(self.tool_secret_file),
            hooks=load_hooks(self.hooks),
            allow_exec=self.allow_exec,
            spares=self.spares,
            data_dir=self.data_dir,
            require_sandbox=self.require_sandbox,
            mcp_servers=[server for file in self.mcp_configs for server in read_config(file)],
        )


def load_tools(names: Iterable[str]) -> list[Tool]:
    """The tools behind `MODULE:NAME` strings; each name holds one tool or a list of them. Raises InvalidRequest."""
    said = "expected a tool or a list of tools, made with the decorator codemode.tool"
    return [tool for name in names for tool in _load("--tools", name, Tool, "tool", said)]


def load_hooks(names: Iterable[str]) -> list[Hook]:
    """The hooks in JSON files and behind `MODULE:NAME` strings, in this order. Raises InvalidRequest."""
    said = "expected a codemode.Hook or a list of them"
    return [
        hook
        for name in names
        for hook in (_read_hooks(Path(name)) if name.endswith(".json") else _load("--hooks", name, Hook, "hook", said))
    ]


def _read_hooks(file: Path) -> list[Hook]:
    """Hooks as a session declares them, of the type `command` too: {"event", "type", "command": [program, …]}."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except OSError as problem:
        raise InvalidRequest(f"--hooks {file}: {problem.strerror}") from problem
    except ValueError as problem:
        raise InvalidRequest(f"--hooks {file}: it is no JSON: {problem}") from problem
    if not isinstance(said, list):
        raise InvalidRequest(f"--hooks {file}: expected a list of hooks")
    return [_read_hook(file, number, each) for number, each in enumerate(said)]


def _read_hook(file: Path, number: int, said: Any) -> Hook:
    where = f"--hooks {file}: hook {number}"
    if not isinstance(said, dict) or not isinstance(said.get("type"), str) or said["type"] not in _PLACES:
        raise InvalidRequest(f"{where}: expected an object with the type http or command")
    known = {"event", "type", "matcher", "timeout_ms", "payload", _PLACES[said["type"]]}
    if said.keys() - known or not {"event", _PLACES[said["type"]]} <= said.keys():
        raise InvalidRequest(f"{where}: it has an event, a {_PLACES[said['type']]} and maybe {_MAYBE}, no other field")
    if said["type"] == "command" and isinstance(said["command"], list) and said["command"]:
        program = said["command"][0]
        if isinstance(program, str) and shutil.which(program) is None:
            raise InvalidRequest(
                f"{where}: {program!r} is no program; a relative one is looked for from the folder here"
            )
    try:
        return Hook(**{name: value for name, value in said.items() if name != "type"})
    except (CodeModeError, TypeError) as problem:
        raise InvalidRequest(f"{where}: {problem}") from problem


def _load(option: str, name: str, kind: type[T], word: str, expected: str) -> list[T]:
    """What is behind `MODULE:NAME`. Modules are found as `python -m` finds them, the current folder first."""
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise InvalidRequest(f"{option} {name!r}: expected MODULE:NAME, for example my_{word}s:{word}s")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ImportError as problem:
        raise InvalidRequest(f"{option} {name}: {problem}") from problem
    except Exception as problem:  # whatever the module does when it is loaded
        raise InvalidRequest(f"{option} {name}: {type(problem).__name__}: {problem}") from problem
    value = getattr(module, attribute, None)
    found = [value] if isinstance(value, kind) else value
    if not isinstance(found, list | tuple) or not all(isinstance(each, kind) for each in found):
        raise InvalidRequest(f"{option} {name}: {_what(module, attribute, kind, word)}; {expected}")
    return list(found)


def _what(module: ModuleType, attribute: str, kind: type, word: str) -> str:
    if not hasattr(module, attribute):
        return f"the module has no {attribute}"
    value = getattr(module, attribute)
    odd = (
        next((each for each in value if not isinstance(each, kind)), value)
        if isinstance(value, list | tuple)
        else value
    )
    return f"{getattr(odd, '__name__', odd)!r} is no {word}"


def _secret(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except OSError as problem:
        raise InvalidRequest(f"--tool-secret-file {file}: {problem.strerror}") from problem
    if not secret:
        raise InvalidRequest(f"--tool-secret-file {file}: the file is empty")
    return secret
