"""The settings of a service as they come from the command line."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from codemode.errors import InvalidRequest
from codemode.limits import Limits
from codemode.service import CodeMode
from codemode.tools.tool import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an operator may set about the service itself, as given: nothing is checked yet."""

    tools: Sequence[str] = ()  # MODULE:NAME
    workspace: Path | None = None
    limits: Sequence[str] = ()  # NAME=VALUE
    allow_tool_urls: Sequence[str] = ()
    tool_secret_file: Path | None = None
    spares: int | None = None
    data_dir: Path | None = None
    require_sandbox: bool = False

    def service(self) -> CodeMode:
        """The service with these settings, not started. Raises InvalidRequest, saying which setting is wrong."""
        return CodeMode(
            load_tools(self.tools),
            workspace=self.workspace,
            limits=Limits.parse(self.limits),
            allow_tool_urls=self.allow_tool_urls,
            tool_secret=_secret(self.tool_secret_file),
            spares=self.spares,
            data_dir=self.data_dir,
            require_sandbox=self.require_sandbox,
        )


def load_tools(names: Iterable[str]) -> list[Tool]:
    """The tools behind `MODULE:NAME` strings; each name holds one tool or a list of them.

    Modules are found as `python -m` finds them, the current folder first. Raises InvalidRequest.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return [tool for name in names for tool in _load(name)]


def _load(name: str) -> list[Tool]:
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise InvalidRequest(f"--tools {name!r}: expected MODULE:NAME, for example my_tools:tools")
    try:
        module = importlib.import_module(module_name)
    except ImportError as problem:
        raise InvalidRequest(f"--tools {name}: {problem}") from problem
    except Exception as problem:  # whatever the module does when it is loaded
        raise InvalidRequest(f"--tools {name}: {type(problem).__name__}: {problem}") from problem
    value = getattr(module, attribute, None)
    found = [value] if isinstance(value, Tool) else value
    if not isinstance(found, list | tuple) or not all(isinstance(each, Tool) for each in found):
        raise InvalidRequest(
            f"--tools {name}: {_what(module, attribute)}; expected a tool or a list of tools, made with the decorator "
            "codemode.tool"
        )
    return list(found)


def _what(module: ModuleType, attribute: str) -> str:
    if not hasattr(module, attribute):
        return f"the module has no {attribute}"
    value = getattr(module, attribute)
    odd = (
        next((each for each in value if not isinstance(each, Tool)), value)
        if isinstance(value, list | tuple)
        else value
    )
    return f"{getattr(odd, '__name__', odd)!r} is no tool"


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
