"""Sums of a few unknown integers, such as the sizes of four groups: written out where they are used as a number."""

from __future__ import annotations

import itertools
import math

import numpy as np

from samebits.interpret.all_sizes.bounds import is_not_negative
from samebits.interpret.all_sizes.facts import Fact, Integer, Reduction, Source, at_least
from samebits.interpret.all_sizes.formulas.formula import NoFormula
from samebits.interpret.all_sizes.formulas.substitution import Substitution, canonical_source
from samebits.interpret.all_sizes.polynomial import Polynomial, of
from samebits.interpret.all_sizes.space import Space

FEW = 64
"""The most summands that are written out."""


def few_summed(space: Space, source: Source, assumed: dict[Fact, None]) -> Polynomial | None:
    """The sum of a few integers as a polynomial; None of any other source.

    The program's sum wraps around; that this one does not is added to what is assumed, where it is not shown.

    Args:
        space: sizes and indices.
        source: what is used as a number.
        assumed: what holds of all inputs that a proof is about.
    """
    if not isinstance(source, Reduction) or source.kind != "sum" or np.dtype(source.dtype).kind not in "iu":
        return None
    sizes = [space.ranges[name].constant for name in source.bound]
    if len(source.pieces) != 1 or source.pieces[0].facts or None in sizes:
        return None
    lengths = [size for size in sizes if size is not None]
    if math.prod(lengths) > FEW:
        return None
    total, inner = of(0), source.pieces[0].source
    for numbers in itertools.product(*map(range, lengths)):
        values = {name: of(number) for name, number in zip(source.bound, numbers, strict=True)}
        try:
            summand = canonical_source(space, Substitution(space, values).source(inner))
        except NoFormula:
            return None  # as where a summand is a digit of an index that is replaced
        total += summand.value if isinstance(summand, Integer) else space.value_of(summand)
    limits = np.iinfo(np.dtype(source.dtype))
    for room in (int(limits.max) - total, total - int(limits.min)):
        if not is_not_negative(room, space.ranges, space.lowest):
            assumed[at_least(room, 0)] = None
    return total
