"""The points of `samebits bisect tensors`: which differences a step takes, and what of it is judged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from samebits.bisect.endpoints import FIELDS


@dataclass(frozen=True, slots=True)
class StepMixture:
    """A step in which some differences are taken from the bad configuration.

    Args:
        words: a description for the table.
        taken: the differences that are taken from the bad configuration.
        skip: sites of parts whose inner tensors are not compared.
        whole: whether the step runs without replaced tensors, and its outputs are judged in place of its blocks.
        without: for a whole step, what was taken before: the outputs are compared with and without it.
    """

    words: str
    taken: frozenset[str]
    skip: frozenset[str] = frozenset()
    whole: bool = False
    without: frozenset[str] = frozenset()


Point = tuple[StepMixture, bool]
"""A mixture, and whether values are rounded to their dtypes."""


def forms(names: Iterable[str], containers: Iterable[str], gone: Iterable[str] = ()) -> list[StepMixture]:
    """The mixtures to try, innermost first: parts that call no other parts, each part that does, then all together.

    Args:
        names: the differences.
        containers: sites of parts that call other parts.
        gone: differences that are no longer taken, for the descriptions.
    """
    inside = set(containers)
    within = {pair for place in inside for pair in (place, place.partition("@")[0])}
    left = list(names)
    outer = [name for name in left if name in within]
    inner = frozenset(name for name in left if name not in within)
    after = f", without {', '.join(sorted(gone))}" if gone else ""
    mixtures = [StepMixture(f"parts that call no others{after}", inner)] if inner else []
    mixtures += [StepMixture(f"{name}{after}", frozenset({name}), frozenset({name})) for name in outer]
    if len(mixtures) > 1:
        mixtures.append(StepMixture(f"all together{after}", frozenset(left), frozenset(outer)))
    return mixtures


def whole_step(taken: Iterable[str], without: Iterable[str] = (), gone: Iterable[str] = ()) -> StepMixture:
    """The step with what is taken, and nothing replaced.

    Args:
        taken: the differences.
        without: what was taken before, and is left out now.
        gone: all that is left out.
    """
    after = f" without {', '.join(sorted(gone))}" if gone else ""
    return StepMixture(f"the whole step{after}", frozenset(taken), whole=True, without=frozenset(without))


def key(point: Point) -> str:
    """Everything that the judgement of a point depends on."""
    form, rounded = point
    return f"{form.words}: {', '.join(sorted(form.taken))}, {'rounded' if rounded else 'float64'}"


def label(point: Point) -> str:
    """A point in the table."""
    form, rounded = point
    return f"{form.words}, {'rounded' if rounded else 'in float64'}"


def origin(first: Any, form: StepMixture, nesting: Any) -> tuple[str, list[str]]:
    """The code that computed a wrong tensor, in words, and the differences that are taken there.

    Args:
        first: the tensor (`train.taps.Tensor`).
        form: the mixture.
        nesting: the parts in which each part is called (`train.taps.Nesting`).
    """
    part: str = first.part
    between = sorted(name for name in form.taken if name in FIELDS or name.startswith("option:"))
    if first.enters or part == "step":
        return "what the model computes between its parts", between
    if part in form.taken:
        return part, [part]
    inside = sorted(name for name in form.taken if part in nesting.within.get(name, ()))
    return (f"{' or '.join(inside)}, called in {part},", inside) if inside else (part, between)
