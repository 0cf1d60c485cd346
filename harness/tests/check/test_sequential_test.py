"""The sequential test: its false-alarm probability, the number of draws that it needs, and its message."""

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from samebits.check.error_groups import LARGEST, WHOLE, ErrorRatio
from samebits.check.sequential_test import ACCEPTED, FALSE_ALARM, MOST, SHOWN, SILENT, TESTED, capital, compare_accuracy

LIMIT = 2.0


def chance_of_rejecting(frequency: float, groups: int = 1) -> float:
    """Exactly, over all sequences of draws: the chance that the capital of one group ever suffices."""
    alive, rejected = {(0, 0): 1.0}, 0.0
    for _ in range(MOST):
        after: dict[tuple[int, int], float] = {}
        for (above, below), chance in alive.items():
            for state, part in (((above + 1, below), frequency), ((above, below + 1), 1 - frequency)):
                after[state] = after.get(state, 0.0) + chance * part
        rejected += sum(chance for state, chance in after.items() if capital(*state) >= groups / FALSE_ALARM)
        alive = {state: chance for state, chance in after.items() if capital(*state) < groups / FALSE_ALARM}
    return rejected


@pytest.mark.parametrize("groups", [1, TESTED])
def test_the_chance_of_a_false_alarm_is_the_one_stated(groups: int) -> None:
    """At the boundary, half of the draws above the limit; for all groups together, by the union of the chances."""
    assert 0 < groups * chance_of_rejecting(0.5, groups) <= FALSE_ALARM
    assert groups * chance_of_rejecting(0.45, groups) < FALSE_ALARM / 20


def test_the_capital_is_a_fair_game() -> None:
    """Its expected value after any draw is what it was: no strategy of stopping makes it grow."""
    for above in range(12):
        for below in range(12):
            after = (capital(above + 1, below) + capital(above, below + 1)) / 2
            assert after == pytest.approx(capital(above, below))


def test_a_loss_in_nine_of_ten_draws_is_found() -> None:
    """The effect that the test finds, with eight groups under test."""
    assert chance_of_rejecting(0.99, TESTED) > 0.999
    assert chance_of_rejecting(0.9, TESTED) > 0.9


def test_acceptance_is_a_fair_game_against_a_loss() -> None:
    """One that is above the limit in three of four draws, and alike in one of twenty."""
    assert 0.05 * 8 + 0.2 * 2 + 0.75 / 4 <= 1
    assert ACCEPTED == 8


def simulated(effect: float, spread: float, seed: int, groups: int = 20) -> Any:
    """One group with an effect among honest ones, its ratios log-normal."""
    rng = np.random.default_rng([seed, round(1000 * effect), round(100 * spread)])

    def draw(number: int = 0, labels: Collection[str] = ()) -> Mapping[str, Mapping[str, ErrorRatio]]:
        values = np.where(np.arange(groups) == 0, effect, 1) * np.exp(spread * rng.standard_normal(groups))
        return {"x": {WHOLE: ErrorRatio(1.0, 64), **{str(n): ErrorRatio(float(v), 64) for n, v in enumerate(values)}}}

    return compare_accuracy(draw(), draw, LIMIT)


POWER = [
    (1.0, 0.05, False, 1),
    (1.4, 0.05, False, 1),
    (2.2, 0.05, True, 30),
    (3.0, 0.05, True, 25),
    (8.0, 0.05, True, 25),
    (1.0, 0.2, False, 2),
    (1.4, 0.2, False, 3),
    (3.0, 0.2, True, 30),
    (8.0, 0.2, True, 25),
    (1.0, 0.5, False, 5),
    (1.4, 0.5, False, 6),
    (8.0, 0.5, True, 30),
    (1.0, 1.0, False, 12),
]
"""True effect, spread of the logarithm of a ratio, what is said, and the draws that it takes (median, at most)."""


@pytest.mark.parametrize(("effect", "spread", "lossy", "draws"), POWER)
def test_an_effect_needs_so_many_draws(effect: float, spread: float, lossy: bool, draws: int) -> None:
    """One or two where the sides are clearly alike, more where they are not."""
    found = [simulated(effect, spread, seed) for seed in range(30)]
    said = [one.lossy for one in found]
    assert np.mean(said) > 0.95 if lossy else not any(said)
    assert np.median([one.draws for one in found]) <= draws


def test_what_cannot_be_told_passes_and_says_so() -> None:
    """A ratio that is above the limit in every second draw."""
    values = iter([2.5, 1.9] * MOST)

    def draw(number: int = 0, labels: Collection[str] = ()) -> Mapping[str, Mapping[str, ErrorRatio]]:
        return {"x": {WHOLE: ErrorRatio(next(values), 100)}}

    found = compare_accuracy(draw(), draw, LIMIT)
    assert not found.lossy and not found.is_decided
    assert str(found).endswith("false alarm at most 1e-06; the draws do not decide whether it is below)")


def drawn(*values: float) -> Any:
    """The comparison of a leaf with these ratios, draw by draw, and how many were drawn."""
    left = iter(values)

    def draw(number: int = 0, labels: Collection[str] = ()) -> Mapping[str, Mapping[str, ErrorRatio]]:
        return {"x": {WHOLE: ErrorRatio(next(left), 100)}}

    return compare_accuracy(draw(), draw, LIMIT)


def test_what_passes_is_shown_with_a_median_within_the_limit() -> None:
    """The first draw made it a suspect, the second decided; a few more say what it is like."""
    accuracy = drawn(7.9, 1.4, 1.1)
    assert not accuracy.lossy
    assert str(accuracy) == "error 1.4x the reference's (1.1 to 7.9 over 3 draws; limit 2, false alarm at most 1e-06)"


def test_what_passes_with_a_median_above_the_limit_says_why() -> None:
    """As many draws as are shown do not decide what the test has decided."""
    accuracy = drawn(7.9, 0.9, *[2.4] * SHOWN)
    assert not accuracy.lossy and accuracy.draws == 2 + SHOWN
    assert str(accuracy) == (
        "error 2.4x the reference's (0.9 to 7.9 over 8 draws; limit 2, false alarm at most 1e-06; "
        "no loss: a draw is at 0.9x)"
    )


def test_a_median_within_the_limit_needs_no_more_draws() -> None:
    """Nor does a leaf that is clearly alike."""
    assert drawn(1.9, 1.4).draws == 2
    assert drawn(1.2).draws == 1


def test_the_verdict_says_the_interval_the_draws_and_the_group() -> None:
    """For a loss that is in every draw."""
    values = iter(np.linspace(3, 4, 2 * MOST))

    def draw(number: int = 0, labels: Collection[str] = ()) -> Mapping[str, Mapping[str, ErrorRatio]]:
        return {"ordinary": {WHOLE: ErrorRatio(1.0, 100), "rows 3 to 4": ErrorRatio(float(next(values)), 50)}}

    found = compare_accuracy(draw(), draw, LIMIT)
    assert found.lossy and found.draws == math.ceil(math.log(3 / FALSE_ALARM) / math.log(1.98))
    assert str(found) == (
        "error 3.1x the reference's (3 to 3.2 over 22 draws; limit 2, false alarm at most 1e-06), in rows 3 to 4 "
        "(input 'ordinary')"
    )


def test_fixed_inputs_are_judged_by_one_draw() -> None:
    """A declaration that gives values leaves nothing to draw."""
    first = {"ordinary": {WHOLE: ErrorRatio(2.5, 100), LARGEST: ErrorRatio(1.0, 1), "row 3": ErrorRatio(9.0, 8)}}
    fine = compare_accuracy(first, lambda number, labels: None, LIMIT)
    assert not fine.lossy and "nothing else was drawn" in str(fine)
    first["ordinary"][LARGEST] = ErrorRatio(2.1, 1)
    assert compare_accuracy(first, lambda number, labels: None, LIMIT).group == "the largest error (input 'ordinary')"


def test_a_larger_limit_accepts_a_larger_effect() -> None:
    """As a contract may, for a finding."""

    def draw(number: int = 0, labels: Collection[str] = ()) -> Mapping[str, Mapping[str, ErrorRatio]]:
        return {"x": {WHOLE: ErrorRatio(5.0, 100)}}

    assert compare_accuracy(draw(), draw, LIMIT).lossy
    assert not compare_accuracy(draw(), draw, 8.0).lossy
    assert compare_accuracy(draw(), draw, 8.0).draws == 1


SILENCE: tuple[dict[str, Any], ...] = ({}, {"x": {}}, {"y": {WHOLE: ErrorRatio(1.0, 100)}})
"""Draws that say nothing of `x`: equal rows were drawn, it is finite nowhere, only the other input is."""


@pytest.mark.parametrize("draw", SILENCE)
def test_what_is_finite_in_no_other_draw_is_judged_by_one(draw: dict[str, Any]) -> None:
    asked: list[int] = []

    def more(number: int, labels: Collection[str]) -> Any:
        asked.append(number)
        return draw

    other = {"y": {WHOLE: ErrorRatio(1.9, 100)}}
    lossy = compare_accuracy({"x": {WHOLE: ErrorRatio(9.0, 100)}} | other, more, LIMIT)
    assert lossy.lossy and lossy.where == ("x", WHOLE, 1.0)
    assert str(lossy) == (
        "error 5.2x the reference's (1 draw; limit 2, it is finite in no other draw), in the whole leaf (input 'x')"
    )
    assert len(asked) <= SILENT + 1
    honest = compare_accuracy({"x": {WHOLE: ErrorRatio(3.0, 100)}} | other, more, LIMIT)
    assert not honest.lossy


def test_what_is_finite_in_some_draws_is_judged_by_these() -> None:
    """It is alike in them: the first draw alone would say otherwise."""
    draws: Iterator[dict[str, Any]] = iter([{}, {"x": {}}, {"x": {WHOLE: ErrorRatio(0.9, 100)}}])
    first = {"x": {WHOLE: ErrorRatio(9.0, 100)}}
    assert not compare_accuracy(first, lambda number, labels: next(draws, None), LIMIT).lossy
