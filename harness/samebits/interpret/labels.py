"""The meaning in which every input element is a name: a program that only moves data says where each name ends up.

Two programs with the same names in the same places give the same bits for every input of these shapes, NaN payloads
and the sign of zero included. Beside moving, four exact things are followed, each noted in the name where it matters:
adding an exact zero, a product with rows of a one-hot matrix, a cast to a wider float and back, and one single
operation on moved elements (the same operation on the same bits gives the same bits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import NotCovered
from samebits.interpret import onehot, windows
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.jax_evaluation import execute, holds
from samebits.numerics import floats

ZERO_ADDED, FINITE, TOUCHED = 1, 2, 4
"""What a name went through: a zero was added (-0.0 becomes 0.0; subnormals may be flushed); zeros times other elements
were added (none may be infinite or NaN); it was cast to a wider float or back, or multiplied by one, which keeps every
number but perhaps not the payload of a NaN, and may flush subnormals."""
_FLAGS = 8
_TERMS = 1 << 40
"""Terms are named from minus this number downwards, where no constant comes."""

Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A symbolic value.

    Args:
        codes: per element, eight times the number of its name plus what it went through.
    """

    codes: Codes

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.codes.shape


@dataclass(frozen=True, slots=True)
class LabelledInput:
    """An input whose elements have names: `first` is the number of the name of its first element."""

    name: str
    first: int
    kind: Type


class Labels:
    """The domain of names. One instance serves both sides, so that their constants and terms have the same names.

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
        self.products = 0  # with one-hot matrices, of floats that other platforms would shorten
        self.origins: list[LabelledInput] = []
        self._next = 0
        self._constants: dict[tuple[str, int], int] = {}
        self._values: dict[int, Array] = {}  # constants by name, as arrays of no dimension
        self._terms: dict[tuple[Any, ...], int] = {}

    def input(self, name: str, kind: Type) -> Labelled:
        """An input every element of which gets a name of its own."""
        size = int(np.prod(kind.shape, dtype=np.int64))
        self.origins.append(LabelledInput(name, self._next, kind))
        codes = (self._next + np.arange(size)).reshape(kind.shape) * _FLAGS
        self._next += size
        return Labelled(codes)

    def origin(self, code: int) -> tuple[LabelledInput, tuple[int, ...]] | None:
        """Which element of which input a name stands for; None for constants and terms."""
        number = code // _FLAGS
        for origin in self._origins(np.array([number])):
            return origin, tuple(int(i) for i in np.unravel_index(number - origin.first, origin.kind.shape))
        return None

    def words(self, code: int) -> str:
        """What an element is, such as `x[0, 3]` or `the constant 0.0`."""
        found = self.origin(code)
        if found is not None:
            return f"{found[0].name}[{', '.join(map(str, found[1]))}]"
        number = code // _FLAGS
        if number in self._values:
            return f"the constant {self._values[number]}"
        term = next((key for key, value in self._terms.items() if value == number), ("?",))
        return f"{term[0]}({', '.join(self.words(int(operand)) for operand in term[2:])})"

    def names(self, codes: Codes) -> Codes:
        """The numbers of the names alone."""
        return codes // _FLAGS

    def is_term(self, names: Codes) -> NDArray[np.bool_]:
        """Which names are terms."""
        return names <= -_TERMS

    def sources(self, codes: Codes) -> list[str]:
        """The inputs that elements come from, in the order of the inputs."""
        inside = [code for term in self.terms(codes) for code in term[2:]]
        names = np.concatenate([self.names(codes).reshape(-1), self.names(np.array(inside, np.int64))])
        return [origin.name for origin in self._origins(names)]

    def terms(self, codes: Codes) -> list[tuple[Any, ...]]:
        """The terms among elements: the operation, the dtype, and the codes of the operands."""
        names = set(np.unique(self.names(codes)).tolist())
        return [term for term, number in self._terms.items() if number in names]

    # -- what the walk asks

    def lift(self, array: Array, kind: Type) -> Array:
        """Constants stay arrays, in their own dtype, until they meet a name."""
        return array

    def take(self, values: Sequence[Any], index: Array, kind: Type) -> Labelled:
        """Names move with their elements."""
        flat = [self.codes(value, kind).reshape(-1) for value in values]
        return Labelled((flat[0] if len(flat) == 1 else np.concatenate(flat))[index])

    def ranks(self, step: Step, value: Any, axis: int) -> Array:
        """Names have no order; constants have theirs."""
        return self.concrete(step, value)

    def concrete(self, step: Step, value: Any) -> Array:
        """Only what does not depend on named inputs can steer."""
        if isinstance(value, Labelled):
            raise NotCovered(f"{step} decides by the values of its input, which names do not have")
        return np.asarray(value)

    def same(self, first: Any, second: Any) -> bool:
        """Whether two values have the same names."""
        if isinstance(first, Labelled) != isinstance(second, Labelled):
            return False
        if isinstance(first, Labelled):
            return np.array_equal(first.codes, second.codes)
        return np.asarray(first).tobytes() == np.asarray(second).tobytes()

    def apply(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        """Arithmetic: on constants it is executed; on names only what keeps their bits is followed."""
        if not any(isinstance(value, Labelled) for value in values):
            return execute(step, values)
        rules: dict[str, Callable[..., Labelled]] = {"scatter-add": self._scatter_add, "reduce_sum": self._reduce_sum}
        rules |= {"dot_general": self._dot_general, "convert_element_type": self._convert}
        if step.name in rules:
            return [rules[step.name](step, *values)]
        return [self._elementwise(step, values)]

    # -- names of constants and terms

    def codes(self, value: Any, kind: Type) -> Codes:
        """The codes of a value; constants of the same bits and dtype have the same name."""
        if isinstance(value, Labelled):
            return value.codes
        array = np.asarray(value, kind.dtype)
        bits = floats.raw_bits(array) if array.dtype.kind not in "b" else array.astype(np.uint8)
        unique, places = np.unique(bits.reshape(-1), return_inverse=True)
        names = np.empty(len(unique), np.int64)
        for number, one in enumerate(unique):
            key = (array.dtype.name, int(one))
            if key not in self._constants:
                self._constants[key] = -1 - len(self._constants)
                self._values[self._constants[key]] = array.reshape(-1)[np.argmax(places == number)]
            names[number] = self._constants[key]
        return (names[places] * _FLAGS).reshape(array.shape)

    def _zeros(self, codes: Codes, kind: Type) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which elements are the constants +0.0 (or the integer 0), and which -0.0."""
        plus = self.codes(np.zeros(1, kind.dtype), kind)[0]
        minus = self.codes(-np.zeros(1, kind.dtype), kind)[0] if kind.is_float else plus
        return codes == plus, (codes == minus) & (minus != plus)

    # -- the exact things

    def _elementwise(self, step: Step, values: Sequence[Any]) -> Labelled:
        shape = step.output.shape
        codes = [
            np.broadcast_to(self.codes(value, kind), shape) for value, kind in zip(values, step.inputs, strict=True)
        ]
        if step.name == "reduce_precision":
            raise self._arithmetic(step)
        left = np.full(shape, True)
        out = np.zeros(shape, np.int64)
        if step.name in ("add", "add_any"):
            for one, other in (codes, codes[::-1]):
                plus, minus = self._zeros(one, step.output)
                flag = ZERO_ADDED if step.output.is_float else 0
                out = np.where(left & plus, other | flag, np.where(left & minus, other | TOUCHED, out))
                left = left & ~plus & ~minus
        elif step.name == "mul":
            unit = self.codes(np.ones(1, step.output.dtype), step.output)[0]
            for one, other in (codes, codes[::-1]):
                flag = TOUCHED if step.output.is_float else 0
                out = np.where(left & (one == unit), other | flag, out)
                left = left & (one != unit)
        if left.any():
            out = np.where(left, self._term(step, codes, left), out)
        return Labelled(out)

    def _term(self, step: Step, codes: Sequence[Codes], where: NDArray[np.bool_]) -> Codes:
        """One operation on moved elements is a name of its own; an operation on a term is arithmetic."""
        rows = np.stack([one[where] for one in codes], -1)
        flags = np.bitwise_or.reduce(rows % _FLAGS, -1)  # what holds of the operands holds of the result
        rows -= rows % _FLAGS
        if step.name in ("add", "add_any", "mul"):  # of two NaNs the first operand's payload stays, so two names do not
            rows = np.where(np.all(rows >= 0, -1, keepdims=True), rows, np.sort(rows, -1))
        unique, places = np.unique(rows, axis=0, return_inverse=True)
        names = np.empty(len(unique), np.int64)
        for number, row in enumerate(unique):
            if np.any(self.is_term(row // _FLAGS)):
                raise self._arithmetic(step)
            key = (step.name, step.output.dtype.name, *(int(code) for code in row))
            if key not in self._terms:
                self._terms[key] = -_TERMS - len(self._terms)
            names[number] = self._terms[key]
        found = np.zeros(where.shape, np.int64)
        found[where] = names[places.reshape(-1)] * _FLAGS + flags
        return found

    def _alone(self, step: Step, contributions: Codes, groups: Codes, count: int, base: Codes | None) -> Codes:
        """Sums of which at most one summand is not a constant zero: that summand.

        Args:
            contributions, groups: the summands and the number of each one's sum.
            count: how many sums there are.
            base: what each sum starts from, for a scatter-add.
        """
        kind = step.output
        summands = contributions if base is None else np.concatenate([base, contributions])
        at = groups if base is None else np.concatenate([np.arange(count), groups])
        plus, minus = self._zeros(summands, kind)
        real = ~plus & ~minus
        if np.any(np.bincount(at[real], minlength=count) > 1):
            raise self._arithmetic(step)
        zero = self.codes(np.zeros(1, kind.dtype), kind)[0]
        negative = self.codes(-np.zeros(1, kind.dtype), kind)[0] if kind.is_float else zero
        positive, negatives = (np.bincount(at[zeros], minlength=count) > 0 for zeros in (plus, minus))
        found = np.where(~positive & negatives, negative, zero)
        flags = np.where(positive, ZERO_ADDED, np.where(negatives, TOUCHED, 0)) * kind.is_float
        found[at[real]] = summands[real] | flags[at[real]]
        return np.asarray(found, np.int64)

    def _reduce_sum(self, step: Step, value: Any) -> Labelled:
        axes, codes = tuple(step.params["axes"]), self.codes(value, step.inputs[0])
        size = int(np.prod(step.output.shape, dtype=np.int64))
        kept = [1 if dim in axes else length for dim, length in enumerate(codes.shape)]
        groups = np.broadcast_to(np.arange(size).reshape(kept), codes.shape).reshape(-1)
        # A sum of one is left out by the compiler; all others start from 0.0.
        start = None if codes.size == size else self.codes(np.zeros(size, step.output.dtype), step.output)
        return Labelled(self._alone(step, codes.reshape(-1), groups, size, start).reshape(step.output.shape))

    def _scatter_add(self, step: Step, operand: Any, indices: Any, updates: Any) -> Labelled:
        targets, inside = windows.of_scatter(step, self.concrete(step, indices))
        base = self.codes(operand, step.inputs[0]).reshape(-1)
        added = self.codes(updates, step.inputs[2])
        found = self._alone(step, added[inside], targets[inside], base.size, base)
        return Labelled(found.reshape(step.output.shape))

    def _dot_general(self, step: Step, left: Any, right: Any) -> Labelled:
        """A product with rows of a one-hot matrix picks elements, if no element is infinite or NaN."""
        moved = 0 if isinstance(left, Labelled) else 1
        found = onehot.picked(step, getattr(left, "codes", left), getattr(right, "codes", right), moved)
        if found is None or isinstance(left, Labelled) == isinstance(right, Labelled):
            raise self._arithmetic(step)
        self.products += onehot.only_here(step, step.inputs[moved], self._platform)
        cast = step.like("convert_element_type", [step.inputs[moved]], [step.output])
        result = self._convert(cast, Labelled(found.result)).codes
        if found.length > 1 and step.output.is_float:
            if not self._finite_by_promise(found.elements) or self.sources(found.elements) != self.sources(result):
                raise self._arithmetic(step)
            result = result | (ZERO_ADDED | FINITE)
        return Labelled(found.finish(result))

    def _finite_by_promise(self, codes: Codes) -> bool:
        """Whether elements are finite where the inputs are: no infinite constants, and no terms, which may overflow."""
        names = np.unique(self.names(codes))
        known = (name for name in names.tolist() if name < 0)
        return not self.is_term(names).any() and all(np.isfinite(float(self._values[name])) for name in known)

    def _convert(self, step: Step, value: Any) -> Labelled:
        """A cast that changes no number: to a float that holds every number of the input the element comes from."""
        codes, origin, target = self.codes(value, step.inputs[0]), step.inputs[0], step.output
        if origin.dtype == target.dtype:
            return Labelled(codes)
        if not (origin.is_float and target.is_float):
            raise self._arithmetic(step)
        names, converted = self.names(codes), codes | TOUCHED
        if self.is_term(names).any() or not all(holds(target.dtype, one.kind.dtype) for one in self._origins(names)):
            raise self._arithmetic(step)
        for name in np.unique(names[names < 0]).tolist():
            constant = np.asarray(self._values[name]).reshape(1)
            converted = np.where(names == name, self.codes(constant.astype(target.dtype), target)[0], converted)
        return Labelled(converted)

    def _origins(self, names: Codes) -> list[LabelledInput]:
        """The inputs that named elements come from."""
        ends = [origin.first for origin in self.origins]
        numbers = np.unique(np.searchsorted(ends, names[names >= 0], side="right") - 1)
        return [self.origins[number] for number in numbers.tolist()]

    def _arithmetic(self, step: Step) -> NotCovered:
        return NotCovered(f"{step} is arithmetic on input elements, not movement")
