"""Integers at which a term is true, by z3: every number is a signed bit vector with two bits more than any dtype needs.

After each step a number is wrapped to its dtype, as the integers of a program are; a truth value is 0 or 1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from samebits.errors import NotCovered
from samebits.interpret.conditions import ElementTerm
from samebits.numerics import floats

STEPS = 2_000_000
"""z3's resource limit for one question, some tenths of a second."""


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
        self._facts: list[Any] = []
        self._inputs: dict[int, Any] = {}

    def solution(self, wanted: ElementTerm) -> dict[int, int] | None:
        """By number of an input, integers at which a term is true; None where z3 knows none within its steps.

        Raises:
            NotCovered: a number on the way is not an integer, or has no rule here.
        """
        is_true = self._term(wanted) == 1
        solver = self._z3.SolverFor("QF_BV", ctx=self._context)
        solver.set("rlimit", STEPS)
        solver.add(is_true, *self._facts)
        if solver.check() != self._z3.sat:
            return None
        values = {number: solver.model().eval(self._inputs[number], True) for number in sorted(wanted.inputs)}
        return {number: value.as_signed_long() for number, value in values.items()}

    def _term(self, term: ElementTerm) -> Any:
        if term.dtype.kind not in "biu" or floats.width(term.dtype) > self._bits:
            raise NotCovered(f"{term.step} is not an integer of at most {self._bits} bits")
        if term.key not in self._terms:
            operands = [self._term(operand) for operand in term.operands]
            self._terms[term.key] = self._applied(term, operands) if operands else self._given(term)
        return self._terms[term.key]

    def _given(self, term: ElementTerm) -> Any:
        """An input within its range, or any number of the range of a constant."""
        variable = self._z3.BitVec(f"{len(self._terms)}", self._bits, self._context)
        if term.values is None:
            self._inputs[term.step.params["number"]] = variable
            low, high = self._ranges[term.step.params["number"]]
        else:
            low, high = int(term.values.min()), int(term.values.max())
        self._facts += [variable >= low, variable <= high]
        return variable

    def _applied(self, term: ElementTerm, operands: Sequence[Any]) -> Any:
        """What an operation gives, as its dtype holds it."""
        z3, bits, is_bool = self._z3, floats.width(term.dtype), term.dtype.kind == "b"
        rules: dict[str, Callable[..., Any]] = {
            **_OPERATORS,
            "abs": lambda x: z3.If(x < 0, -x, x),
            "clamp": lambda low, x, high: z3.If(x < low, low, z3.If(x > high, high, x)),
            "convert_element_type": lambda x: x != 0 if is_bool else x,
            "div": lambda x, y: z3.If(y == 0, -1, x / y),  # as XLA has it
            "integer_pow": lambda x: reduce(operator.mul, [x] * term.step.params["y"]),
            "max": lambda x, y: z3.If(x > y, x, y),
            "min": lambda x, y: z3.If(x < y, x, y),
            "not": lambda x: x == 0 if is_bool else ~x,
            "rem": lambda x, y: z3.If(y == 0, x, z3.SRem(x, y)),
            "select_n": lambda which, *cases: reduce(
                lambda rest, each: z3.If(which == each[0], each[1], rest), enumerate(cases[:-1]), cases[-1]
            ),
            "shift_right_logical": lambda x, y: z3.LShR(x & ((1 << bits) - 1), y),
            "sign": lambda x: z3.If(x > 0, x - x + 1, z3.If(x < 0, x - x - 1, x)),
        }
        if term.step.name not in rules:
            raise NotCovered(f"{term.step} has no rule for z3")
        number = rules[term.step.name](*operands)
        if z3.is_bool(number):
            return z3.If(number, *(z3.BitVecVal(bit, self._bits, self._context) for bit in (1, 0)))
        extended = z3.SignExt if term.dtype.kind == "i" else z3.ZeroExt
        return number if is_bool else extended(self._bits - bits, z3.Extract(bits - 1, 0, number))


_OPERATORS = {
    **{
        name: getattr(operator, name)
        for name in ("add", "eq", "ge", "gt", "le", "lt", "mul", "ne", "neg", "sub", "xor")
    },
    **{
        "and": operator.and_,
        "or": operator.or_,
        "shift_left": operator.lshift,
        "shift_right_arithmetic": operator.rshift,
    },
}
"""By primitive, the operator of z3; of products that wrap only those are known that two bits show."""
