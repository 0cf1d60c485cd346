"""Tensors of zeros that rounding moves: their bound is finite, so that a wrong one is beyond it."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from samebits.bisect import tensors
from samebits.bisect.tensors import StepMixture
from samebits.train.taps import Tensor

ZERO, LIVE = Tensor("part:out:zero", 0), Tensor("part:out:live", 0)


@pytest.mark.parametrize(
    ("value", "outcome"), [(0.0, "pass"), (3e-17, "pass"), (1e-6, "fail"), (1e6, "fail"), (np.nan, "fail")]
)
def test_a_zero_that_rounding_moves_has_a_bound(value: float, outcome: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interpreted(*asked: Any) -> Any:
        dithered = len(asked) == 5
        return {ZERO: np.full(2, 1e-17 * dithered), LIVE: np.ones(2)}, SimpleNamespace(containers=set())

    def ran(*_: Any) -> Any:
        values = {ZERO: np.full((2, 1), value), LIVE: np.ones(2)}
        return SimpleNamespace(values=values, apart={ZERO: np.inf, LIVE: 0.0}, missing=list), None

    monkeypatch.setattr(tensors, "_interpreted", interpreted)
    monkeypatch.setattr(tensors, "_run", ran)
    sides: Any = SimpleNamespace(good=None, mixture=lambda taken: (None, None))
    judgement = tensors._judged(tensors._GoodStep(sides), StepMixture("all", frozenset()), False)
    assert judgement.outcome == outcome
    assert outcome == "pass" or judgement.signature == str(ZERO)
