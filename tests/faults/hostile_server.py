"""Run as a program: `codemode` with a zygote from hostile_zygote.py, and with little patience.

Usage: python -m tests.faults.hostile_server SPARES ZYGOTE PATIENCE-AS-JSON serve …
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import Any

import codemode.service
from codemode.commands.cli import main
from codemode.isolation.pool import Pool
from codemode.isolation.zygote_link import Patience
from codemode.isolation.zygote_process import ZygoteOptions


def hostile_options(spares: str = "", zygote: str = "") -> ZygoteOptions:
    """Those of a hostile zygote."""
    return ZygoteOptions(module="tests.faults.hostile_zygote", arguments=(spares, zygote))


def hostile_program(spares: str = "", zygote: str = "", **patience: float) -> tuple[str, ...]:
    """What `rig.service` runs for a server with such a zygote."""
    return ("tests.faults.hostile_server", spares, zygote, json.dumps(patience))


if __name__ == "__main__":
    _, spares, zygote, patience, *arguments = sys.argv
    sys.argv = ["codemode", *arguments]
    pool: Any = partial(Pool, patience=Patience(**json.loads(patience)))
    codemode.service.Pool = pool  # type: ignore[misc]
    options: Any = lambda _: hostile_options(spares, zygote)  # noqa: E731
    codemode.service.ZygoteOptions = options  # type: ignore[misc]
    sys.exit(main())
