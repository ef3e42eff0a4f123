"""What others have written stands here as they have published it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "runtime_js" / "vendor"
PINS = json.loads((FOLDER / "vendored.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PINS)
def test_each_file_is_the_one_that_was_taken(name: str) -> None:
    """By its hash; and its licence is among them."""
    pin = PINS[name]
    for path, recorded in pin["files"].items():
        content = (FOLDER / pin["folder"] / Path(path).name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == recorded, path
    assert "LICENSE" in pin["files"]
    assert pin["integrity"].startswith("sha512-")


def test_nothing_else_is_there() -> None:
    """Whatever is added has to be pinned."""
    pinned = {f"{pin['folder']}/{Path(path).name}" for pin in PINS.values() for path in pin["files"]}
    found = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    assert found == {"vendored.json", *pinned}


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_npm_has_the_same() -> None:
    """Where npm can be reached."""
    ping = ["npm", "ping", "--fetch-timeout=5000", "--fetch-retries=0"]
    if shutil.which("npm") is None or subprocess.run(ping, capture_output=True, check=False, timeout=30).returncode:
        pytest.skip("npm cannot be reached")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "vendor"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=dict(os.environ),
    )
    assert done.returncode == 0, done.stderr
    assert all(f"{name}@{pin['version']} is as pinned" in done.stdout for name, pin in PINS.items())
