"""The cost of proofs for all sizes: of each pair, beside the proofs of the same points at their declared sizes.

Run as `python benchmarks/all_sizes.py [PAIR...] [--limit N]`. It prints processor time, elapsed time and what is shown
of the leaves, in one run, and asserts nothing. The aim is 30 s for the pairs that move data together, on two cores.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from samebits.check.prove_points import PointProver
from samebits.host import environment
from samebits.programs.catalogue import Locator, default_root, load, names
from samebits.programs.plan import Request, plan
from samebits.report.progress import tracked
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.sizes.points import sized_points
from samebits.sizes.proofs.attempts import PairPoint
from samebits.sizes.proofs.pair_sizes import PairSizes

WORDS = {"proved": "proved", "rounding": "same formulas", "different": "refuted", "error": "undecided"}


def points_of(pair: Pair) -> list[Point]:
    """The default sweep's points of variants in auto mode, without those that expect an error."""
    points = sized_points(pair, plan(pair, Request(), environment.DEVICES).points)
    return [point for point in points if pair.case(point.case).refusal(point.variant) is None]


def for_all(pair: Pair, points: list[Point]) -> Counter[str]:
    """Prove points for all sizes; how many leaves come to what."""
    sizes, shown = PairSizes(), Counter[str]()
    for point in points:
        case = pair.case(point.case)
        searched = PairPoint(pair, point.variant, case, point.dtype, point.direction, point.mode, "cpu")
        shown.update(WORDS[leaf.verdict] for leaf in sizes.prove(searched, MeshSpec.parse(point.mesh)).leaves)
    return shown


def for_these(pair: Pair, points: list[Point]) -> Counter[str]:
    """Prove the same points at their declared sizes."""
    prover = PointProver(pair, Locator(name=pair.name))
    shown = Counter(WORDS[row.ruling.verdict] for point in points for row in prover.results(point))
    prover.close()
    return shown


def timed(
    prove: Callable[[Pair, list[Point]], Counter[str]], pair: Pair, points: list[Point]
) -> tuple[float, str, str]:
    """The processor time of proofs, both times as a text, and what they show."""
    processor, clock = time.process_time(), time.perf_counter()
    shown = prove(pair, points)
    processor, clock = time.process_time() - processor, time.perf_counter() - clock
    return (
        processor,
        f"{processor:8.2f} s {clock:8.2f} s",
        ", ".join(f"{word} {n}" for word, n in sorted(shown.items())),
    )


def main() -> None:
    """Print one line per pair, and the sum."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*")
    parser.add_argument("--limit", type=int, help="points per pair")
    request = parser.parse_args()
    environment.prepare(platform="cpu")
    heads = ("all sizes: processor, clock", "these sizes: processor, clock")
    print(f"{'pair':<22} points {heads[0]:>29} {heads[1]:>31}  all sizes show; these sizes show")
    totals = [0.0, 0.0]
    for name in tracked(request.pairs or names(default_root()), "proofs for all sizes"):
        pair = load(Locator(name=name))
        points = points_of(pair)[: request.limit]
        if not points:
            print(f"{name:<22} no point of a variant in auto mode")
            continue
        for_these(pair, points[:1])  # fills the import and trace caches that both need
        every, every_text, every_shown = timed(for_all, pair, points)
        these, these_text, these_shown = timed(for_these, pair, points)
        totals = [totals[0] + every, totals[1] + these]
        print(
            f"{name:<22} {len(points):>6} {every_text:>29} {these_text:>31}  {every_shown}; {these_shown}", flush=True
        )
    print(f"processor time in all: {totals[0]:.1f} s for all sizes, {totals[1]:.1f} s for these")


if __name__ == "__main__":
    main()
