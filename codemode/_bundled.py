"""Loads `api` and `runtime_js`, which a checkout has beside this package and a wheel has inside it.

Kept to the cheapest imports, because the process that forks the cells uses it too.
"""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

BUNDLED_NAMES = ("api", "runtime_js")

_PACKAGE = Path(__file__).resolve().parent


def bundled(name: str) -> ModuleType:
    """The package `api` or `runtime_js`, under the name `codemode.<name>` in a checkout as in a wheel.

    Afterwards `import codemode.api.app` works as usual. Only the two exact places are ever looked at, so another
    package that is called `api` cannot be taken for ours. Call it first from one thread.
    """
    if name not in BUNDLED_NAMES:
        raise ValueError(f"{name}: not a bundled package; there are {', '.join(BUNDLED_NAMES)}")
    full_name = f"codemode.{name}"
    if full_name in sys.modules or (_PACKAGE / name / "__init__.py").is_file():
        return importlib.import_module(full_name)
    return _load_beside(name, full_name)


def _load_beside(name: str, full_name: str) -> ModuleType:
    """Import `<checkout>/<name>` as `full_name`, and leave no trace of it if its code raises."""
    checkout = _PACKAGE.parent
    source = checkout / name / "__init__.py"
    # In a directory that holds installed packages, `<name>` beside us would be somebody else's.
    if not (source.is_file() and (checkout / "pyproject.toml").is_file()):
        raise ModuleNotFoundError(f"{full_name}: neither in the package nor beside it in a checkout", name=full_name)
    spec = importlib.util.spec_from_file_location(full_name, source, submodule_search_locations=[str(source.parent)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{full_name}: cannot be loaded", name=full_name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[full_name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[full_name]
        raise
    setattr(sys.modules["codemode"], name, module)
    return module
