"""Distances that a bound must hold: of zeros that rounding moves, of perplexities, moments and lost arrays."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from samebits.errors import CouldNotRun
from samebits.train.compare import Pairing, clusters, judge_runs
from samebits.train.distance import first_parting, perplexity_distance, perplexity_ulps, step_distances
from samebits.train.envelope import LEAF_FACTOR, Envelope
from samebits.train.golden.check import norm_change
from samebits.train.record import RunRecord, step_record


def record(name: str = "a", perplexity: float = 7.5, **gradients: Any) -> RunRecord:
    arrays = {name: np.float32(array) for name, array in (gradients or {"w": [3, 4]}).items()}
    outputs = {"loss": np.float32(2), "perplexity": np.float32(perplexity), "gradients": arrays}
    return RunRecord(
        config=name, digest="d", mesh="data1", shard_mode="auto", choice={}, dtype="float32",
        steps=(step_record(1, outputs, {}),),
    )  # fmt: skip


def judged(a: RunRecord, b: RunRecord, apart: dict[str, float], *noise: dict[str, float]) -> Pairing:
    envelope = Envelope(config="a")
    envelope.add("rows permuted", [0], list(noise))
    return judge_runs(a, b, {1: apart}, envelope, "rounding", "")


# --- zeros -----------------------------------------------------------------------------------------------------------


def step(dead: float, live: float = 2.0) -> dict[str, Any]:
    """A step of which one gradient is zero but for rounding."""
    arrays = {"gradient/dead": [dead, 0], "gradient/live": [live], "parameter/w": [1]}
    return {leaf: np.asarray(array, np.float32) for leaf, array in arrays.items()}


def test_a_zero_that_rounding_moves_has_a_bound() -> None:
    """1e-9 of a gradient of norm 2 is rounding; 1e-3, 1e6 and a NaN are not."""
    noise = step_distances(step(0), step(1e-9))
    assert noise["gradient/dead"] == pytest.approx(5e-10)
    for dead, verdict in ((2e-9, "rounding"), (1e-3, "different"), (1e6, "different"), (np.nan, "different")):
        pairing = judged(record(), record("b", perplexity=7.5000005), step_distances(step(0), step(dead)), noise)
        assert (pairing.verdict, pairing.bound is not None) == (verdict, True), dead
        assert verdict == "rounding" or (pairing.worst_leaf, pairing.ok) == ("gradient/dead", False)


def test_a_side_that_becomes_zero_is_far() -> None:
    assert step_distances(step(1e-9), step(0))["gradient/dead"] == 1


def test_arrays_without_a_bound_are_an_error() -> None:
    """Rounding alone decides whether they are finite, or whether anything of their kind differs from zero."""
    for far in (step_distances(step(1), step(np.nan)), step_distances(step(0, live=0), step(1e-9, live=0))):
        with pytest.raises(
            CouldNotRun, match="config 'a': with rows permuted, gradient/dead of the reference is not fi"
        ):
            judged(record(), record(), {}, far)


def test_an_array_that_is_finite_in_one_run_alone_is_different() -> None:
    """At a step of which nothing is run again, with the same loss: the gradient was masked before the update."""
    healthy, masked = record(w=[3, 4]), record("b", w=[3, np.nan])
    for a, b in ((healthy, masked), (masked, healthy)):
        pairing = judged(a, b, {})
        assert (pairing.verdict, pairing.ok, pairing.first_step, pairing.first_leaf) == (
            "different", False, 1, "gradient/w",
        )  # fmt: skip
    assert judged(masked, record("c", w=[3, np.nan]), {}).verdict == "bitwise"


def test_norms_of_a_golden_that_are_zero() -> None:
    assert norm_change(2.0, 1.0, 8.0) == 0.5 and norm_change(2.0, 0.0, 8.0) == 1
    assert norm_change(0.0, 1e6, 2.0) == 5e5 and norm_change(0.0, 1e-9, 2.0) == 5e-10
    assert norm_change(0.0, 0.0, 0.0) == 0 and norm_change(0.0, 1.0, 0.0) == norm_change(0.0, np.nan, 1.0) == np.inf


# --- bits that are not those of losses and parameters ----------------------------------------------------------------


@pytest.mark.parametrize(("perplexity", "verdict"), [(7.5, "bitwise"), (7.5000005, "rounding"), (15, "different")])
def test_a_perplexity_counts(perplexity: float, verdict: str) -> None:
    pairing = judged(record(), record("b", perplexity), {})
    assert pairing.verdict == verdict
    assert pairing.first_leaf == (None if verdict == "bitwise" else "perplexity")
    assert len(clusters([record(), record("b", perplexity)])) == (1 if verdict == "bitwise" else 2)


def test_a_perplexity_moves_with_its_loss() -> None:
    """`exp` multiplies the change of the loss, which has a bound of its own; what a NaN moves is the maximum."""
    loss = np.float32(9)
    moved = np.nextafter(loss, np.float32(10))
    assert perplexity_distance(float(loss), float(np.exp(loss)), float(moved), float(np.exp(moved))) <= 1
    assert (
        perplexity_distance(1.0, 2.0, 1.0, float("nan")) == perplexity_distance(1.0, 2.0, float("nan"), np.inf) == 2**32
    )
    assert perplexity_ulps(record(), record("b", 7.5000005)) == [1]


def test_noise_of_a_perplexity_widens_its_bound() -> None:
    envelope = Envelope(config="a")
    assert envelope.perplexity_bound(1, 2.0) == 5
    envelope.add("rows permuted", [0, 0], [], [3, 1])
    assert (envelope.perplexity, envelope.perplexity_bound(2, 2.0)) == ([3, 3], 11)


def test_moments_of_a_single_step_count() -> None:
    pairing = judged(record(), record("b"), {"gradient/w": 0.0, "mu/w": 1e-9})
    assert (pairing.verdict, pairing.first_step, pairing.first_leaf) == ("rounding", 1, "mu/w")
    assert judged(record(), record("b"), {"gradient/w": 0.0, "mu/w": 0.0}).verdict == "bitwise"
    assert judged(record(), record("b"), {"mu/w": 1e-3}, {"mu/w": 1e-3 / LEAF_FACTOR / 2}).verdict == "different"


def test_an_array_that_one_run_lacks_differs() -> None:
    both, less = record(w=[1], v=[2]), record("b", w=[1])
    assert first_parting(both, less) == first_parting(less, both) == (1, "gradient/v")
    assert first_parting(both, replace(both, config="b")) is None
