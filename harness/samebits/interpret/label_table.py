"""The labels of elements: of inputs, of constants, and of terms (one operation on labelled elements).

In: inputs, constants and terms. Out: an integer label for each, and from a label back to what it stands for. A *code*
is eight times a label plus flags that say which bit-preserving operations the element went through.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import NotCovered
from samebits.interpret.equation import Array, Step, Type
from samebits.numerics import floats

ZERO_ADDED, FINITE, TOUCHED = 1, 2, 4
"""Flags of a code. `ZERO_ADDED`: a zero was added (-0.0 becomes 0.0; subnormal numbers may be flushed). `FINITE`: zeros
times other elements were added (none of these may be infinite or NaN). `TOUCHED`: it was cast to a wider float or back,
or multiplied by one, which preserves every number but not always the payload of a NaN, and may flush subnormal
numbers."""

FLAGS = 8
"""The number of flag combinations: `code // FLAGS` is the label, `code % FLAGS` the flags."""

_TERMS = 1 << 40
"""Labels of terms start at minus this number and decrease; labels of constants start at -1 and never get that far."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A symbolic value.

    Args:
        codes: per element, eight times its label plus its flags.
    """

    codes: Codes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.codes.shape


@dataclass(frozen=True, slots=True)
class LabelledInput:
    """An input whose elements have labels: `first` is the label of its first element."""

    name: str
    first: int
    kind: Type


class LabelTable:
    """The labels of both programs of a question, so that equal constants and equal terms have equal labels."""

    def __init__(self) -> None:
        self.inputs: list[LabelledInput] = []
        self._next = 0
        self._constants: dict[str, dict[int, int]] = {}  # by dtype and bits
        self._values: dict[int, Array] = {}  # constants by label, as arrays of no dimension
        self._terms: dict[tuple[Any, ...], int] = {}

    def add_input(self, name: str, kind: Type) -> Labelled:
        """An input every element of which gets a label of its own."""
        size = math.prod(kind.shape)
        self.inputs.append(LabelledInput(name, self._next, kind))
        codes = (self._next + np.arange(size)).reshape(kind.shape) * FLAGS
        self._next += size
        return Labelled(codes)

    def codes(self, value: Any, kind: Type) -> Codes:
        """The codes of a value; constants of the same bits and dtype have the same label."""
        if isinstance(value, Labelled):
            return value.codes
        array = np.asarray(value, kind.dtype)
        bits = floats.raw_bits(array) if array.dtype.kind not in "b" else array.astype(np.uint8)
        unique, first, places = np.unique(bits.reshape(-1), return_index=True, return_inverse=True)
        known = self._constants.setdefault(array.dtype.name, {})
        patterns = unique.tolist()  # plain integers: a large array may hold as many constants as elements
        for place, pattern in zip(first.tolist(), patterns, strict=True):
            if pattern not in known:
                known[pattern] = label = -1 - len(self._values)
                self._values[label] = array.reshape(-1)[place]
        labels = np.array([known[pattern] for pattern in patterns], np.int64)
        return (labels[places] * FLAGS).reshape(array.shape)

    def zeros(self, codes: Codes, kind: Type) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which elements are the constants +0.0 (or the integer 0), and which -0.0."""
        plus = self.codes(np.zeros(1, kind.dtype), kind)[0]
        minus = self.codes(-np.zeros(1, kind.dtype), kind)[0] if kind.is_float else plus
        return codes == plus, (codes == minus) & (minus != plus)

    def add_terms(self, step: Step, rows: Codes) -> Codes:
        """The codes of the results of one operation on labelled elements, one for each row of operands.

        Raises:
            NotCovered: an operand is the result of an operation itself: that is arithmetic.
        """
        flags = np.bitwise_or.reduce(rows % FLAGS, -1)  # conditions on the operands are conditions on the result
        rows = rows - rows % FLAGS
        if step.name in ("add", "add_any", "mul"):
            # These commute, except that of two NaN operands the first one's payload is the result's: labels of inputs,
            # which may be NaN, stay in their order.
            rows = np.where(np.all(rows >= 0, -1, keepdims=True), rows, np.sort(rows, -1))
        unique, places = np.unique(rows, axis=0, return_inverse=True)
        if np.any(self.is_term(unique // FLAGS)):
            raise arithmetic(step)
        kind = step.name, step.output.dtype.name
        keys = [(*kind, *row) for row in unique.tolist()]
        for key in keys:
            if key not in self._terms:
                self._terms[key] = -_TERMS - len(self._terms)
        labels = np.array([self._terms[key] for key in keys], np.int64)
        return np.asarray(labels[places.reshape(-1)] * FLAGS + flags, np.int64)

    # -- from labels back to what they stand for

    def labels(self, codes: Codes) -> Codes:
        """The labels of codes, without their flags."""
        return codes // FLAGS

    def is_term(self, labels: Codes) -> NDArray[np.bool_]:
        """Which labels are those of terms."""
        return labels <= -_TERMS

    def constant(self, label: int) -> Array:
        """The value of a constant, as an array of no dimension."""
        return self._values[label]

    def element(self, code: int) -> tuple[LabelledInput, tuple[int, ...]] | None:
        """The input and the index of the element that a code stands for; None for constants and terms."""
        label = code // FLAGS
        for source in self.inputs_of(np.array([label])):
            return source, tuple(int(i) for i in np.unravel_index(label - source.first, source.kind.shape))
        return None

    def words(self, code: int) -> str:
        """What an element is, such as `x[0, 3]` or `the constant 0.0`."""
        element = self.element(code)
        if element is not None:
            return f"{element[0].name}[{', '.join(map(str, element[1]))}]"
        label = code // FLAGS
        if label in self._values:
            return f"the constant {self._values[label]}"
        term = next((key for key, value in self._terms.items() if value == label), ("?",))
        return f"{term[0]}({', '.join(self.words(int(operand)) for operand in term[2:])})"

    def terms(self, codes: Codes) -> list[tuple[Any, ...]]:
        """The terms among elements: the operation, the dtype, and the codes of the operands."""
        labels = set(np.unique(self.labels(codes)).tolist())
        return [term for term, label in self._terms.items() if label in labels]

    def sources(self, codes: Codes) -> list[str]:
        """The names of the inputs that elements come from, in the order of the inputs."""
        operands = [code for term in self.terms(codes) for code in term[2:]]
        labels = np.concatenate([self.labels(codes).reshape(-1), self.labels(np.array(operands, np.int64))])
        return [source.name for source in self.inputs_of(labels)]

    def inputs_of(self, labels: Codes) -> list[LabelledInput]:
        """The inputs to which labels belong; constants and terms belong to none."""
        starts = [source.first for source in self.inputs]
        numbers = np.unique(np.searchsorted(starts, labels[labels >= 0], side="right") - 1)
        return [self.inputs[number] for number in numbers.tolist()]


def arithmetic(step: Step) -> NotCovered:
    """The error for an equation that computes new numbers from input elements."""
    return NotCovered(f"{step} is arithmetic on input elements, not movement")
