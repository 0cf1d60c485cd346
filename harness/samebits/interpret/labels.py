"""The abstract domain of labels: every input element has a label, and a program moves labels to its outputs.

Two programs with the same labels in the same places give the same bits for every input of these shapes, NaN payloads
and the sign of zero included. Besides movement, four operations are followed, each with a flag where it needs a
condition: adding an exact zero, a product with rows of a one-hot matrix, a cast to a wider float and back, and a single
operation on moved elements (the same operation on the same bits gives the same bits).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret import label_rules
from samebits.interpret.computed_constants import ComputedConstants
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.jax_evaluation import execute
from samebits.interpret.label_table import Labelled, LabelTable


class LabelDomain:
    """The domain of labels. One instance serves both sides, so that their constants and terms have the same labels.

    Args:
        platform: where the programs run, which decides whether products of matrices keep float32; None for a CPU.
    """

    name = "labels"
    keeps_constants = True
    covers = frozenset(
        {"add", "add_any", "convert_element_type", "dot_general", "div", "iota", "max", "min", "mul", "neg"}
        | {"reduce_precision", "reduce_sum", "scatter-add", "sub"}
    )

    def __init__(self, platform: str | None = None) -> None:
        self._platform = platform
        self.table = LabelTable()
        self.computed = ComputedConstants()
        self.products = 0  # with one-hot matrices, of floats that other platforms would shorten

    def input(self, name: str, kind: Type) -> Labelled:
        """An input every element of which gets a label of its own."""
        return self.table.add_input(name, kind)

    def lift(self, array: Array, kind: Type) -> Array:
        """Constants stay arrays in their own dtype until they are combined with labels."""
        return array

    def is_computed(self, value: Any) -> bool:
        """Whether an element of a value is, or comes from, a constant whose bits the compiler decides."""
        if not isinstance(value, Labelled):
            return self.computed.holds(value)
        operands = [code for term in self.table.terms(value.codes) for code in term[2:]]
        labels = np.unique(self.table.labels(np.concatenate([value.codes.reshape(-1), np.array(operands, np.int64)])))
        constants = labels[(labels < 0) & ~self.table.is_term(labels)].tolist()
        return any(self.computed.holds(self.table.constant(label)) for label in constants)

    def take(self, values: Sequence[Any], index: Array, kind: Type) -> Labelled:
        """Labels move with their elements."""
        flat = [self.table.codes(value, kind).reshape(-1) for value in values]
        return Labelled((flat[0] if len(flat) == 1 else np.concatenate(flat))[index])

    def ranks(self, step: Step, value: Any, axis: int) -> Array:
        """Labels have no order; constants have theirs."""
        return self.concrete(step, value)

    def concrete(self, step: Step, value: Any) -> Array:
        """The value, if it does not depend on labelled inputs: only such values are index operands or predicates."""
        if isinstance(value, Labelled):
            raise NotCovered(f"{step} decides by the values of its input, and labels have no values")
        return np.asarray(value)

    def same(self, first: Any, second: Any) -> bool:
        """Whether two values have the same labels."""
        if isinstance(first, Labelled) != isinstance(second, Labelled):
            return False
        if isinstance(first, Labelled):
            return np.array_equal(first.codes, second.codes)
        return np.asarray(first).tobytes() == np.asarray(second).tobytes()

    def apply(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        """Arithmetic: executed on constants; on labels, only what preserves bits is followed."""
        if not any(isinstance(value, Labelled) for value in values):
            outputs = execute(step, values)
            self.computed.note(step, values, outputs)
            return outputs
        if step.name == "scatter-add":
            operand, indices, updates = values
            return [label_rules.scatter_add(self.table, step, operand, self.concrete(step, indices), updates)]
        if step.name == "reduce_sum":
            return [label_rules.reduce_sum(self.table, step, *values)]
        if step.name == "convert_element_type":
            return [label_rules.convert(self.table, step, *values)]
        if step.name == "dot_general":
            left, right = values
            result, platform_dependent = label_rules.dot_general(self.table, step, left, right, self._platform)
            self.products += platform_dependent
            return [result]
        return [label_rules.elementwise(self.table, step, values)]
