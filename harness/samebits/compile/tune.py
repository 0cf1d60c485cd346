"""`samebits compile --tune`: tries values of one static argument: do results agree, and which compiles best?

Results are those of a small size on one CPU device, compared as `samebits check` does, with its contracts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from samebits.check.run_points import run_points
from samebits.compile.compiler import CompiledProgram
from samebits.compile.devices import compiler_version
from samebits.compile.pair import CompileJob, Compiler, in_setting, jobs, lowered_side
from samebits.compile.request import CompileRequest
from samebits.errors import DeclarationError, SamebitsError
from samebits.programs.catalogue import Locator
from samebits.programs.implementations import implementation
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.programs.sides import TracedSides
from samebits.schema.contract import DIRECTIONS, Direction
from samebits.schema.finding import Finding
from samebits.schema.pair import Pair
from samebits.schema.real_size import RealSize
from samebits.schema.target import Target, fixed_part
from samebits.schema.tuning import FIGURES, SmallValue, TuningBest, TuningTrial, best
from samebits.schema.validate import expected

_WORST_FIRST = ("error", "unstable", "different", "skipped", "rounding", "refused", "bitwise", "proved")


@dataclass(frozen=True, kw_only=True, slots=True)
class TunedCase:
    """The trials of one case on one target in one direction, and the best value of each side."""

    trials: tuple[TuningTrial, ...]
    best: tuple[TuningBest, ...]


def tuned_shapes(pair: Pair) -> Pair:
    """Return the pair with those of its production shapes that declare values to tune."""
    # Without claims of documents, which may name shapes that are left out.
    return replace(pair, compiled=tuple(real for real in pair.compiled if real.tune), documented=())


def check_arguments(pair: Pair) -> None:
    """Reject values of what is not a static argument.

    Raises:
        DeclarationError: one tunes an argument that the reference does not have.
    """
    for real in tuned_shapes(pair).compiled:
        argument, _ = tuned_argument(real)
        parameters = inspect.signature(implementation(pair, pair.reference_name)).parameters.values()
        known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
        if argument not in known:
            raise DeclarationError(
                f"pair '{pair.name}', real size '{real.case.id}': tune names '{argument}', not a static argument of "
                f"{pair.reference_name}; {expected(argument, known)}"
            )


Waiting = list[tuple[str, Any, Future[CompiledProgram] | SamebitsError]]
"""The side and value of programs that are being compiled, or that cannot be."""


def start_values(pair: Pair, job: CompileJob, programs: Programs, compiler: Compiler) -> Waiting:
    """Trace and lower every value, and have it compiled; not for the reference, whose program depends on none."""
    waiting: Waiting = []
    for side in job.sides[1:]:
        for value in tuned_argument(job.real)[1]:
            at_value = replace(job, real=with_value(job.real, value))
            try:
                program = lowered_side(TracedSides(pair, programs), at_value, side)
            except SamebitsError as error:
                waiting.append((side, value, error))
                continue
            waiting.append((side, value, compiler.start(program, job.real.options.get(side, {}))))
    return waiting


def finish_values(job: CompileJob, pair_name: str, waiting: Waiting) -> list[TuningTrial]:
    """Return the trials of a job once its programs are compiled, without what values give at the small size."""
    trials: list[TuningTrial] = []
    argument, _ = tuned_argument(job.real)
    seen: dict[tuple[str, str], str] = {}
    for side, value, future in waiting:
        trial = TuningTrial(
            pair=pair_name,
            side=side,
            case=job.real.case.id,
            direction=job.direction,
            target=job.target.name,
            compiler=compiler_version(job.target),
            argument=argument,
            value=repr(value),
            declared=job.real.case.statics.get(argument) == value,
        )
        try:
            if isinstance(future, SamebitsError):
                raise future
            facts = future.result().facts
        except SamebitsError as error:
            trials.append(replace(trial, refused=_words(error, job)))
            continue
        first = seen.setdefault((side, facts.program), trial.value)
        figures = {name: getattr(facts, name) for name in _FACTS}
        kernels = sum(count for name, count in facts.custom_calls.items() if name in _KERNELS)
        trials.append(replace(trial, same_as=None if first == trial.value else first, kernels=kernels, **figures))
    return trials


def small_values(
    pair: Pair, locator: Locator, real: RealSize, request: CompileRequest, programs: Programs
) -> list[SmallValue]:
    """Run every value at the small size of a production shape, in each direction that compiles for a target."""
    unavailable: list[SamebitsError] = []  # targets, which the compilation for them reports
    compiled = jobs(replace(pair, compiled=(real,), documented=()), request, unavailable)
    wanted = {(side, job.direction) for job in compiled for side in job.sides[1:]}
    return [*run_small(in_setting(pair, real), locator, real, wanted, programs).values()]


def tuned_case(trials: Iterable[TuningTrial], small: Iterable[SmallValue]) -> TunedCase:
    """Return the trials of a case with what their values give, and the best of each side.

    Args:
        small: of its production shape; nothing is known of values that are missing.
    """
    small_by_value = {(value.side, value.direction, value.value): value for value in small}
    known: list[TuningTrial] = []
    for trial in trials:
        at_small_size = small_by_value.get((trial.side, trial.direction, trial.value))
        if at_small_size is None:
            known.append(replace(trial, small="not run"))
        else:
            known.append(
                replace(trial, verdict=at_small_size.verdict, equal=at_small_size.equal, small=at_small_size.small)
            )
    sides = dict.fromkeys(trial.side for trial in known)
    return TunedCase(
        trials=tuple(known), best=tuple(best([trial for trial in known if trial.side == side]) for side in sides)
    )


_FACTS = (*FIGURES, "flops", "while_loops", "loop_turns", "compile_seconds", "cached", "program")
_KERNELS = ("tpu_custom_call", "__gpu$xla.gpu.triton")


def _words(error: SamebitsError, job: CompileJob) -> str:
    """Return the error of a value in one line, without the label, which the row already shows."""
    return " ".join(str(error).split()).rpartition(f"({job.real.mode}): ")[2]


Place = tuple[str, Direction, Any]
"""Side, direction and value."""


def tuned_argument(real: RealSize) -> tuple[str, tuple[Any, ...]]:
    """Return the tuned argument of a production shape, and its values."""
    [(argument, values)] = real.tune.items()
    return argument, values


def with_value(real: RealSize, value: Any, sizes: Mapping[str, int] | None = None) -> RealSize:
    """Return a production shape with another value of the tuned argument, and optionally with other sizes."""
    argument, _ = tuned_argument(real)
    statics = {**real.case.statics, argument: value}
    return replace(real, case=replace(real.case, statics=statics, sizes=sizes or real.case.sizes), claims=())


def run_small(
    pair: Pair, locator: Locator, real: RealSize, wanted: set[tuple[str, Direction]], programs: Programs
) -> dict[Place, SmallValue]:
    """Compare every value with the reference on one CPU device; a program shared with an earlier value is not rerun."""
    runs: dict[Place, SmallValue] = {}
    texts: dict[Place, str | None] = {}
    sides = [side for side in pair.variant_names if any(side == name for name, _ in wanted)]
    for value in tuned_argument(real)[1]:
        small = with_value(real, value, real.tune_sizes)
        alone = _alone(pair, small)
        texts |= {(*key, value): _text(alone, small, key, programs) for key in wanted}
        new: dict[str, tuple[Direction, ...]] = {}
        for side in sides:
            # A side runs in all directions or in none, so the programs of all directions must be the same.
            mine = tuple(direction for direction in DIRECTIONS if (side, direction) in wanted)
            before = dict.fromkeys(known for name, _, known in runs if name == side)
            earlier = next((known for known in before if _alike(texts, side, mine, known, value)), None)
            if earlier is None:
                new[side] = mine
                continue
            for direction in mine:
                was = runs[side, direction, earlier]
                words = f"the program of {earlier!r} at this small size: {was.verdict or was.small}"
                runs[side, direction, value] = replace(was, value=repr(value), small=words)
        for side, directions in new.items():
            results = _results(alone, locator, side, directions, programs)
            for direction in directions:
                leaves = [result for result in results if result.place.direction == direction]
                verdict, equal, words = _judged(leaves)
                runs[side, direction, value] = SmallValue(
                    side=side, direction=direction, value=repr(value), verdict=verdict, equal=equal, small=words
                )
    return runs


def _alike(
    texts: Mapping[Place, str | None], side: str, directions: Sequence[Direction], first: Any, second: Any
) -> bool:
    """Tell whether two values give one program in each direction; one that cannot be traced is like no other."""
    pairs = [(texts[side, direction, first], texts[side, direction, second]) for direction in directions]
    return all(text is not None and text == other for text, other in pairs)


def _alone(pair: Pair, small: RealSize) -> Pair:
    """Return the pair with only this case on one device, and with the contracts that cover it."""
    mesh = fixed_part(small.layout).one_device
    where: dict[str, Callable[[str], bool]] = {
        "case": lambda pattern: fnmatchcase(small.case.id, pattern),
        "dtype": lambda pattern: fnmatchcase(small.dtype, pattern),
        "mesh": lambda pattern: fnmatchcase(mesh.id, pattern),
        "mode": lambda pattern: fnmatchcase(small.mode, pattern),
    }

    def speaks(scope: Any) -> bool:
        return all(takes(getattr(scope, name)) for name, takes in where.items())

    return replace(
        pair,
        cases=(replace(small.case, meshes=None, dtypes=None, modes=None),),
        dtypes=(small.dtype,),
        meshes=(mesh.id,),
        wide_meshes=(),
        modes=(small.mode,),
        compiled=(),
        documented=(),  # claims of documents are held against production shapes, of which this pair has none
        contracts=tuple(contract for contract in pair.contracts if speaks(contract)),
        exemptions=tuple(exemption for exemption in pair.exemptions if speaks(exemption)),
    )


def _text(pair: Pair, small: RealSize, which: tuple[str, Direction], programs: Programs) -> str | None:
    """Return the StableHLO of a side at the small size; None if it cannot be traced, which the run then reports."""
    side, direction = which
    job = CompileJob(
        real=small,
        target=Target(name="cpu"),
        mesh=fixed_part(small.layout).one_device,
        direction=direction,
        sides=pair.sides,
    )
    try:
        return lowered_side(TracedSides(pair, programs), job, side).text
    except SamebitsError:  # raised again, and reported, where the side is run
        return None


def _results(
    pair: Pair, locator: Locator, side: str, directions: tuple[Direction, ...], programs: Programs
) -> list[Finding]:
    request = Request(variants=(side,), directions=directions)
    return list(run_points(pair, locator, plan(pair, request, devices=1).points, programs))


def _judged(leaves: Sequence[Finding]) -> tuple[str | None, bool | None, str]:
    """Return the worst verdict, whether all leaves satisfy their contracts, and a description; None if nothing ran."""
    if not leaves:
        return None, None, "not run"
    worst = min(leaves, key=lambda result: (not result.failed, _WORST_FIRST.index(result.ruling.verdict)))
    if worst.ruling.verdict in ("error", "skipped"):
        return worst.ruling.verdict, None, worst.ruling.reason or worst.ruling.verdict
    failed = [result for result in leaves if result.failed]
    evidence = worst.ruling.evidence or worst.ruling.reason or ""
    if failed:
        seen = worst.comparison
        evidence = f"{worst.place.leaf}: {seen.mismatches} of {seen.elements} elements differ; {evidence}"
    return worst.ruling.verdict, not failed, evidence
