"""Arithmetic of integers and booleans on piecewise polynomials; what must not overflow is written down."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from samebits.sizes.places.demand import Demand
from samebits.sizes.places.facts import Facts, Integer, MapPiece, at_least, below, equal, opposite
from samebits.sizes.places.polynomial import Polynomial, largest, of

Cases = list[tuple[Facts, Polynomial]]
_DECIDING = {"and": 0, "or": 1}
FEW = 4
"""The largest number whose division by a size is split into cases."""

Operation = Callable[[Demand, list[Polynomial], Facts], Cases]


def integer_pieces(demand: Demand, cases: Cases) -> list[MapPiece]:
    """Return the pieces of an integer result that its dtype holds; cases that never occur are left out."""
    pieces = []
    for facts, value in cases:
        own = demand.space.possible(facts, demand.facts)
        if own is not None:
            _fits(demand, (*demand.facts, *own), value)
            pieces.append(MapPiece(own, Integer(value)))
    return pieces


def _fits(demand: Demand, facts: Facts, value: Polynomial) -> None:
    """Note that a value has to fit into its dtype, where that depends on the sizes."""
    dtype = demand.output_dtype
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    space = demand.space
    if value.constant is not None and low <= value.constant <= high:
        return
    if space.proves(facts, high - value) and space.proves(facts, value - low):
        return
    if dtype.kind == "u" and not space.proves(facts, value):
        raise demand.not_covered(f"{value} may be negative in {dtype.name}, which wraps around")
    if dtype.itemsize < 4:
        raise demand.not_covered(f"{value} does not fit into {dtype.name} for every size")
    for room in (high - largest(value, space.ranges, space.lowest), -largest(-value, space.ranges, space.lowest) - low):
        if room.constant is not None and room.constant < 0:
            raise demand.not_covered(f"{value} does not fit into {dtype.name}")
        if room.constant is None and not space.proves(facts, room):
            demand.evaluator.assumed[at_least(room, 0)] = None


def arithmetic(demand: Demand) -> list[MapPiece]:
    """Apply an operation to integers or booleans, case by case of its operands."""
    combined: list[tuple[Facts, list[Polynomial]]] = [((), [])]
    deciding = _DECIDING.get(demand.name) if demand.output_dtype.kind == "b" else None
    for number in range(demand.count):
        alike = demand.first_alike(number)
        if alike < number:
            combined = [(facts, [*values, values[alike]]) for facts, values in combined]
            continue
        combined = [
            (piece.facts, [*values, demand.integer(piece.source, number)])
            for facts, values in combined
            # Where the first operand decides, the cases of the second one would only be more cases.
            for piece in (
                [MapPiece(facts, Integer(values[0]))]
                if values and values[0].constant == deciding is not None
                else demand.broadcast(number, facts)
            )
        ]
    cases: Cases = []
    for facts, values in combined:
        cases += [((*facts, *own), value) for own, value in OPERATIONS[demand.name](demand, values, facts)]
    return integer_pieces(demand, cases)


def _plain(function: Callable[..., Polynomial]) -> Operation:
    return lambda demand, values, facts: [((), function(*values))]


def _compared(kind: str) -> Operation:
    def compared(demand: Demand, values: list[Polynomial], facts: Facts) -> Cases:
        first, second = values
        fact = {
            "lt": below(first, second),
            "le": at_least(second, first),
            "gt": below(second, first),
            "ge": at_least(first, second),
            "eq": equal(first, second),
            "ne": equal(first, second),
        }[kind]
        yes, no = (0, 1) if kind == "ne" else (1, 0)
        return [((fact,), of(yes)), *(((other,), of(no)) for other in opposite(fact))]

    return compared


def _extreme(is_max: bool) -> Operation:
    def extreme(demand: Demand, values: list[Polynomial], facts: Facts) -> Cases:
        first, second = values
        larger, smaller = values if is_max else values[::-1]
        return [((at_least(first, second),), larger), ((below(first, second),), smaller)]

    return extreme


def _clamp(demand: Demand, values: list[Polynomial], facts: Facts) -> Cases:
    low, value, high = values
    return [
        ((below(high, value),), high),
        ((at_least(high, value), at_least(value, low)), value),
        ((at_least(high, value), below(value, low)), low),
    ]


def _divided(remainder: bool) -> Operation:
    """Divide as XLA does: towards zero, a remainder with the sign of what is divided."""

    def divided(demand: Demand, values: list[Polynomial], facts: Facts) -> Cases:
        value, divisor = values
        space = demand.space
        if not space.proves((*demand.facts, *facts), divisor - 1):
            raise demand.not_covered(f"a division by {divisor}, which is not shown to be positive")
        if value.constant is not None and divisor.constant is None and abs(value.constant) <= FEW:
            return _number_divided(value.constant, divisor, remainder)
        cases: Cases = []
        for sign in (1, -1):
            fact = at_least(value, 0) if sign == 1 else below(value, 0)
            known = (*demand.facts, *facts, fact)
            if space.contradicts(known):
                continue
            for once, own in _wrapped(demand, value * sign, divisor, known):
                # Where it is once the divisor and less than twice, as an index that is rotated.
                result = (
                    (of(1), value * sign - divisor) if once else space.divide(value * sign, divisor, (*known, *own))
                )
                cases.append(((fact, *own), result[remainder] * sign))
        return cases

    return divided


def _wrapped(demand: Demand, value: Polynomial, divisor: Polynomial, known: Facts) -> list[tuple[bool, Facts]]:
    """Tell whether a number is at least its divisor, by cases; one where it is not known to be below twice of it."""
    space = demand.space
    rotated = divisor.constant is None and value.divided(divisor)[0].constant == 0
    if not rotated or space.proves(known, divisor - 1 - value) or not space.proves(known, 2 * divisor - 1 - value):
        return [(False, ())]
    return [(False, (below(value, divisor),)), (True, (at_least(value, divisor),))]


def _number_divided(number: int, divisor: Polynomial, remainder: bool) -> Cases:
    """Divide a number by a size, by cases of the sizes that are not larger."""
    sign, most = (1 if number >= 0 else -1), abs(number)
    cases: Cases = [((equal(divisor, size),), of(sign * divmod(most, size)[remainder])) for size in range(1, most + 1)]
    return [*cases, ((at_least(divisor, most + 1),), of(number if remainder else 0))]


def _sign(demand: Demand, values: list[Polynomial], facts: Facts) -> Cases:
    (value,) = values
    return [((at_least(value, 1),), of(1)), ((equal(value, 0),), of(0)), ((below(value, 0),), of(-1))]


def _absolute(demand: Demand, values: list[Polynomial], facts: Facts) -> Cases:
    (value,) = values
    return [((at_least(value, 0),), value), ((below(value, 0),), -value)]


def _logic(function: Callable[[int, int], int]) -> Operation:
    """Apply an operation to booleans, each 0 or 1 by cases."""

    def logic(demand: Demand, values: list[Polynomial], facts: Facts) -> Cases:
        if demand.output_dtype.kind != "b":
            raise demand.not_covered("bits of integers")
        first, second = values
        return [((equal(first, a), equal(second, b)), of(function(a, b))) for a in (0, 1) for b in (0, 1)]

    return logic


OPERATIONS: dict[str, Operation] = {
    "abs": _absolute,
    "add": _plain(lambda a, b: a + b),
    "add_any": _plain(lambda a, b: a + b),
    "and": _logic(lambda a, b: a & b),
    "clamp": _clamp,
    "convert_element_type": _plain(lambda a: a),
    "div": _divided(False),
    "max": _extreme(True),
    "min": _extreme(False),
    "mul": _plain(lambda a, b: a * b),
    "neg": _plain(lambda a: -a),
    "not": lambda demand, values, facts: [((), 1 - values[0] if demand.output_dtype.kind == "b" else -values[0] - 1)],
    "or": _logic(lambda a, b: a | b),
    "rem": _divided(True),
    "sign": _sign,
    "sub": _plain(lambda a, b: a - b),
    "xor": _logic(lambda a, b: a ^ b),
    **{kind: _compared(kind) for kind in ("lt", "le", "gt", "ge", "eq", "ne")},
}
