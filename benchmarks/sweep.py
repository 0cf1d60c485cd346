"""Cases per second: this sweep against one plain pytest test per case, on the same points in one run.

Prints ratios, asserts nothing. `python benchmarks/sweep.py [PAIR...] [--limit N]`

- cold: a new process each, from start to end, imports and all;
- second: the same points again in the same process, where both find their programs compiled.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from samebits.host import environment
from samebits.programs.catalogue import Locator, default_root, load, names
from samebits.programs.plan import Request, plan
from samebits.schema.point import Point

HERE = Path(__file__).resolve().parent


def points_of(pairs: Sequence[str], limit: int | None) -> list[tuple[str, Point]]:
    """The default sweep's points of the variants (the reference on the mesh has no counterpart in a plain test)."""
    found = []
    for name in pairs:
        pair = load(Locator(name=name))
        mine = [
            (name, point)
            for point in plan(pair, Request(), environment.DEVICES).points
            if point.variant != pair.reference_name and pair.case(point.case).refusal(point.variant) is None
        ]
        found += mine[: limit or len(mine)]
    return found


def child(kind: str, points: list[tuple[str, Point]], repeat: int) -> list[float]:
    """Run one way in a new process; the seconds of each pass, the first including the process's start."""
    data = json.dumps([{"pair": name, "point": asdict(point)} for name, point in points])
    env = {**os.environ, "SAMEBITS_BENCHMARK_POINTS": data, "PYTHONPATH": str(HERE.parent / "harness")}
    start = time.perf_counter()
    command = [sys.executable, str(HERE / "sweep.py"), "--child", kind, "--repeat", str(repeat)]
    done = subprocess.run(command, env=env, cwd=HERE.parent, capture_output=True, text=True, check=False)
    whole = time.perf_counter() - start
    lines = [line for line in done.stdout.splitlines() if line.startswith("PASS ")]
    if len(lines) != repeat:
        raise SystemExit(f"the {kind} child failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    inner = [float(line.split()[1]) for line in lines]
    return [whole - sum(inner[1:]), *inner[1:]]


def run_child(kind: str, repeat: int) -> None:
    """One way, `repeat` times in this process; prints the seconds of each pass."""
    environment.prepare()
    entries = [(e["pair"], Point(**e["point"])) for e in json.loads(os.environ["SAMEBITS_BENCHMARK_POINTS"])]
    if kind == "plain":
        import pytest

        for _ in range(repeat):
            start = time.perf_counter()
            code = pytest.main(["-q", "-c", os.devnull, "-p", "no:cacheprovider", str(HERE / "plain_suite.py")])
            if code:
                raise SystemExit(int(code))
            print(f"\nPASS {time.perf_counter() - start}", flush=True)
        return
    from samebits.check.run_points import run_points
    from samebits.programs.program_cache import Programs

    programs = Programs()
    for _ in range(repeat):
        start = time.perf_counter()
        for name in dict.fromkeys(name for name, _ in entries):
            pair = load(Locator(name=name))
            for result in run_points(pair, Locator(name=name), [p for n, p in entries if n == name], programs):
                if result.failed:
                    raise SystemExit(f"{result}")
        print(f"PASS {time.perf_counter() - start}", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*")
    parser.add_argument("--limit", type=int, help="points per pair")
    parser.add_argument("--child", choices=("plain", "samebits"), help=argparse.SUPPRESS)
    parser.add_argument("--repeat", type=int, default=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        run_child(given.child, given.repeat)
        return
    points = points_of(given.pairs or names(default_root()), given.limit)
    print(f"{len(points)} points of {len({name for name, _ in points})} pairs; {os.cpu_count()} cpus")
    seconds = {kind: child(kind, points, given.repeat) for kind in ("plain", "samebits")}
    print(f"{'':10}{'plain s':>10}{'cases/s':>10}{'samebits s':>12}{'cases/s':>10}{'ratio':>8}")
    for label, plain, ours in zip(("cold", "second"), seconds["plain"], seconds["samebits"], strict=True):
        count = len(points)
        print(f"{label:10}{plain:10.1f}{count / plain:10.1f}{ours:12.1f}{count / ours:10.1f}{plain / ours:8.2f}x")


if __name__ == "__main__":
    main()
