"""Imports run downwards only: api, then what a program uses, then the rooms, then the isolation, then the leaves.

To let a package import one more, add it to `ALLOWED`, and say why in the commit.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("api", "codemode", "runtime_js")
MAX_LINES = 300

LEAVES = {"codemode._bundled", "codemode.errors", "codemode.limits"}
ROOMS = {
    "codemode.calls",
    "codemode.cells",
    "codemode.journal",
    "codemode.lifecycle",
    "codemode.processes",
    "codemode.tools",
    "codemode.workspace",
    # what others need of MCP; the rest of that package is loaded when somebody uses it
    "codemode.mcp.config",
    "codemode.mcp.extra",
    "codemode.mcp.servers",
}

# Each name stands for a module or a package with all that is in it; the longest key that fits a module counts. Only
# "codemode" stands for itself alone, the public names in `codemode/__init__.py`. A package may import itself. A call
# `bundled("api")` counts as an import of `api`, and so does an import for the type checker alone.
ALLOWED: dict[str, set[str]] = {
    "api": {"codemode", "codemode.keys", "codemode.mcp.door.http", "codemode.service", "codemode.sessions.session"}
    | {"codemode.sessions.actions", "codemode.sessions.calling", "codemode.sessions.commands"}
    | ROOMS
    | LEAVES,
    "codemode.__main__": {"codemode.commands.cli"},
    "codemode.commands": {"api", "codemode", "codemode.isolation", "codemode.keys", "codemode.service"}
    | {"codemode.mcp.door.stdio", "codemode.sessions.session"}
    | ROOMS
    | LEAVES,
    "codemode": {"codemode.client", "codemode.service", "codemode.sessions.session", "codemode.sessions.turns"}
    | ROOMS
    | LEAVES,
    "codemode.client": {"codemode.cells.observation", "codemode.cells.source", "codemode.cells.truncation"}
    | {"codemode.lifecycle.findings", "codemode.sessions.turns"}
    | LEAVES,
    "codemode.service": {"codemode.isolation.pool", "codemode.isolation.zygote_process", "codemode.keys.quotas"}
    | {"codemode.sessions"}
    | ROOMS
    | LEAVES,
    "codemode.sessions": {"codemode.isolation.pool"} | ROOMS | LEAVES,
    "codemode.keys": LEAVES,
    "codemode.cells": {"codemode.isolation.process", "codemode.isolation.wire", "codemode.isolation.zygote_messages"}
    | {"codemode.calls", "codemode.lifecycle", "codemode.tools"}
    | LEAVES,
    "codemode.calls": {"codemode.lifecycle", "codemode.tools"} | LEAVES,
    "codemode.processes": {"codemode.tools", "codemode.lifecycle", "codemode.workspace"} | LEAVES,
    "codemode.mcp": {"codemode", "codemode.tools"} | LEAVES,
    "codemode.mcp.door": {"codemode", "codemode.service", "codemode.sessions.session"}
    | {"codemode.cells", "codemode.tools"}
    | LEAVES,
    "codemode.processes.keeper": set(),
    "codemode.workspace": {"codemode.lifecycle", "codemode.tools"} | LEAVES,
    "codemode.tools": {"codemode.lifecycle", "codemode.typescript"} | LEAVES,
    "codemode.typescript": set(),
    "codemode.lifecycle": LEAVES,
    "codemode.journal": {"codemode.lifecycle"} | LEAVES,
    "codemode.isolation": {"runtime_js"} | LEAVES,
    "codemode.limits": {"codemode.errors"},
    "codemode.errors": set(),
    "codemode._bundled": set(),
    "codemode.commands.descriptors": set(),
    "runtime_js": set(),
}

# Within these packages a module imports those before it alone.
IN_ORDER: dict[str, list[str]] = {
    "codemode.typescript": [
        "work",
        "text",
        "types",
        "references",
        "notes",
        "literals",
        "meeting",
        "reading",
        "graph",
        "printing",
        "naming",
        "declaring",
    ],
    "codemode.keys": ["key", "key_file", "quotas"],
    "codemode.mcp": [
        "config",
        "extra",
        "trouble",
        "names",
        "listing",
        "sieve",
        "stdio",
        "http",
        "connection",
        "upstream",
        "servers",
        "door",
        "door.describing",
        "door.results",
        "door.serving",
        "door.stdio",
        "door.http",
    ],
    "codemode.processes": [
        "keeper",
        "environment",
        "keeper_link",
        "head_tail",
        "telling",
        "process",
        "table",
        "parsed",
        "tools",
    ],
    "codemode.sessions": [
        "store",
        "declaration",
        "past",
        "recorder",
        "following",
        "launcher",
        "shelf",
        "client_results",
        "host",
        "items",
        "commands",
        "calling",
        "turns",
        "actions",
        "session",
        "registry",
        "housekeeping",
    ],
    "codemode.commands": [
        "audit_lines",
        "descriptors",
        "screen",
        "config",
        "running",
        "doctor",
        "key_commands",
        "serving",
        "mcp_command",
        "cli",
    ],
}
FOR_TYPES_ALONE = {("codemode.sessions.host", "codemode.sessions.session")}

# Who alone may import a package from outside.
ONLY_IN: dict[str, set[str]] = {
    "fastapi": {"api"},
    "httpx2": {"codemode.mcp"},
    "mcp": {"codemode.mcp"},
    "mcp_types": {"codemode.mcp"},
    "py_mini_racer": {"codemode.isolation.isolate"},
    "starlette": {"api"},
    "uvicorn": {"api.connection", "codemode.commands.serving"},
}


@dataclass(frozen=True)
class Module:
    """One of our Python files, as it is imported in a checkout."""

    name: str
    path: Path

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@dataclass(frozen=True)
class Import:
    """One imported name, made absolute."""

    module: Module
    line: int
    target: str

    def __str__(self) -> str:
        return f"{self.module.path.relative_to(ROOT)}:{self.line}: {self.module.name} imports {self.target}"


def modules() -> dict[str, Module]:
    found = {}
    for path in (path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path)
    return found


def targets_of(node: ast.AST, module: Module, known: dict[str, Module]) -> Iterator[str]:
    """The absolute names that a node imports; `from package import module` names the module."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            parents = module.package.split(".")
            base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [node.module])])
        for alias in node.names:
            yield f"{base}.{alias.name}" if f"{base}.{alias.name}" in known else base
    elif isinstance(node, ast.Call):
        callee = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)
        first = node.args[0] if node.args else None
        if (
            callee in {"bundled", "import_module", "loaded"}
            and isinstance(first, ast.Constant)
            and isinstance(first.value, str)
        ):
            yield first.value


def checkout_name(target: str) -> str:
    """`codemode.api.app` is the file `api/app.py`."""
    inner = target.removeprefix("codemode.")
    return inner if inner.partition(".")[0] in {"api", "runtime_js"} else target


def imports() -> list[Import]:
    known = modules()
    found = []
    for module in known.values():
        for node in ast.walk(ast.parse(module.path.read_text(encoding="utf-8"))):
            for target in targets_of(node, module, known):
                found.append(Import(module, getattr(node, "lineno", 0), checkout_name(target)))
    return found


def within(name: str, place: str) -> bool:
    return name == place or (place != "codemode" and name.startswith(f"{place}."))


def place_of(name: str) -> str | None:
    """The longest key of `ALLOWED` that a module belongs to."""
    return max((place for place in ALLOWED if within(name, place)), key=len, default=None)


def is_ours(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def report(problems: list[str]) -> str:
    return "\n".join(["", *problems])


def test_every_module_has_its_place() -> None:
    """A new package or module of `codemode` is put into the table before anything else."""
    homeless = [f"{name}: add it to ALLOWED in {Path(__file__).name}" for name in modules() if not place_of(name)]
    assert not homeless, report(homeless)


def test_imports_run_downwards() -> None:
    """No module imports another than those that its place in the table names."""
    wrong = []
    for found in imports():
        place = place_of(found.module.name)
        if place is None or not is_ours(found.target) or within(found.target, place):
            continue
        if not any(within(found.target, allowed) for allowed in ALLOWED[place]):
            wrong.append(f"{found}; {place} may import {', '.join(sorted(ALLOWED[place])) or 'nothing of ours'}")
    assert not wrong, report(wrong)


def test_imports_within_a_package_run_in_its_order() -> None:
    """A newcomer can read it from the first module to the last."""
    wrong = []
    for package, order in IN_ORDER.items():
        names = [f"{package}.{name}" for name in order]
        assert set(names) | {package} == {name for name in modules() if within(name, package)}
        for found in imports():
            if found.module.name in names and found.target in names:
                is_later = names.index(found.target) >= names.index(found.module.name)
                if is_later and (found.module.name, found.target) not in FOR_TYPES_ALONE:
                    wrong.append(str(found))
    assert not wrong, report(wrong)


def test_imports_from_outside_stay_in_their_room() -> None:
    """The engine is known to one module, and the HTTP framework to `api` alone."""
    wrong = []
    for found in imports():
        homes = ONLY_IN.get(found.target.partition(".")[0])
        if homes is not None and not any(within(found.module.name, home) for home in homes):
            wrong.append(f"{found}; only {', '.join(sorted(homes))} may")
    assert not wrong, report(wrong)


def test_nothing_imports_the_tests_or_what_stands_beside_them() -> None:
    """The product works without its tests, benchmarks and examples."""
    outside = {"bench", "examples", "tests"}
    wrong = [str(found) for found in imports() if found.target.partition(".")[0] in outside]
    assert not wrong, report(wrong)


def test_api_is_imported_under_its_one_name() -> None:
    """`import api` would load a second copy: within it imports are relative, elsewhere it is `bundled("api")`."""
    wrong = []
    for module in modules().values():
        for node in ast.walk(ast.parse(module.path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                if name.partition(".")[0] in {"api", "runtime_js"}:
                    wrong.append(f"{module.path.relative_to(ROOT)}: {ast.unparse(node)}")
    assert not wrong, report(wrong)


def test_files_are_short() -> None:
    """A file can be read at one sitting; what others have written stands as they have."""
    files = [path for package in PACKAGES for suffix in ("py", "js") for path in (ROOT / package).rglob(f"*.{suffix}")]
    files = [path for path in files if path.parent.parent != ROOT / "runtime_js" / "vendor"]
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in sorted(files)}
    long = [f"{path.relative_to(ROOT)}: {n} lines, at most {MAX_LINES}" for path, n in lengths.items() if n > MAX_LINES]
    assert not long, report(long)
