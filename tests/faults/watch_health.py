"""Run as a program: asks /healthz until its standard input ends, then says how long the longest answer took.

With a second argument it makes a new connection for each question.
"""

from __future__ import annotations

import http.client
import json
import select
import sys
import time

PAUSE = 0.005

connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
connection.request("GET", "/healthz")
connection.getresponse().read()
print("begun", flush=True)
worst = 0.0
count = 0
while not select.select([sys.stdin], [], [], PAUSE)[0]:
    began = time.perf_counter()
    connection.request("GET", "/healthz")
    connection.getresponse().read()
    if len(sys.argv) > 2:
        connection.close()
    worst = max(worst, time.perf_counter() - began)
    count += 1
print(json.dumps({"worst_ms": round(worst * 1000, 1), "count": count}), flush=True)
