"""Which compiler option or HLO pass separates the two sides of a point, and which side is nearer to float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from samebits.bisect.isolated import IsolatedSides
from samebits.bisect.point import PointRequest, devices_here, point_of
from samebits.bisect.recompile import PASSES, PRECISION, SIDES, RecompiledSides
from samebits.bisect.result import Finding, Session, command, tree_digest
from samebits.bisect.search.healing import HealingSets, healing_sets
from samebits.bisect.search.judgement import Judgement, failed, passed, untestable
from samebits.bisect.search.trials import Trials
from samebits.errors import CouldNotRun, RequestError
from samebits.host import environment
from samebits.host.environment import flags_header
from samebits.numerics import floats
from samebits.programs.catalogue import Locator, default_root, load
from samebits.programs.inputs import Array
from samebits.schema.meshes import MeshSpec

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
"""What is tried first, the likeliest culprit first. What this XLA does not have is skipped, what changes no program is
said to be without effect."""

Chosen = frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagsRequest:
    """What was asked.

    Args:
        point: where the sides differ.
        leaf: that differs; the first by default.
        options: to try, `NAME=VALUE`; the usual ones by default, and then passes.
        only: try the options together, and nothing else.
        passes: try passes even where an option heals.
    """

    point: PointRequest
    leaf: str | None = None
    options: tuple[str, ...] = ()
    only: bool = False
    passes: bool = False


def bisect_flags(asked: FlagsRequest, session: Session) -> Finding:
    """Find what heals: options by prior, then passes by name.

    Raises:
        RequestError: a name is unknown.
        NothingFails: both sides have the same bits.
        CouldNotRun: the difference does not repeat.
    """
    where = asked.point
    root = where.root or default_root()
    locator = Locator(name=where.pair, root=None if where.root is None else str(where.root))
    point = point_of(load(locator), where)
    MeshSpec.parse(point.mesh).require(devices_here())
    for text in asked.options:
        if "=" not in text:
            raise RequestError(f"--option {text}: expected NAME=VALUE")
    sides = IsolatedSides(locator, point)
    try:
        judge = _FlagsJudge(sides, asked.leaf)
        trials = session.trials(
            judge,
            searched={
                "what": "flags",
                "point": str(point),
                "pair": where.pair,
                "leaf": asked.leaf,
                "tree": tree_digest(root),
                "in": flags_header(""),
            },
            key=lambda chosen: " ".join(sorted(chosen)),
            label=_label,
        )
        end = trials.end(frozenset())
        judge.leaf = end.signature.split(":")[0]
        if asked.only:
            trials(frozenset(asked.options))
            healed = HealingSets((frozenset(asked.options),) * (trials(frozenset(asked.options)) == "pass"), True, ())
            return _finding(asked, judge, trials, healed)
        found = healing_sets(asked.options or OPTIONS, trials)
        if asked.passes or not (found.minimal or asked.options):
            names = tuple(f"{PASSES}={name}" for name in judge.passes())
            more = healing_sets(names, trials)
            found = HealingSets(found.minimal + more.minimal, more.whole, found.essential + more.essential)
        return _finding(asked, judge, trials, found)
    finally:
        sides.close()


class _FlagsJudge:
    """Compiles both sides under a set of options: it passes where their bits are equal."""

    def __init__(self, sides: IsolatedSides, leaf: str | None) -> None:
        self.sides, self.leaf = sides, leaf
        self._made: dict[Chosen, RecompiledSides] = {}

    def made(self, chosen: Chosen) -> RecompiledSides:
        """Both sides under options; kept."""
        if chosen not in self._made:
            self._made[chosen] = self.sides.made(merged_options(chosen))
        return self._made[chosen]

    def passes(self) -> tuple[str, ...]:
        """Names of the passes that changed one of the two programs."""
        return self.sides.made({}, collect=True).passes

    def effect(self, chosen: Chosen) -> str:
        """On which programs the options had an effect, proven by digests."""
        usual, now = self.made(frozenset()).digests, self.made(chosen).digests
        changed = [name for name in SIDES if usual[name] != now[name]]
        words = {("alone", "variant"): "both programs change", ("alone",): "only the reference's program changes"}
        if not changed:
            return "without effect: no program changes"
        return words.get(tuple(changed), "only the variant's program changes")

    def __call__(self, chosen: Chosen) -> Judgement:
        if not chosen:
            self._made.pop(chosen, None)  # the end is compiled anew each time
        try:
            made = self.made(chosen)
            effect = self.effect(chosen) if chosen else ""
        except CouldNotRun as error:
            return untestable(str(error))
        leaf = self.leaf or next((path for path, (one, _) in made.comparisons.items() if not one.equal), None)
        if leaf is None:
            return passed("bitwise")
        if leaf not in made.comparisons:
            listed = ", ".join(made.comparisons)
            raise RequestError(f"--leaf {leaf}: there is no such output; expected one of {listed}")
        comparison = made.comparisons[leaf][0]
        words = f"{leaf}: {comparison.mismatches} of {comparison.elements} elements differ"
        tail = f"; {effect}" if effect else ""
        if comparison.equal:
            return passed(f"{leaf}: the same bits{tail}", changed=effect)
        return failed(f"{leaf}: differs", f"{words} ({comparison.kind}){tail}")


def merged_options(chosen: Chosen) -> dict[str, str]:
    """Options of a set; passes are disabled together."""
    found: dict[str, str] = {}
    for text in sorted(chosen):
        name, _, value = text.partition("=")
        found[name] = f"{found[name]},{value}" if name == PASSES and name in found else value
    return found


def ulps_from_oracle(side: Array, oracle: Array) -> float:
    """The largest distance of a side from float64, in units of the last place of the largest value."""
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


def _finding(asked: FlagsRequest, judge: _FlagsJudge, trials: Trials[Chosen], healed: HealingSets) -> Finding:
    point, leaf = judge.sides.point, judge.leaf or ""
    base = judge.made(frozenset())
    comparison, label = base.comparisons[leaf]
    # A set that heals while no program changes is chance: it would show in the digests.
    minimal = [one for one in healed.minimal if not judge.effect(one).startswith("without")]
    minimal.sort(key=len)
    where = f"'{point.variant}' of {asked.point.pair}"
    notes = _notes(trials, healed)
    witness = f"{comparison.witness or comparison.detail}, input '{label}'"
    oracle, told = _oracle(judge, leaf, label, notes)
    if oracle is not None and comparison.witness is not None:
        index = comparison.witness.index
        witness += f", float64 {float(oracle[index]):.9g}"
    if told is not None:
        told_words = _nearer(judge, base, leaf, str(label), told)
    if not minimal:
        closer = "" if told is None else f"; {told_words}"
        return Finding(
            what="flags",
            found=False,
            sentence=f"{where} differs in '{leaf}' whatever is disabled{closer}",
            culprits=(("none of the options and passes",),),
            witness=witness,
            trials=tuple(trials.tried),
            runs=trials.runs,
            repeats=trials.repeats,
            notes=tuple(notes),
        )
    best = minimal[0]
    after = judge.made(best)
    sentence = f"{_words(best)} makes both sides of {where} equal in '{leaf}' ({judge.effect(best)})"
    if told is not None:
        now = [ulps_from_oracle(after.values[name].trees[str(label)].leaves[leaf].array, told) for name in SIDES]
        sentence += f"; {told_words}, then both are {now[0]:.3g} away"
    others = [" and ".join(sorted(one)) for one in minimal[1:]]
    if others:
        notes.append(f"so does each of: {'; '.join(others)}")
    return Finding(
        what="flags",
        found=True,
        sentence=sentence,
        culprits=tuple(tuple(sorted(one)) for one in minimal),
        witness=witness,
        replay=_replay(asked, judge, best),
        trials=tuple(trials.tried),
        runs=trials.runs,
        repeats=trials.repeats,
        notes=tuple(notes),
        detail={"leaf": leaf, "digests": {"usual": dict(base.digests), "healed": dict(after.digests)}},
    )


def _nearer(judge: _FlagsJudge, base: RecompiledSides, leaf: str, label: str, oracle: Array) -> str:
    """Which side came closer to float64 as things are: what heals is not always what was wrong."""
    one, other = (ulps_from_oracle(base.values[name].trees[label].leaves[leaf].array, oracle) for name in SIDES)
    who = "the reference" if one < other else "the variant" if other < one else "neither side"
    return f"as usual {who} comes closer to float64 (reference {one:.3g} ulp away, variant {other:.3g})"


def _oracle(judge: _FlagsJudge, leaf: str, label: str | None, notes: list[str]) -> tuple[Array | None, Array | None]:
    first = judge.made(frozenset()).values["alone"].trees.get(str(label))
    if first is None or not floats.is_float(first.leaves[leaf].array.dtype):
        return None, None
    try:
        oracle, how = judge.sides.oracle(str(label), leaf)
    except CouldNotRun as error:
        notes.append(f"no float64 oracle: {error}")
        return None, None
    notes.append(
        f"the oracle is the reference in float64, {how}, at the input '{label}'; ulps are of the largest value"
    )
    return oracle, oracle


def _notes(trials: Trials[Chosen], healed: HealingSets) -> list[str]:
    notes, idle = [], [t.point for t in trials.tried if "without effect" in t.detail]
    if idle:
        notes.append(f"without effect, by the digests of both programs: {', '.join(idle)}")
    refused = [t.point for t in trials.tried if t.outcome == "untestable"]
    if refused:
        notes.append(f"could not be judged: {', '.join(refused)}")
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


def _replay(asked: FlagsRequest, judge: _FlagsJudge, chosen: Chosen) -> str:
    point = judge.sides.point
    words = ["samebits", "bisect", "flags", asked.point.pair]
    for name in ("variant", "case", "dtype", "mesh", "mode", "direction"):
        words += [f"--{name}", getattr(point, name)]
    words += ["--leaf", judge.leaf or ""]
    for name in sorted(chosen):
        words += ["--option", name]
    if MeshSpec.parse(point.mesh).devices > environment.DEVICES:
        words += ["--devices", str(MeshSpec.parse(point.mesh).devices)]
    if asked.point.root is not None and asked.point.root.resolve() != Path.cwd():
        words += ["--root", str(asked.point.root)]
    return command(*words, "--only")
