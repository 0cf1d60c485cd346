"""Finds the compiler option or HLO pass that makes two sides differ, and which side is closer to float64.

In: a point of a pair at which the sides differ. Out: a `Finding` with the minimal sets of options that make them equal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from samebits.bisect.point import PointRequest, device_count, point_of, point_options
from samebits.bisect.recompile import PASSES, PRECISION, SIDES, IsolatedSides, RecompiledSides
from samebits.bisect.search.healing import HealingSets, healing_sets
from samebits.bisect.search.judgement import Judgement, failed, passed, untestable
from samebits.bisect.search.space import space_of_sets
from samebits.bisect.search.trials import Finding, Trials
from samebits.bisect.session import Session, again
from samebits.errors import CouldNotRun, RequestError
from samebits.host.environment import flags_header
from samebits.numerics import floats
from samebits.programs.catalogue import Locator, default_root, load
from samebits.programs.inputs import Array
from samebits.schema.meshes import MeshSpec

NO_EFFECT = "without effect: no program changes"

Chosen = frozenset[str]
"""Options as `NAME=VALUE`; disabled passes as `xla_disable_hlo_passes=NAME`."""


class FlagsJudge:
    """Compiles and runs both sides under a set of options; a set passes if the outputs have equal bits."""

    def __init__(self, sides: IsolatedSides, leaf: str | None) -> None:
        self.sides, self.leaf = sides, leaf
        self._recompiled: dict[Chosen, RecompiledSides] = {}

    def recompiled(self, chosen: Chosen) -> RecompiledSides:
        """Both sides under a set of options; results are cached."""
        if chosen not in self._recompiled:
            self._recompiled[chosen] = self.sides.recompile(merged_options(chosen))
        return self._recompiled[chosen]

    def passes(self) -> tuple[str, ...]:
        """Names of the passes that changed either program."""
        return self.sides.recompile({}, collect=True).passes

    def effect(self, chosen: Chosen) -> str:
        """Which programs the options changed, by comparing digests."""
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
        tail = f"; {effect}" if effect else ""
        if comparison.equal:
            return passed(f"{leaf}: the same bits{tail}", changed=effect)
        return failed(f"{leaf}: differs", f"{words} ({comparison.kind}){tail}")


def merged_options(chosen: Chosen) -> dict[str, str]:
    """A set of options as a mapping; all disabled passes go into one option."""
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
        point: where the sides differ.
        leaf: the output leaf that differs; the first differing one by default.
        options: options to try, as `NAME=VALUE`; `OPTIONS` by default, followed by passes.
        only: try all the options together, and nothing else.
        passes: try passes even if an option removes the difference.
    """

    point: PointRequest
    leaf: str | None = None
    options: tuple[str, ...] = ()
    only: bool = False
    passes: bool = False


def bisect_flags(request: FlagsRequest, session: Session) -> Finding:
    """Find the options that make both sides equal: first options, then passes by name.

    Raises:
        RequestError: a name is unknown.
        NothingFails: both sides have the same bits.
        CouldNotRun: the difference is not reproducible.
    """
    where = request.point
    root = where.root or default_root()
    locator = Locator(name=where.pair, root=None if where.root is None else str(where.root))
    point = point_of(load(locator), where)
    MeshSpec.parse(point.mesh).require(device_count())
    for text in request.options:
        if "=" not in text:
            raise RequestError(f"--option {text}: expected NAME=VALUE")
    sides = IsolatedSides(locator, point)
    try:
        judge = FlagsJudge(sides, request.leaf)
        trials = session.trials(
            "flags",
            judge,
            root=root,
            searched={
                "point": str(point),
                "pair": where.pair,
                "leaf": request.leaf,
                "in": flags_header(""),
            },
            key=lambda chosen: " ".join(sorted(chosen)),
            label=_label,
        )
        options = request.options or OPTIONS
        trials.space = space_of_sets(options)
        end = trials.end(frozenset())
        judge.leaf = end.signature.split(":")[0]
        if request.only:
            trials(frozenset(request.options))
            healed = HealingSets(
                (frozenset(request.options),) * (trials(frozenset(request.options)) == "pass"), True, ()
            )
            return _finding(request, judge, trials, healed)
        healed = healing_sets(options, trials)
        if request.passes or not (healed.minimal or request.options):
            names = tuple(f"{PASSES}={name}" for name in judge.passes())
            trials.space = space_of_sets((*options, *names))
            by_pass = healing_sets(names, trials)
            healed = HealingSets(healed.minimal + by_pass.minimal, by_pass.whole, healed.essential + by_pass.essential)
        return _finding(request, judge, trials, healed)
    finally:
        sides.close()


def ulps_from_oracle(side: Array, oracle: Array) -> float:
    """The largest distance of a side from its float64 value, in ulps of the largest value.

    Args:
        side: an output leaf, in the dtype of the program.
        oracle: the same leaf in float64.
    """
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
        leaf, label: the output leaf, and the input at which it differs.
        witness: the differing element, in words.
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


def _finding(request: FlagsRequest, judge: FlagsJudge, trials: Trials[Chosen], healed: HealingSets) -> Finding:
    # A set that removes the difference without changing a program did so by chance.
    minimal = sorted((options for options in healed.minimal if judge.effect(options) != NO_EFFECT), key=len)
    where = f"'{judge.sides.point.variant}' of {request.point.pair}"
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
    sentence = f"{_words(best)} makes both sides of {where} equal in '{leaf}' ({judge.effect(best)})"
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
            "flags", request.point.pair, **point_options(judge.sides.point), leaf=judge.leaf, option=sorted(best),
            root=request.point.root, only=True,
        ),
        notes=tuple(notes),
        detail={"leaf": leaf, "digests": {"usual": dict(usual.digests), "healed": dict(after.digests)}},
    )  # fmt: skip


def _closer_side(usual: RecompiledSides, leaf: str, label: str, ideal: Array) -> str:
    """Which side is closer to float64 under default options; the side that an option changes may be the better one."""
    reference, variant = (ulps_from_oracle(usual.values[name].trees[label].leaves[leaf].array, ideal) for name in SIDES)
    closer = "the reference" if reference < variant else "the variant" if variant < reference else "neither side"
    return f"as usual {closer} comes closer to float64 (reference {reference:.3g} ulp away, variant {variant:.3g})"


def _ideal(judge: FlagsJudge, leaf: str, label: str, notes: list[str]) -> Array | None:
    """The leaf in float64; a note says how it was computed, or why it could not be."""
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


def _notes(trials: Trials[Chosen], healed: HealingSets) -> list[str]:
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
