"""`codemode serve` with the zygote of native_zygote.py. Given to `rig.service` as its wrapper."""

from __future__ import annotations

import sys

from codemode import service
from codemode.commands import cli
from codemode.isolation.zygote_process import ZygoteOptions


def with_native_code(require_sandbox: bool) -> ZygoteOptions:
    return ZygoteOptions(require_sandbox, "tests.faults.native_zygote")


if __name__ == "__main__":
    service.ZygoteOptions = with_native_code
    sys.exit(cli.main(sys.argv[sys.argv.index("serve") :]))
