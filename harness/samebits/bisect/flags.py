"""Finds the compiler option or HLO pass that makes two sides differ, and which side is closer to float64.

In: a point of a pair at which the sides differ. Out: a `SearchFinding` with the minimal sets of options that
make them equal.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import math
import os
import re
import signal
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from samebits.bisect.point import PointRequest, device_count, point_of, point_options
from samebits.bisect.search.minimal_sets import MinimalSets, healing_sets
from samebits.bisect.search.trials import Judgement, SearchFinding, Trials, failed, passed, space_of_sets, untestable
from samebits.bisect.session import Session, again
from samebits.check.outcome import ProgramOutputs, compare_outputs
from samebits.compile.request import variant_of
from samebits.errors import CouldNotRun, NotCovered, RequestError, SamebitsError
from samebits.hlo.canonical import ordered_identity
from samebits.hlo.module import HloModule
from samebits.host.file_reads import READS
from samebits.host.interrupts import withheld_from_children
from samebits.host.stderr_capture import quiet
from samebits.numerics import floats
from samebits.numerics.bits import Comparison
from samebits.programs.catalogue import Locator, load
from samebits.programs.inputs import Array
from samebits.rooms import door
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.schema.point import Point
from samebits.user_errors import one_line

if TYPE_CHECKING:
    from samebits.check.execution import PendingPoint
    from samebits.check.runner import Runner
    from samebits.programs.program_cache import Programs

SIDES = ("alone", "variant")
"""The reference on one device, and the variant on the mesh."""

PRECISION = "jax_default_matmul_precision"
"""The only option of JAX rather than XLA: it is set while the sides are traced."""

PASSES = "xla_disable_hlo_passes"

_AFTER = re.compile(r"\.\d{4}\.(.+)\.after_([^.]+)\.before_([^.]+)\.txt$")


@dataclass(frozen=True, kw_only=True, slots=True)
class RecompiledSides:
    """Both sides under some options.

    Args:
        digests: a digest of the optimised HLO and machine code of each of `SIDES`.
        comparisons: by leaf, the comparison and the label of the input of its witness.
        values: by side, the outputs at each input.
        passes: names of the passes that changed a program, if they were collected.
    """

    digests: Mapping[str, str]
    comparisons: Mapping[str, tuple[Comparison, str | None]]
    values: Mapping[str, ProgramOutputs]
    passes: tuple[str, ...] = ()


class Recompiled:
    """Compiles both sides of a point under given options, and runs them on all inputs."""

    def __init__(self, pair: Pair, point: Point, programs: Programs) -> None:
        self.pair, self.point, self.programs = pair, point, programs
        self._jobs: dict[str | None, tuple[Runner, PendingPoint]] = {}
        self.reference = pair.reference_name

    def job(self, precision: str | None = None) -> tuple[Runner, PendingPoint]:
        """Return the runner and the job, traced under a default matmul precision."""
        import jax

        from samebits.check.runner import Runner

        if precision not in self._jobs:
            self.programs.forget(self.pair.name)
            with jax.default_matmul_precision(precision) if precision else contextlib.nullcontext():
                runner = Runner(self.pair, self.programs)
                job = runner.start(self.point)
            self._jobs[precision] = runner, job
        return self._jobs[precision]

    def recompile(self, options: Mapping[str, str], *, collect: bool = False) -> RecompiledSides:
        """Compile and run both sides.

        Raises:
            CouldNotRun: the compiler rejects an option, or fails.
        """
        runner, job = self.job(options.get(PRECISION))
        # JAX accepts a flag only as a bool.
        flags = {"true": True, "false": False}
        compiler_options = {
            name: flags.get(value.lower(), value) for name, value in options.items() if name != PRECISION
        }
        digests, seen, passes = {}, {}, dict[str, None]()
        for name in SIDES:
            side = self.reference if name == "alone" else self.point.variant
            site = job.alone if name == "alone" else job.on_mesh
            with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
                compiled = self._compile(job.programs[name], compiler_options, Path(folder), collect)
                digests[name] = digest_of(compiled, Path(folder))
                passes |= dict.fromkeys(passes_of(Path(folder)))
            seen[name] = self._run(runner, job, job.programs[name], compiled, side, site)
        return RecompiledSides(
            digests=digests,
            comparisons=compare_outputs(reference=seen["alone"], optimized=seen["variant"]),
            values=seen,
            passes=tuple(passes),
        )

    def _compile(self, program: Any, options: Mapping[str, Any], folder: Path, collect: bool) -> Any:
        from samebits.host.environment import compile_options

        if program.lowered is None:
            program.result()
        compiler_options = {**compile_options(), "xla_dump_to": str(folder), **options}
        if collect:
            compiler_options["xla_dump_hlo_pass_re"] = ".*"
        try:
            with quiet(), program.setup.active():
                return program.lowered.compile(compiler_options=compiler_options)
        except Exception as error:
            raise CouldNotRun(f"does not compile: {one_line(error)}") from error

    def _run(
        self, runner: Runner, job: PendingPoint, program: Any, compiled: Any, side: str, site: Any
    ) -> ProgramOutputs:
        from samebits.programs.host_trees import to_host

        seen = ProgramOutputs(trees={}, repeats=True, layout={}, replicas=[])
        direction = self.point.direction
        for label, (record, cotangents) in runner.execution.inputs(job.alone, self.reference, direction).items():
            _, call = runner.execution.placed(side, site, direction, record, cotangents)
            try:
                with program.setup.active():
                    seen.trees[label] = to_host(compiled(*call), program, direction)
            except Exception as error:
                raise CouldNotRun(f"does not run: {one_line(error)}") from error
        return seen

    def oracle(self, label: str, leaf: str) -> tuple[Array, str]:
        """Return the reference's value of a leaf in float64, and how it was computed: interpreted or executed.

        Raises:
            CouldNotRun: the reference can be neither interpreted nor executed in float64.
        """
        from samebits.interpret.rounding_error.estimate import estimate_errors

        runner, job = self.job()
        direction = self.point.direction
        try:
            question = runner.proofs.questions(job)[label]
            judged = estimate_errors(question.reference, question, runner.evidence.platform)
            return np.asarray(judged.values[leaf], np.float64), "interpreted"
        except (NotCovered, KeyError):
            wide = replace(job.alone, x64=True)
            program = self.programs.start(runner.execution.program(self.reference, wide, direction))
            seen = runner.execution.run(program, self.reference, wide, direction, [label])
            return np.asarray(seen.trees[label].leaves[leaf].array, np.float64), "executed"


def digest_of(compiled: Any, folder: Path) -> str:
    """Digest the optimised HLO, and the machine code if it was dumped: LLVM options change only the latter."""
    (module,) = compiled.runtime_executable().hlo_modules()
    serialised = module.as_serialized_hlo_module_proto()
    digest = hashlib.sha256()
    try:
        digest.update(ordered_identity(HloModule(serialised)).encode())
    except (CouldNotRun, ValueError):
        digest.update(module.to_string().encode())
    for path in sorted(folder.glob("*.o"), key=lambda path: path.name.split(".", 1)[1]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def passes_of(folder: Path) -> list[str]:
    """Return the passes that changed the module, in order, from the names of the files that XLA dumped."""
    changed, pipelines = [], set()
    for path in sorted(folder.glob("*.txt")):
        match = _AFTER.search(path.name)
        if match is not None:
            pipelines.add(match[1])
            changed.append(match[2])
    return [name for name in changed if name not in pipelines and name not in ("pipeline-start", "pipeline-end")]


PATIENCE = 180.0
"""Seconds after which a run counts as hanging."""


class IsolatedSides:
    """Compiles and runs both sides of a point in a child process, which is restarted if it crashes."""

    def __init__(self, locator: Locator, point: Point) -> None:
        self.locator, self.point = locator, point
        self._process: Any = None
        self._ours: Any = None

    def recompile(self, options: Mapping[str, str], *, collect: bool = False) -> RecompiledSides:
        """Do as `Recompiled.recompile`."""
        recompiled: RecompiledSides = self._ask("recompile", dict(options), collect)
        return recompiled

    def oracle(self, label: str, leaf: str) -> tuple[Array, str]:
        """Do as `Recompiled.oracle`."""
        ideal: tuple[Array, str] = self._ask("oracle", label, leaf)
        return ideal

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.terminate()
            self._process.join(5)
            self._ours.close()
            self._process = None

    def _ask(self, *question: Any) -> Any:
        if self._process is None:
            self._start()
        try:
            self._ours.send(question)
            if not self._ours.poll(PATIENCE):
                raise CouldNotRun(f"did not end within {PATIENCE:.0f} s")
            answer, reads = self._ours.recv()
        except CouldNotRun:
            self.close()
            raise
        except (EOFError, OSError):
            self._process.join(5)
            how = self._process.exitcode
            cause = signal.Signals(-how).name if how is not None and how < 0 else f"exit code {how}"
            self.close()
            raise CouldNotRun(f"crashed its process ({cause})") from None
        READS.add(reads)
        if isinstance(answer, SamebitsError):
            raise answer
        return answer

    def _start(self) -> None:
        import jax

        # A fresh interpreter: a forked child would inherit jax's threads without their locks.
        context = get_context("spawn")
        self._ours, theirs = context.Pipe()
        devices = len(jax.devices()) if jax.default_backend() == "cpu" else None
        args = (theirs, self.locator, self.point, devices, os.environ.get("JAX_PLATFORMS"))
        self._process = context.Process(target=_serve, args=args, daemon=True)
        with withheld_from_children():
            self._process.start()
        theirs.close()  # otherwise `recv` would not see the child process end


def _serve(
    connection: Connection[Any, Any], locator: Locator, point: Point, devices: int | None, platform: str | None
) -> None:
    # Discard XLA's output on abort: the table of trials reports the crash.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    from samebits.host import environment

    READS.look()
    environment.prepare(devices=devices, platform=platform)
    from samebits.programs.program_cache import Programs

    sides: Any = None
    while True:
        try:
            what, *args = connection.recv()
        except (EOFError, OSError):  # the parent has closed the connection: there are no more questions
            return
        try:
            if sides is None:
                pair = load(locator)
                sides = (
                    door("bisect.target_sides").TargetSides(pair, point, locator)
                    if locator.target
                    else Recompiled(pair, point, Programs())
                )
            answer: Any = sides.recompile(args[0], collect=args[1]) if what == "recompile" else sides.oracle(*args)
        except SamebitsError as error:
            answer = type(error)(*error.args)
        except Exception as error:
            answer = CouldNotRun(f"samebits itself {one_line(error)}")
        connection.send((answer, READS.all()))


NO_EFFECT = "without effect: no program changes"

Chosen = frozenset[str]
"""Options as `NAME=VALUE`; disabled passes as `xla_disable_hlo_passes=NAME`."""


class FlagsJudge:
    """Compiles and runs both sides under a set of options; a set passes if the outputs have equal bits."""

    def __init__(self, sides: IsolatedSides, leaf: str | None) -> None:
        self.sides, self.leaf = sides, leaf
        self._recompiled: dict[Chosen, RecompiledSides] = {}

    def recompiled(self, chosen: Chosen) -> RecompiledSides:
        """Return both sides under a set of options; results are cached."""
        if chosen not in self._recompiled:
            self._recompiled[chosen] = self.sides.recompile(merged_options(chosen))
        return self._recompiled[chosen]

    def passes(self) -> tuple[str, ...]:
        """Return the names of the passes that changed either program."""
        return self.sides.recompile({}, collect=True).passes

    def effect(self, chosen: Chosen) -> str:
        """Return which programs the options changed, by comparing digests."""
        usual, now = self.recompiled(frozenset()).digests, self.recompiled(chosen).digests
        changed = [name for name in SIDES if usual[name] != now[name]]
        words = {("alone", "variant"): "both programs change", ("alone",): "only the reference's program changes"}
        if not changed:
            return NO_EFFECT
        return words.get(tuple(changed), "only the variant's program changes")

    def __call__(self, chosen: Chosen) -> Judgement:
        """Compile and run both sides under a set of options, and compare their outputs."""
        if not chosen:
            self._recompiled.pop(chosen, None)  # the failing end is recompiled each time, to see that it repeats
        try:
            recompiled = self.recompiled(chosen)
            effect = self.effect(chosen) if chosen else ""
        except CouldNotRun as error:
            return untestable(str(error))
        leaf = self.leaf or next(
            (path for path, (comparison, _) in recompiled.comparisons.items() if not comparison.equal), None
        )
        if leaf is None:
            return passed("bitwise")
        if leaf not in recompiled.comparisons:
            listed = ", ".join(recompiled.comparisons)
            raise RequestError(f"--leaf {leaf}: unknown output; expected one of {listed}")
        comparison = recompiled.comparisons[leaf][0]
        words = f"{leaf}: {comparison.mismatches} of {comparison.elements} elements differ"
        words += " by more than half of the largest difference" if self.sides.locator.target else ""
        tail = f"; {effect}" if effect else ""
        if comparison.equal:
            same = "as written, or rounding" if self.sides.locator.target else "the same bits"
            return passed(f"{leaf}: {same}{tail}", changed=effect)
        return failed(f"{leaf}: differs", f"{words} ({comparison.kind}){tail}")


def merged_options(chosen: Chosen) -> dict[str, str]:
    """Return a set of options as a mapping; all disabled passes go into one option."""
    options: dict[str, str] = {}
    for text in sorted(chosen):
        name, _, value = text.partition("=")
        options[name] = f"{options[name]},{value}" if name == PASSES and name in options else value
    return options


OPTIONS = (
    "xla_allow_excess_precision=false",
    f"{PRECISION}=highest",
    "xla_backend_optimization_level=0",
    "xla_cpu_enable_fast_math=false",
    "xla_cpu_enable_fast_min_max=false",
    "xla_llvm_disable_expensive_passes=true",
    "xla_cpu_prefer_vector_width=128",
    "xla_cpu_use_onednn=false",
    "xla_cpu_use_xnnpack=false",
)
"""Options tried by default, the most likely cause first. Options unknown to this XLA are skipped; options that change
neither program are reported as having no effect."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagsRequest:
    """The request of `samebits bisect flags`.

    Args:
        leaf: the output leaf that differs; the first differing one by default.
        options: options to try, as `NAME=VALUE`; `OPTIONS` by default, followed by passes.
        only: try all the options together, and nothing else.
        passes: try passes even if an option removes the difference.
        target: whose compiled program is one side, beside what was written; empty for the two sides of the pair.
    """

    point: PointRequest
    leaf: str | None = None
    options: tuple[str, ...] = ()
    only: bool = False
    passes: bool = False
    target: str = ""

    @property
    def locator(self) -> Locator:
        """Where the pair is declared."""
        return replace(self.point.locator, target=self.target)


def bisect_flags(request: FlagsRequest, session: Session) -> SearchFinding:
    """Find the options that make both sides equal: first options, then passes by name.

    Raises:
        RequestError: a name is unknown.
        NothingFails: both sides have the same bits.
        CouldNotRun: the difference is not reproducible.
    """
    where = request.point
    pair = load(request.locator)
    point = point_of(pair, _of_target(pair, where, request.target) if request.target else where)
    MeshSpec.parse(point.mesh).require(device_count())
    for text in request.options:
        if "=" not in text:
            raise RequestError(f"--option {text}: expected NAME=VALUE")
    sides = IsolatedSides(request.locator, point)
    try:
        judge = FlagsJudge(sides, request.leaf)
        trials = session.trials(
            "flags",
            judge,
            root=where.tree,
            searched={"point": str(point), "pair": where.pair, "target": request.target, "leaf": request.leaf},
            key=lambda chosen: " ".join(sorted(chosen)),
            label=_label,
        )
        options = request.options or (() if request.target else OPTIONS)
        trials.space = space_of_sets(options)
        end = trials.end(frozenset())
        judge.leaf = end.signature.split(":")[0]
        if request.only:
            trials(frozenset(request.options))
            healed = MinimalSets((frozenset(request.options),) * (trials(frozenset(request.options)) == "pass"), True)
            return _finding(request, judge, trials, healed)
        healed = healing_sets(options, trials)
        if request.passes or not (healed.minimal or request.options):
            names = tuple(f"{PASSES}={name}" for name in judge.passes())
            trials.space = space_of_sets((*options, *names))
            by_pass = healing_sets(names, trials)
            healed = MinimalSets(healed.minimal + by_pass.minimal, by_pass.whole)
        return _finding(request, judge, trials, healed)
    finally:
        sides.close()


def _of_target(pair: Pair, where: PointRequest, target: str) -> PointRequest:
    """Return a point of the pair of a target, whose cases are programs.

    Raises:
        RequestError: none of them has these names, or several have.
    """
    parts = (where.variant, where.case, where.dtype, where.mesh, where.mode, where.direction)
    names = [case.id for case in pair.cases]
    chosen = [where.case] if where.case in names else fnmatch.filter(names, "_".join(name or "*" for name in parts))
    if len(chosen) != 1:
        raise RequestError(
            f"one program of {target} is searched; give --case NAME, one of {', '.join(chosen or names)}"
        )
    return PointRequest(pair=where.pair, variant=variant_of(target), case=chosen[0], mesh=None, root=where.root)


def ulps_from_oracle(side: Array, oracle: Array) -> float:
    """Return the largest distance of a side from its float64 value, in ulps of the largest value."""
    import ml_dtypes

    wide = np.asarray(side, np.float64)
    usable = np.isfinite(wide) & np.isfinite(oracle)
    if not usable.any():
        return 0.0
    info = ml_dtypes.finfo(side.dtype)
    largest = max(float(np.abs(oracle[usable]).max()), float(info.smallest_normal))
    unit: float = float(info.eps) * 2.0 ** math.floor(math.log2(largest))
    farthest = float(np.abs(wide - oracle)[usable].max())
    return farthest / unit


@dataclass(frozen=True, kw_only=True, slots=True)
class _Difference:
    """How the sides differ under the default options.

    Args:
        ideal: the leaf in float64; None if it is not floating-point or could not be computed.
        closer: which side is closer to `ideal`, in words; empty if `ideal` is None.
    """

    leaf: str
    label: str
    witness: str
    ideal: Array | None
    closer: str


def _difference(judge: FlagsJudge, notes: list[str]) -> _Difference:
    leaf = judge.leaf or ""
    usual = judge.recompiled(frozenset())
    comparison, input_label = usual.comparisons[leaf]
    label = str(input_label)
    witness = f"{comparison.witness or comparison.detail}, input '{label}'"
    ideal = _ideal(judge, leaf, label, notes)
    if ideal is not None and comparison.witness is not None:
        witness += f", float64 {float(ideal[comparison.witness.index]):.9g}"
    closer = "" if ideal is None else _closer_side(usual, leaf, label, ideal)
    return _Difference(leaf=leaf, label=label, witness=witness, ideal=ideal, closer=closer)


def _finding(request: FlagsRequest, judge: FlagsJudge, trials: Trials[Chosen], healed: MinimalSets) -> SearchFinding:
    # A set that removes the difference without changing a program did so by chance.
    minimal = sorted((options for options in healed.minimal if judge.effect(options) != NO_EFFECT), key=len)
    point = judge.sides.point
    where = f"'{point.variant}' of {request.point.pair}"
    equal = f"both sides of {where} equal"
    if request.target:
        where = f"program '{point.case}' of {request.point.pair} for {request.target}"
        equal = f"{where} right"
    notes = _notes(trials, healed)
    difference = _difference(judge, notes)
    leaf = difference.leaf
    untried = trials.unjudged()
    if len(untried) == len(trials.tried) - 1:  # the other is the one as usual
        return trials.finding(
            found=False,
            sentence=f"{where} differs in '{leaf}', and none of the options could be tried: {untried[0]}",
            witness=difference.witness,
            skipped=untried,
            notes=tuple(notes),
        )
    if not minimal:
        closer = f"; {difference.closer}" if difference.closer else ""
        return trials.finding(
            found=False,
            sentence=f"{where} differs in '{leaf}' whatever is disabled{closer}",
            culprits=(("none of the options and passes",),),
            witness=difference.witness,
            notes=tuple(notes),
        )
    best = minimal[0]
    after = judge.recompiled(best)
    sentence = f"{_words(best)} makes {equal} in '{leaf}' ({judge.effect(best)})"
    if difference.ideal is not None:
        reference = after.values[SIDES[0]].trees[difference.label].leaves[leaf].array
        sentence += f"; {difference.closer}, then both are {ulps_from_oracle(reference, difference.ideal):.3g} away"
    if len(minimal) > 1:
        others = [" and ".join(sorted(options)) for options in minimal[1:]]
        notes.append(f"so does each of: {'; '.join(others)}")
    usual = judge.recompiled(frozenset())
    return trials.finding(
        found=True,
        sentence=sentence,
        culprits=tuple(tuple(sorted(options)) for options in minimal),
        witness=difference.witness,
        replay=again(
            "flags", request.point.pair, **_point_words(point, request), leaf=judge.leaf,
            option=sorted(best), root=request.point.root, only=True,
        ),
        notes=tuple(notes),
        detail={"leaf": leaf, "digests": {"usual": dict(usual.digests), "healed": dict(after.digests)}},
    )  # fmt: skip


def _point_words(point: Point, request: FlagsRequest) -> dict[str, Any]:
    """Return the options that name the point; the name of a program of a target says all of it."""
    return {"target": request.target, "case": point.case} if request.target else point_options(point)


def _closer_side(usual: RecompiledSides, leaf: str, label: str, ideal: Array) -> str:
    """Return which side is closer to float64 under default options; an option may improve the side it changes."""
    reference, variant = (ulps_from_oracle(usual.values[name].trees[label].leaves[leaf].array, ideal) for name in SIDES)
    closer = "the reference" if reference < variant else "the variant" if variant < reference else "neither side"
    return f"as usual {closer} comes closer to float64 (reference {reference:.3g} ulp away, variant {variant:.3g})"


def _ideal(judge: FlagsJudge, leaf: str, label: str, notes: list[str]) -> Array | None:
    """Return the leaf in float64; a note says how it was computed, or why it could not be."""
    tree = judge.recompiled(frozenset()).values["alone"].trees.get(label)
    if tree is None or not floats.is_float(tree.leaves[leaf].array.dtype):
        return None
    try:
        ideal, how = judge.sides.oracle(label, leaf)
    except CouldNotRun as error:
        notes.append(f"no float64 oracle: {error}")
        return None
    notes.append(
        f"the oracle is the reference in float64, {how}, at the input '{label}'; ulps are of the largest value"
    )
    return ideal


def _notes(trials: Trials[Chosen], healed: MinimalSets) -> list[str]:
    notes = []
    idle = [trial.point for trial in trials.tried if NO_EFFECT.partition(":")[0] in trial.detail]
    if idle:
        notes.append(f"without effect, by the digests of both programs: {', '.join(idle)}")
    untestable_points = [trial.point for trial in trials.tried if trial.outcome == "untestable"]
    if untestable_points:
        notes.append(f"could not be judged: {', '.join(untestable_points)}")
    if healed.minimal and not healed.whole and len(healed.minimal[0]) > 1:
        notes.append("there may be other sets")
    return notes


def _words(chosen: Chosen) -> str:
    disabled = [text.partition("=")[2] for text in sorted(chosen) if text.startswith(PASSES)]
    options = [text for text in sorted(chosen) if not text.startswith(PASSES)]
    passes = [f"disabling the {'pass' if len(disabled) == 1 else 'passes'} {', '.join(disabled)}"] if disabled else []
    return " and ".join([*options, *passes])


def _label(chosen: Chosen) -> str:
    if not chosen:
        return "as usual"
    disabled = [text.partition("=")[2] for text in sorted(chosen) if text.startswith(PASSES)]
    options = [text for text in sorted(chosen) if not text.startswith(PASSES)]
    named = ", ".join(disabled) if len(disabled) < 7 else f"{len(disabled)} passes from {disabled[0]}"
    return ", ".join([*options, *([f"without {named}"] if disabled else [])])
