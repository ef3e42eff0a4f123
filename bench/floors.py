"""What the figures are compared with: the same work without codemode around it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from bench.client import ROOT

# The bare loop of fork, isolate, one evaluation and exit, from a warmed-up process as the zygote is one. Children
# overlap as far as there are processors.
_FORK_LOOP = """
import json, os, sys, time
from codemode.isolation.isolate import Isolate, initialise
initialise()
warm = Isolate(); warm.evaluate("1"); warm.close()
import gc; gc.collect(); gc.freeze()
wanted, at_once = int(sys.argv[1]), int(sys.argv[2])
began, alive = time.perf_counter(), 0
for number in range(wanted):
    if alive == at_once:
        os.wait(); alive -= 1
    if os.fork() == 0:
        Isolate().evaluate("1 + 1")
        os._exit(0)
    alive += 1
while alive:
    os.wait(); alive -= 1
print(json.dumps(wanted / (time.perf_counter() - began)))
"""


def fork_loop(times: int, at_once: int) -> float:
    """Bare fork + isolate + exit, a second."""
    return float(json.loads(_python(_FORK_LOOP, str(times), str(at_once))))


# Times are taken inside the script, so that no start counts on either side.
PURE_JAVASCRIPT = {
    "fib(32)": "function f(n){return n<2?n:f(n-1)+f(n-2)} f(32)",
    "sort 1e6 numbers": "let x=1; Float64Array.from({length:1e6},()=>x=(x*16807)%2147483647).sort(); const a=[];"
    "for(let i=0;i<1e6;i++)a.push(x=(x*16807)%2147483647); a.sort((p,q)=>p-q)",
    "JSON 5 MB": "const o=[]; for(let i=0;i<60000;i++)o.push({id:i,name:'item '+i,tags:['a','b'],price:i/7});"
    "for(let i=0;i<5;i++)JSON.parse(JSON.stringify(o))",
}


def timed(body: str) -> str:
    """A script that gives the milliseconds its body took, the fastest of three."""
    once = f"const t=Date.now(); (()=>{{{body}}})(); best=Math.min(best,Date.now()-t)"
    return f"let best=1e9; for(let i=0;i<3;i++){{{once}}}"


def node(body: str) -> float | None:
    """Milliseconds of the body in Node.js; None where there is no Node."""
    program = shutil.which("node") or str(Path(sys.executable).parent / "node")
    if not Path(program).exists():
        return None
    code = f"'use strict'; {timed(body)} console.log(best)"
    done = subprocess.run([program, "-e", code], capture_output=True, text=True, timeout=120, check=True)
    return float(done.stdout)


def _python(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout
