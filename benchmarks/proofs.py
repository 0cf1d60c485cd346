"""The cost of a proof: against compiling and running the same points, on 128 devices, and for a decoder layer.

Run as `python benchmarks/proofs.py [PAIR...] [--limit N]`. It prints ratios and seconds and asserts nothing.
The aims are a tenth of compiling and running for the pairs that move data, 5 s for sequence_reorder on context128, and
60 s for one decoder layer with its gradients.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

from samebits.check.prove_points import prove_points
from samebits.check.runner import Runner
from samebits.host import environment
from samebits.programs.catalogue import Locator, load
from samebits.programs.inputs import records
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.programs.sides import Site, TracedSides
from samebits.prove.problem import cotangents_of
from samebits.prove.prover import Prover
from samebits.report.progress import tracked
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from tests.prove.mathematics.decoder import DECODER

MOVERS = ("sequence_reorder", "stage_rotation", "token_exchange")


def seconds(call: Callable[..., object], *arguments: object) -> float:
    """How long a call takes."""
    begin = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begin


def points_of(pair: Pair) -> list[Point]:
    """The default sweep's points of the variants, without those that expect an error."""
    points = plan(pair, Request(), environment.DEVICES).points
    return [p for p in points if p.variant != pair.reference_name and pair.case(p.case).refusal(p.variant) is None]


def prove(pair: Pair, points: list[Point]) -> None:
    """Trace and interpret both sides of each point."""
    programs = Programs(threads=1)
    sides = TracedSides(pair, programs)
    prover = Prover(sides, platform=None)
    for point in points:
        case, mesh = pair.case(point.case), MeshSpec.parse(point.mesh)
        built = mesh.abstract(point.mode)
        alone, on_mesh = (
            Site(case=case, dtype=point.dtype, mesh=mesh, mode=point.mode, built=on) for on in (None, built)
        )
        pulled = cotangents_of(sides, pair.reference_name, alone) if point.direction == "gradient" else {}
        record = records(pair, case, point.dtype, mesh)["ordinary"]
        prover.movement(prover.question(point.direction, alone, point.variant, on_mesh, record, pulled))
    programs.close()


def execute(pair: Pair, points: list[Point]) -> None:
    """Compile and run both sides of each point on every input, as a sweep without proofs does."""
    programs = Programs()
    runner = Runner(pair, programs)
    for point in points:
        job = runner.start(point)
        sides = ((pair.reference_name, job.alone, "alone"), (point.variant, job.on_mesh, "variant"))
        for side, site, name in sides:
            runner.execution.run(job.programs[name], side, site, point.direction)
    programs.close()


def main() -> None:
    """Print one line per measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", default=MOVERS)
    parser.add_argument("--limit", type=int, help="points per pair")
    request = parser.parse_args()
    environment.prepare()
    print("pair                points   proving    compiling and running    ratio (aim: at least 10)")
    for name in tracked(request.pairs, "proofs"):
        pair = load(Locator(name=name))
        points = points_of(pair)[: request.limit]
        prove(pair, points[:2])  # fills the import and trace caches that both ways need
        proving, executing = seconds(prove, pair, points), seconds(execute, pair, points)
        print(f"{name:<18} {len(points):>7} {proving:>7.2f} s {executing:>20.2f} s {executing / proving:>9.1f}")
    pair = load(Locator(name="sequence_reorder"))
    wide = plan(pair, Request(meshes=("context128",)), 128)
    taken = seconds(lambda: list(prove_points(pair, Locator(name=pair.name), wide)))
    print(f"sequence_reorder on context128, {len(wide.points)} points: {taken:.2f} s (aim: below 5 s)")
    for variant in tracked(DECODER.pair.variant_names, "decoder layer"):
        sweep = Request(variants=(variant,), cases=(DECODER.pair.cases[0].id,), dtypes=("bfloat16",))
        begin, planned = time.perf_counter(), plan(DECODER.pair, sweep, 1)
        verdicts = [
            leaf.ruling.verdict for leaf in prove_points(DECODER.pair, Locator(name=DECODER.pair.name), planned)
        ]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
        taken = time.perf_counter() - begin
        print(f"one decoder layer, forward and gradients, {variant}: {taken:.1f} s (aim: below 60 s); leaves: {counts}")


if __name__ == "__main__":
    main()
