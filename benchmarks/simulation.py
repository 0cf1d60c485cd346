"""The driver with a thousand workers: journal, merging, time and memory over the number of points, in simulated time.

Prints ratios, asserts nothing. `python benchmarks/simulation.py [--points N,N] [--workers N]`

The driver, the journal and the reader of shards are the real ones; the workers are simulated, with machines that are
lost, processes that die, hang or take all memory, stragglers, and news that arrives twice or late. jax is not imported.
Each size runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "harness"))

import psutil  # noqa: E402

from samebits.engine.drive import Limits, drive  # noqa: E402
from samebits.engine.journal import Journal, JournalHead, read_journal  # noqa: E402
from samebits.engine.work import Item, Shard  # noqa: E402
from samebits.host.environment import Environment  # noqa: E402
from samebits.report.progress import tracked  # noqa: E402
from samebits.report.shards import read_shard, require_same_request  # noqa: E402
from samebits.schema.finding import Finding  # noqa: E402
from tests.support.simulated_cluster import MEMORY, Behaviour, SimulatedCluster, SimulatedWork, items_of  # noqa: E402

POINTS = (1000, 2000, 5000, 10000, 20000)
SHARDS = 8
BEHAVIOUR = Behaviour(
    crashes=0.002, hangs=0.001, greedy=0.001, straggles=0.01, repeated=0.02, late=0.5, node_losses=20.0
)
HERE_NOW = Environment(
    versions={}, platform="cpu", device_kind="cpu", devices=8, machine="x86_64", instruction_sets=(), cpus=2, flags={},
    settings={},
)  # fmt: skip
"""A document's environment; nothing runs in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What a run of so many points took.

    Args:
        points: of the sweep.
        journal: its size in bytes.
        drive: processor seconds of the driver with its journal, the simulation of the workers included.
        resume: processor seconds for reading the journal back.
        merge: processor seconds for reading and joining the journals of eight shards.
        memory: bytes that the driving process has grown by.
        simulated: seconds that the sweep would have taken.
        used: the part of the workers' time in which they had something to do.
        done, lost: items with a result, and those of them whose process was ended or died.
        node_losses: how many items ran on a machine that was lost.
    """

    points: int
    journal: int
    drive: float
    resume: float
    merge: float
    memory: int
    simulated: float
    used: float
    done: int
    lost: int
    node_losses: int


def sweep(items: Sequence[Item], workers: int, path: Path, shard: str | None) -> tuple[SimulatedCluster, int, int]:
    """Drive items over a cluster into a journal; the cluster, how many are done, and how many of them were lost."""
    cluster = SimulatedCluster(workers, max(workers // 10, 1), BEHAVIOUR, seed=2)
    head = JournalHead(command="check", request={}, shard=shard, environment=asdict(HERE_NOW))
    journal, lost = Journal(path, head, resume=False), 0
    rows: list[Finding] = []
    limits = Limits(seconds=900.0, bytes=MEMORY)
    for done in drive(
        SimulatedWork(), items, cluster, limits=limits, on_problem=lambda problem: None, clock=cluster.clock
    ):
        journal.add(done.item.key, "0" * 64, done.encoded)
        rows += done.rows  # as a command does, for its document
        lost += done.lost
    journal.close(remove=False)
    return cluster, len(rows), lost


def measure(points: int, workers: int) -> Measured:
    """One size, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        sweep(items_of(100, BEHAVIOUR, seed=0), workers, Path(folder) / "warm", None)
        before = psutil.Process().memory_info().rss
        items, whole = items_of(points, BEHAVIOUR, seed=1), Path(folder) / "whole"
        begin = time.process_time()
        cluster, done, lost = sweep(items, workers, whole, None)
        driven = time.process_time()
        grown = psutil.Process().memory_info().rss - before
        read_at = time.process_time()
        read_journal(whole)
        resumed = time.process_time() - read_at
        shards = [Shard(number, SHARDS) for number in range(1, SHARDS + 1)]
        for shard in shards:
            sweep(shard.of(items), workers // SHARDS, Path(folder) / str(shard.number), str(shard))
        merge_at = time.process_time()
        files = [read_shard(Path(folder) / str(shard.number)) for shard in shards]
        require_same_request(files)
        merged = {result.place.leaf: result for file in files for result in file.document.results}
        assert len(merged) == points == done, (len(merged), points, done)
        return Measured(
            points=points, journal=whole.stat().st_size, drive=driven - begin, resume=resumed,
            merge=time.process_time() - merge_at, memory=grown, simulated=cluster.now,
            used=cluster.busy_seconds / (cluster.now * workers), done=done, lost=lost,
            node_losses=len(cluster.lost_with_node),
        )  # fmt: skip


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The power of the size with which values grow, fitted: 1 is linear, 2 is quadratic."""
    x, y = [math.log(size) for size in sizes], [math.log(max(value, 1e-9)) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    spread = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / spread if spread else math.nan


def child(points: int, workers: int) -> Measured:
    """One size, in a process of its own."""
    words = [sys.executable, __file__, "--child", str(points), "--workers", str(workers)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{points} points: {ran.stderr[-2000:]}")
    return Measured(**json.loads(ran.stdout))


def main() -> None:
    """Measure all sizes and print a table; the last row is the power of the number of points."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", default=",".join(map(str, POINTS)), help="sizes of the sweep")
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(asdict(measure(given.child, given.workers))))
        return
    sizes = [int(text) for text in given.points.split(",")]
    print(
        f"{given.workers} simulated workers on {max(given.workers // 10, 1)} machines; per point, and the fitted power"
    )
    heads = (
        "points",
        "journal B",
        "driver us",
        "resume us",
        "merge us",
        "memory B",
        "simulated s",
        "used",
        "lost",
        "moved",
    )
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    rows = []
    for size in tracked(sizes, "simulation", lambda points: points):
        row = child(size, given.workers)
        rows.append(row)
        per = [row.journal, row.drive * 1e6, row.resume * 1e6, row.merge * 1e6, row.memory]
        cells = [str(row.points), *(f"{value / size:.0f}" for value in per), f"{row.simulated:.0f}"]
        print("| " + " | ".join([*cells, f"{row.used:.0%}", str(row.lost), str(row.node_losses)]) + " |", flush=True)
    powers = [exponent(sizes, [getattr(row, name) for row in rows]) for name in
              ("journal", "drive", "resume", "merge", "memory")]  # fmt: skip
    print("| power | " + " | ".join(f"{power:.2f}" for power in powers) + " | | | | |")


if __name__ == "__main__":
    main()
