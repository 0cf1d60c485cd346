"""The runs of a matrix at another git revision, made in this process and compared with today's."""

from __future__ import annotations

from samebits.train.compare import Pairing
from samebits.train.envelope import distances, forced
from samebits.train.matrix import MatrixResult, run_matrix
from samebits.train.other_revision import compare, matrix_at
from samebits.train.request import TrainRequest, select
from samebits.train.trainer import Trainer, pool


def compared_here(today: MatrixResult, request: TrainRequest, revision: str) -> list[Pairing]:
    """Every run that is in both, from their states and arrays as they are.

    Args:
        today: today's runs.
        request: of them.
        revision: a branch, a tag or a commit.
    """
    with matrix_at(request, revision) as (there, _, model, matrix):
        then = run_matrix(model, matrix, there.tree, request.steps)
    assert then.envelope is not None
    states, pairings = then.runs[matrix.runs[0].name].states, []
    now, _ = select(request)
    with pool() as threads:
        for name in (name for name in then.runs if name in today.runs):
            trainer = Trainer(now, today.matrix.run(name), request.tree, threads)
            apart = distances(then.forced[name], forced(trainer, states))
            pairings.append(compare(then.runs[name].run, today.runs[name].run, apart, then.envelope, revision))
    return pairings
