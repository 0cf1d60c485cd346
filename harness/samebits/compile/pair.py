"""`samebits compile`: compiles every side of a pair, forward and gradient, at production shapes for its targets.

In: a pair with its declared production shapes, and a request. Out: per case, target and direction a `CompiledCase`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from samebits.compile.cache import CompileCache
from samebits.compile.compared_case import CompiledCase, compare_case, expected_error, expected_refusal
from samebits.compile.compiler import CompiledProgram, Lowered, OutputTypes, compile_program, lower_traced
from samebits.compile.devices import compiler_version, devices, target_mesh
from samebits.compile.known_faults import known_faults
from samebits.compile.request import CompileOption, CompileRequest
from samebits.compile.selftest import check_compiled
from samebits.errors import CouldNotRun, MeshError, RequestError, SamebitsError
from samebits.hlo.module import HloModule
from samebits.host.cache_keys import ByIdentity
from samebits.programs.catalogue import Locator
from samebits.programs.implementations import implementation
from samebits.programs.inputs import differentiable
from samebits.programs.program_cache import Program, Programs
from samebits.programs.sides import Site, TracedSides
from samebits.prove.mesh_queries import COUNTS, Query, mesh_queries, platform_of_process, process_queries
from samebits.schema.contract import DIRECTIONS, Direction
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.program_facts import CompiledSide, ProgramIdentity
from samebits.schema.real_size import RealSize
from samebits.schema.target import Target, spread


# What a side asks about this process while it is traced for a target, and whether the target answers differently.
class _WatchedPrograms:
    """What was watched in this process.

    Args:
        queries: of each program: one that is known already is not traced again.
        begun: whose first program was watched: code that ran before it, unwatched, may have left answers in caches.
    """

    def __init__(self) -> None:
        self.queries: WeakKeyDictionary[Program, tuple[Query, ...]] = WeakKeyDictionary()
        self.begun: WeakSet[TracedSides] = WeakSet()


_WATCHED = _WatchedPrograms()


def watched(sides: TracedSides, trace: Callable[[], Program]) -> tuple[Program, tuple[Query, ...]]:
    """Trace a side, and collect what it asks about the process.

    Args:
        sides: whose side it is; before its first one all caches that may hold answers are emptied.
    """
    queries: list[Query]
    watching: AbstractContextManager[list[Query]] = process_queries() if sides in _WATCHED.begun else mesh_queries()
    with watching as queries:
        program = trace()
    _WATCHED.begun.add(sides)
    return program, _WATCHED.queries.setdefault(program, tuple(queries))


def other_answer(queries: Iterable[Query], target: Target) -> str | None:
    """Explain why a program is not the one of a target; None where the target answers as this process does."""
    queries = tuple(queries)
    # The devices of a mesh are those of the target already: no process is asked for them.
    of_process = [query for query in queries if "devices" in query.asks or query.name == "default_backend"]
    platform = platform_of_process(of_process, target.platform)
    if platform is not None:
        return platform
    there = _counts(target)
    for query in of_process:
        if "devices" in query.asks and COUNTS[query.count]() != there[query.count]:
            return (
                f"{query.place} asks for {query.count} while it is traced, which is {COUNTS[query.count]()} here, and "
                f"{there[query.count]} on {target.name}"
            )
    return None


def _counts(target: Target) -> dict[str, int]:
    """Return the numbers of devices and processes of a target; a host of a TPU slice runs one process."""
    processes = [device.process_index for device in devices(target)]
    return {
        "jax.device_count()": len(processes),
        "jax.local_device_count()": processes.count(processes[0]),
        "jax.process_count()": len(set(processes)),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileJob:
    """One production shape on one target in one direction, and the sides to compile, the reference first."""

    real: RealSize
    target: Target
    mesh: MeshSpec
    direction: Direction
    sides: tuple[str, ...]


class Compiler:
    """Compiles in threads, and each program only once: a variant that falls back to the reference shares its program.

    Args:
        threads: how many compile at once; one per processor by default.
    """

    def __init__(self, cache: CompileCache | None, threads: int | None = None) -> None:
        self.cache = cache
        self.pool = ThreadPoolExecutor(threads or os.cpu_count() or 1, thread_name_prefix="compile")
        self.started: dict[tuple[Any, ...], Future[CompiledProgram]] = {}

    def start(self, program: Lowered, options: Mapping[str, str]) -> Future[CompiledProgram]:
        """Start compiling a program; returns its future."""
        own = ByIdentity(program) if program.calls_python else program.captured
        key = (program.text, program.place, own, tuple(sorted(options.items())))
        if key not in self.started:
            # Without the label: an error is reported for every side that shares the program, under that side's label.
            self.started[key] = self.pool.submit(compile_program, replace(program, label=""), options, self.cache)
        return self.started[key]

    def close(self) -> None:
        """Cancel compilations that have not started."""
        self.pool.shutdown(wait=False, cancel_futures=True)


def compile_pair(pair: Pair, locator: Locator, request: CompileRequest, compiler: Compiler) -> Iterator[CompiledCase]:
    """Compile the declared production shapes of a pair, case by case; tracing is sequential, compiling is threaded.

    A target that is not available, or that a layout does not fit, is among the errors, and the other targets continue.

    Raises:
        RequestError: an option is invalid; or a target or a layout is, and there is no other.
        NoCompiler: libtpu is not installed, and there is no other target.
        CheckerBroken: counts or digests give wrong answers on planted programs.
    """
    check_compiled()
    programs = Programs(threads=1)
    wrong: list[SamebitsError] = []
    try:
        # Submit all before waiting for the first, so that compiling overlaps with tracing.
        started = [
            start_case(TracedSides(in_setting(pair, job.real), programs), locator, job, request, compiler)
            for job in jobs(pair, request, wrong)
        ]
        errors = list({str(error): error for error in wrong}.values())
        if errors and not started:
            yield CompiledCase(errors=errors[:-1])
            raise errors[-1]
        yield CompiledCase(errors=errors)
        for case in started:
            yield finish_case(case, pair)
    finally:
        programs.close()


def in_setting(pair: Pair, real: RealSize) -> Pair:
    """Return the pair with the arguments of a production shape, its sides inside the declared context (`within`)."""
    if real.within is None:
        return pair if real.args is None else replace(pair, args=real.args)
    functions: dict[str, Callable[..., Any]] = {}
    for side in pair.sides:
        component = implementation(pair, side)
        whole = real.within(component)
        whole.__name__ = side
        functions[side] = whole
    reference = functions.pop(pair.reference_name)
    return replace(pair, args=real.args or pair.args, reference=reference, variants=functions)


def jobs(pair: Pair, request: CompileRequest, wrong: list[SamebitsError]) -> Iterator[CompileJob]:
    """Yield the jobs that a request selects from a pair; targets that are unavailable or do not fit go into `wrong`."""
    for real, target, direction in selected_cases(pair, request):
        try:
            job = compile_job(pair, real, target, direction, request)
        except SamebitsError as error:
            wrong.append(error)
        else:
            if job is not None:
                yield job


def selected_cases(pair: Pair, request: CompileRequest) -> Iterator[tuple[RealSize, Target, Direction]]:
    """Yield the production shapes, targets and directions that a request selects; no compiler is asked for anything."""
    for real in pair.compiled:
        if matches(real.case.id, request.cases):
            for target in request.targets or tuple(Target(name=name) for name in real.targets):
                for direction in DIRECTIONS if pair.gradients else DIRECTIONS[:1]:
                    if matches(direction, request.directions):
                        yield real, target, direction


def compile_job(
    pair: Pair, real: RealSize, target: Target, direction: Direction, request: CompileRequest
) -> CompileJob | None:
    """Return one job; None where the direction is the gradient and no argument has one.

    Raises:
        MeshError: the target does not fit the layout.
        SamebitsError: the target is not available.
    """
    try:
        mesh = spread(real.layout, len(devices(target)))
    except MeshError as error:
        raise MeshError(f"pair '{pair.name}', case '{real.case.id}' on {target.name}: {error}") from None
    if direction == "gradient" and not differentiable(in_setting(pair, real).arguments(real.case, mesh), real.dtype):
        return None
    variants = [name for name in real.case.variants or pair.variant_names if matches(name, request.sides)]
    return CompileJob(real=real, target=target, mesh=mesh, direction=direction, sides=(pair.reference_name, *variants))


@dataclass(frozen=True, slots=True)
class StartedCase:
    """A job whose programs are being compiled."""

    job: CompileJob
    found: CompiledCase
    waiting: list[tuple[ProgramIdentity, str, OutputTypes, Future[CompiledProgram]]]


def start_case(
    sides: TracedSides, locator: Locator, job: CompileJob, request: CompileRequest, compiler: Compiler
) -> StartedCase:
    """Trace and lower the sides of a job, and have them compiled."""
    case = CompiledCase()
    waiting: list[tuple[ProgramIdentity, str, OutputTypes, Future[CompiledProgram]]] = []
    for side in job.sides:
        try:
            program = lowered_side(sides, job, side)
        except SamebitsError as error:
            case.errors.append(error)
            continue
        options = {**job.real.options.get(side, {}), **request.of_side(side)}
        for side_options in ({}, options) if options else ({},):
            which = _which(sides, locator, job, side, side_options, request)
            waiting.append((which, program.label, program.outputs, compiler.start(program, side_options)))
    return StartedCase(job, case, waiting)


def finish_case(started: StartedCase, pair: Pair) -> CompiledCase:
    """Return the programs of a job, once they are compiled, and their comparisons.

    Raises:
        RequestError: the compiler rejects an option.
    """
    case, real = started.found, started.job.real
    modules: dict[tuple[str, bool], CompiledProgram] = {}
    for which, label, outputs, future in started.waiting:
        try:
            program = future.result()
            case.programs.append(CompiledSide.of(which, program.facts))
            modules[which.side, bool(which.options)] = replace(program, outputs=outputs)
            known = known_faults(HloModule(program.module), started.job.target)
            case.warnings += [f"{which.side} of {pair.name}: {warning}" for warning in known]
        except (RequestError, CouldNotRun) as error:
            refusal = expected_refusal(real, which)
            if refusal is not None:
                case.comparisons.append(expected_error(which, pair.reference_name, refusal, str(error).strip()))
                continue
            if isinstance(error, RequestError):
                raise
            named = CouldNotRun(f"{label} {str(error).strip()}")
            for note in getattr(error, "__notes__", ()):
                named.add_note(note)
            case.errors.append(named)
    compare_case(case, real, pair.reference_name, modules)
    return case


def lowered_side(sides: TracedSides, job: CompileJob, side: str) -> Lowered:
    """Return one side, traced and lowered for the target, with output shardings as declared, as inside a model.

    Raises:
        CouldNotRun: tracing or lowering raised, or the code asked for the platform or the devices of this process, and
            those of the target are others.
    """
    real = job.real
    mesh = target_mesh(job.target, job.mesh, real.mode)
    pinned = not job.mesh.explicit_axes(real.mode)
    site = Site(case=real.case, dtype=real.dtype, mesh=job.mesh, mode=real.mode, built=mesh, pinned=pinned)
    # The forward by itself first: the gradient traces it too, and it may be asked for later.
    program, queries = watched(sides, lambda: sides.forward(side, site))
    if job.direction == "gradient":
        program, of_gradient = watched(sides, lambda: sides.gradient(side, site))
        queries += of_gradient
    if program.error is not None:
        program.result()
    label = f"{program.label.removesuffix(':')} on {job.target.name}:"
    why = other_answer(queries, job.target)
    if why is not None:
        raise CouldNotRun(f"{label} {why}")
    return lower_traced(program.traced, mesh=mesh, target=job.target, label=label)


def _which(
    sides: TracedSides,
    locator: Locator,
    job: CompileJob,
    side: str,
    options: Mapping[str, str],
    request: CompileRequest,
) -> ProgramIdentity:
    real, pair = job.real, sides.pair
    site = Site(case=real.case, dtype=real.dtype, mesh=job.mesh, mode=real.mode, built=None)
    shapes = tuple(
        f"{name} {argument.dtype.name}[{','.join(map(str, argument.shape))}]"
        for name, argument in sides.types(site).items()
    )
    return ProgramIdentity(
        pair=pair.name,
        side=side,
        case=real.case.id,
        dtype=real.dtype,
        mesh=job.mesh.id,
        mode=real.mode,
        direction=job.direction,
        target=job.target.name,
        shapes=shapes,
        options=dict(options),
        compiler=compiler_version(job.target),
        replay=_replay(
            locator, job, side, [option for option in request.options if option.side in (None, side, job.sides[0])]
        ),
    )


def _replay(locator: Locator, job: CompileJob, side: str, options: Sequence[CompileOption]) -> str:
    if locator.rerun is not None:
        return locator.rerun
    words = ["samebits", "compile", locator.name, "--target", job.target.name, "--case", job.real.case.id]
    words += ["--variant", side, "--direction", job.direction]
    for option in options:
        words += ["--option", str(option)]
    if locator.root and Path(locator.root) != Path.cwd():
        words += ["--root", locator.root]
    return shlex.join(words)


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name fits one of the patterns, or there are none."""
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
