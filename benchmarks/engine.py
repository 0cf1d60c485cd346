"""One check in every way that the engine has: workers, remembered, after one edit, and on two nodes of Ray.

Prints ratios, asserts no time. `python benchmarks/engine.py [PAIR...] [--whole] [--workers 1,2,4]`

Each way is `samebits check` in a process of its own, on a copy of this tree, with a cache folder of its own. A way that
this samebits does not have, or that needs a package which is not installed, is named with the reason. All ways must
give the same results; otherwise the exit code is 1.

Processor time counts a command with all processes that it started and waited for; tasks of Ray belong to its cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits.report.progress import tracked

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("reference_impls", "optimized_impls", "suites")
PAIRS = ("rms_norm", "stage_rotation")
"""About a minute of processor time for each way: sums and collectives, forward and gradient."""

EDITED = "rms_norm"
"""The pair whose optimised implementation is edited, where it is among them; else the first."""

VARYING = ("seconds", "replay", "remembered")

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
cluster.add_node(num_cpus=1)
print("ADDRESS", cluster.address, flush=True)
sys.stdin.readline()
cluster.shutdown()
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """One way to run the check.

    Args:
        name: in the table.
        words: options of `samebits check`.
        cache: which of the cache folders it has; one that an earlier way has filled remembers.
        edit: whether one implementation is edited before.
        needs: an option that this samebits must have.
    """

    name: str
    words: tuple[str, ...]
    cache: str
    edit: bool = False
    needs: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Timed:
    """What a way took, what it gave, and how many results it did not execute."""

    wall: float
    processor: float
    results: list[dict[str, Any]]
    remembered: int


def ways(workers: Sequence[int], address: str | None) -> list[Way]:
    """All ways, in the order of the table; those after `cold` with the same cache folder find what it remembers."""
    most = workers[-1]
    listed = [Way(name="in one process", words=("--in-process",), cache="in-process", needs="--in-process")]
    listed += [
        Way(name=f"cold, {count} worker{'s' if count > 1 else ''}", words=("--workers", str(count)), cache=f"w{count}")
        for count in workers
    ]
    words = ("--workers", str(most))
    listed += [
        Way(name="remembered", words=words, cache=f"w{most}", needs="--fresh"),
        Way(name="after one edit", words=words, cache=f"w{most}", edit=True, needs="--fresh"),
    ]
    if address is not None:
        listed.append(Way(name="cold, two nodes of Ray", words=("--ray", address), cache="ray", needs="--ray"))
    return listed


def timed(way: Way, pairs: Sequence[str], tree: Path, folder: Path) -> Timed:
    """Run one way.

    Raises:
        SystemExit: the check did not come to its end.
    """
    document = folder / "document.json"
    document.unlink(missing_ok=True)
    env = {**os.environ, "SAMEBITS_CACHE_DIR": str(folder / "cache" / way.cache), "PYTHONPATH": _paths()}
    words = [
        sys.executable,
        "-m",
        "samebits",
        "check",
        *pairs,
        "--root",
        str(tree),
        "--json",
        str(document),
        *way.words,
    ]
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(words, env=env, cwd=tree, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1) or not document.is_file():
        raise SystemExit(f"{way.name}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    results = json.loads(document.read_text(encoding="utf-8"))["results"]
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    remembered = sum(result.get("remembered") is not None for result in results)
    return Timed(
        wall=wall, processor=processor, results=[_timeless(result) for result in results], remembered=remembered
    )


def _timeless(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name not in VARYING}


def _paths() -> str:
    return os.pathsep.join(filter(None, (str(ROOT / "harness"), os.environ.get("PYTHONPATH", ""))))


def edit(tree: Path, pair: str) -> None:
    """Give an optimised implementation a name that it does not use: other text, the same programs."""
    file = tree / "optimized_impls" / f"{pair}.py"
    file.write_text(file.read_text(encoding="utf-8") + "\n_EDITED = True\n", encoding="utf-8")


def missing(way: Way, known: str) -> str | None:
    """Why a way cannot run here; None where it can."""
    if way.needs is not None and way.needs not in known:
        return f"this samebits has no {way.needs}"
    return None


@contextlib.contextmanager
def two_nodes(wanted: bool) -> Iterator[tuple[str | None, str]]:
    """The address of a cluster of two nodes on this machine with one processor each, or None and why there is none."""
    if not wanted:
        yield None, "--without-ray"
        return
    if importlib.util.find_spec("ray") is None:
        yield None, "ray is not installed (pip install 'samebits[ray]')"
        return
    env = {**os.environ, "PYTHONPATH": _paths(), "RAY_USAGE_STATS_ENABLED": "0"}
    words = [sys.executable, "-c", CLUSTER]
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            line = next((line for line in process.stdout if line.startswith("ADDRESS ")), None)
            errors.seek(0)
            yield (line.split()[1], "") if line else (None, f"its cluster did not start: {errors.read()[-300:]}")
        finally:
            with contextlib.suppress(OSError):
                process.stdin.write("\n")
                process.stdin.flush()
            process.wait(120)


def table(pairs: Sequence[str], listed: Sequence[Way], tree: Path) -> bool:
    """Run all ways and print a row for each; whether all gave the same results."""
    known = subprocess.run(
        [sys.executable, "-m", "samebits", "check", "--help"],
        env={**os.environ, "PYTHONPATH": _paths(), "COLUMNS": "200"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    print(
        "| way | wall s | processor s | of the first cold one, wall | processor | results |\n|---|---|---|---|---|---|"
    )
    base: Timed | None = None
    first: list[dict[str, Any]] | None = None
    same = True
    with tempfile.TemporaryDirectory() as folder:
        for way in tracked(listed, "engine"):
            why = missing(way, known)
            if why is not None:
                print(f"| {way.name} | skipped: {why} | | | | |", flush=True)
                continue
            if way.edit:
                edit(tree, EDITED if EDITED in pairs or not pairs else pairs[0])
            run = timed(way, pairs, tree, Path(folder))
            base = base or (run if way.name.startswith("cold") else None)
            first = first or run.results
            differing = sum(a != b for a, b in zip(first, run.results, strict=False)) + abs(
                len(first) - len(run.results)
            )
            same = same and not differing
            ratios = " | ".join(
                "" if base is None else f"{value / getattr(base, name):.2f}x"
                for name, value in (("wall", run.wall), ("processor", run.processor))
            )
            said = f"{len(run.results)}" + (f", {run.remembered} remembered" if run.remembered else "")
            said += f", {differing} OTHER ONES" if differing else ""
            print(f"| {way.name} | {run.wall:.1f} | {run.processor:.1f} | {ratios} | {said} |", flush=True)
    return same


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", help=f"by default {' '.join(PAIRS)}")
    parser.add_argument("--whole", action="store_true", help="all pairs of the tree")
    parser.add_argument("--workers", default="1,2,4", help="numbers of workers")
    parser.add_argument("--without-ray", action="store_true")
    given = parser.parse_args()
    pairs = () if given.whole else tuple(given.pairs or PAIRS)
    workers = [int(text) for text in given.workers.split(",")]
    with tempfile.TemporaryDirectory() as folder, two_nodes(not given.without_ray) as (address, why):
        for name in FOLDERS:
            shutil.copytree(ROOT / name, Path(folder) / name, ignore=shutil.ignore_patterns("__pycache__"))
        print(f"`samebits check {' '.join(pairs)}` on {os.cpu_count()} processors\n")
        same = table(pairs, ways(workers, address), Path(folder))
        if address is None:
            print(f"| cold, two nodes of Ray | skipped: {why} | | | | |")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
