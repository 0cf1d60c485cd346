"""Integers at which a term is true, by z3: every number is a signed bit vector with two bits more than any dtype needs.

After each step a number is wrapped to its dtype, as the integers of a program are; a truth value is 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.conditions import EXACT, ElementTerm
from samebits.numerics import floats

STEPS = 2_000_000
"""z3's resource limit for one question, some tenths of a second."""

_NAMED = 64  # of a constant with more different numbers any between the smallest and the largest may be meant


class IntegerSolver:
    """Asks z3, with a state of its own, so that an answer depends on nothing that other pairs asked.

    Args:
        ranges: by number of an input, the smallest and the largest integer.
        bits: of the widest dtype.
    """

    def __init__(self, ranges: Mapping[int, tuple[int, int]], bits: int = 32) -> None:
        import z3  # here, because only a condition that nothing tried takes needs it

        self._z3, self._context, self._ranges, self._bits = z3, z3.Context(), ranges, bits + 2
        self._terms: dict[int, Any] = {}
        self._facts: dict[int, list[Any]] = {}
        self._inputs: dict[int, Any] = {}

    def solution(self, wanted: ElementTerm) -> dict[int, int] | None:
        """By number of an input, integers at which a term is true; None where z3 knows none within its steps.

        Raises:
            NotCovered: a number on the way is not an integer, or has no rule here.
        """
        is_true = self._term(wanted) == 1
        solver = self._z3.SolverFor("QF_BV", ctx=self._context)
        solver.set("rlimit", STEPS)
        solver.add(is_true, *(fact for facts in self._facts.values() for fact in facts))
        if solver.check() != self._z3.sat:
            return None
        values = {number: solver.model().eval(self._inputs[number], True) for number in sorted(wanted.inputs)}
        return {number: value.as_signed_long() for number, value in values.items()}

    def _term(self, term: ElementTerm) -> Any:
        if term.key not in self._terms:
            name, is_leaf = term.step.name, term.values is not None or term.step.name == "input"
            if term.dtype.kind not in "biu" or not (is_leaf or name in _RULES) or floats.width(term.dtype) > self._bits:
                raise NotCovered(f"{term.step} has no rule for z3")
            operands = [self._term(operand) for operand in term.operands]
            result = self._given(term) if is_leaf else _RULES[name](self._z3, term, *operands)
            self._terms[term.key] = result if is_leaf else self._wrapped(result, term.dtype)
        return self._terms[term.key]

    def _given(self, term: ElementTerm) -> Any:
        """An input within its range, or any number of a constant."""
        variable = self._z3.BitVec(f"{term.step.name} {len(self._terms)}", self._bits, self._context)
        if term.values is None:
            self._inputs[term.step.params["number"]] = variable
            low, high = self._ranges[term.step.params["number"]]
        else:
            numbers = np.unique(term.values).tolist()
            low, high = int(numbers[0]), int(numbers[-1])
            if low == high:
                return self._z3.BitVecVal(low, self._bits, self._context)
            if len(numbers) <= _NAMED:
                self._facts[term.key] = [self._z3.Or([variable == int(number) for number in numbers])]
                return variable
        self._facts[term.key] = [variable >= low, variable <= high]
        return variable

    def _wrapped(self, number: Any, dtype: np.dtype[Any]) -> Any:
        """A number, or a condition, as its dtype holds it."""
        if self._z3.is_bool(number):
            return self._z3.If(number, *(self._z3.BitVecVal(bit, self._bits, self._context) for bit in (1, 0)))
        if dtype.kind == "b":
            return number
        bits = floats.width(dtype)
        extended = self._z3.SignExt if dtype.kind == "i" else self._z3.ZeroExt
        return extended(self._bits - bits, self._z3.Extract(bits - 1, 0, number))


def _chosen(z3: Any, term: ElementTerm, which: Any, *cases: Any) -> Any:
    return reduce(lambda rest, each: z3.If(which == each[0], each[1], rest), enumerate(cases[:-1]), cases[-1])


def _logical(z3: Any, term: ElementTerm, x: Any, y: Any) -> Any:
    """A shift of the bits that the dtype has, without those of the sign beyond them."""
    return z3.LShR(x & ((1 << floats.width(term.dtype)) - 1), y)


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda z3, term, *operands: function(*operands)


_RULES: dict[str, Callable[..., Any]] = {
    **{name: _plain(function) for name, function in EXACT.items()},
    "abs": lambda z3, term, x: z3.If(x < 0, -x, x),
    "and": _plain(lambda x, y: x & y),
    "clamp": lambda z3, term, low, x, high: z3.If(x < low, low, z3.If(x > high, high, x)),
    "convert_element_type": lambda z3, term, x: x != 0 if term.dtype.kind == "b" else x,
    "div": lambda z3, term, x, y: z3.If(y == 0, -1, x / y),  # as XLA has it
    "eq": _plain(lambda x, y: x == y),
    "ge": _plain(lambda x, y: x >= y),
    "gt": _plain(lambda x, y: x > y),
    "integer_pow": lambda z3, term, x: reduce(lambda a, b: a * b, [x] * term.step.params["y"]),
    "le": _plain(lambda x, y: x <= y),
    "lt": _plain(lambda x, y: x < y),
    "max": lambda z3, term, x, y: z3.If(x > y, x, y),
    "min": lambda z3, term, x, y: z3.If(x < y, x, y),
    "ne": _plain(lambda x, y: x != y),
    "not": lambda z3, term, x: x == 0 if term.dtype.kind == "b" else ~x,
    "or": _plain(lambda x, y: x | y),
    "rem": lambda z3, term, x, y: z3.If(y == 0, x, z3.SRem(x, y)),
    "select_n": _chosen,
    "shift_left": _plain(lambda x, y: x << y),
    "shift_right_arithmetic": _plain(lambda x, y: x >> y),
    "shift_right_logical": _logical,
    "sign": lambda z3, term, x: z3.If(x > 0, x - x + 1, z3.If(x < 0, x - x - 1, x)),
    "wraps": lambda z3, term, wrapped, *operands: wrapped != EXACT[term.operands[0].step.name](*operands),
    "xor": _plain(lambda x, y: x ^ y),
}
"""By primitive, how z3 has it before it is wrapped; of products that wrap only those are known that two bits show."""
