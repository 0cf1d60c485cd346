"""The specimens in float64: every rewrite equals its reference up to rounding, no fault does; no routing is tied."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any
from unittest import mock

import jax
import numpy as np
import pytest

from samebits.host import environment
from samebits.programs.implementations import implementation
from samebits.schema.case import Case
from tests.prove.mathematics import ALL
from tests.prove.mathematics.decoder import DECODER, TRAIN_STEP
from tests.prove.mathematics.experts import EXPERTS
from tests.prove.mathematics.normalisation import RMS_NORM
from tests.prove.mathematics.specimen import Function, Leaves, Specimen, evaluate, relative_difference
from tests.prove.mathematics.tolerance import measure, table

environment.prepare()

SAME = 1e-12
"""Largest difference of a rewrite, relative to its leaf's largest value. Noise: 1.0e-15 (the decoder in blocks)."""

DIFFERENT = 1e-10
"""Least difference of a fault in the leaf where it shows most. Nearest fault: 3.7e-7 (an epsilon in a count)."""

TIE = 1e-3
"""Least distance between the probabilities of neighbours in a routing's order, relative to the larger one."""

SLOW = tuple(f"mathematics_{name}" for name in ("adamw", "attention", "decoder", "experts", "train_step"))
"""Specimens that take seconds to a minute to compile; the fast tests check one rewrite and one fault of a layer."""

SPECIMENS = pytest.mark.parametrize(
    "specimen",
    [pytest.param(s, marks=pytest.mark.slow) if s.pair.name in SLOW else s for s in ALL],
    ids=[s.pair.name for s in ALL],
)


def differences(specimen: Specimen, functions: Mapping[str, Function], case: Case) -> dict[str, dict[str, float]]:
    """How far functions are from the reference in float64, by function and leaf."""
    found = evaluate(specimen.pair, {"the reference": specimen.reference, **functions}, case, "float32", x64=True)
    reference = found.pop("the reference")
    return {name: relative_difference(leaves, reference) for name, leaves in found.items()}


def check_rewrites(specimen: Specimen, found: dict[str, dict[str, float]], case: Case) -> None:
    wrong = {name: found[name] for name in specimen.rewrites if not max(found[name].values()) <= SAME}
    assert not wrong, f"{case.id}: not the same mathematics: {wrong}"


def check(specimen: Specimen, faults: Mapping[str, Function]) -> dict[str, Function]:
    """Check the rewrites in the first case, and give back the faults that show in no case; later ones run if needed."""
    unseen = dict(faults)
    for number, case in enumerate(specimen.pair.cases):
        if unseen or not number:
            found = differences(specimen, unseen if number else {**specimen.rewrites, **unseen}, case)
            if not number:
                check_rewrites(specimen, found, case)
            unseen = {name: fault for name, fault in unseen.items() if max(found[name].values()) < DIFFERENT}
    return unseen


@pytest.mark.sampled(1)
@SPECIMENS
def test_rewrites_are_the_same_and_faults_are_not(specimen: Specimen) -> None:
    unseen = check(specimen, specimen.faults)
    assert not unseen, f"these are no faults: {sorted(unseen)}"


@pytest.mark.slow
def test_a_layer_rewritten_is_the_same() -> None:
    """The decoder in blocks on its smallest case, and one fault."""
    blocks = dataclasses.replace(DECODER.pair, variants={"blocks": DECODER.rewrites["blocks"]})
    fault = {"rope_base_10001": DECODER.faults["rope_base_10001"]}
    assert not check(Specimen(pair=blocks, faults=fault), fault)


@pytest.mark.slow
@pytest.mark.parametrize("specimen", ALL, ids=lambda specimen: specimen.pair.name)
def test_rewrites_are_the_same_in_every_case(specimen: Specimen) -> None:
    for case in specimen.pair.cases:
        check_rewrites(specimen, differences(specimen, specimen.rewrites, case), case)


# --- the check itself ------------------------------------------------------------------------------------------------


def test_a_fault_and_a_rewrite_that_are_swapped_are_found() -> None:
    fault, rewrite = RMS_NORM.faults["epsilon_squared"], RMS_NORM.rewrites["halves"]
    mistaken = Specimen(pair=dataclasses.replace(RMS_NORM.pair, variants={"mistaken": fault}), faults={})
    with pytest.raises(AssertionError, match=r"not the same mathematics: \{'mistaken'"):
        check(mistaken, {})
    honest = Specimen(pair=dataclasses.replace(RMS_NORM.pair, variants={"halves": rewrite}), faults={})
    assert check(honest, {"honest": rewrite}) == {"honest": rewrite}


def test_a_comparison_that_would_say_nothing_is_refused() -> None:
    one: Leaves = {"out": np.ones(2)}
    assert relative_difference({"out": np.array([1.0, 1.5])}, one) == {"out": 0.5}
    assert relative_difference({"out": np.array([1.0, np.nan])}, one) == {"out": np.inf}
    with pytest.raises(ValueError, match="the leaves are"):
        relative_difference({}, one)
    for nothing in (np.zeros(2), np.array([1.0, np.inf])):
        with pytest.raises(ValueError, match="comparing it would say nothing"):
            relative_difference(one, {"out": nothing})


@pytest.mark.parametrize("specimen", ALL, ids=lambda specimen: specimen.pair.name)
def test_faults_can_stand_in_for_the_reference(specimen: Specimen) -> None:
    """The same signature, names of their own, and none of the functions twice."""
    for pair in (specimen.pair, specimen.faulty):
        assert all(callable(implementation(pair, side)) for side in pair.sides)
        assert pair.origin.endswith(".py") and "specimen" not in pair.origin
    functions = [specimen.reference, *specimen.rewrites.values(), *specimen.faults.values()]
    assert len({id(function) for function in functions}) == len(functions)
    assert not set(specimen.rewrites) & set(specimen.faults)


def test_there_are_at_least_forty_five_faults() -> None:
    assert sum(len(specimen.faults) for specimen in ALL) >= 45
    assert len({specimen.pair.name for specimen in ALL}) == len(ALL)


# --- near ties -------------------------------------------------------------------------------------------------------


def margins(specimen: Specimen, case: Case, dtype: str) -> list[float]:
    """For each routing in the reference, the least relative distance between neighbours up to the first not chosen."""
    found = []
    choose = jax.lax.top_k

    def record(values: Any, top: int) -> None:
        order = -np.sort(-np.asarray(values, np.float64), axis=-1)[..., : top + 1]
        found.append(float(np.min((order[..., :-1] - order[..., 1:]) / order[..., :-1])))

    def top_k(operand: Any, k: int, **rest: Any) -> Any:
        jax.debug.callback(lambda values: record(values, k), operand)
        return choose(operand, k, **rest)

    forward = dataclasses.replace(specimen.pair, gradients=False)
    with mock.patch.object(jax.lax, "top_k", top_k):
        evaluate(forward, {"the reference": specimen.reference}, case, dtype, x64=True)
        jax.effects_barrier()
    return found


@pytest.mark.parametrize("dtype", ("bfloat16", "float32"))
def test_no_routing_hangs_on_a_near_tie(dtype: str) -> None:
    found = [min(margins(EXPERTS, case, dtype)) for case in EXPERTS.pair.cases]
    assert min(found) > TIE


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ("bfloat16", "float32"))
@pytest.mark.parametrize("specimen", (DECODER, TRAIN_STEP), ids=lambda specimen: specimen.pair.name)
def test_no_routing_of_a_layer_hangs_on_a_near_tie(specimen: Specimen, dtype: str) -> None:
    for case in specimen.pair.cases:
        found = margins(specimen, case, dtype)
        assert len(found) == case.sizes["layers"]
        assert min(found) > TIE


def test_a_near_tie_would_be_found() -> None:
    """Two experts whose columns of the router are nearly the same."""

    def tied(x: Any, router: Any, gate: Any, up: Any, down: Any, *, top: int, balance: float) -> Any:
        router = router.at[:, 0].set(router[:, 1] * (1 + 1e-6))
        return EXPERTS.reference(x, router, gate, up, down, top=top, balance=balance)

    specimen = Specimen(pair=dataclasses.replace(EXPERTS.pair, reference=tied), faults={})
    assert min(margins(specimen, EXPERTS.pair.cases[0], "float32")) < TIE


# --- what a tolerance sees -------------------------------------------------------------------------------------------


def test_the_usual_tolerance_misses_most_faults_of_a_norm() -> None:
    measured = measure(RMS_NORM, RMS_NORM.pair.cases[:1])
    missed = {seen.name for seen in measured if seen.missed and not seen.honest}
    assert {"epsilon_ten_times", "mean_over_one_less", "power_049", "gradient_projection_over_one_less"} <= missed
    seen = {seen.name: seen for seen in measured if not seen.missed}
    assert "gradient_without_projection" in seen and seen["gradient_without_projection"].gradient > 1
    assert not any(seen.honest for seen in seen.values())
    assert list(table(measured))[-1].startswith(f"{len(missed)} of {len(RMS_NORM.faults)} faults are missed")


@pytest.mark.slow
def test_the_usual_tolerance_misses_at_least_thirty_faults() -> None:
    measured = [seen for specimen in ALL for seen in measure(specimen)]
    assert sum(seen.missed for seen in measured if not seen.honest) >= 30
    assert not [seen.name for seen in measured if seen.honest and not seen.missed]
