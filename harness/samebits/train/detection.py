"""Shows which planted defects are detected by the usual comparisons of losses, and which by samebits.

The gates, the ten defects and the ulp limit in float32 come from measurements of the usual end-to-end comparison of
losses; this table repeats them on the model at hand.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import CouldNotRun, RequestError
from samebits.schema.model import Defect, Model
from samebits.train.compare import judge_runs
from samebits.train.distance import loss_ulps
from samebits.train.envelope import forced
from samebits.train.matrix import MatrixResult, Say
from samebits.train.record import RunRecord
from samebits.train.trainer import Trainer, pool

ULP_LIMIT = 8
"""The limit of the float32 gate, at any step."""

GATES = (
    "loss .3f, across rows",
    "loss .3f, same row",
    "perplexity .3f, same row",
    "bfloat16 bits, same row",
    f"float32, {ULP_LIMIT} ulp",
    "samebits",
)
"""In order: loss and perplexity with three decimals after the last step in bfloat16, against all healthy rows and
against the same row; the bits of all losses in bfloat16; the losses in float32 against the first row; samebits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Detected:
    """The results of one planted defect.

    Args:
        defect, config: the defect, and the configuration that it is planted into.
        seen: for each of `GATES`, whether it detects the defect.
        step, leaf: where samebits detects it.
        loss, loss_bfloat16: after the last step.
        max_ulp: of the losses in float32, against the first row.
        first_loss_equal: whether the first loss has the bits of the healthy row.
    """

    defect: str
    config: str
    seen: tuple[bool, ...]
    step: int | None
    leaf: str | None
    loss: float
    loss_bfloat16: float
    max_ulp: int
    first_loss_equal: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Detection:
    """The detection table of a matrix.

    Args:
        gates: the names of the gates.
        defects: one entry per defect.
        false_alarms: for each gate, how many healthy rows, or honest changes of a row, it flags.
        healthy: for each gate, how many healthy rows or honest changes it was applied to.
    """

    gates: tuple[str, ...]
    defects: tuple[Detected, ...]
    false_alarms: tuple[int, ...]
    healthy: tuple[int, ...]


def planted(model: Model, healthy_runs: MatrixResult) -> list[Defect]:
    """The model's defects that are planted into a run of a matrix.

    Raises:
        RequestError: there are none.
    """
    names = {run.name: run for run in healthy_runs.matrix.runs}
    defects = [defect for defect in model.defects() if names.get(defect.run.name) == defect.run]
    if not defects:
        runs = ", ".join(sorted({defect.run.name for defect in model.defects()})) or "none"
        raise RequestError(
            f"no defect is planted into a run of '{healthy_runs.matrix.name}'; there are some for {runs}"
        )
    return defects


def detect(model: Model, healthy_runs: MatrixResult, root: Path, steps: int, say: Say = lambda text: None) -> Detection:
    """Plant every defect of a matrix, one at a time, and apply all gates.

    Args:
        model: its defects are planted.
        healthy_runs: the healthy runs of the matrix, in float32.
        root: the tree with the pairs.
        steps: of every run.
        say: receives progress messages.

    Raises:
        RequestError: no defect is planted into a run of the matrix.
        CouldNotRun: a run with a defect does not compile.
    """
    defects = planted(model, healthy_runs)
    twins = dict(healthy_runs.matrix.twins)
    after = set(twins.values())
    # As in a pull request's table: a row per configuration before the change, and its twin after an honest change.
    rows = [
        run for run in healthy_runs.matrix.runs if run.name not in after or any(defect.run == run for defect in defects)
    ]
    rows += [healthy_runs.matrix.run(twins[run.name]) for run in rows if run.name in twins]
    threads = pool()
    try:
        say("healthy rows in bfloat16")
        narrow = {run.name: Trainer(model, run.having(dtype="bfloat16"), root, threads) for run in rows}
        healthy = {name: trainer.run(steps).run for name, trainer in narrow.items()}
        detected = []
        for first in range(0, len(defects), 2):
            pairs = [(defect, *_trainers(model, defect, root, threads)) for defect in defects[first : first + 2]]
            for defect, wide, thin in pairs:
                say(f"planted: {defect.name}")
                detected.append(_apply_gates(defect, wide, thin, healthy_runs, healthy, steps))
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
    return Detection(
        gates=GATES,
        defects=tuple(detected),
        false_alarms=_false_alarms(healthy_runs, healthy),
        healthy=_healthy_counts(healthy_runs, healthy),
    )


def _trainers(model: Model, defect: Defect, root: Path, threads: ThreadPoolExecutor) -> tuple[Trainer, Trainer]:
    wide = Trainer(model, defect.config, root, threads, defect)
    return wide, Trainer(model, defect.config.having(dtype="bfloat16"), root, threads, defect)


def _apply_gates(
    defect: Defect, wide: Trainer, thin: Trainer, healthy_runs: MatrixResult, healthy: dict[str, RunRecord], steps: int
) -> Detected:
    """Apply all gates to one defect."""
    first = healthy_runs.matrix.runs[0].name
    base, same = healthy_runs.runs[first], healthy_runs.runs[defect.run.name].run
    run, narrow = wide.run(steps).run, thin.run(steps).run
    if run.bits == same.bits and defect.mathematics:
        raise CouldNotRun(
            f"the defect '{defect.name}' moves no bit of {defect.run.name}; it is none, and proves nothing"
        )
    assert healthy_runs.envelope is not None
    full = judge_runs(
        base.run,
        run,
        healthy_runs.forced[first],
        forced(wide, base.states),
        healthy_runs.envelope,
        "rounding",
        "planted",
    )
    ulps = max(loss_ulps(base.run, run))
    mine = healthy[defect.run.name]
    seen = (
        _outside(
            narrow, [run for name, run in healthy.items() if name not in {b for _, b in healthy_runs.matrix.twins}]
        ),
        _loss(narrow) != _loss(mine),
        _perplexity(narrow) != _perplexity(mine),
        any(a.loss_hex != b.loss_hex for a, b in zip(narrow.steps, mine.steps, strict=True)),
        ulps > ULP_LIMIT,
        not full.ok,
    )
    return Detected(
        defect=defect.name,
        config=defect.run.name,
        seen=seen,
        step=None if full.ok else full.first_step,
        leaf=None if full.ok else full.first_leaf,
        loss=run.steps[-1].loss,
        loss_bfloat16=narrow.steps[-1].loss,
        max_ulp=ulps,
        first_loss_equal=run.steps[0].loss_hex == same.steps[0].loss_hex,
    )


def _loss(run: RunRecord) -> str:
    return f"{run.steps[-1].loss:.3f}"


def _perplexity(run: RunRecord) -> str:
    return f"{run.steps[-1].perplexity:.3f}"


def _outside(run: RunRecord, others: Iterable[RunRecord]) -> bool:
    """Whether a printed loss is outside the range of the healthy rows, as a reader of the column would notice."""
    printed = [float(_loss(other)) for other in others]
    return not min(printed) <= float(_loss(run)) <= max(printed)


def _false_alarms(healthy_runs: MatrixResult, healthy: dict[str, RunRecord]) -> tuple[int, ...]:
    """How many healthy rows each gate flags.

    Across rows, each row is compared with the others; on the same row, with its all-optimized twin, an honest change.
    """
    base = healthy_runs.runs[healthy_runs.matrix.runs[0].name].run
    pairs = [(healthy[a], healthy[b]) for a, b in healthy_runs.matrix.twins if a in healthy and b in healthy]
    before = [run for run in healthy.values() if run.config not in {b for _, b in healthy_runs.matrix.twins}]
    return (
        sum(_outside(run, [other for other in before if other is not run]) for run in before if len(before) > 1),
        sum(_loss(a) != _loss(b) for a, b in pairs),
        sum(_perplexity(a) != _perplexity(b) for a, b in pairs),
        sum([s.loss_hex for s in a.steps] != [s.loss_hex for s in b.steps] for a, b in pairs),
        sum(max(loss_ulps(base, healthy_runs.runs[name].run)) > ULP_LIMIT for name in healthy),
        sum(not comparison.ok for comparison in healthy_runs.comparisons),
    )


def _healthy_counts(healthy_runs: MatrixResult, healthy: dict[str, RunRecord]) -> tuple[int, ...]:
    changes = sum(a in healthy and b in healthy for a, b in healthy_runs.matrix.twins)
    return len(healthy) - changes, changes, changes, changes, len(healthy), len(healthy_runs.comparisons)
