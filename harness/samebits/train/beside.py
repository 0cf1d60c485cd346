"""Runs held against the same runs of another document, as of one process: the same bits, or within the envelope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from samebits.errors import RequestError
from samebits.train.compare import Pairing, judge_runs
from samebits.train.envelope import Envelope
from samebits.train.record import RunRecord

REASON = "the same run of another document; collectives between processes may sum in another order"


def compare_beside(
    runs: Mapping[str, RunRecord], others: Sequence[RunRecord], envelope: Envelope | None, where: str
) -> list[Pairing]:
    """Every run beside the run of the same configuration in another document.

    Args:
        runs: of this one, by configuration.
        others: of the other document.
        envelope: of this one's reference: how far rounding alone moves its losses.
        where: the name of the other document.

    Raises:
        RequestError: a run is not in it, or is of another configuration or length.
    """
    known = {run.config: run for run in others}
    pairings = []
    for name, run in runs.items():
        other = known.get(name)
        if other is None:
            raise RequestError(f"--beside {where}: has no run '{name}'; it must be of the same matrix")
        unlike = other_request(run, other)
        if unlike is not None:
            raise RequestError(f"--beside {where}: run '{name}' {unlike}")
        if envelope is not None:
            pairings.append(judge_beside(other, run, envelope, where))
    return pairings


def other_request(run: RunRecord, other: RunRecord) -> str | None:
    """What another document was asked for where that is another configuration or length; None where it is the same.

    Args:
        run: of this document.
        other: the run of the same name in another document.
    """
    if (other.digest, len(other.steps)) == (run.digest, len(run.steps)):
        return None
    return f"has {len(other.steps)} steps of configuration {other.digest}; here it has {len(run.steps)} of {run.digest}"


def judge_at(revision: str, other: RunRecord, run: RunRecord, envelope: Envelope) -> Pairing:
    """Judge a run beside the same run at another git revision.

    Args:
        revision: as given.
        other: at the revision.
        run: of today.
        envelope: of the first run at the revision: what is judged does not bound itself.
    """
    then = replace(other, config=f"{other.config}@{revision}")
    return judge_runs(then, run, {}, {}, envelope, "rounding", f"the same configuration at {revision}")


def judge_beside(other: RunRecord, run: RunRecord, envelope: Envelope, where: str) -> Pairing:
    """A run beside the same run of another document.

    Args:
        other: of the other document.
        run: of this one.
        envelope: of this one's reference.
        where: the name of the other document.
    """
    return judge_runs(replace(other, config=f"{run.config} of {where}"), run, {}, {}, envelope, "rounding", REASON)
