"""Points per second of a cold default sweep, against plain pytest tests of the same points; in at most five minutes.

Prints ratios, asserts nothing. `python benchmarks/sweep.py [PAIR...] [--plain-seconds N]`

- samebits: `samebits check` in new processes, from start to end, imports and worker processes and all. It also holds
  the reference on each mesh against the reference alone, tries special values and four cotangents, and proves formulas.
- plain: `plain_suite.py`, one parametrised test per point that jits both sides and asserts, in a random order and for a
  limited time: in one process, and in as many as samebits uses.

Wall time depends on what else the machine does; processor time, of all processes, hardly does.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from samebits.host import environment
from samebits.programs.catalogue import Locator, default_root, load, names
from samebits.programs.plan import Request, plan
from samebits.schema.point import Point

HERE = Path(__file__).resolve().parent
EVERY = 10.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """One way of checking.

    Args:
        points: how many points of variants were checked.
        seconds: wall time from the start of the process to its end.
        processor: processor seconds of all its processes.
    """

    points: int
    seconds: float
    processor: float


def points_of(pairs: Sequence[str]) -> list[tuple[str, Point]]:
    """The default sweep's points of the variants (the reference on the mesh has no counterpart in a plain test)."""
    points = []
    for name in pairs:
        pair = load(Locator(name=name))
        points += [
            (name, point)
            for point in plan(pair, Request(), environment.DEVICES).points
            if point.variant != pair.reference_name and pair.case(point.case).refusal(point.variant) is None
        ]
    return points


def timed(command: list[str], env: dict[str, str], progress: Callable[[], str], log: Path) -> tuple[int, float, float]:
    """Run a command with lines of progress: exit code, wall time and processor time."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, env=env, cwd=HERE.parent, stdout=output, stderr=subprocess.STDOUT)
        while True:
            try:
                code = process.wait(EVERY)
                break
            except subprocess.TimeoutExpired:
                print(f"    {time.perf_counter() - start:5.0f} s  {progress()}", flush=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return code, seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def samebits(pairs: Sequence[str], points: int, folder: Path) -> tuple[Timing, int]:
    """The default sweep from nothing, and how many results it has."""
    journal, document = folder / "sweep.journal", folder / "sweep.json"
    command = [sys.executable, "-m", "samebits", "check", *pairs, "--json", str(document), "--journal", str(journal)]
    help_ = subprocess.run(
        [*command[:4], "--help"], cwd=HERE.parent, env=_environment(), capture_output=True, text=True
    )
    command += ["--fresh"] if "--fresh" in help_.stdout else []

    def progress() -> str:
        lines = journal.read_bytes().count(b"\n") if journal.exists() else 0
        return f"{lines} lines in the journal"

    code, seconds, processor = timed(command, _environment(), progress, folder / "samebits.log")
    if code:
        raise SystemExit(f"samebits ended with {code}:\n{(folder / 'samebits.log').read_text()[-2000:]}")
    results = len(json.loads(document.read_text())["results"])
    return Timing(points=points, seconds=seconds, processor=processor), results


def plain(points: Sequence[tuple[str, Point]], processes: int, limit: float, folder: Path) -> Timing:
    """One pytest test per point, as many as are reached in so many seconds."""
    file, log = folder / "points.json", folder / f"plain{processes}.log"
    file.write_text(json.dumps([{"pair": name, "point": asdict(point)} for name, point in points]))
    env = {
        **_environment(),
        "SAMEBITS_BENCHMARK_POINTS": str(file),
        "SAMEBITS_BENCHMARK_UNTIL": str(time.time() + limit),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "-p", "no:cacheprovider"]
    command += ["-p", "no:samebits", *(("-n", str(processes)) if processes > 1 else ()), str(HERE / "plain_suite.py")]
    code, seconds, processor = timed(command, env, lambda: f"pytest in {processes} process(es)", log)
    counts = {
        word: int(count) for count, word in re.findall(r"(\d+) (passed|failed)", log.read_text().splitlines()[-1])
    }
    if code not in (0, 1) or "passed" not in counts:
        raise SystemExit(f"pytest ended with {code}:\n{log.read_text()[-2000:]}")
    if "failed" in counts:
        print(f"    {counts['failed']} of {sum(counts.values())} fail as plain tests, such as known differences")
    return Timing(points=sum(counts.values()), seconds=seconds, processor=processor)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(HERE.parent / "harness")}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*")
    parser.add_argument("--plain-seconds", type=float, default=75, help="for each of the two plain runs")
    chosen = parser.parse_args()
    pairs = chosen.pairs or names(default_root())
    points, processes = points_of(pairs), min(os.cpu_count() or 1, 8)
    random.Random(0).shuffle(points)
    print(f"{len(points)} points of the variants of {len(pairs)} pairs; {os.cpu_count()} processors", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print("samebits check, cold", flush=True)
        ours, results = samebits(pairs, len(points), folder)
        rows = [("samebits check", ours)]
        for count in dict.fromkeys((1, processes)):
            print(f"plain pytest tests, {count} process(es)", flush=True)
            rows.append((f"pytest -n {count}", plain(points, count, chosen.plain_seconds, folder)))
    print(f"\n{results} results of samebits; by processor time: points per second of one processor")
    print(
        f"{'':16}{'points':>8}{'wall s':>9}{'points/s':>10}{'samebits':>10}{'cpu s':>9}{'points/s':>10}{'samebits':>10}"
    )
    for label, row in rows:
        wall, cpu = row.points / row.seconds, row.points / row.processor
        ratios = ours.points / ours.seconds / wall, ours.points / ours.processor / cpu
        print(
            f"{label:16}{row.points:8}{row.seconds:9.1f}{wall:10.2f}{ratios[0]:9.2f}x"
            f"{row.processor:9.1f}{cpu:10.2f}{ratios[1]:9.2f}x"
        )


if __name__ == "__main__":
    main()
