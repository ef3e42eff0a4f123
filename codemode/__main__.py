"""`python -m codemode` is the command `codemode`."""

import sys

from codemode.commands.cli import main

sys.exit(main())
