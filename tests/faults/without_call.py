"""Run a command on a machine that lacks one system call: under a filter that refuses it, as containers do. Linux only.

python -m tests.faults.without_call seccomp COMMAND...
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

from codemode.isolation import seccomp
from tests.faults.native_attempts import NUMBERS, X86

if __name__ == "__main__":
    number = NUMBERS[sys.argv[1]][0 if X86 else 1]
    steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, seccomp.REFUSE), (0x06, 0, 0, seccomp.ALLOW)]
    ctypes.CDLL(None).prctl(*map(ctypes.c_ulong, (38, 1, 0, 0, 0)))  # PR_SET_NO_NEW_PRIVS
    seccomp.Filter(b"".join(struct.pack("<HBBI", *step) for step in steps)).load()
    os.execvp(sys.argv[2], sys.argv[2:])
