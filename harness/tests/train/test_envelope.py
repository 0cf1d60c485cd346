"""A rewrite whose loss is not finite gives no bound: it would accept any loss, a NaN among them."""

from types import SimpleNamespace
from typing import Any

import pytest

from samebits.errors import CouldNotRun
from samebits.train.distance import FAR, ulps
from samebits.train.envelope import Envelope
from samebits.train.golden.runs import evidence_of


def test_the_envelope_of_a_run() -> None:
    envelope = Envelope(config="one")
    envelope.add("repeated", [0, 0, 0], [])
    envelope.add("rows permuted", [3, 1, 9], [])
    assert envelope.loss == [3, 3, 9]
    with pytest.raises(CouldNotRun, match=r"config 'one': with one ulp of dither, the loss .* is not finite at step 2"):
        envelope.add("one ulp of dither", [2, ulps(1.0, float("nan")), FAR], [])


def test_the_evidence_of_a_golden() -> None:
    def run(*losses: float, norm: float = 0.0) -> Any:
        steps = [
            SimpleNamespace(
                step=n,
                loss=x,
                loss_hex=x.hex(),
                perplexity_hex=x.hex(),
                grad_norm=5.0,
                param_norm=0.0,
                digests={"gradient/w": SimpleNamespace(l2=norm)},
            )
            for n, x in enumerate(losses, 1)
        ]
        return SimpleNamespace(config="one", steps=steps, dtype="float32")

    assert evidence_of(run(1.0, 2.0), [("rows permuted", run(1.0, 2.0))], []).loss_spread == (0, 0)
    with pytest.raises(CouldNotRun, match="config 'one': with rows permuted, the loss of the reference is not finite"):
        evidence_of(run(1.0, 2.0), [("rows permuted", run(1.0, float("nan")))], [])
    spread = evidence_of(run(1.0, 2.0), [("rows permuted", run(1.0, 2.0, norm=1e-9))], []).leaf_spread
    assert spread["gradient/w"] == pytest.approx(2e-10), "a zero that rounding moves, relative to all gradients"
    with pytest.raises(
        CouldNotRun, match="config 'one': with rows permuted, gradient/w of the reference is not finite"
    ):
        evidence_of(run(1.0, 2.0), [("rows permuted", run(1.0, 2.0, norm=float("inf")))], [])
