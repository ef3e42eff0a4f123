"""Run as a program by scripts/fuzz: fuzzes each target for its share of the time, guided by coverage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ROOT / "tests" / "fuzz" / "seeds"
DEFAULT_S = 120
LONGEST_INPUT = 65_536


def fuzz(name: str, seconds: int) -> None:
    """In a process of its own, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=["codemode"]):
        from tests.fuzz.targets import TARGETS

    target = TARGETS[name]
    corpus = ROOT / ".fuzz" / name
    corpus.mkdir(parents=True, exist_ok=True)
    seeds = SEEDS / name
    arguments = [
        sys.argv[0],
        f"-max_total_time={seconds}",
        f"-max_len={LONGEST_INPUT}",
        "-timeout=10",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
        f"-artifact_prefix={corpus}/",
        str(corpus),
        *([str(seeds)] if seeds.is_dir() else []),
    ]
    atheris.Setup(arguments, target)
    atheris.Fuzz()


def main(arguments: list[str]) -> int:
    """All targets, or those that are named; the exit status is that of the worst."""
    if arguments[:1] == ["--one"]:
        fuzz(arguments[1], int(arguments[2]))
        return 0
    seconds = int(arguments.pop(0)) if arguments and arguments[0].isdecimal() else DEFAULT_S
    from tests.fuzz.targets import TARGETS

    names = arguments or list(TARGETS)
    unknown = [name for name in names if name not in TARGETS]
    if unknown:
        sys.stderr.write(f"fuzz: no target {', '.join(unknown)}; there are {', '.join(TARGETS)}\n")
        return 2
    worst = 0
    for name in names:
        share = max(1, seconds // len(names))
        command = [sys.executable, "-m", "tests.fuzz.run", "--one", name, str(share)]
        ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        said = ended.stderr.splitlines()
        runs = next((line.split()[-1] for line in said if "number_of_executed_units" in line), "?")
        sys.stdout.write(
            f"{name:12} {runs:>10} runs in {share} s: {'well' if ended.returncode == 0 else 'FOUND SOMETHING'}\n"
        )
        sys.stdout.flush()
        if ended.returncode != 0:
            sys.stderr.write("\n".join(said[-40:]) + "\n")
            worst = 1
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
