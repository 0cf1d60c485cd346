"""`samebits compile --tune`: tries values of one static argument: do results agree, and which compiles best?"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.compile.compiler import CompiledProgram
from samebits.compile.devices import compiler_version
from samebits.compile.pair import CompileJob, Compiler, in_setting, jobs, lowered_side
from samebits.compile.request import CompileRequest
from samebits.compile.selftest import check_compiled
from samebits.compile.tune_small import SmallRuns, run_small, tuned_argument, with_value
from samebits.errors import DeclarationError, SamebitsError
from samebits.programs.catalogue import Locator
from samebits.programs.implementations import implementation
from samebits.programs.program_cache import Programs
from samebits.programs.sides import TracedSides
from samebits.schema.pair import Pair
from samebits.schema.real_size import RealSize
from samebits.schema.tuning import FIGURES, TuningBest, TuningTrial, best
from samebits.schema.validate import expected


@dataclass(kw_only=True, slots=True)
class TunedCase:
    """The trials and best values of one case on one target in one direction, or the errors."""

    trials: list[TuningTrial] = field(default_factory=list)
    best: list[TuningBest] = field(default_factory=list)
    errors: list[SamebitsError] = field(default_factory=list)


def tune_pair(pair: Pair, locator: Locator, request: CompileRequest, compiler: Compiler) -> Iterator[TunedCase]:
    """Try the declared values of a pair's production shapes; shapes without values to tune are left out.

    Each value is traced and compiled for every target, variant and direction, but not for the reference, whose program
    does not depend on it. At the declared small size every value also runs on one CPU device, and is compared with the
    reference under the pair's contracts.

    Raises:
        DeclarationError: the argument is not a static argument of the sides.
        RequestError: a target or a layout is invalid, and there is no other.
        CheckerBroken: digests give wrong answers on planted programs.
    """
    check_compiled()
    tuned = tuple(real for real in pair.compiled if real.tune)
    for real in tuned:
        _check_argument(pair, real)
    pair = replace(pair, compiled=tuned, documented=())  # whose claims may name shapes that are left out
    wrong: list[SamebitsError] = []
    programs = Programs()
    try:
        # Submitted to the compiling threads before values run here. One pair for each production shape, because
        # programs are cached by the identity of their functions.
        settings = {real.case.id: in_setting(pair, real) for real in tuned}
        started = [_start(settings[job.real.case.id], job, programs, compiler) for job in jobs(pair, request, wrong)]
        errors = list({str(error): error for error in wrong}.values())
        if errors and not started:
            yield TunedCase(errors=errors[:-1])
            raise errors[-1]
        yield TunedCase(errors=errors)
        checked: dict[str, SmallRuns] = {}
        for case in started:
            real = case[0].real
            if real.case.id not in checked:
                wanted = {(side, job.direction) for job, *_ in started if job.real is real for side in job.sides[1:]}
                checked[real.case.id] = run_small(settings[real.case.id], locator, real, wanted, programs)
            yield _finish(*case, checked[real.case.id])
    finally:
        programs.close()


def _check_argument(pair: Pair, real: RealSize) -> None:
    argument, _ = tuned_argument(real)
    parameters = inspect.signature(implementation(pair, pair.reference_name)).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    if argument not in known:
        raise DeclarationError(
            f"pair '{pair.name}', real size '{real.case.id}': tune names '{argument}', which is no static argument of "
            f"{pair.reference_name}; {expected(argument, known)}"
        )


_Waiting = list[tuple[str, Any, Future[CompiledProgram] | SamebitsError]]


def _start(pair: Pair, job: CompileJob, programs: Programs, compiler: Compiler) -> tuple[CompileJob, str, _Waiting]:
    waiting: _Waiting = []
    for side in job.sides[1:]:
        for value in tuned_argument(job.real)[1]:
            try:
                program = lowered_side(
                    TracedSides(pair, programs), replace(job, real=with_value(job.real, value)), side
                )
            except SamebitsError as error:
                waiting.append((side, value, error))
                continue
            waiting.append((side, value, compiler.start(program, job.real.options.get(side, {}))))
    return job, pair.name, waiting


def _finish(job: CompileJob, pair_name: str, waiting: _Waiting, checked: SmallRuns) -> TunedCase:
    tuned = TunedCase()
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
        small = checked[side, job.direction, value]
        trial = replace(trial, verdict=small.verdict, equal=small.equal, small=small.said)
        try:
            if isinstance(future, SamebitsError):
                raise future
            facts = future.result().facts
        except SamebitsError as error:
            tuned.trials.append(replace(trial, refused=_words(error, job)))
            continue
        first = seen.setdefault((side, facts.program), trial.value)
        figures = {name: getattr(facts, name) for name in _FACTS}
        kernels = sum(count for name, count in facts.custom_calls.items() if name in _KERNELS)
        tuned.trials.append(replace(trial, same_as=None if first == trial.value else first, kernels=kernels, **figures))
    for side in job.sides[1:]:
        tuned.best.append(best([trial for trial in tuned.trials if trial.side == side]))
    return tuned


_FACTS = (*FIGURES, "flops", "while_loops", "loop_turns", "compile_seconds", "cached", "program")
_KERNELS = ("tpu_custom_call", "__gpu$xla.gpu.triton")


def _words(error: SamebitsError, job: CompileJob) -> str:
    """The error of a value in one line, without the label, which the row already shows."""
    return " ".join(str(error).split()).rpartition(f"({job.real.mode}): ")[2]
