"""Distances that a bound must hold: of losses, of arrays of single steps, and of the norms of every step."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from samebits.errors import CouldNotRun
from samebits.train.compare import Pairing, clusters, judge_runs
from samebits.train.distance import (
    NORM_FACTOR,
    NORM_FLOOR,
    first_parting,
    kind_of_norm,
    norm_distances,
    perplexity_distance,
    perplexity_ulps,
    step_distances,
)
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


STEPS = 8

Change = Mapping[str, Any]


def arrays(number: int, change: Change) -> dict[str, dict[str, Any]]:
    """The gradients and parameters of a step; `change` is a factor, or a whole array, or None for an array left out."""
    rng = np.random.default_rng(number)
    made: dict[str, dict[str, Any]] = {}
    for kind, size in (("gradient", 1e-3), ("parameter", 1.0)):
        made[kind] = {}
        for name in (*("head", "norm", "router"), *(["extra"] if f"{kind}/extra" in change else [])):
            array, how = size * rng.normal(size=16), change.get(f"{kind}/{name}", 1.0)
            if how is not None:
                made[kind][name] = np.float32(array * how)
    return made


def run(name: str, changes: Mapping[int, Change] | None = None, always: Change | None = None) -> RunRecord:
    steps = []
    for number in range(1, STEPS + 1):
        made = arrays(number, {**(always or {}), **(changes or {}).get(number, {})})
        outputs = {"loss": np.float32(2), "perplexity": np.float32(7.5), "gradients": made["gradient"]}
        steps.append(step_record(number, outputs, made["parameter"]))
    return RunRecord(
        config=name, digest="d", mesh="data1", shard_mode="auto", choice={}, dtype="float32", steps=tuple(steps)
    )


GOOD = run("one")


def envelope(*rewrites: RunRecord) -> Envelope:
    measured = Envelope(config="one")
    measured.add("rows permuted", [0] * STEPS, [])
    for rewrite in rewrites or (run("one", always={"gradient/head": 1 + 2**-23}),):
        measured.add_norms("rows permuted", GOOD, rewrite)
    return measured


def judged_norms(other: RunRecord, *rewrites: RunRecord) -> Pairing:
    return judge_runs(GOOD, other, {}, envelope(*rewrites), "rounding", "")


LOST = 7
"""A step that no run restarts at."""

FAULTS: dict[str, tuple[Change, str]] = {
    "a gradient is zero": ({"gradient/router": 0.0}, "gradient/router"),
    "a gradient is garbage": ({"gradient/router": 1e4}, "gradient/router"),
    "a gradient is not finite": ({"gradient/router": np.inf}, "gradient/router"),
    "an update without its moments": ({"parameter/norm": 1 + 4e-4}, "parameter/norm"),
    "a parameter of another size": ({"parameter/head": 1.5}, "parameter/head"),
    "all gradients are divided twice": (
        {f"gradient/{name}": 0.5 for name in ("head", "norm", "router")}, "gradient/",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_one_step_is_found_there(name: str) -> None:
    """With the losses of the healthy run, and nothing run again."""
    change, leaf = FAULTS[name]
    pairing = judged_norms(run("two", {LOST: change}))
    assert (pairing.verdict, pairing.ok, pairing.first_step, pairing.max_ulp) == ("different", False, LOST, 0)
    assert str(pairing.first_leaf).startswith(leaf)
    assert pairing.worst_leaf == pairing.first_leaf


@pytest.mark.parametrize("factor", [1 + 2**-23, 1 + 2**-20, 1 - 2**-20])
def test_rounding_of_every_array_is_rounding(factor: float) -> None:
    """Eight ulps of every number in one direction, which is more than any honest run moves."""
    change = {f"{kind}/{name}": factor for kind in ("gradient", "parameter") for name in ("head", "norm", "router")}
    pairing = judged_norms(run("two", dict.fromkeys(range(2, STEPS + 1), change)))
    assert (pairing.verdict, pairing.first_step) == ("rounding", 2)


def test_a_sum_of_absolute_values_counts() -> None:
    """Another array with the same root of the sum of squares."""
    a, b = GOOD.steps[LOST - 1], run("two", {LOST: {"gradient/norm": -1.0}}).steps[LOST - 1]
    assert max(norm_distances(a, b).values()) == 0, "no norm sees a sign"
    leaf = a.digests["gradient/norm"]
    spiked = replace(a, digests={**a.digests, "gradient/norm": replace(leaf, l1=0.5 * leaf.l1)})
    assert norm_distances(a, spiked)["gradient/norm"] > 0.1
    pairing = judged_norms(replace(GOOD, config="two", steps=(*GOOD.steps[: LOST - 1], spiked, *GOOD.steps[LOST:])))
    assert (pairing.verdict, pairing.first_step, pairing.first_leaf) == ("different", LOST, "gradient/norm")


def test_the_norm_of_all_counts() -> None:
    step = replace(GOOD.steps[2], grad_norm=1.01 * GOOD.steps[2].grad_norm)
    pairing = judged_norms(replace(GOOD, config="two", steps=(*GOOD.steps[:2], step, *GOOD.steps[3:])))
    assert (pairing.verdict, pairing.first_step, pairing.first_leaf) == ("different", 3, "norm of all gradients")


@pytest.mark.parametrize(("kind", "run_with"), [("gradient", "two"), ("parameter", "two"), ("gradient", "one")])
def test_an_array_that_one_run_lacks_is_different(kind: str, run_with: str) -> None:
    """It is named with the run that has it, before all that differs because of it."""
    change = {f"{kind}/extra": 1.0} if run_with == "two" else {f"{kind}/router": None}
    leaf = "extra" if run_with == "two" else "router"
    other = run("two", always=change)
    worse = replace(other, steps=(replace(other.steps[0], loss=3.0, loss_hex=(3.0).hex()), *other.steps[1:]))
    for two in (other, worse):
        pairing = judged_norms(two)
        assert (pairing.verdict, pairing.ok, pairing.first_step) == ("different", False, 1)
        assert pairing.first_leaf == f"{kind}/{leaf} (only in {run_with})"


def test_a_noisy_norm_has_a_wider_bound() -> None:
    """Where rounding decides the sign of an update, the rewrites of the reference move as far."""
    noisy = run("one", {4: {"parameter/norm": 1 + 1e-3}})
    moved = run("two", {6: {"parameter/norm": 1 + 4e-3}})
    assert judged_norms(moved).verdict == "different"
    assert judged_norms(moved, noisy).verdict == "rounding"
    assert judged_norms(run("two", {3: {"parameter/norm": 1 + 4e-3}}), noisy).verdict == "different", "before the noise"
    assert judged_norms(run("two", {6: {"parameter/norm": 2.0}}), noisy).verdict == "different"


def test_the_bound_follows_from_the_noise() -> None:
    measured = Envelope(config="one", loss=[0, 20], norms={"gradient": [0.0, 1e-3]})
    floor = NORM_FLOOR["float32"]
    assert measured.norm_bound("gradient/head", 1) == floor["gradient"]
    assert measured.norm_bound("norm of all gradients", 2) == NORM_FACTOR * 1e-3
    assert measured.norm_bound("parameter/head", 2) == floor["parameter"]
    assert replace(measured, dtype="bfloat16").norm_bound("gradient/head", 1) == NORM_FLOOR["bfloat16"]["gradient"]
    assert kind_of_norm("norm of all parameters") == kind_of_norm("parameter/head") == "parameter"


def test_norms_that_rounding_decides_have_no_bound() -> None:
    for broken in (np.inf, np.nan):
        with pytest.raises(CouldNotRun, match="config 'one': with rows permuted, gradient/head of the reference is no"):
            envelope(run("one", {3: {"gradient/head": broken}}))


def test_a_rewrite_with_other_arrays_gives_no_bound() -> None:
    for change, which in (
        ({"gradient/extra": 1.0}, "extra (only in the rewrite)"),
        ({"gradient/norm": None}, "norm (o"),
    ):
        with pytest.raises(CouldNotRun) as error:
            envelope(run("one", always=change))
        assert f"with rows permuted, the reference has other arrays: gradient/{which}" in str(error.value)


def test_an_old_document_bounds_no_norm() -> None:
    """It says nothing of their noise; what is not finite, or not there, is different nevertheless."""
    old = Envelope(config="one", loss=[0] * STEPS)
    for change, verdict in (({"gradient/router": 0.0}, "rounding"), ({"gradient/router": np.nan}, "different")):
        pairing = judge_runs(GOOD, run("two", {LOST: change}), {}, old, "rounding", "")
        assert pairing.verdict == verdict
