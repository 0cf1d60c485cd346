"""Shows training runs in a terminal and a pull request: which agree, where the others part, and how far."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich.console import Console

from samebits.host.environment import Environment
from samebits.host.written import Written
from samebits.report.document import SCHEMA
from samebits.report.failing import WORST, Failing, next_lines, opening, shortened
from samebits.report.markdown_fit import escaped, joined, markdown_table
from samebits.report.screen import Form, Styled, in_turn, show_fitted
from samebits.report.tables import WIDTH, line, show_table
from samebits.report.words import plural, some, state_word
from samebits.schema.result import Problem, code_of
from samebits.train.compare import Pairing, Uncompared
from samebits.train.detection import Detection
from samebits.train.distance import FAR, SCALARS, lacks
from samebits.train.envelope import FLOOR, Envelope
from samebits.train.parts import SAME_RUN
from samebits.train.record import RunRecord


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
class TrainDocument:
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

    schema: Literal["samebits/1"] = SCHEMA
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
    written: Written | None = None
    uncompared: tuple[Uncompared, ...] = ()


def exit_code(document: TrainDocument) -> int:
    """0: every comparison is as expected; 1: one is not; 2: a wrong request; 3: something could not be decided."""
    failed = document.summary.failed > 0 or detection_failed(document.detection)
    undecided = bool(document.uncompared) or not document.comparisons or document.summary.interrupted
    return code_of(document.problems, failed=failed, undecided=undecided)


HEADS = {
    "loss": ("loss", "loss (hex)"),
    "perplexity": ("perplexity",),
    "tokens_per_second_per_device": ("tok/s/device",),
    "step_seconds": ("step ms",),
    "temp_bytes": ("temp MB",),
}


def run_table(document: TrainDocument) -> tuple[list[str], list[list[str]]]:
    """Heads and a row for each run, after its last step."""
    clusters = {name: number for number, names in enumerate(document.clusters, 1) for name in names}
    columns = [column for column in document.columns if column in HEADS]  # another version may write others
    heads = ["run", "mesh", "mode", *(head for column in columns for head in HEADS[column]), "bits"]
    rows = []
    for run in document.results:
        cells = [run.config, run.mesh, run.shard_mode]
        for column in columns:
            cells += _cells(run, column)
        rows.append([*cells, f"#{clusters[run.config]}"])
    return heads, rows


def _cells(run: RunRecord, column: str) -> list[str]:
    last = run.steps[-1]
    if column == "loss":
        return [f"{last.loss:.6f}", last.loss_hex]
    if column == "perplexity":
        return [f"{last.perplexity:.3f}"]
    if column == "tokens_per_second_per_device":
        return [f"{run.tokens_per_second_per_device or 0:.0f}"]
    if column == "step_seconds":
        return [f"{1e3 * (run.step_seconds or 0):.1f}"]
    return ["?" if run.temp_bytes is None else f"{run.temp_bytes / 1e6:.2f}"]


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
    """A row for each comparison."""
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
    """What is nearest to its bound, or beyond it, and how far it is off; of an array that one run lacks, its name."""
    leaf, far = comparison.worst_leaf, comparison.distance
    if leaf is None or lacks(leaf):
        return leaf or ""
    return f"{leaf} {number(math.inf if far is None else far)} of {number(comparison.bound)}"  # JSON has no infinity


def number(value: float | None) -> str:
    """A distance: ulps as they are, fractions with two digits; that of a NaN in words."""
    if value is None:
        return ""
    if value >= FAR:
        return "not finite"
    return f"{value:.0f}" if value == 0 or (value >= 1 and value == int(value)) else f"{value:.1e}"


def cluster_lines(document: TrainDocument) -> list[str]:
    """Which runs have identical bits at every step."""
    shared = [
        f"identical bits #{number}: {', '.join(names)}"
        for number, names in enumerate(document.clusters, 1)
        if len(names) > 1
    ]
    alone = sum(len(names) == 1 for names in document.clusters)
    return [*shared, f"bits of their own: {plural(alone, 'run')}"] if alone else shared


def expectation_lines(document: TrainDocument) -> list[str]:
    """Which equalities were promised, and which came out without a promise."""
    lines = []
    for comparison in document.comparisons:
        if not comparison.ok:
            where = "the bits" if comparison.verdict == "rounding" else "more than rounding"
            lines.append(
                f"{comparison.b} differs from {comparison.a} in {where}, first at step {comparison.first_step} "
                f"in {comparison.first_leaf}; expected {comparison.expected} ({comparison.reason})"
            )
        elif comparison.verdict == "bitwise" and comparison.expected != "bitwise":
            lines.append(f"{comparison.b} has the bits of {comparison.a}, which was not promised ({comparison.reason})")
        elif comparison.reason == SAME_RUN:
            lines.append(
                f"{comparison.b} is {comparison.a} once more: that shows that its bits repeat, and nothing else"
            )
    return lines


def uncompared_lines(document: TrainDocument) -> list[str]:
    """Which runs were trained and held against nothing, and why."""
    return [f"{alone.run}: held against nothing: {alone.reason}" for alone in document.uncompared]


def detection_table(detection: Detection) -> tuple[list[str], list[list[str]]]:
    """A row for each planted defect: which gate sees it, and where ours finds it."""
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
    """One sentence: what ran, what came out."""
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


def failing_runs(document: TrainDocument) -> list[Failing]:
    """The comparisons below what is expected, then the planted defects that were not seen."""
    groups: dict[tuple[object, ...], list[Pairing]] = {}
    for comparison in document.comparisons:
        if not comparison.ok:
            key = (comparison.verdict, comparison.first_step, comparison.first_leaf)
            groups.setdefault(key, []).append(comparison)
    ordered = sorted(groups.values(), key=lambda group: (group[0].verdict != "different", -len(group)))
    failing = [_failing(document, group) for group in ordered]
    missed = [defect for defect in document.detection.defects if not defect.seen[-1]] if document.detection else []
    if missed and document.detection is not None:
        count = len(document.detection.defects)
        failing.append(
            Failing(
                title=f"{len(missed)} of {plural(count, 'planted defect')} not seen",
                likely="the bounds of the comparison are too wide for them",
                where=some([defect.defect for defect in missed]),
            )
        )
    return failing


def bisection(document: TrainDocument, comparison: Pairing) -> str | None:
    """The search for the pair at fault, where both runs are of the same matrix."""
    names = {run.config for run in document.results}
    if not {comparison.a, comparison.b} <= names or document.matrix in names:
        return None
    a, b = (f"{document.matrix}/{name}" for name in (comparison.a, comparison.b))
    steps = str(len(document.results[0].steps))
    return shlex.join(["samebits", "bisect", "pairs", "--config", b, "--against", a, "--steps", steps])


def _failing(document: TrainDocument, group: Sequence[Pairing]) -> Failing:
    first = group[0]
    likely = "more than rounding" if first.verdict != "rounding" else "other bits, and the same were expected"
    return Failing(
        title=f"{len(group)} of {plural(len(document.comparisons), 'comparison')} {first.verdict}, first at step "
        f"{first.first_step} in {first.first_leaf}",
        likely=f"{likely}; expected {first.expected}: {first.reason}",
        where=some([f"{comparison.b} beside {comparison.a}" for comparison in group]),
        example=f"{first.b} beside {first.a}{_far(first)}",
        next_command=next(filter(None, (bisection(document, comparison) for comparison in group)), None),
    )


def _far(comparison: Pairing) -> str:
    """How far the loss is off, and what else is beyond its bound."""
    if comparison.max_ulp >= FAR:
        return ": the loss of one of them is not finite"
    text = f": the loss is up to {plural(comparison.max_ulp, 'ulp')} away, {comparison.envelope} are allowed"
    other = comparison.verdict == "different" and comparison.worst_leaf not in (None, *SCALARS)
    return f"{text}; {nearest(comparison)}" if other else text


def show_trained(to: Console, document: TrainDocument, *, verbose: bool = False) -> None:
    """The report of a matrix.

    Args:
        to: where it is printed.
        document: of the runs.
        verbose: whether every run and comparison is shown, however many there are; otherwise one screen.
    """
    if not to.is_terminal:
        to.width = max(to.width, WIDTH)
    failing = failing_runs(document)
    good = exit_code(document) == 0
    end: list[Styled] = [
        (f"could not run {problem.pair}: {problem.message}", "bold red") for problem in document.problems[:WORST]
    ]
    if len(document.problems) > WORST:
        end.append((f"and {plural(len(document.problems) - WORST, 'more problem')}", "bold red"))
    alone = uncompared_lines(document)
    end += [(text, "bold red") for text in alone[:WORST]]
    if len(alone) > WORST:
        end.append((f"and {plural(len(alone) - WORST, 'more run')} held against nothing", "bold red"))
    end.append((closing(document), "bold green" if good else "bold red"))
    end += next_lines(failing)
    forms: list[Form] = [_every(document)]
    if not verbose:
        few = shortened(failing)
        forms += [in_turn(_runs(document), _bounds(document), few[-1])]
        forms += [in_turn(_bounds(document), form) for form in few]
        forms += few
    show_fitted(to, forms, end, "--verbose prints every run and every comparison")


def _every(document: TrainDocument) -> Form:
    """All tables, and what is said below them."""

    def form(to: Console) -> None:
        _runs(document)(to)
        if document.comparisons:
            line(to)
            line(to, "compared", "bold")
            show_table(to, PAIRING_HEADS, pairing_table(document))
        _bounds(document)(to)
        for text in expectation_lines(document):
            line(to, text, "bold red" if "; expected" in text else "yellow")
        if document.detection is not None:
            line(to)
            line(to, "planted one at a time: which gate sees it", "bold")
            show_table(to, *detection_table(document.detection))
        for note in document.notes:
            line(to, note, "yellow")

    return form


def _runs(document: TrainDocument) -> Form:
    """A row for each run, and which have equal bits."""

    def form(to: Console) -> None:
        line(to)
        if document.results:
            steps = len(document.results[0].steps)
            line(to, f"{document.matrix}: {document.about}; after step {steps}, {document.results[0].dtype}", "bold")
            show_table(to, *run_table(document))
        for text in cluster_lines(document):
            line(to, f"  {text}", "dim")

    return form


def _bounds(document: TrainDocument) -> Form:
    def form(to: Console) -> None:
        for text in envelope_lines(document.envelope):
            line(to, text, "dim")

    return form


def trained_markdown(document: TrainDocument) -> str:
    """The document as Markdown: result, environment, runs, comparisons, clusters, bounds, problems."""
    state = state_word(exit_code(document), "as expected", "not as expected")
    parts = opening(f"train {document.matrix}: {state}", closing(document), failing_runs(document))
    parts.append(escaped("; ".join(document.environment.lines()[:2])))
    if document.results:
        parts.append(markdown_table(*run_table(document)))
    if document.comparisons:
        parts.append(markdown_table(PAIRING_HEADS, pairing_table(document)))
    if document.detection is not None:
        parts.append(markdown_table(*detection_table(document.detection)))
    lines = [*cluster_lines(document)]
    lines += [
        *uncompared_lines(document),
        *expectation_lines(document),
        *envelope_lines(document.envelope),
        *document.notes,
    ]
    lines += [f"could not run {problem.pair}: {problem.message}" for problem in document.problems]
    parts.append("\n".join(f"- {escaped(text)}" for text in lines))
    return joined(parts)


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
    """An envelope as it is published."""
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
    """The envelope that was published.

    Args:
        record: of a document.
        runs: of the same document, in one dtype.
    """
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
    """What rounding alone does to the first run, and what bounds come of it."""
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
    """How far the norms of every step may move."""
    most = [f"{max(bounds):.1e} of that of all {kind}s" for kind, bounds in envelope.norm_bound.items()]
    return [f"norms of each array at every step: at most {', '.join(most)}"] if most else []
