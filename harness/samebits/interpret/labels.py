"""The abstract domain of labels: every input element has a label, and a program moves labels to its outputs.

Two programs with the same labels in the same places give the same bits for every input of these shapes, NaN payloads
and the sign of zero included. Besides movement, four operations are followed, each with a flag where it needs a
condition: adding an exact zero, a product with rows of a one-hot matrix, a cast to a wider float and back, and a single
operation on moved elements (the same operation on the same bits gives the same bits). Rules raise `NotCovered` where an
equation computes new numbers from input elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import NotCovered, NothingCompared
from samebits.interpret import windows
from samebits.interpret.data_movement import Move, owned
from samebits.interpret.dot_general import is_short, is_short_format, only_here, picked
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.jax_evaluation import execute, holds
from samebits.interpret.problem import Question, first_place
from samebits.numerics import floats
from samebits.schema.domain import Fact, RequiredFact

# The labels of elements: of inputs, of constants, and of terms (one operation on labelled elements).
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
        """The codes of the results of one operation on labelled elements, one for each row of operands."""
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


# Constants that a program computes in floating point, whose bits its compiler decides as much as its code does.
_ROUNDED_ONCE = {"add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply}
_CORRECTLY_ROUNDED = frozenset({*_ROUNDED_ONCE, "div", "sqrt", "convert_element_type", "reduce_precision"})
_EXACT = frozenset(
    {"abs", "bitcast_convert_type", "ceil", "clamp", "copy", "copysign", "cummax", "cummin", "floor", "max", "min"}
    | {"neg", "nextafter", "optimization_barrier", "reduce_max", "reduce_min", "round", "select_n", "sign"}
)


class ComputedConstants:
    """The bits of constants that operations have rounded, by dtype: of one or more, and of more than one."""

    def __init__(self) -> None:
        self._rounded: dict[Any, set[int]] = {}
        self._computed: dict[Any, set[int]] = {}

    def note(self, step: Step, values: Sequence[Array], outputs: Sequence[Array]) -> None:
        """Note down what an operation on constants gave."""
        for output in (output for output in outputs if floats.is_float(output.dtype)):
            before, computed = (_where(known, values, output.shape) for known in (self._rounded, self._computed))
            rounded = np.zeros(output.shape, bool) if step.name in _EXACT else _is_rounded(step, values, output)
            again = rounded if step.name not in _CORRECTLY_ROUNDED else rounded & before
            inexact = ~_is_simple(output)
            for known, places in ((self._rounded, before | rounded), (self._computed, computed | again)):
                known.setdefault(output.dtype, set()).update(_bits(output[places & inexact]))

    def holds(self, value: Any) -> bool:
        """Whether more than one operation has rounded an element of a constant."""
        value = np.asarray(value)
        return not self._computed.get(value.dtype, set()).isdisjoint(_bits(value))


def _is_simple(value: Array) -> Array:
    """Where a number is what any way to compute it gives: an integer, none, or infinite."""
    wide = value.astype(np.float64)
    return np.asarray(~np.isfinite(wide) | (wide == np.rint(wide)))


def _is_rounded(step: Step, values: Sequence[Array], output: Array) -> Array:
    """Where an operation rounds: not where exact numbers give what it gives."""
    operands, wide = [np.asarray(value).astype(np.float64) for value in values], output.astype(np.float64)
    if step.name in _ROUNDED_ONCE and output.dtype.itemsize < 8:
        return np.asarray(_ROUNDED_ONCE[step.name](*operands) != wide)
    if step.name in ("convert_element_type", "reduce_precision"):
        return np.asarray(operands[0] != wide)
    return np.ones(output.shape, bool)


def _where(known: dict[Any, set[int]], values: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """The elements of a result that come from known bits: of operands of its shape their own, else from any."""
    places = np.zeros(shape, bool)
    for value in map(np.asarray, values):
        if not known.get(value.dtype):
            continue
        among = np.isin(floats.raw_bits(value), np.array(sorted(known[value.dtype]), floats.raw_bits(value).dtype))
        places |= among if value.shape == shape else among.any()
    return places


def _bits(value: Array) -> list[int]:
    bits: list[int] = np.unique(floats.raw_bits(value)).tolist() if floats.is_float(value.dtype) else []
    return bits


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

    def moved(self, values: Sequence[Any], move: Move, kind: Type) -> Labelled:
        """Labels move with their elements."""
        return Labelled(owned(move([self.table.codes(value, kind) for value in values])))

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
            return [scatter_add(self.table, step, operand, self.concrete(step, indices), updates)]
        if step.name == "reduce_sum":
            return [reduce_sum(self.table, step, *values)]
        if step.name == "convert_element_type":
            return [convert(self.table, step, *values)]
        if step.name == "dot_general":
            left, right = values
            result, platform_dependent = dot_general(self.table, step, left, right, self._platform)
            self.products += platform_dependent
            return [result]
        return [elementwise(self.table, step, values)]


def elementwise(table: LabelTable, step: Step, values: Sequence[Any]) -> Labelled:
    """Adding an exact zero and multiplying by one preserve an element; any other operation makes a term."""
    shape = step.output.shape
    codes = [np.broadcast_to(table.codes(value, kind), shape) for value, kind in zip(values, step.inputs, strict=True)]
    if step.name == "reduce_precision":
        raise arithmetic(step)
    undecided = np.full(shape, True)
    result = np.zeros(shape, np.int64)
    if step.name in ("add", "add_any"):
        for first, second in (codes, codes[::-1]):
            plus, minus = table.zeros(first, step.output)
            flag = ZERO_ADDED if step.output.is_float else 0
            result = np.where(undecided & plus, second | flag, np.where(undecided & minus, second | TOUCHED, result))
            undecided = undecided & ~plus & ~minus
    elif step.name == "mul":
        unit = table.codes(np.ones(1, step.output.dtype), step.output)[0]
        for first, second in (codes, codes[::-1]):
            flag = TOUCHED if step.output.is_float else 0
            result = np.where(undecided & (first == unit), second | flag, result)
            undecided = undecided & (first != unit)
    if undecided.any():
        result[undecided] = table.add_terms(step, np.stack([operand[undecided] for operand in codes], -1))
    return Labelled(result)


def convert(table: LabelTable, step: Step, value: Any) -> Labelled:
    """A cast that changes no number: to a float that holds every number of the input the element comes from."""
    codes, source, target = table.codes(value, step.inputs[0]), step.inputs[0], step.output
    if source.dtype == target.dtype:
        return Labelled(codes)
    if not (source.is_float and target.is_float):
        raise arithmetic(step)
    labels, converted = table.labels(codes), codes | TOUCHED
    if table.is_term(labels).any() or not all(holds(target.dtype, x.kind.dtype) for x in table.inputs_of(labels)):
        raise arithmetic(step)
    for label in np.unique(labels[labels < 0]).tolist():
        constant = np.asarray(table.constant(label)).reshape(1)
        converted = np.where(labels == label, table.codes(constant.astype(target.dtype), target)[0], converted)
    return Labelled(converted)


def reduce_sum(table: LabelTable, step: Step, value: Any) -> Labelled:
    """Sums of which at most one summand is not a constant zero."""
    axes, codes = tuple(step.params["axes"]), table.codes(value, step.inputs[0])
    size = math.prod(step.output.shape)
    shape = [1 if dim in axes else length for dim, length in enumerate(codes.shape)]
    groups = np.broadcast_to(np.arange(size).reshape(shape), codes.shape).reshape(-1)
    # The compiler removes a sum of one element; all others start from 0.0.
    start = None if codes.size == size else table.codes(np.zeros(size, step.output.dtype), step.output)
    return Labelled(_only_summands(table, step, codes.reshape(-1), groups, size, start).reshape(step.output.shape))


def scatter_add(table: LabelTable, step: Step, operand: Any, indices: Array, updates: Any) -> Labelled:
    """A scatter-add in which at most one summand of each element is not a constant zero."""
    targets, inside = windows.of_scatter(step, indices)
    base = table.codes(operand, step.inputs[0]).reshape(-1)
    added = table.codes(updates, step.inputs[2])
    sums = _only_summands(table, step, added[inside], targets[inside], base.size, base)
    return Labelled(sums.reshape(step.output.shape))


def dot_general(table: LabelTable, step: Step, left: Any, right: Any, platform: str | None) -> tuple[Labelled, bool]:
    """A product with rows of a one-hot matrix returns elements, if no element is infinite or NaN.

    The flag beside the result says whether the product preserves them on this platform and not on every other.
    """
    moved = 0 if isinstance(left, Labelled) else 1
    product = picked(step, getattr(left, "codes", left), getattr(right, "codes", right), moved)
    if product is None or isinstance(left, Labelled) == isinstance(right, Labelled):
        raise arithmetic(step)
    platform_dependent = not _is_short(table, product.elements) and only_here(step, step.inputs[moved], platform)
    cast = step.like("convert_element_type", [step.inputs[moved]], [step.output])
    result = convert(table, cast, Labelled(product.result)).codes
    if product.length > 1 and step.output.is_float:
        if not _finite_if_inputs_are(table, product.elements) or table.sources(product.elements) != table.sources(
            result
        ):
            raise arithmetic(step)
        result = result | (ZERO_ADDED | FINITE)
    return Labelled(product.finish(result)), platform_dependent


def _is_short(table: LabelTable, codes: Codes) -> bool:
    """Whether every matrix unit keeps these elements: they come from inputs and constants of few digits."""
    labels = table.labels(codes)
    if table.is_term(labels).any():
        return False
    constants = [np.asarray(table.constant(label)) for label in np.unique(labels[labels < 0]).tolist()]
    kinds = [source.kind.dtype for source in table.inputs_of(labels)]
    return all(map(is_short, constants)) and all(map(is_short_format, kinds))


def _only_summands(
    table: LabelTable, step: Step, summands: Codes, groups: Codes, count: int, start: Codes | None
) -> Codes:
    """Sums of which at most one summand is not a constant zero: that summand.

    Args:
        summands, groups: the summands and the number of each one's sum.
        start: what each sum starts from, for a scatter-add.
    """
    kind = step.output
    values = summands if start is None else np.concatenate([start, summands])
    at = groups if start is None else np.concatenate([np.arange(count), groups])
    plus, minus = table.zeros(values, kind)
    nonzero = ~plus & ~minus
    if np.any(np.bincount(at[nonzero], minlength=count) > 1):
        raise arithmetic(step)
    zero = table.codes(np.zeros(1, kind.dtype), kind)[0]
    negative_zero = table.codes(-np.zeros(1, kind.dtype), kind)[0] if kind.is_float else zero
    has_plus, has_minus = (np.bincount(at[zeros], minlength=count) > 0 for zeros in (plus, minus))
    sums = np.where(~has_plus & has_minus, negative_zero, zero)
    flags = np.where(has_plus, ZERO_ADDED, np.where(has_minus, TOUCHED, 0)) * kind.is_float
    sums[at[nonzero]] = values[nonzero] | flags[at[nonzero]]
    return np.asarray(sums, np.int64)


def _finite_if_inputs_are(table: LabelTable, codes: Codes) -> bool:
    """Whether elements are finite where the inputs are: no infinite constants, and no terms, which may overflow."""
    labels = np.unique(table.labels(codes))
    constants = (label for label in labels.tolist() if label < 0)
    return not table.is_term(labels).any() and all(np.isfinite(float(table.constant(label))) for label in constants)


# Proof by labels: both programs only move data, and put the same element into the same place.
_NEEDS: tuple[tuple[int, tuple[Fact, ...]], ...] = (
    (FINITE, ("finite",)),
    (ZERO_ADDED, ("no_negative_zero", "no_subnormal", "no_signalling_nan")),
    (TOUCHED, ("no_nan", "no_subnormal")),
)
"""By flag of a code (see `label_table`), the facts required of an element for its bits to be preserved."""


@dataclass(frozen=True, slots=True)
class LabelIdentity:
    """What labels prove of one output.

    Args:
        equal: the same element in every place.
        promises: the facts required of the inputs for the bits to be equal; if empty, they are equal for all inputs.
        witness: the first place that differs, with the elements of both sides there.
        products: whether a side moves elements by products with one-hot matrices, which must keep their floats.
        only_moved: neither side does more to an element than to move it and to add an exact zero.
    """

    equal: bool
    elements: int
    promises: tuple[RequiredFact, ...] = ()
    witness: str | None = None
    products: bool = False
    only_moved: bool = False


class LabelProver:
    """A reference interpreted with labels, to compare variants with."""

    def __init__(self, question: Question) -> None:
        self._domain = LabelDomain(question.platform)
        self._args = [
            argument.values if argument.is_index_operand else self._domain.input(argument.name, argument.kind(aval))
            for argument, aval in zip(question.inputs, question.reference.in_avals, strict=True)
        ]
        self._reference = self._interpret(question.reference, question)
        self._products = self._domain.products

    def movement(self, question: Question) -> dict[str, LabelIdentity]:
        """Interpret a variant with labels and compare these, output by output.

        Raises:
            NotCovered: the variant does more than move data; the text names the equation.
            NothingCompared: no output holds an element of an input.
        """
        before = self._domain.products
        variant = self._interpret(question.variant, question)
        products = self._products + self._domain.products - before > 0
        table, identities, moved = self._domain.table, {}, False
        for number, name in enumerate(question.outputs):
            different = question.mismatch(number)
            if different is not None:
                identities[name] = LabelIdentity(False, 0, witness=f"{name}: {different}")
                continue
            kind = question.types(question.reference)[number]
            first, second = (table.codes(side[number], kind) for side in (self._reference, variant))
            labels, others = table.labels(first), table.labels(second)
            moved = moved or bool(np.any(labels >= 0) or np.any(table.is_term(labels)))
            differs = labels != others
            if np.any(table.is_term(labels[differs]) | table.is_term(others[differs])):
                raise NotCovered(f"'{name}' is computed by different operations; labels cannot show whether they agree")
            if differs.any():
                at = first_place(differs)
                expected, actual = (table.words(int(codes[at])) for codes in (first, second))
                place = f"{name}[{', '.join(map(str, at))}]"
                identities[name] = LabelIdentity(
                    False, first.size, witness=f"{place} is {expected} in the reference and {actual} in the variant"
                )
            else:
                more_than_moved = table.is_term(labels).any() or ((first | second) & (FINITE | TOUCHED)).any()
                identities[name] = LabelIdentity(
                    True,
                    first.size,
                    promises=self._promises(first, second),
                    products=products,
                    only_moved=not more_than_moved,
                )
        if not moved:
            raise NothingCompared("no output holds an element of an input; there is no movement to prove")
        return identities

    def _interpret(self, program: Any, question: Question) -> Sequence[Any]:
        outputs = Interpreter(self._domain, question.platform)(program, *self._args)
        for name, output in zip(question.outputs, outputs, strict=True):
            if self._domain.is_computed(output):
                raise NotCovered(
                    f"'{name}' has constants that several operations round: their compiler decides the bits"
                )
        return outputs

    def _promises(self, first: Codes, second: Codes) -> tuple[RequiredFact, ...]:
        """The facts required where either side did more to an element than to move it.

        They are required even where both sides did the same, because the compiler may remove the operation from one of
        them: XLA removes the addition of a literal zero.
        """
        table, flags = self._domain.table, (first | second) % FLAGS
        required: list[RequiredFact] = []
        for flag, facts in _NEEDS:
            codes = first[(flags & flag) != 0]
            subjects = list(dict.fromkeys(table.sources(codes)))
            for term in table.terms(codes):  # a label does not distinguish the operands from the result
                sources = table.sources(np.array(term[2:], np.int64))
                subjects.append(f"{term[0]} of {' and '.join(dict.fromkeys(sources))}")
            for fact in facts:
                for subject in dict.fromkeys(subjects):
                    candidate = RequiredFact(fact, subject)
                    if candidate not in required and not _follows(candidate, required):
                        required.append(candidate)
        return tuple(required)


def _follows(candidate: RequiredFact, required: Sequence[RequiredFact]) -> bool:
    """Whether a fact follows from those that are required already."""
    return any(fact.subject == candidate.subject and fact.implies(candidate.fact) for fact in required)


def movement(question: Question) -> dict[str, LabelIdentity]:
    """Compare one variant with its reference by labels.

    Raises:
        NotCovered: a side does more than move data; the text names the equation.
        NothingCompared: no output holds an element of an input.
    """
    return LabelProver(question).movement(question)
