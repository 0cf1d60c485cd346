"""Scatters that multiply or compare: one elementwise operation for each update that an element gets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from samebits.interpret import windows
from samebits.interpret.domain import InterpreterProtocol, Value
from samebits.interpret.equation import Step, Type

Rule = Callable[[InterpreterProtocol, Step, Sequence[Value]], list[Value]]


def scatter(operation: str) -> Rule:
    """`scatter-mul`, `scatter-min` or `scatter-max`; an element without an update stays as it is."""

    def rule(interpreter: InterpreterProtocol, step: Step, values: Sequence[Value]) -> list[Value]:
        value, indices, updates = values
        kind = step.inputs[0]
        targets, inside = windows.of_scatter(step, interpreter.domain.concrete(step, indices))
        size = math.prod(kind.shape)
        numbers = np.arange(targets.size).reshape(targets.shape)[inside]
        # Round by round the first update that is left of each element, until none is.
        left, at = numbers, targets[inside]
        while left.size:
            chosen, first = np.unique(at, return_index=True)
            row = Type((chosen.size,), kind.dtype)
            operands = [interpreter.taken([value], chosen, row), interpreter.taken([updates], left[first], row)]
            (changed,) = interpreter.local(step.like(operation, [row, row], [row]), operands)
            index = np.arange(size)
            index[chosen] = size + np.arange(chosen.size)
            value = interpreter.taken([value, changed], index.reshape(kind.shape), kind)
            rest = np.ones(left.size, bool)
            rest[first] = False
            left, at = left[rest], at[rest]
        return [value]

    return rule
