"""Which programs of a TPU's compiler can be run here: all modules of the pairs at their production shapes.

Run as `python benchmarks/compiled.py [PAIR ...]`; without names all pairs. Each module that is compiled for a slice of
at most 16 devices becomes a JAX function of all partitions, whose shapes are followed to the end; of one that has an
instruction without a meaning the first is named. It prints counts, and the time beside compiling; it asserts nothing.

With `--planted` it prints instead how often what is named first is right: the line of each planted sharding fault, and
the instruction that was edited in the modules of their twins.
"""

import collections
import contextlib
import math
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "harness"))

import jax

from samebits.compile.compiler import compile_artefact
from samebits.compile.devices import devices
from samebits.compile.pair import in_setting, jobs, lowered_side
from samebits.compile.request import CompileRequest
from samebits.errors import SamebitsError
from samebits.hlo.as_jax import PartitionProgram
from samebits.hlo.module import HloModule
from samebits.hlo.steps import Untranslated
from samebits.hlo.types import dtype_of
from samebits.host import environment
from samebits.programs.catalogue import Locator, load, names
from samebits.programs.program_cache import Programs
from samebits.programs.sides import TracedSides

ROOT = Path(__file__).resolve().parents[1]
WIDEST = 16


def modules(name: str) -> Iterator[tuple[str, HloModule, int, float]]:
    """Compile the programs of a pair; yields target, module, partitions and the seconds of the compiler."""
    pair, programs = load(Locator(name=name, root=str(ROOT))), Programs(threads=1)
    for job in jobs(pair, CompileRequest(), []):
        if len(devices(job.target)) > WIDEST:
            continue
        sides = TracedSides(in_setting(pair, job.real), programs)
        for side in job.sides:
            with contextlib.suppress(SamebitsError):  # an expected error of the declaration
                artefact = compile_artefact(lowered_side(sides, job, side), job.real.options.get(side, {}))
                yield job.target.name, HloModule(artefact.module), len(devices(job.target)), artefact.seconds


def followed(module: HloModule, partitions: int) -> None:
    """Follow the shapes of a module from its parameters to its outputs.

    Raises:
        Untranslated: an instruction has no meaning.
    """
    entry = module.computations[module.entry].instructions.values()
    parameters = {inst.parameter_number: inst.shape for inst in entry if inst.opcode == "parameter"}
    types = [
        jax.ShapeDtypeStruct((partitions, *shape.dimensions), dtype_of(shape))
        for _, shape in sorted(parameters.items())
    ]
    jax.eval_shape(PartitionProgram(module, [partitions]).on_all, *types)


def planted(target: str = "tpu7x:2x2x1") -> None:
    """Print verdict, seconds and judgement of each planted fault, and of edited instructions by kind."""
    from tests.compile.named_first import edits_of, is_right, run, shares
    from tests.compile.planted_shardings import PLANTED

    warnings.simplefilter("ignore")
    right = 0
    for name in PLANTED:
        begin = time.perf_counter()
        wrong, twin = run(name, True, target), run(name, False, target)
        right += is_right(wrong)
        print(
            f"{name}: {wrong.verdict}, named first {'right' if is_right(wrong) else 'wrong'}; its twin {twin.verdict} "
            f"({time.perf_counter() - begin:.0f} s)"
        )
    edits = edits_of(target)
    print(f"lines: {right} of {len(PLANTED)} right")
    print(f"instructions: {sum(edit.right for edit in edits)} of {len(edits)} right\n{shares(edits)}")


def main() -> None:
    """Print how many modules of each target are run to the end, and what stops the others."""
    environment.prepare(devices=8)
    if sys.argv[1:] == ["--planted"]:
        return planted()
    counts: dict[str, list[Any]] = collections.defaultdict(lambda: [0, 0, 0.0, 0.0])
    stopped: collections.Counter[str] = collections.Counter()
    for name in sys.argv[1:] or names(ROOT):
        for target, module, partitions, seconds in modules(name):
            row, begin = counts[target], time.perf_counter()
            row[0] += 1
            row[2] += seconds
            try:
                followed(module, partitions)
                row[1] += 1
            except Untranslated as error:
                stopped[f"{name}: {str(error).partition('instruction ')[2]}"] += 1
            row[3] += time.perf_counter() - begin
    for target, (total, done, compiling, following) in sorted(counts.items()):
        print(
            f"{target}: {done} of {total} modules ({done / total:.1%}); compiled in {compiling:.0f} s, "
            f"followed in {following / max(compiling, math.ulp(1)):.2f} times that"
        )
    for text, count in stopped.most_common():
        print(f"  stopped {count} times: {text}")


if __name__ == "__main__":
    main()
