"""Training runs on a page: their curves, distances within the envelope, runs of equal bits, and the first split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samebits.report.failing import next_command
from samebits.report.html.run_charts import (
    STEP_HEADS,
    Split,
    bound_rows,
    bounds_used,
    clusters_by_step,
    curves,
    distance_rows,
    distances,
    equal_bits,
    failing,
    headroom_rows,
    relative_distances,
    splits,
    step_table,
    value_rows,
)
from samebits.report.html.section import Section, render
from samebits.report.train import (
    PAIRING_HEADS,
    TrainDocument,
    closing,
    cluster_lines,
    detection_failed,
    detection_table,
    envelope_lines,
    exit_code,
    expectation_lines,
    failing_runs,
    pairing_table,
    run_table,
    uncompared_lines,
)
from samebits.report.words import plural, problems_sentence, state_of


def train_section(document: TrainDocument) -> Section:
    """The section of one matrix of runs.

    Args:
        document: of `samebits train`.
    """
    parted = splits(document.results)
    charts = _charts(document, parted)
    headline = _headline(document)
    return Section(
        title=f"train {document.matrix}",
        command="train",
        state=state_of(exit_code(document), "failed"),
        headline=headline,
        next_command=next_command(failing_runs(document)),
        body=render(
            "train.html.j2",
            document=document,
            charts=charts,
            closing=closing(document),
            headline=headline,
            runs=run_table(document) if document.results else None,
            pairing_heads=[*PAIRING_HEADS, "why that is expected"],
            step_heads=STEP_HEADS,
            pairings=[
                [*row, comparison.reason]
                for row, comparison in zip(pairing_table(document), document.comparisons, strict=True)
            ],
            steps=step_table(document),
            splits=[[split.run, split.others, f"step {split.step}", split.leaf] for split in parted],
            first=_first_words(document, parted),
            clusters=cluster_lines(document),
            expectations=[*uncompared_lines(document), *expectation_lines(document)],
            envelope=envelope_lines(document.envelope),
            detection=None if document.detection is None else detection_table(document.detection),
        ),
        charts=charts,
        styles=("compile.css",),
    )


def _charts(document: TrainDocument, parted: list[Split]) -> Mapping[str, Mapping[str, Any]]:
    """The charts that there is anything for."""
    names = [run.config for run in document.results]
    if not names:
        return {}
    values, apart, used = value_rows(document), distance_rows(document), headroom_rows(document)
    charts = {
        "loss": curves(values, "loss", "loss", names),
        "norm": curves(values, "norm", "norm of all gradients", names),
        "bits": equal_bits(clusters_by_step(document.results), names),
    }
    if apart:
        first = _first(parted)
        mark = None if first is None else (first.step, f"first split: {first.leaf}")
        charts["distance"] = distances(apart, bound_rows(document), names, first=mark)
    if any(row["norm"] for row in apart):
        charts["norm-distance"] = relative_distances(apart, "norm", "relative distance of the norm", names)
    if used:
        charts["used"] = bounds_used(used)
    return charts


def _first(parted: list[Split]) -> Split | None:
    return min(parted, key=lambda split: split.step, default=None)


def _first_words(document: TrainDocument, parted: list[Split]) -> str:
    """The first split, and how many runs are equal to the end."""
    first, runs = _first(parted), len(document.results)
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


def _headline(document: TrainDocument) -> str:
    """What is not as expected: which run, where first, and how far."""
    wrong = list(failing(document))
    if wrong:
        first = wrong[0]
        count = f"{len(wrong)} of {plural(len(document.comparisons), 'comparison')} not as expected"
        bound = f"; the loss is up to {first.max_ulp} ulps away, {first.envelope} are allowed at the end"
        more = f"; and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        return (
            f"{count}: {first.b} is {first.verdict} from {first.a}, first at step {first.first_step} in "
            f"{first.first_leaf}{bound}{more}"
        )
    if detection_failed(document.detection) and document.detection is not None:
        missed = [defect.defect for defect in document.detection.defects if not defect.seen[-1]]
        return f"{plural(len(missed), 'planted defect')} not seen: {', '.join(missed)}"
    if document.problems:
        return problems_sentence(document.problems)
    return closing(document)
