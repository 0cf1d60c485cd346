"""Shows which planted defects are detected by the usual comparisons of losses, and which by samebits.

The gates, the ten defects and the ulp limit in float32 come from measurements of the usual end-to-end comparison of
losses; this table repeats them on the model at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from samebits.errors import CouldNotRun, RequestError
from samebits.schema.model import Config, Defect, Matrix, Model
from samebits.schema.validate import check_unique
from samebits.train.compare import judge_runs
from samebits.train.distance import loss_ulps
from samebits.train.envelope import Distances
from samebits.train.matrix import MatrixResult
from samebits.train.record import RunRecord

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
        false_alarms: for each gate, how many healthy rows, or correct changes of a row, it flags.
        healthy: for each gate, how many healthy rows or correct changes it was applied to.
    """

    gates: tuple[str, ...]
    defects: tuple[Detected, ...]
    false_alarms: tuple[int, ...]
    healthy: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PlantedRun:
    """What was run with one defect in the model.

    Args:
        apart: the distances of its single steps from those of the matrix's first run, from the same states.
    """

    run: RunRecord
    narrow: RunRecord
    apart: Distances


def planted(model: Model, matrix: Matrix) -> list[Defect]:
    """Return the model's defects that are planted into a run of a matrix.

    Raises:
        RequestError: there are none.
        DeclarationError: two have the same name.
    """
    declared = model.defects()
    check_unique(f"model '{model.name}'", "defect", tuple(defect.name for defect in declared))
    names = {run.name: run for run in matrix.runs}
    defects = [defect for defect in declared if names.get(defect.run.name) == defect.run]
    if not defects:
        runs = ", ".join(sorted({defect.run.name for defect in declared})) or "none"
        raise RequestError(f"no defect is planted into a run of '{matrix.name}'; there are some for {runs}")
    return defects


def healthy_rows(matrix: Matrix, defects: Sequence[Defect]) -> list[Config]:
    """Return the configurations that the gates in bfloat16 are applied to.

    As in a pull request's table: a row per configuration before the change, and its twin after a correct change.
    """
    twins = dict(matrix.twins)
    after = set(twins.values())
    hit = {defect.run.name for defect in defects}
    rows = {run.name: run for run in matrix.runs if run.name not in after or run.name in hit}
    rows |= {twins[name]: matrix.run(twins[name]) for name in rows if name in twins}
    return [run.having(dtype="bfloat16") for run in rows.values()]


def apply_gates(
    defect: Defect, ran: PlantedRun, healthy_runs: MatrixResult, healthy: Mapping[str, RunRecord]
) -> Detected:
    """Apply all gates to one defect.

    Raises:
        CouldNotRun: the row that it is planted into did not run without it, or it changes nothing there.
    """
    name = defect.run.name
    if name not in healthy_runs.runs or name not in healthy:
        kind = "float32" if name not in healthy_runs.runs else "bfloat16"
        raise CouldNotRun(f"there is no run of '{name}' in {kind} without the defect '{defect.name}' to compare with")
    base, same = healthy_runs.runs[healthy_runs.matrix.runs[0].name].run, healthy_runs.runs[name].run
    run, narrow, mine = ran.run, ran.narrow, healthy[name]
    if run.bits == same.bits and defect.mathematics:
        raise CouldNotRun(f"the defect '{defect.name}' changes no bit of {name}, so it is not a defect")
    assert healthy_runs.envelope is not None
    full = judge_runs(base, run, ran.apart, healthy_runs.envelope, "rounding", "planted")
    ulps = max(loss_ulps(base, run))
    after = {b for _, b in healthy_runs.matrix.twins}
    seen = (
        _outside(narrow, [run for row, run in healthy.items() if row not in after]),
        _loss(narrow) != _loss(mine),
        _perplexity(narrow) != _perplexity(mine),
        any(a.loss_hex != b.loss_hex for a, b in zip(narrow.steps, mine.steps, strict=True)),
        ulps > ULP_LIMIT,
        not full.ok,
    )
    return Detected(
        defect=defect.name,
        config=name,
        seen=seen,
        step=None if full.ok else full.first_step,
        leaf=None if full.ok else full.first_leaf,
        loss=run.steps[-1].loss,
        loss_bfloat16=narrow.steps[-1].loss,
        max_ulp=ulps,
        first_loss_equal=run.steps[0].loss_hex == same.steps[0].loss_hex,
    )


def table_of(detected: Iterable[Detected], healthy_runs: MatrixResult, healthy: Mapping[str, RunRecord]) -> Detection:
    """Return the detection table of a matrix."""
    return Detection(
        gates=GATES,
        defects=tuple(detected),
        false_alarms=_false_alarms(healthy_runs, healthy),
        healthy=_healthy_counts(healthy_runs, healthy),
    )


def _loss(run: RunRecord) -> str:
    return f"{run.steps[-1].loss:.3f}"


def _perplexity(run: RunRecord) -> str:
    return f"{run.steps[-1].perplexity:.3f}"


def _outside(run: RunRecord, others: Iterable[RunRecord]) -> bool:
    """Return whether a printed loss is outside the range of the healthy rows, as a reader would notice."""
    printed = [float(_loss(other)) for other in others]
    return bool(printed) and not min(printed) <= float(_loss(run)) <= max(printed)


def _false_alarms(healthy_runs: MatrixResult, healthy: Mapping[str, RunRecord]) -> tuple[int, ...]:
    """Return how many healthy rows each gate flags.

    Across rows, each row is compared with the others; on the same row, with its all-optimized twin, a correct change.
    """
    base = healthy_runs.runs[healthy_runs.matrix.runs[0].name].run
    pairs = [(healthy[a], healthy[b]) for a, b in healthy_runs.matrix.twins if a in healthy and b in healthy]
    before = [run for run in healthy.values() if run.config not in {b for _, b in healthy_runs.matrix.twins}]
    return (
        sum(_outside(run, [other for other in before if other is not run]) for run in before if len(before) > 1),
        sum(_loss(a) != _loss(b) for a, b in pairs),
        sum(_perplexity(a) != _perplexity(b) for a, b in pairs),
        sum([s.loss_hex for s in a.steps] != [s.loss_hex for s in b.steps] for a, b in pairs),
        sum(max(loss_ulps(base, healthy_runs.runs[name].run)) > ULP_LIMIT for name in _both(healthy_runs, healthy)),
        sum(not comparison.ok for comparison in healthy_runs.comparisons),
    )


def _healthy_counts(healthy_runs: MatrixResult, healthy: Mapping[str, RunRecord]) -> tuple[int, ...]:
    changes = sum(a in healthy and b in healthy for a, b in healthy_runs.matrix.twins)
    rows = len(_both(healthy_runs, healthy))
    return len(healthy) - changes, changes, changes, changes, rows, len(healthy_runs.comparisons)


def _both(healthy_runs: MatrixResult, healthy: Mapping[str, RunRecord]) -> list[str]:
    """Return the healthy rows that ran in float32 too."""
    return [name for name in healthy if name in healthy_runs.runs]
