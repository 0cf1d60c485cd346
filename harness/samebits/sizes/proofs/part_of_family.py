"""Whether the programs of a family are those of another family, for some of its sizes: then its proof holds for both.

On 8 devices of which each has `rows` rows, an array of `8*rows` rows is one of `rows` rows on one device. Where the
traced programs are the same too, what is proved on one device for every number of rows holds on 8 devices.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

from samebits.errors import NotCovered, SamebitsError
from samebits.prove.same_program import written
from samebits.sizes.places.polynomial import Polynomial, of, variable
from samebits.sizes.proofs.attempts import Attempt
from samebits.sizes.proofs.family import Family, SizeOf
from samebits.sizes.proofs.family_proof import SizesProof
from samebits.sizes.proofs.moved_floats import ANY_FLOAT, in_any_float, one_moved_dtype
from samebits.sizes.proofs.of_case import expression
from samebits.sizes.proofs.tracing import Sides, traced

_CONDITION = re.compile(r"(?P<size>.+) (?P<than>>=|<=) (?P<number>-?\d+)")
_NAME = re.compile(r"[A-Za-z_]\w*")


def known_by(family: Family, sides: Sides, direction: str) -> Hashable | None:
    """What a proof depends on: the shapes and both programs; None where these are not all that code does.

    Programs that only move their floating-point numbers have one key for all dtypes of these.

    Args:
        family: the shapes.
        sides: the programs.
        direction: `forward` or `gradient`.
    """
    texts = [written(side.closed) for side in sides]
    if None in texts or any(side.comparisons or side.asked for side in sides):
        return None
    moved = one_moved_dtype(side.closed.jaxpr for side in sides)
    general = [in_any_float(text, moved) if text and moved else None for text in texts]
    texts, moved = (general, moved) if all(general) else (texts, None)
    shapes = tuple(
        (name, arg.shape, ANY_FLOAT if arg.dtype == moved else arg.dtype, arg.below, arg.equals)
        for name, arg in family.args.items()
    )
    names = tuple((side.inputs, side.outputs) for side in sides)
    return direction, family.platform, tuple(family.free.items()), shapes, family.differentiable, names, tuple(texts)


def as_part(
    general: Attempt, leaves: Sequence[SizesProof], attempt: Attempt, sides: Sides, direction: str
) -> tuple[SizesProof, ...] | None:
    """The proofs of a family that hold for another one too; None where that is not shown.

    Args:
        general: the family of which something is shown.
        leaves: what is shown of it, for all sizes.
        attempt: the other family.
        sides: its programs.
        direction: `forward` or `gradient`.
    """
    values = values_in(general.family, attempt.family)
    if values is None or any(side.comparisons or side.asked for side in sides):
        return None
    try:
        for function, side in zip(general.functions, sides, strict=True):
            again = traced(function, attempt.family, direction)
            text = written(again.closed)
            if again.comparisons or text is None or text != written(side.closed):
                return None
            if (again.inputs, again.outputs) != (side.inputs, side.outputs):
                return None
    except NotCovered:  # it cannot be traced for these sizes, or takes others
        return None
    lowest = _lowest(attempt.family)
    moved = []
    for leaf in leaves:
        conditions = _moved(leaf.conditions, values, set(_lowest(general.family)))
        if conditions is None:
            return None
        moved.append(replace(leaf, conditions=tuple(dict.fromkeys((*lowest, *conditions))), asked=0))
    return tuple(moved)


def values_in(general: Family, family: Family) -> dict[str, Polynomial] | None:
    """By symbol of a family, the size in another one at which it has the shapes of that one; None where there is none.

    Args:
        general: the family whose symbols get values.
        family: the other one.
    """
    pairs = _sizes_of_both(general, family)
    if pairs is None:
        return None
    values: dict[str, Polynomial] = {}
    for first, second in pairs:
        if len(first.terms) == 1 and len(first.variables) == 1 and len(first.terms[0][0]) == 1:
            (name,), factor = first.terms[0]
            size = second.quotient(of(factor))
            if size is not None:
                values.setdefault(name, size)
    free = family.free
    for name in general.free:
        if name not in values and name in free:
            values[name] = variable(name)
    if set(values) != set(general.free) or any(first.substitute(values) != second for first, second in pairs):
        return None
    return values if all(_from_on(size, general.free[name], free) for name, size in values.items()) else None


def _sizes_of_both(first: Family, second: Family) -> list[tuple[Polynomial, Polynomial]] | None:
    """The sizes of two families beside each other; None where they are not of the same arguments."""
    of_first, of_second = (
        [(name, arg.dtype, len(arg.shape), arg.below is None, arg.equals is None) for name, arg in family.args.items()]
        for family in (first, second)
    )
    names = [{n for n, v in family.statics.items() if isinstance(v, SizeOf)} for family in (first, second)]
    if of_first != of_second or names[0] != names[1] or first.differentiable != second.differentiable:
        return None
    pairs = []
    for name, arg in first.args.items():
        other = second.args[name]
        pairs += [(first.sizes(a), second.sizes(b)) for a, b in zip(arg.shape, other.shape, strict=True)]
        if arg.below is not None and other.below is not None:
            pairs.append((first.sizes(arg.below), second.sizes(other.below)))
        if arg.equals is not None and other.equals is not None:
            pairs.append((first.sizes(arg.equals), second.sizes(other.equals)))
    return pairs + [
        (first.sizes(first.statics[n].text), second.sizes(second.statics[n].text)) for n in sorted(names[0])
    ]


def _from_on(size: Polynomial, low: int, free: Mapping[str, int]) -> bool:
    """Whether a size is at least a number at all values of its symbols; it grows with each of them."""
    return all(factor > 0 for monomial, factor in size.terms if monomial) and size.value(free) >= low


def _lowest(family: Family) -> tuple[str, ...]:
    return tuple(f"{name} >= {low}" for name, low in family.free.items())


def _moved(conditions: Sequence[str], values: Mapping[str, Polynomial], left_out: set[str]) -> list[str] | None:
    """Conditions in the symbols of another family; None where one of what changes is not an inequality of sizes."""
    changed = {name for name, size in values.items() if size != variable(name)}
    moved = []
    for condition in conditions:
        if condition in left_out:
            continue
        if changed & set(_NAME.findall(condition)):
            matched = _CONDITION.fullmatch(condition)
            try:
                if matched is None:
                    return None
                size = expression(matched["size"]).substitute(values)
            except SamebitsError:  # a condition on more than sizes
                return None
            condition = f"{size} {matched['than']} {matched['number']}"
        moved.append(condition)
    return moved
