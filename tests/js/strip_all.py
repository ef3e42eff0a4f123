"""Run as a program, in a process that may load V8: what the stripper says of each source on standard input.

Input: one JSON string per line. Output: a line each, the stripper's answer with `parses`: whether the engine takes the text.
"""

from __future__ import annotations

import json
import sys

from codemode._bundled import bundled
from codemode.isolation.isolate import EvaluationError, Isolate, initialise

initialise()
isolate = Isolate()
# Kept here under a name, unlike in a cell: it takes 10 ms to evaluate.
isolate.evaluate(f"const strip = {bundled('runtime_js').stripper()}; const Body = (async () => {{}}).constructor")
for line in sys.stdin:
    said = json.loads(isolate.evaluate(f"strip({line})"))
    if "text" in said:
        try:
            isolate.evaluate(f"new Body('\"use strict\";\\n' + {json.dumps(said['text'])})")
            said["parses"] = True
        except EvaluationError as problem:
            said["parses"] = str(problem)
    print(json.dumps(said), flush=True)
isolate.close()
