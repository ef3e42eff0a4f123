"""python -m tests.blackbox.runner"""

import signal
import sys

from .cli import main

if __name__ == "__main__":
    for ending in (signal.SIGINT, signal.SIGTERM):  # both unwind the run, so that its servers are stopped on the way out
        signal.signal(ending, signal.default_int_handler)
    sys.exit(main())
