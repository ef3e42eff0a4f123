"""The real zygote, with a worker that runs native code of ours instead of a script that begins with MARK.

It stands for what a script could do that has broken out of V8: the code runs in a real cell process, behind
everything that confines one. Only tests can start it: the pool is told its name by native_server.py.
"""

from __future__ import annotations

import json
from typing import Final

from codemode.isolation import sandbox, worker, zygote
from codemode.isolation.wire import FromCell, frame
from tests.faults.native_attempts import MARK, attempt

_ALL_IN_ORDER: Final = {"error": None, "timers": 0}


class NativeWorker(worker.Worker):
    """Confined as its base class is."""

    def _start(self, payload: bytes) -> None:
        config = json.loads(payload)
        if not config["source"].startswith(MARK):
            super()._start(payload)
            return
        sandbox.limit_memory(self._base, config["limits"]["memory_mb"] * sandbox.MIB)
        sandbox.limit_cpu(60)
        said = attempt(json.loads(config["source"].splitlines()[0].removeprefix(MARK)))
        self._socket.sendall(frame(FromCell.TEXT, json.dumps(said).encode()))
        self._end("completed", **_ALL_IN_ORDER)


if __name__ == "__main__":
    worker.Worker = NativeWorker
    zygote.main()
