"""Formulas that differ in their constants: whether by their rounding alone, and if not, by which literals."""

from __future__ import annotations

import dataclasses
import math
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from samebits.errors import NotCovered
from samebits.interpret import literals
from samebits.interpret.field.folded_constants import FoldedField
from samebits.interpret.literals import SurdLiteral
from samebits.interpret.source_constants import RoundedConstant, SourceConstant, constants, roundings

if TYPE_CHECKING:
    from samebits.interpret.field_proof.result import FieldIdentity
    from samebits.interpret.problem import Question

Attempt = Callable[[Mapping[float, SurdLiteral]], "tuple[dict[str, FieldIdentity], Sequence[FoldedField]]"]
"""From what constants stand for to what the fields say, and the domains that were asked."""

_TRIED, _SHOWN = 4, 3


def match_constants(question: Question, proofs: dict[str, FieldIdentity], attempt: Attempt) -> dict[str, FieldIdentity]:
    """The proofs once constants that are roundings of others are replaced by these.

    Args:
        question: the programs and their inputs.
        proofs: the results with the constants as they are; some output differs.
        attempt: proves the question again with other numbers for constants.

    Returns:
        Outputs that differ by the rounding of constants alone are equal, and name these; those of which nothing is said
        then are not covered; for all others the witness names the literals that only one of the programs has.
    """
    sides = constants(question.reference), constants(question.variant)
    noted: tuple[str, ...]
    written = known = roundings(*sides)
    try:
        again, domains = attempt(_numbers(known))
        if not _settled(proofs, again):
            computed = {
                **roundings(*_together([domain.inner for domain in domains])),
                **roundings(*_together([domain.met for domain in domains])),
            }
            if computed:
                known = {**known, **computed}
                again, domains = attempt(_numbers(known))
    except NotCovered:
        again, noted = {}, ()
    else:
        used = set[float]().union(*(domain.used for domain in domains))
        noted = _texts([rounded for value, rounded in known.items() if value in used])
    merged = {
        name: dataclasses.replace(again[name], constants=noted) if _is_proved(proof, again.get(name)) else proof
        for name, proof in proofs.items()
    }
    # Where an output is NaN in places, what differs in others may be such a rounding: then the rest says nothing.
    merged |= {name: proof for name, proof in again.items() if proof.not_covered is not None}
    if not any(map(_is_open, merged.values())):
        return merged
    named = _blamed(sides, written, merged, attempt)
    return {
        name: dataclasses.replace(proof, witness=f"{proof.witness}; {named}") if named and _is_open(proof) else proof
        for name, proof in merged.items()
    }


def rounded_literals(question: Question) -> tuple[dict[float, float], tuple[str, ...]]:
    """The literals of either program that are roundings of the other's: the numbers that they stand for, and in words.

    For what fields cannot decide: with these numbers in their place, equal formulas are equal in float64.
    """
    known = roundings(constants(question.reference), constants(question.variant))
    return {value: float(rounded.number) for value, rounded in known.items()}, _texts(list(known.values()))


def _together(
    known: Sequence[tuple[dict[float, SourceConstant], dict[float, SourceConstant]]],
) -> tuple[dict[float, SourceConstant], dict[float, SourceConstant]]:
    """The constants of each side that any of the domains met."""
    first, second = zip(*known, strict=True)
    return dict(ChainMap(*first)), dict(ChainMap(*second))


def _is_proved(before: FieldIdentity, again: FieldIdentity | None) -> bool:
    return not before.equal and again is not None and again.equal


def _settled(proofs: Mapping[str, FieldIdentity], again: Mapping[str, FieldIdentity]) -> bool:
    return all(not _is_open(proof) or again[name].equal for name, proof in proofs.items())


def _is_open(proof: FieldIdentity) -> bool:
    return not proof.equal and proof.not_covered is None


def _numbers(known: Mapping[float, RoundedConstant]) -> dict[float, SurdLiteral]:
    return {value: rounded.number for value, rounded in known.items()}


def _texts(known: Sequence[RoundedConstant]) -> tuple[str, ...]:
    noise = 1e-12  # of float64, in which constants are computed
    texts = [
        rounded.text
        for rounded in known
        if abs(float(rounded.number) - rounded.constant.value) > noise * abs(rounded.constant.value)
    ]
    more = (f"{len(texts) - _SHOWN} more constants are such roundings",) if len(texts) > _SHOWN else ()
    return (*texts[:_SHOWN], *more) if texts else ("constants that are computed in another order",)


def _blamed(
    sides: tuple[Mapping[float, SourceConstant], Mapping[float, SourceConstant]],
    known: Mapping[float, RoundedConstant],
    proofs: Mapping[str, FieldIdentity],
    attempt: Attempt,
) -> str | None:
    """The literals that make formulas differ: those that make them equal where one is put for the other."""
    first, second = (
        [
            constant
            for value, constant in own.items()
            if not constant.table and value not in others and value not in known
        ]
        for own, others in (sides, sides[::-1])
    )
    pairs = sorted(((constant, other) for constant in first for other in second), key=_distance)
    for constant, other in pairs[:_TRIED]:
        number = literals.number(constant.value, constant.dtype)
        try:
            again, _ = attempt({**_numbers(known), other.value: number})
        except NotCovered:  # with the other literal: this exchange explains nothing
            continue
        if _settled(proofs, again):
            return f"the reference has the literal {constant} where this has {other}"
    parts = [
        f"only the {side} has the literal{'s' if len(own) > 1 else ''} {', '.join(map(str, own))}"
        for side, own in (("reference", first), ("variant", second))
        if 0 < len(own) <= _SHOWN
    ]
    return " and ".join(parts) or None


def _distance(pair: tuple[SourceConstant, SourceConstant]) -> float:
    value, other = (each.value for each in pair)
    return abs(math.log(value / other)) if value * other > 0 else math.inf
