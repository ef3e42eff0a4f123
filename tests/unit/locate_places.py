"""Run as a program, since V8 has no place in the tests' process: the places of the sources on standard input.

Input: a JSON list of sources. Output: a JSON list of [line, column, message] or null, then whether any source ran.
"""

from __future__ import annotations

import json
import sys

from codemode.isolation.isolate import Isolate, initialise
from codemode.isolation.syntax import locate

initialise()
isolate = Isolate()
places = [locate(isolate, source) for source in json.load(sys.stdin)]
ran = isolate.evaluate("typeof ran !== 'undefined'")
print(json.dumps([places, bool(ran)]), flush=True)
isolate.close()
