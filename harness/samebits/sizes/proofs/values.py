"""Whether two functions compute other formulas at concrete sizes: over finite fields, at a few random inputs."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from samebits.errors import DeclarationError, NotCovered, NothingCompared
from samebits.interpret.field_proof.proof import FieldIdentity, identity
from samebits.interpret.problem import Input, Question
from samebits.numerics.floats import is_float
from samebits.sizes.places.polynomial import Polynomial
from samebits.sizes.proofs.family import Family
from samebits.sizes.proofs.tracing import TracedFamily, traced

MOST_ELEMENTS = 1 << 15
"""The most elements of an argument at which formulas are evaluated."""

DRAWS = 6
"""How many draws of inputs are tried."""

ENOUGH = 2
"""Draws at which formulas are equal before sizes are given up."""

ALIKE = 1
"""The draw at which free integers of an array are all the same: one place is then selected as often as can be."""

FEW = 4
"""Integers are drawn below this, so that some are equal, and below every dimension, so that they select elements.

Where their bound is declared, some are larger."""


def formulas_at(
    functions: Sequence[Callable[..., Any]], family: Family, direction: str, numbers: Mapping[str, int]
) -> Iterator[dict[str, FieldIdentity]]:
    """Yield what fields say of every output at concrete sizes, for each draw of inputs of which they say something.

    Raises:
        NotCovered: the functions cannot be traced at these sizes.
    """
    if family.elements(numbers) > MOST_ELEMENTS:
        return
    first, second = (traced(function, family.at(numbers), direction) for function in functions)
    free = has_free_integers(first, family)
    for draw in range(DRAWS):
        inputs = inputs_at(first, draw, family.at(numbers), alike=free and draw == ALIKE)
        question = Question(first.closed, second.closed, inputs, first.outputs, family.platform)
        try:
            yield identity(question)
        except (NotCovered, NothingCompared):  # noqa: S112
            continue  # as of a draw at which a number is infinite, which shows nothing about the formulas


def formulas_differ_at(
    functions: Sequence[Callable[..., Any]], family: Family, direction: str, numbers: Mapping[str, int]
) -> dict[str, str]:
    """Return by output that is another formula at concrete sizes the first place; what is not shown is left out.

    Raises:
        NotCovered: the functions cannot be traced at these sizes.
    """
    differing: dict[str, str] = {}
    for proofs in itertools.islice(formulas_at(functions, family, direction, numbers), ENOUGH):
        for leaf, proof in proofs.items():
            if not proof.equal and not proof.undecided and proof.unsure is None:
                differing.setdefault(leaf, proof.witness or "")
    return differing


def has_free_integers(side: TracedFamily, family: Family) -> bool:
    """Tell whether a program has arrays of integers that neither their case draws nor a formula gives."""
    return any(
        np.dtype(aval.dtype).kind in "iu" and aval.shape and name not in family.equals and not _is_drawn(family, name)
        for name, aval in zip(side.inputs, side.closed.in_avals, strict=True)
    )


def _is_drawn(family: Family, name: str) -> bool:
    return name in family.args and family.args[name].values is not None


def inputs_at(side: TracedFamily, draw: int, family: Family, *, alike: bool = False) -> list[Input]:
    """Draw the inputs of a program: numbers, and integers as they are declared, else small ones.

    With `alike`, free integers of an array are all the same, so that as many as can be select one place.

    Raises:
        NotCovered: the declared values are not drawn in these shapes.
    """
    few = max(1, min((FEW, *(size for aval in side.closed.in_avals for size in aval.shape))))
    inputs = []
    # Other integers at other sizes: ones that do not distinguish functions, as [2, 0, 2] backwards, are not met twice.
    sizes = [aval.shape for aval in side.closed.in_avals]
    for name, aval in zip(side.inputs, side.closed.in_avals, strict=True):
        rng = np.random.default_rng(zlib.crc32(f"{name} {draw} {sizes}".encode()))
        arg = family.args.get(name)
        bound = family.below[name].constant if name in family.below else None
        if name in family.equals:
            values = _at_places(family.equals[name], aval.shape)
        elif is_float(np.dtype(aval.dtype)):
            values = rng.standard_normal(aval.shape)
        elif arg is not None and arg.values is not None:
            values = _declared(arg.values, rng, aval.shape)
            if bound is not None and values.size and not 0 <= values.min() <= values.max() < bound:
                raise NotCovered(f"{name} is drawn beyond its bound {bound}")
        else:
            values = rng.integers(0, min(few, bound or few), aval.shape)
            values = values if bound is None else _up_to(bound, values, rng)
            values = np.full_like(values, values.flat[0]) if alike and values.size else values
        inputs.append(Input(name, np.asarray(values).astype(aval.dtype)))
    return inputs


def _up_to(bound: int, small: Any, rng: np.random.Generator) -> Any:
    """Draw half of the integers below a bound, and make one the largest: what they select lies on any device.

    The others stay small, so that some are equal. A single integer is the largest half of the time: beside the end of
    an array, functions agree that do not elsewhere.
    """
    drawn = np.where(rng.integers(0, 2, small.shape) == 1, rng.integers(0, bound, small.shape), small)
    if drawn.size > 1 or (drawn.size and rng.integers(2)):
        drawn.flat[rng.integers(drawn.size)] = bound - 1
    return drawn


def _at_places(equals: Polynomial, shape: tuple[int, ...]) -> Any:
    """Return integers that are what a polynomial of their places says."""
    places: dict[str, Any] = {f"index{axis}": index for axis, index in enumerate(np.indices(shape, np.int64))}
    return np.broadcast_to(equals.value(places), shape)


def _declared(values: Callable[..., Any], rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    try:
        return values(rng, shape)
    except DeclarationError as error:  # which draws for its own sizes alone
        raise NotCovered(str(error)) from error
