"""The document of `samebits train`, and its page: which runs agree, where the others part, and how far."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from samebits.host.environment import Environment
from samebits.report.causes import usual_page
from samebits.report.document import CommandDocument
from samebits.report.findings import judged
from samebits.report.html.charts import (
    Row,
    Split,
    bounds_used,
    clusters_by_step,
    curves,
    distances,
    equal_bits,
    relative_distances,
    splits,
)
from samebits.report.page import Beside, Block, Chart, Fold, Line, Lines, Page, Table
from samebits.report.words import plural
from samebits.schema.finding import Finding, Place
from samebits.schema.result import Problem, code_of
from samebits.train.compare import Pairing, Uncompared
from samebits.train.detection import Detection
from samebits.train.distance import FAR, SCALARS, lacks, loss_ulps
from samebits.train.envelope import FLOOR, Envelope
from samebits.train.parts import SAME_RUN
from samebits.train.record import RunRecord, StepRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainSummary:
    """The counts of a run of `samebits train`.

    Args:
        runs: configurations that were trained.
        steps: of each run.
        comparisons: pairs of runs that were compared.
        failed: comparisons below what is expected, and planted defects that were not seen.
        verdicts: how many comparisons have each verdict.
        uncompared: runs that were held against nothing.
    """

    runs: int
    steps: int
    comparisons: int
    failed: int
    verdicts: dict[str, int]
    seconds: float
    interrupted: bool = False
    uncompared: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainDocument(CommandDocument):
    """Everything that `samebits train` found.

    Args:
        matrix: its name; of a single configuration, its own.
        about, columns: of the matrix.
        against: the git revision whose runs are the `a` of comparisons, and its commit.
        twins: pairs of runs that were compared besides, by name.
        results: one per run.
        comparisons: which runs were held against which, and what came out.
        uncompared: the runs that are in no comparison, and why.
        clusters: names of runs with identical bits.
        envelope: None where no run could be measured.
        detection: which gate sees which planted defect, where that was asked for.
    """

    command: Literal["train"] = "train"
    environment: Environment
    matrix: str
    about: str
    columns: tuple[str, ...]
    against: str | None = None
    results: tuple[RunRecord, ...]
    comparisons: tuple[Pairing, ...]
    clusters: tuple[tuple[str, ...], ...]
    envelope: EnvelopeRecord | None
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
    summary: TrainSummary
    detection: Detection | None = None
    twins: tuple[tuple[str, str], ...] = field(default=())
    uncompared: tuple[Uncompared, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: every comparison is as expected; 1: one is not; 2: a wrong request; 3: something could not be decided."""
        failed = self.summary.failed > 0 or detection_failed(self.detection)
        undecided = bool(self.uncompared) or not self.comparisons or self.summary.interrupted
        return code_of(self.problems, failed=failed, undecided=undecided)

    def as_findings(self) -> Iterator[Finding]:
        """Yield what is judged."""
        for both in self.comparisons:
            place = Place(pair=self.matrix, item=f"{both.b} against {both.a}")
            first = None if both.first_step is None else f"first differs in step {both.first_step}, {both.first_leaf}"
            yield judged(
                "train",
                place,
                both.verdict,
                ok=both.ok,
                evidence=first if both.ok else f"{first}{_far(both)}",
                required=both.expected,
                why=both.reason,
                replay="" if both.ok else bisection(self, both) or "",
            )
        for defect in self.detection.defects if self.detection is not None else ():
            place, ok = Place(pair=self.matrix, item=f"planted: {defect.defect}"), defect.seen[-1]
            evidence = None if ok else "the bounds of the comparison are too wide for it"
            yield judged("train", place, "seen" if ok else "not seen", ok=ok, evidence=evidence)

    def page(self) -> Page:
        """Return the runs, where they part, what was compared with its bounds, and the curves."""
        return replace(
            usual_page(self, ("as expected", "not as expected"), "failed"),
            title=f"train {self.matrix}",
            heading=f"train {self.matrix}",
            closing=closing(self),
            blocks=[
                *_run_blocks(self),
                *_pairing_blocks(self),
                Lines(lines=[Line(text, "warn") for text in expectation_lines(self)]),
                *([_detection_block(self.detection)] if self.detection is not None else []),
                *([_curves(self)] if self.results else []),
            ],
            notes=[*uncompared_lines(self), *self.notes],
            hint="--verbose prints every run and every comparison",
        )


_COLUMNS: Mapping[str, Mapping[str, Callable[[RunRecord], str]]] = {
    "loss": {
        "loss": lambda run: f"{run.steps[-1].loss:.6f}",
        "loss (hex)": lambda run: run.steps[-1].loss_hex,
    },
    "perplexity": {"perplexity": lambda run: f"{run.steps[-1].perplexity:.3f}"},
    "tokens_per_second_per_device": {"tok/s/device": lambda run: f"{run.tokens_per_second_per_device or 0:.0f}"},
    "step_seconds": {"step ms": lambda run: f"{1e3 * (run.step_seconds or 0):.1f}"},
    "temp_bytes": {"temp MB": lambda run: "?" if run.temp_bytes is None else f"{run.temp_bytes / 1e6:.2f}"},
}
"""By the column of a matrix, the heads with their cells, after the last step."""

_NUMBERS = {"loss", "perplexity", "tok/s/device", "step ms", "temp MB"}


def run_table(document: TrainDocument) -> tuple[list[str], list[list[str]]]:
    """Return heads and a row for each run, after its last step."""
    clusters = {name: number for number, names in enumerate(document.clusters, 1) for name in names}
    columns = {
        head: cell for column in document.columns for head, cell in _COLUMNS.get(column, {}).items()
    }  # another version may write others
    rows = [
        [run.config, run.mesh, run.shard_mode, *(cell(run) for cell in columns.values()), f"#{clusters[run.config]}"]
        for run in document.results
    ]
    return ["run", "mesh", "mode", *columns, "bits"], rows


PAIRING_HEADS = [
    "held against",
    "run",
    "verdict",
    "expected",
    "first apart",
    "loss",
    "headroom",
    "nearest to its bound",
]


def pairing_table(document: TrainDocument) -> list[list[str]]:
    """Return a row for each comparison."""
    rows = []
    for comparison in document.comparisons:
        apart = "never" if comparison.first_step is None else f"step {comparison.first_step}, {comparison.first_leaf}"
        ulps = f"{number(comparison.max_ulp)} of {comparison.envelope} ulp"
        headroom = "" if comparison.headroom is None else f"{comparison.headroom:{'.1f' if comparison.ok else '.2g'}}x"
        mark = "" if comparison.ok else " FAILS"
        rows.append(
            [
                comparison.a,
                comparison.b,
                comparison.verdict + mark,
                comparison.expected,
                apart,
                ulps,
                headroom,
                nearest(comparison),
            ]
        )
    return rows


def nearest(comparison: Pairing) -> str:
    """Say what is nearest to its bound, or beyond it, and how far off; of an array that one run lacks, its name."""
    leaf, far = comparison.worst_leaf, comparison.distance
    if leaf is None or lacks(leaf):
        return leaf or ""
    return f"{leaf} {number(math.inf if far is None else far)} of {number(comparison.bound)}"  # JSON has no infinity


def number(value: float | None) -> str:
    """Return a distance: ulps as they are, fractions with two digits; that of a NaN in words."""
    if value is None:
        return ""
    if value >= FAR:
        return "not finite"
    return f"{value:.0f}" if value == 0 or (value >= 1 and value == int(value)) else f"{value:.1e}"


def cluster_lines(document: TrainDocument) -> list[str]:
    """Return which runs have identical bits at every step."""
    shared = [
        f"identical bits #{number}: {', '.join(names)}"
        for number, names in enumerate(document.clusters, 1)
        if len(names) > 1
    ]
    alone = sum(len(names) == 1 for names in document.clusters)
    return [*shared, f"bits of their own: {plural(alone, 'run')}"] if alone else shared


def expectation_lines(document: TrainDocument) -> list[str]:
    """Say which equalities came out without a promise, and which say nothing."""
    lines = []
    for comparison in document.comparisons:
        a, b, reason = comparison.a, comparison.b, comparison.reason
        if comparison.ok and comparison.verdict == "bitwise" and comparison.expected != "bitwise":
            lines.append(f"{b} has the bits of {a}, which was not promised ({reason})")
        elif comparison.ok and reason == SAME_RUN:
            lines.append(f"{b} is {a} once more: that shows that its bits repeat, and nothing else")
    return lines


def uncompared_lines(document: TrainDocument) -> list[str]:
    """Return which runs were trained and held against nothing, and why."""
    return [f"{alone.run}: held against nothing: {alone.reason}" for alone in document.uncompared]


def detection_table(detection: Detection) -> tuple[list[str], list[list[str]]]:
    """Return a row for each planted defect: which gate sees it, and where ours finds it."""
    rows = [
        [
            defect.defect,
            f"{defect.loss_bfloat16:.3f}",
            str(defect.max_ulp),
            *("seen" if caught else "-" for caught in defect.seen),
            f"step {defect.step}, {defect.leaf}" if defect.step is not None else "not found",
            "equal" if defect.first_loss_equal else "differs",
        ]
        for defect in detection.defects
    ]
    count = len(detection.defects)
    total = [
        f"{sum(defect.seen[gate] for defect in detection.defects)} of {count}" for gate in range(len(detection.gates))
    ]
    alarms = [f"{flagged} of {runs}" for flagged, runs in zip(detection.false_alarms, detection.healthy, strict=True)]
    rows += [["seen", "", "", *total, "", ""], ["false alarms, healthy", "", "", *alarms, "", ""]]
    return ["planted defect", "bf16 loss", "float32 ulp", *detection.gates, "found at", "first loss"], rows


def detection_failed(detection: Detection | None) -> bool:
    """Whether our gate missed a defect; its false alarms fail as comparisons."""
    return detection is not None and not all(defect.seen[-1] for defect in detection.defects)


def closing(document: TrainDocument) -> str:
    """Write one sentence: what ran, what came out."""
    s = document.summary
    counts = ", ".join(f"{verdict} {count}" for verdict, count in s.verdicts.items() if count) or "nothing compared"
    again = sum(comparison.reason == SAME_RUN for comparison in document.comparisons)
    counts += f" ({again} of {SAME_RUN})" if again else ""
    begin = f"{plural(s.runs, 'run')} of {plural(s.steps, 'step')}, {plural(s.comparisons, 'comparison')}: {counts}"
    state = f"{s.failed} not as expected" if s.failed else "all as expected" if s.comparisons else "nothing can be said"
    if document.uncompared and s.comparisons:
        state += f", but {plural(len(document.uncompared), 'run')} held against nothing"
    if document.problems:
        state += f", but {plural(len(document.problems), 'problem')}"
    return f"{'interrupted; ' if s.interrupted else ''}{begin}; {s.seconds:.1f} s; {state}"


def bisection(document: TrainDocument, comparison: Pairing) -> str | None:
    """Return the search for the pair at fault, where both runs are of the same matrix."""
    names = {run.config for run in document.results}
    if not {comparison.a, comparison.b} <= names or document.matrix in names:
        return None
    a, b = (f"{document.matrix}/{name}" for name in (comparison.a, comparison.b))
    steps = str(len(document.results[0].steps))
    return shlex.join(["samebits", "bisect", "pairs", "--config", b, "--against", a, "--steps", steps])


def _far(comparison: Pairing) -> str:
    """Return how far the loss is off, and what else is beyond its bound."""
    if comparison.max_ulp >= FAR:
        return ": the loss of one of them is not finite"
    text = f": the loss is up to {plural(comparison.max_ulp, 'ulp')} away, {comparison.envelope} are allowed"
    other = comparison.verdict == "different" and comparison.worst_leaf not in (None, *SCALARS)
    return f"{text}; {nearest(comparison)}" if other else text


def _run_blocks(document: TrainDocument) -> list[Block]:
    """Return a row for each run, and where their bits part."""
    if not document.results:
        return []
    first, names, parted = document.results[0], [run.config for run in document.results], splits(document.results)
    beside = f"; compared with the runs of {document.against}" if document.against else ""
    heads, rows = run_table(document)
    bits = Chart(
        name="bits",
        label="Equal bits over steps: runs of one number have had the same bits so far, the number being that of the "
        "first such run; a triangle marks a split",
        draw=lambda: equal_bits(clusters_by_step(document.results), names),
    )
    every = Table(
        heads=("run", "leaves", "at", "first in"),
        rows=[[split.run, split.others, f"step {split.step}", split.leaf] for split in parted],
        caption="Every split: a run that leaves the runs whose bits it had",
        media=("html",),
    )
    return [
        Table(
            heads=heads,
            rows=rows,
            title=f"{document.matrix}: {document.about}; after step {len(first.steps)}, {first.dtype}{beside}",
            right={*heads} & _NUMBERS,
        ),
        Beside(blocks=[bits, every]),
        Lines(
            lines=[Line(text, "dim") for text in (_first_words(document, parted), *cluster_lines(document))], indent=2
        ),
    ]


def _pairing_blocks(document: TrainDocument) -> list[Block]:
    """Return a row for each comparison, how far it is off, and what bounds it."""
    if not document.comparisons:
        return []
    heads = (*PAIRING_HEADS, "why that is expected")
    rows = zip(pairing_table(document), document.comparisons, strict=True)
    names, apart, used = [run.config for run in document.results], distance_rows(document), headroom_rows(document)
    first = min(splits(document.results), key=lambda split: split.step, default=None)
    charts = []
    if apart and names:
        mark = None if first is None else (first.step, f"first split: {first.leaf}")
        label = (
            "Distance of the loss of each compared run over steps, in float32 ulps; dashed: the bound, dotted: what "
            "rounding alone did; triangles: where bits first part. The table has the largest distance of each"
        )
        bounds = bound_rows(document)
        charts.append(Chart(name="distance", label=label, draw=lambda: distances(apart, bounds, names, first=mark)))
    if used:
        label = (
            "The largest share of its bound that each comparison uses; beyond the dashed line is a difference. The "
            "table names the array"
        )
        charts.append(Chart(name="used", label=label, draw=lambda: bounds_used(used)))
    table = Table(
        heads=heads,
        rows=[[*row, comparison.reason] for row, comparison in rows],
        title="compared",
        bad=[number for number, comparison in enumerate(document.comparisons) if not comparison.ok],
        right=("loss", "headroom"),
        wide=heads[-1:],
        not_in_terminal=heads[-1:],
    )
    bounds_said = Lines(lines=[Line(text, "dim") for text in envelope_lines(document.envelope)])
    return [table, Beside(blocks=charts), bounds_said]


def _detection_block(detection: Detection) -> Table:
    heads, rows = detection_table(detection)
    return Table(
        heads=heads,
        rows=rows,
        title="planted one at a time: which gate sees it",
        bad=[number for number, defect in enumerate(detection.defects) if not defect.seen[-1]],
    )


def _curves(document: TrainDocument) -> Fold:
    """Return the values of every step, as curves and as a table."""
    names, rows, apart = [run.config for run in document.results], value_rows(document), distance_rows(document)
    loss = Chart(
        name="loss",
        label="Loss of each run over steps; the table has the last step",
        draw=lambda: curves(rows, "loss", "loss", names),
    )
    norm = Chart(
        name="norm",
        label="Norm of all gradients of each run over steps, before clipping",
        draw=lambda: curves(rows, "norm", "norm of all gradients", names),
    )
    charts: list[Block] = [Beside(blocks=[loss, norm])]
    if any(row["norm"] for row in apart):
        label = "Relative distance of the norm of all gradients of each compared run, where it is not 0"
        title = "relative distance of the norm"
        charts.append(
            Chart(name="norm-distance", label=label, draw=lambda: relative_distances(apart, "norm", title, names))
        )
    steps = Table(heads=STEP_HEADS, rows=step_table(document), caption="Every run at every step")
    return Fold(title="Curves", blocks=[*charts, Fold(title="All steps", blocks=[steps])], open=True, media=("html",))


def _first_words(document: TrainDocument, parted: Sequence[Split]) -> str:
    """Say where runs first split, and how many are equal to the end."""
    first, runs = min(parted, key=lambda split: split.step, default=None), len(document.results)
    if first is None:
        return (
            f"All {plural(runs, 'run')} have the same bits at every step." if runs > 1 else "One run: nothing splits."
        )
    together = sum(split.step == first.step for split in parted)
    more = f", and {plural(together - 1, 'other run')} at the same step" if together > 1 else ""
    return (
        f"The first split is at step {first.step}: {first.run} has other bits than {first.others}, first in "
        f"{first.leaf}{more}. The {plural(runs, 'run')} end with {plural(len(document.clusters), 'different set')} of "
        "bits."
    )


STEP_HEADS = ("run", "step", "loss", "exactly", "norm of all gradients")


def value_rows(document: TrainDocument) -> list[Row]:
    """Return the loss and the norm of all gradients of each run at each step; what is not finite is left out."""
    return [
        {
            "run": run.config,
            "step": step.step,
            "loss": _finite(step.loss),
            "exactly": step.loss_hex,
            "norm": _finite(step.grad_norm),
        }
        for run in document.results
        for step in run.steps
    ]


def step_table(document: TrainDocument) -> list[list[str]]:
    """Return a row for each step of each run, as `STEP_HEADS` names the cells."""
    return [
        [run.config, str(step.step), f"{step.loss:.9g}", step.loss_hex, f"{step.grad_norm:.9g}"]
        for run in document.results
        for step in run.steps
    ]


def distance_rows(document: TrainDocument) -> list[Row]:
    """Return the distance of each compared run at each step: of the loss in ulps, of the gradients' norm relative."""
    runs = {run.config: run for run in document.results}
    rows = []
    for comparison in document.comparisons:
        a, b = runs.get(comparison.a), runs.get(comparison.b)
        # Documents of before have no distances; they hold the runs.
        ulps = comparison.loss_distances or (loss_ulps(a, b) if a is not None and b is not None else ())
        for step, far in enumerate(ulps, 1):
            rows.append(
                {
                    "run": comparison.b,
                    "pair": f"{comparison.b} beside {comparison.a}",
                    "step": step,
                    "ulps": far,
                    "norm": None if a is None or b is None else _norm_distance(a.steps[step - 1], b.steps[step - 1]),
                    "first": step == comparison.first_step,
                    "ok": comparison.ok,
                }
            )
    return rows


def bound_rows(document: TrainDocument) -> list[Row]:
    """Return the envelope of the loss at each step: how far rounding alone moved it, and how far it may be."""
    envelope = document.envelope
    if envelope is None:
        return []
    pairs = zip(envelope.loss_noise, envelope.loss_bound, strict=True)
    return [{"step": step, "noise": noise, "bound": bound} for step, (noise, bound) in enumerate(pairs, 1)]


def headroom_rows(document: TrainDocument) -> list[Row]:
    """Return how much of its bound each comparison uses, where it uses most; a distance of 0 uses nothing."""
    return [
        {
            "pair": f"{comparison.b} beside {comparison.a}",
            "used": comparison.distance / comparison.bound,
            "leaf": comparison.worst_leaf,
            "verdict": comparison.verdict,
        }
        for comparison in document.comparisons
        if comparison.distance is not None and comparison.bound
    ]


def _norm_distance(first: StepRecord, second: StepRecord) -> float | None:
    if not (math.isfinite(first.grad_norm) and math.isfinite(second.grad_norm)):
        return None
    return abs(first.grad_norm - second.grad_norm) / abs(first.grad_norm or 1)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class EnvelopeRecord:
    """How far rounding alone moves the first run.

    Args:
        config: of the run that was rewritten.
        rewrites: what was tried, and the largest distance of the loss that it gave, in float32 ulps.
        loss_noise, loss_bound: at each step, in ulps.
        perplexity_noise: at each step, in ulps, beyond what the loss moved it.
        leaf_noise, leaf_bound: of each array of a single step, relative to its norm.
        norm_noise, norm_bound: of the norms of the gradients, and of the parameters, at each step, relative to the norm
            of all of them.
        left_out: rewrites that change more than rounding does, so that no bound follows from them, and why.
    """

    config: str
    rewrites: Mapping[str, int]
    loss_noise: tuple[int, ...]
    loss_bound: tuple[int, ...]
    leaf_noise: Mapping[str, float]
    leaf_bound: Mapping[str, float]
    perplexity_noise: tuple[int, ...] = ()
    norm_noise: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    norm_bound: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)


def envelope_record(envelope: Envelope | None) -> EnvelopeRecord | None:
    """Return an envelope as it is published."""
    if envelope is None:
        return None
    return EnvelopeRecord(
        config=envelope.config,
        rewrites=dict(envelope.rewrites),
        loss_noise=tuple(envelope.loss),
        loss_bound=tuple(envelope.loss_bound(step) for step in range(1, len(envelope.loss) + 1)),
        leaf_noise=dict(envelope.leaves),
        leaf_bound={leaf: envelope.leaf_bound(leaf) for leaf in envelope.leaves},
        perplexity_noise=tuple(envelope.perplexity),
        norm_noise={kind: tuple(noise) for kind, noise in envelope.norms.items()},
        norm_bound={
            kind: tuple(envelope.norm_bound(kind, step) for step in range(1, len(noise) + 1))
            for kind, noise in envelope.norms.items()
        },
        left_out=dict(envelope.left_out),
    )


def measured_envelope(record: EnvelopeRecord | None, runs: Sequence[RunRecord]) -> Envelope | None:
    """Return the envelope that was published."""
    if record is None:
        return None
    return Envelope(
        config=record.config,
        loss=[*record.loss_noise],
        leaves={**record.leaf_noise},
        rewrites={**record.rewrites},
        perplexity=[*record.perplexity_noise],
        norms={kind: [*noise] for kind, noise in record.norm_noise.items()},
        dtype=next((run.dtype for run in runs if run.dtype in FLOOR), "float32"),
    )


def envelope_lines(envelope: EnvelopeRecord | None) -> list[str]:
    """Return what rounding alone does to the first run, and what bounds come of it."""
    if envelope is None:
        return []
    tried = ", ".join(f"{name} {far}" for name, far in envelope.rewrites.items())
    leaves = max(envelope.leaf_noise, key=lambda leaf: envelope.leaf_noise[leaf])
    return [
        f"envelope: {envelope.config} against itself, largest distance of the loss in float32 ulps: {tried}",
        f"bounds: the loss {envelope.loss_bound[0]} ulp at step 1, {envelope.loss_bound[-1]} at the last "
        f"(2 x noise + 1, at least 4); "
        f"each array of a single step from the same state 3 x its own noise, at most {envelope.leaf_bound[leaves]:.1e} "
        f"of its norm ({leaves})",
        *_norm_bounds(envelope),
        *(
            f"no bound follows from {name}, which changes more than rounding does: {why}"
            for name, why in envelope.left_out.items()
        ),
    ]


def _norm_bounds(envelope: EnvelopeRecord) -> list[str]:
    """Return how far the norms of every step may move."""
    most = [f"{max(bounds):.1e} of that of all {kind}s" for kind, bounds in envelope.norm_bound.items()]
    return [f"norms of each array at every step: at most {', '.join(most)}"] if most else []
