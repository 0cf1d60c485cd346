"""A sequential test of "less accurate": one draw poses the hypotheses, independent further draws decide them.

The null hypothesis of a group of elements: in at most half of all draws its error is more than `limit` times the
reference's. Nothing is assumed of how ratios are distributed, nor of how the errors of one draw depend on each other: a
draw is one observation. Against each null hypothesis a wager is made on every further draw; its capital is a
nonnegative supermartingale, so that by Ville's inequality it ever exceeds 1/a with probability at most a, whenever one
stops. The mean of the capitals of all groups is one too, however the groups depend on each other, and groups chosen on
the first draw are fixed before the draws that decide: no correction for how many were looked at is left to make.

The other direction is a wager too, against "the error is above the limit in at least three of four draws, and below
three quarters of it in at most one of twenty": it is given up at `ACCEPTED`, so that such a loss passes with a
probability of at most 1/ACCEPTED once it is suspected. What `MOST` draws cannot decide passes, and the verdict says so:
the guarantee is for pairs without a loss.

Where no further draw of an input is finite, as under the root of numbers that are drawn with both signs, one draw
decides, as it does where inputs are fixed.

The median that is shown counts the first draw too, by which groups became suspects. Where it is above the limit
although no group loses, a few more draws are shown, which decide nothing.

Sources: Ville's inequality and betting, Waudby-Smith and Ramdas, "Estimating means of bounded random variables by
betting", J. R. Stat. Soc. B 86, 2024; averages of e-values, Vovk and Wang, "E-values: calibration, combination and
applications", Ann. Statist. 49, 2021; Wald, Sequential Analysis, 1947.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np

from samebits.check.error_groups import LARGEST, WHOLE, ErrorRatio, is_natural

FALSE_ALARM = 1e-6
"""Probability that a pair for which every null hypothesis holds is ever said to lose accuracy, per leaf."""
MOST = 64
"""Further draws at most. The smallest number that can show a loss, above the limit in every draw, is 25."""
TESTED = 8
"""Groups that one leaf tests at most."""
SILENT = 8
"""Further draws in which an input gives no finite number, after which no more are made for it."""
MANY = 16
"""Elements of rows by their own size whose ratio one draw decides."""
SHOWN = 6
"""Draws at most that are made for the median that is shown, once there is a decision."""
ALIKE = 0.75
"""A ratio below this part of the limit is alike: as a first draw it ends the test."""
ACCEPTED = 8.0
_STAKES = (0.75, 0.9, 0.99)
"""Frequencies of draws above the limit that the capital is spread over, a third on each."""
_ALIKE, _BETWEEN, _ABOVE = 8.0, 2.0, 0.25
"""What a draw multiplies the evidence for acceptance by: 0.05 * 8 + 0.2 * 2 + 0.75 * 0.25 is below 1."""

Ratios = Mapping[str, ErrorRatio]
"""The ratios of one input, by group."""
More = Callable[[int, Collection[str]], Mapping[str, Ratios] | None]
"""The ratios of a further draw for some inputs, by input; None where inputs are fixed and nothing can be drawn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Accuracy:
    """How accurate a variant is beside its reference.

    Args:
        limit: how many times the reference's error is accepted.
        is_set: whether the limit is; else a loss beyond it is only told.
        ratio, low, high: the median over the draws, the smallest and the largest: of the group that loses, or else of
            the whole leaf.
        group: the group that loses, with its input, in words.
        where: the same as the input's label, the group's name and the sign of its bias.
        bias: of a group that loses by a bias, the median of its mean error, in units in the last place.
        is_decided: whether the draws sufficed for a decision; where they did not, the leaf passes.
        fixed: there is no other draw, so that nothing is known of the chance of a false alarm.
        silent: other draws were made, and in none of them the numbers are finite.
        dependent: the draws are variations of given arrays that keep their places, and what makes one of them an
            unlucky case may be in all of them.
    """

    lossy: bool
    limit: float
    ratio: float
    low: float
    high: float
    draws: int
    group: str | None = None
    where: tuple[str, str, float] | None = None
    bias: float | None = None
    is_decided: bool = True
    fixed: bool = False
    silent: bool = False
    dependent: bool = False
    is_set: bool = True

    def __str__(self) -> str:
        spread = f"{self.low:.2g} to {self.high:.2g} over {self.draws} draws" if self.draws > 1 else "1 draw"
        sure = "draws vary the given arrays" if self.dependent else f"false alarm at most {FALSE_ALARM:.0e}"
        sure = "nothing else was drawn" if self.fixed else sure
        sure = "it is finite in no other draw" if self.silent else sure
        if not self.is_decided:
            sure += "; the draws do not decide whether it is below"
        elif not self.lossy and self.low <= self.limit < self.ratio:
            sure += f"; no loss: a draw is at {self.low:.2g}x"
        where = f", in {self.group}" if self.group is not None else ""
        limit = f"limit {self.limit:g}" if self.is_set else "no limit is set"
        ratio = f"{self.ratio:.2g}x the reference's ({spread}; {limit}, {sure}){where}"
        if self.bias is None:
            return f"error {ratio}"
        return f"a bias of {self.bias:+.2g} units in the last place, {ratio}"


@dataclass(slots=True)
class Wager:
    """One group of one input under test, with the sign of its bias where it is one."""

    label: str
    group: str
    sign: float
    limit: float
    draws: list[ErrorRatio] = field(default_factory=list)
    accepted: float = 1.0

    def add(self, ratio: ErrorRatio) -> None:
        """Add one further draw."""
        value = ratio.value * self.sign
        self.draws.append(ratio)
        alike, below = value <= ALIKE * self.limit, value <= self.limit
        self.accepted *= _ALIKE if alike else _BETWEEN if below else _ABOVE

    @property
    def above(self) -> int:
        """In how many draws the error was above the limit."""
        return sum(ratio.value * self.sign > self.limit for ratio in self.draws)

    @property
    def below(self) -> int:
        """In how many draws it was not."""
        return len(self.draws) - self.above

    @property
    def capital(self) -> float:
        """What a capital of one has become, betting that draws are above the limit."""
        return capital(self.above, self.below)

    @property
    def is_accepted(self) -> bool:
        """Whether it is as accurate as the reference."""
        return self.accepted >= ACCEPTED


def capital(above: int, below: int) -> float:
    """Return the capital after so many draws above the limit and so many below it."""
    return float(np.mean([(2 * p) ** above * (2 * (1 - p)) ** below for p in _STAKES]))


def compare_accuracy(
    first: Mapping[str, Ratios], more: More | None, limit: float, draws: list[Mapping[str, Ratios]] | None = None
) -> Accuracy:
    """Decide whether a variant is less accurate than its reference.

    Args:
        first: the ratios of the first draw, by input.
        more: gives further draws; None where there are none.
        limit: how many times the reference's error is accepted.
        draws: gets the draws that decide, the first one before the others.
    """
    tested, draws = suspects(first, limit), [] if draws is None else draws
    draws.append(first)
    waiting, needed = list(tested), max(len(tested), 1) / FALSE_ALARM
    measured: set[str] = set()
    while waiting and len(draws) <= MOST:
        ratios = None if more is None else more(len(draws), list(dict.fromkeys(wager.label for wager in waiting)))
        if ratios is None:
            break
        draws.append(ratios)
        measured.update(label for label, groups in ratios.items() if groups)
        for wager in waiting:
            ratio = ratios.get(wager.label, {}).get(wager.group)
            if ratio is not None:
                wager.add(ratio)
        if sum(wager.capital for wager in tested) >= needed:
            return _lossy(max(tested, key=lambda wager: wager.capital), limit)
        left = MOST + 1 - len(draws)
        waiting = [
            wager
            for wager in waiting
            if not (wager.is_accepted or capital(wager.above + left, wager.below) < needed)
            and (wager.label in measured or len(draws) <= SILENT)
        ]
    if waiting and len(draws) == 1:
        return _fixed(first, limit)
    silent = {wager.label: first[wager.label] for wager in tested if wager.label not in measured}
    if silent:
        alone = replace(_fixed(silent, limit), silent=True)
        if alone.lossy or len(silent) == len({wager.label for wager in tested}):
            return alone
    decided = all(wager.is_accepted for wager in tested if wager.label in measured)
    shown = _settled(draws, more, limit) if decided else _whole(draws)[1]
    return accuracy_over(shown, limit=limit, lossy=False, is_decided=decided)


def of_one_draw(first: Mapping[str, Ratios], limit: float) -> Accuracy:
    """Return how accurate a variant is in one draw, which decides nothing where a group is not clearly alike."""
    return accuracy_over(_whole([first])[1], limit=limit, lossy=False, is_decided=not suspects(first, limit))


def _settled(draws: Sequence[Mapping[str, Ratios]], more: More | None, limit: float) -> list[float]:
    """Return the ratios over the whole leaf with further draws, until their median is at most the limit."""
    draws = list(draws)
    label, values = _whole(draws)
    for _ in range(SHOWN):
        ratios = None if more is None or median(values) <= limit else more(len(draws), [label])
        if ratios is None:
            break
        draws.append(ratios)
        label, values = _whole(draws)
    return values


def suspects(first: Mapping[str, Ratios], limit: float) -> list[Wager]:
    """Return the groups of a first draw that are not clearly alike, the least likely first."""
    candidates = [
        (np.log(abs(ratio.value)) * np.sqrt(ratio.elements), label, group, ratio)
        for label, ratios in first.items()
        for group, ratio in ratios.items()
        if (abs(ratio.value) if ratio.bias is not None else ratio.value) > ALIKE * limit
    ]
    candidates.sort(key=lambda candidate: -candidate[0])
    return [
        Wager(label, group, -1.0 if ratio.value < 0 else 1.0, limit) for _, label, group, ratio in candidates[:TESTED]
    ]


def _whole(draws: Sequence[Mapping[str, Ratios]]) -> tuple[str, list[float]]:
    """Return the input on which the ratio over the whole leaf is largest, in one draw or many, and its ratios."""
    by_label: dict[str, list[float]] = {}
    for draw in draws:
        for label, ratios in draw.items():
            if WHOLE in ratios:
                by_label.setdefault(label, []).append(ratios[WHOLE].value)
    return max(by_label.items(), key=lambda labelled: median(labelled[1]), default=("", [0.0]))


def accuracy_over(values: list[float], **known: Any) -> Accuracy:
    """Return how accurate a variant is by its ratios over draws.

    Args:
        known: the other arguments of `Accuracy`.
    """
    return Accuracy(ratio=median(values), low=min(values), high=max(values), draws=len(values), **known)


def _lossy(worst: Wager, limit: float) -> Accuracy:
    """Return the group with the strongest evidence; its first draw chose it and is not counted."""
    biases = [ratio.bias for ratio in worst.draws if ratio.bias is not None]
    values = [ratio.value * worst.sign for ratio in worst.draws]
    group = f"{worst.group} (input '{worst.label}')"
    where = worst.label, worst.group, worst.sign
    return accuracy_over(
        values, limit=limit, lossy=True, group=group, where=where, bias=median(biases) if biases else None
    )


def _fixed(first: Mapping[str, Ratios], limit: float) -> Accuracy:
    """Decide by one draw, and by the ratios that are not of few elements.

    Rounding an exact result may take half a unit everywhere, sqrt(3) times its root mean square: one draw may be that.
    """
    ratio, label, name = max(
        (ratio.value / (1.0 if name == LARGEST else np.sqrt(3)), label, name)
        for label, ratios in first.items()
        for name, ratio in ratios.items()
        if name in (WHOLE, LARGEST) or (is_natural(name) and ratio.elements >= MANY)
    )
    accuracy = accuracy_over([float(ratio)], limit=limit, lossy=bool(ratio > limit), fixed=True)
    return (
        replace(accuracy, group=f"{name} (input '{label}')", where=(label, name, 1.0)) if accuracy.lossy else accuracy
    )
