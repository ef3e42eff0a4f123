"""What is installed is what the checkout has, with the bundled packages in their place."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from codemode._bundled import bundled

ROOT = Path(__file__).resolve().parents[2]

# Prints where each bundled package comes from and under which name, with the folders given put first on the path.
PROBE = """
import json, sys
sys.path[:0] = sys.argv[1:]
from codemode._bundled import bundled
found = {name: bundled(name) for name in ("runtime_js", "api")}
import codemode.api, codemode.runtime_js
assert codemode.api is found["api"] and codemode.runtime_js is found["runtime_js"]
print(json.dumps({name: [module.__name__, module.__file__] for name, module in found.items()}))
"""


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def where_bundled_packages_are(*path: Path, cwd: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(run("-I", "-c", PROBE, *map(str, path), cwd=cwd))
    return found


def places_in(folder: Path) -> dict[str, list[str]]:
    return {name: [f"codemode.{name}", str(folder / name / "__init__.py")] for name in ("runtime_js", "api")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as a publisher does: first the source distribution, then the wheel from that alone."""
    folder = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT), cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_wheel_holds_the_checkout_inside_one_package(wheel: Path) -> None:
    """Every file of the three packages is in the wheel, and `codemode` is the only top-level name that it takes."""
    expected = set()
    for package, folder in [("codemode", "codemode"), ("api", "codemode/api"), ("runtime_js", "codemode/runtime_js")]:
        for path in (ROOT / package).rglob("*"):
            if path.suffix in {".py", ".js"} or path.name == "py.typed":
                expected.add(f"{folder}/{path.relative_to(ROOT / package).as_posix()}")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if name.endswith((".py", ".js", "py.typed"))} == expected
    assert "codemode/runtime_js/00_primordials.js" in names
    top_level = {name.partition("/")[0] for name in names}
    assert {name for name in top_level if not name.endswith(".dist-info")} == {"codemode"}


def test_bundled_packages_come_from_inside_the_wheel(wheel: Path, tmp_path: Path) -> None:
    """Where the wheel is first on the path, nothing is taken from the checkout."""
    unpacked = tmp_path / "unpacked"
    zipfile.ZipFile(wheel).extractall(unpacked)
    assert where_bundled_packages_are(unpacked, cwd=tmp_path) == places_in(unpacked / "codemode")


def test_bundled_packages_come_from_beside_the_package_in_a_checkout(tmp_path: Path) -> None:
    """Another package called `api` or `runtime_js`, though it is found first, is not taken for ours."""
    for name in ("api", "runtime_js"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the wrong package')")
    assert where_bundled_packages_are(tmp_path, ROOT, cwd=tmp_path) == places_in(ROOT)


def test_an_installation_without_its_bundled_packages_takes_no_others(tmp_path: Path) -> None:
    """Beside an installed `codemode` an `api` is somebody else's."""
    (tmp_path / "codemode").mkdir()
    (tmp_path / "codemode" / "__init__.py").touch()
    (tmp_path / "codemode" / "_bundled.py").write_bytes((ROOT / "codemode" / "_bundled.py").read_bytes())
    (tmp_path / "api").mkdir()
    (tmp_path / "api" / "__init__.py").write_text("raise RuntimeError('the wrong package')")
    probe = """
import sys
sys.path.insert(0, sys.argv[1])
from codemode._bundled import bundled
try:
    bundled("api")
except ModuleNotFoundError as error:
    print(error)
"""
    expected = "codemode.api: neither in the package nor beside it in a checkout\n"
    assert run("-I", "-c", probe, str(tmp_path), cwd=tmp_path) == expected


def test_only_the_two_bundled_packages_can_be_asked_for() -> None:
    """Nothing else in the checkout becomes a part of `codemode`."""
    with pytest.raises(ValueError, match=r"^tests: not a bundled package; there are api, runtime_js$"):
        bundled("tests")
