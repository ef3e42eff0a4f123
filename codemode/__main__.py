"""`python -m codemode` is the command `codemode`."""

import sys

from codemode.cli import main

sys.exit(main())
