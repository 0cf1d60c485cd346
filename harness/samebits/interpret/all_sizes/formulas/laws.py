"""The laws of operations on floats: what each does to formulas."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from samebits.interpret.all_sizes.formulas.formula import Formula, NoFormula, Summand, number
from samebits.interpret.all_sizes.formulas.logarithms import logarithm
from samebits.interpret.all_sizes.formulas.ring import FormulaRing

_HALF = Fraction(1, 2)


def _parameter(operation: str, name: str) -> Fraction:
    value = re.search(rf"\b{name}=(-?[\d.e+-]+)", operation)
    if value is None:
        raise NoFormula(f"{operation} without {name}")
    return Fraction(value[1])


Law = Callable[[FormulaRing, str, list[Formula]], Formula]


def _pow(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    base, exponent = operands
    for value in (exponent.summands[0] if exponent.summands else Summand(Fraction(0)),):
        if len(exponent.summands) <= 1 and value == Summand(value.factor) and value.factor.denominator <= 2:
            return ring.power(base, value.factor)
    return ring.function("pow", base, exponent)


def _larger(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    kind = operation.partition("[")[0]
    losing = -1 if kind == "max" else 1
    for first, second in (operands, operands[::-1]):
        if first.infinite and first.summands[0].factor * losing > 0:
            return second
    return ring.function(kind, *sorted(operands, key=str))


def _exponential_less_one(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    return ring.subtract(ring.exponential(operands[0]), number(1))


def _logistic(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    falling = ring.exponential(ring.scaled(operands[0], -1))
    return ring.power(ring.add(number(1), falling), Fraction(-1))


def _error_function(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    """It is odd: of what begins with a negative factor, the opposite of that of the opposite."""
    (only,) = operands
    if only.summands and min(only.summands, key=str).factor < 0 and not only.infinite:
        return ring.scaled(ring.function("erf", ring.scaled(only, -1)), -1)
    return ring.function("erf", only)


def _hyperbolic_tangent(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    of_twice = _logistic(ring, operation, [ring.scaled(operands[0], 2)])
    return ring.subtract(ring.scaled(of_twice, 2), number(1))


def _absolute(ring: FormulaRing, operation: str, operands: list[Formula]) -> Formula:
    (only,) = operands
    return only if ring.is_positive(only) else ring.function("abs", only)


LAWS: dict[str, Law] = {
    "abs": _absolute,
    "add": lambda ring, _, x: ring.add(*x),
    "add_any": lambda ring, _, x: ring.add(*x),
    "div": lambda ring, _, x: ring.multiply(x[0], ring.power(x[1], Fraction(-1))),
    "erf": _error_function,
    "erfc": lambda ring, text, x: ring.subtract(number(1), _error_function(ring, text, x)),
    "exp": lambda ring, _, x: ring.exponential(x[0]),
    "expm1": _exponential_less_one,
    "integer_pow": lambda ring, text, x: ring.power(x[0], _parameter(text, "y")),
    "log": lambda ring, _, x: logarithm(ring, x[0]),
    "log1p": lambda ring, _, x: logarithm(ring, ring.add(number(1), x[0])),
    "logistic": _logistic,
    "max": _larger,
    "min": _larger,
    "mul": lambda ring, _, x: ring.multiply(*x),
    "neg": lambda ring, _, x: ring.scaled(x[0], -1),
    "one_minus_square": lambda ring, _, x: ring.subtract(number(1), ring.power(x[0], Fraction(2))),
    "pow": _pow,
    "reduce_precision": lambda ring, _, x: x[0],
    # Of what stood at the place, and the sum of its updates.
    **dict.fromkeys(("scatter-add", "scatter_add"), lambda ring, _, x: ring.add(*x)),
    "rsqrt": lambda ring, _, x: ring.power(x[0], -_HALF),
    "sqrt": lambda ring, _, x: ring.power(x[0], _HALF),
    "square": lambda ring, _, x: ring.power(x[0], Fraction(2)),
    "sub": lambda ring, _, x: ring.subtract(*x),
    "tanh": _hyperbolic_tangent,
}
"""The operations of which laws are used; any other is a function of which none is known."""
