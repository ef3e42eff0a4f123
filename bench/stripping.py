"""What TypeScript costs a script of 60 lines: `python -m bench.stripping`. Linux only.

Through the library, on warm spares: the same script with its types, and with blanks in their place.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import time
from typing import Final

from codemode import CodeMode, Session

_TIMES: Final = 40
_PAUSE: Final = 0.1  # seconds, for a new spare

_TYPED: Final = """\
interface Repo { id: number; name: string; stars?: number; tags: string[] }
type Result<T> = { ok: true; value: T } | { ok: false; error: string };
type Handler = (repo: Repo, index: number) => Promise<void>;

const LIMIT: number = 20;
const seen: Map<string, Repo[]> = new Map<string, Repo[]>();

async function attempt<T>(work: () => Promise<T>): Promise<Result<T>> {
  try {
    return { ok: true, value: await work() };
  } catch (error: unknown) {
    return { ok: false, error: (error as Error).message };
  }
}

class Counter {
  private counts: Record<string, number> = {};
  readonly limit: number;
  constructor(limit: number = LIMIT) {
    this.limit = limit;
  }
  add(key: string, by?: number): void {
    this.counts[key] = (this.counts[key] ?? 0) + (by ?? 1);
  }
  get top(): [string, number][] {
    return Object.entries(this.counts).sort((a, b) => b[1] - a[1]).slice(0, this.limit);
  }
}

function isRepo(value: unknown): value is Repo {
  return typeof value === "object" && value !== null && "id" in value;
}

const list = await attempt<Repo[]>(async () => [
  { id: 1, name: "alpha", stars: 3, tags: ["a"] },
  { id: 2, name: "beta", tags: [] as string[] },
]);
if (!list.ok) {
  text(`failed: ${(list as { error: string }).error}`);
  exit();
}
const repos: Repo[] = (list as { ok: true; value: Repo[] }).value;
const counter = new Counter();

const each: Handler = async (repo, index) => {
  const key = repo.name!.charAt(0).toLowerCase();
  counter.add(key);
  const bucket: Repo[] = seen.get(key) ?? [];
  bucket.push(repo);
  seen.set(key, bucket);
  if (index % 5 === 0) notify(`done ${index}`);
};
await Promise.all(repos.map(each));

const starred = repos
  .filter((repo: Repo): boolean => isRepo(repo) && (repo.stars ?? 0) > 2)
  .map((repo) => ({ name: repo.name, size: repo.tags.length }) satisfies { name: string; size: number });
for (const repo of starred) text(`${repo!.name}: ${repo!.size}`);
text({ top: counter.top, keys: [...seen.keys()] as const });
"""


async def _measure(session: Session, source: str) -> tuple[float, float]:
    """Milliseconds of an exec, and of CPU in its process."""
    times, used = [], []
    for _ in range(_TIMES):
        began = time.perf_counter()
        seen = await session.exec(source)
        times.append((time.perf_counter() - began) * 1000)
        used.append(seen.usage.cpu_ms)
        assert seen.status == "completed", seen.error
        await asyncio.sleep(_PAUSE)
    return statistics.median(times), statistics.median(used)


async def _main() -> None:
    async with CodeMode(spares=2) as service:
        session = service.create_session(typescript=True)
        plain = await asyncio.to_thread(_blanked)
        for name, source in (("text(1)", "text(1)"), ("plain", plain), ("typed", _TYPED)):
            wall, cpu = await _measure(session, source)
            print(f"{name}: p50 {wall:.1f} ms, {cpu:.0f} ms of CPU in the cell")


def _blanked() -> str:
    """The script without its types, from a process that may load V8."""
    command = [sys.executable, "-m", "tests.js.strip_all"]
    done = subprocess.run(command, input=json.dumps(_TYPED), capture_output=True, text=True, check=True)
    return str(json.loads(done.stdout)["text"])


def main() -> None:
    asyncio.run(_main())


if __name__ == "__main__":
    main()
