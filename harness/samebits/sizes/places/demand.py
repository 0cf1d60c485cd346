"""One question of the evaluation: what stands at a symbolic place of an equation's output."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.equation import Step
from samebits.interpret.jax_evaluation import holds
from samebits.schema.domain import RequiredFact
from samebits.sizes.formulas.formula import NoFormula, Substitution, canonical_source
from samebits.sizes.places.facts import (
    Element,
    Fact,
    Facts,
    Integer,
    MapPiece,
    Number,
    Reduction,
    Source,
    Term,
    at_least,
    only_where,
    parts_of,
)
from samebits.sizes.places.polynomial import Polynomial, is_not_negative, of
from samebits.sizes.places.space import Space

Index = tuple[Polynomial, ...]
Devices = Mapping[str, Polynomial]
"""By mesh axis, the place of the device that is asked."""


Place = Callable[[Index, Facts, Devices], list[MapPiece]]
"""What stands at a place of a value, where facts hold, on a device."""


FEW = 64
"""The most summands that are written out."""


class Evaluator(Protocol):
    """What answers a demand's own questions."""

    space: Space
    assumed: dict[Fact, None]
    promised: dict[RequiredFact, None]
    axis_sizes: dict[str, int]
    platform: str | None

    def value(self, frame: Any, atom: Any, index: Index, facts: Facts, devices: Devices) -> list[MapPiece]:
        """Return what stands at a place of a value."""

    def label(self, equation: Any) -> int:
        """Return a number of an equation, the same in every evaluation of its program."""

    def frame_of(self, closed: Any, origins: dict[Any, Any], depth: int = 0) -> Any:
        """Return a frame of a jaxpr, with where its inputs come from; a function answers what stands at a place."""

    def on_devices(self, demand: Demand, devices: Devices, local: Index) -> list[MapPiece]:
        """Return what a `shard_map` has at a place on a device."""

    def branch(self, demand: Demand, number: int) -> list[MapPiece]:
        """Return what a branch of a conditional has at the place of an output."""


@dataclass(frozen=True)
class Demand:
    """A place of an output of an equation.

    Args:
        evaluator: answers questions about the operands.
        number: which of its outputs.
        index: the place, one polynomial per axis.
        facts: what holds of the place.
        devices: the device, inside `shard_map`.
    """

    evaluator: Evaluator
    frame: Any
    equation: Any
    number: int
    index: Index
    facts: Facts
    devices: Devices

    @property
    def space(self) -> Space:
        """Return sizes and indices."""
        return self.evaluator.space

    @property
    def name(self) -> str:
        """Return the primitive."""
        return str(self.equation.primitive.name)

    @property
    def params(self) -> Mapping[str, Any]:
        """Return the parameters of the equation."""
        params: Mapping[str, Any] = self.equation.params
        return params

    @property
    def label(self) -> int:
        """Return the number of the equation."""
        return self.evaluator.label(self.equation)

    @property
    def count(self) -> int:
        """Return how many operands there are."""
        return len(self.equation.invars)

    def shape(self, operand: int) -> Index:
        """Return the shape of an operand."""
        return tuple(self.space.size(size) for size in self.equation.invars[operand].aval.shape)

    @property
    def output_shape(self) -> Index:
        """Return the shape of the output that is asked for."""
        return tuple(self.space.size(size) for size in self.equation.outvars[self.number].aval.shape)

    def dtype(self, operand: int) -> np.dtype[Any]:
        """Return the dtype of an operand."""
        dtype: np.dtype[Any] = np.dtype(self.equation.invars[operand].aval.dtype)
        return dtype

    @property
    def output_dtype(self) -> np.dtype[Any]:
        """Return the dtype of the output that is asked for."""
        dtype: np.dtype[Any] = np.dtype(self.equation.outvars[self.number].aval.dtype)
        return dtype

    def operand(self, operand: int, index: Index, extra: Facts = ()) -> list[MapPiece]:
        """Return what stands at a place of an operand, where further facts hold; nothing where they never do.

        The pieces have the further facts and those that the operand adds.
        """
        own = self.space.possible(extra, self.facts)
        if own is None:
            return []
        atom, facts = self.equation.invars[operand], (*self.facts, *own)
        return only_where(own, self.evaluator.value(self.frame, atom, index, facts, self.devices))

    def first_alike(self, operand: int) -> int:
        """Return the first operand that is the same variable: where one is by cases, both are by the same one."""
        invars = self.equation.invars
        return next(number for number, variable in enumerate(invars) if variable is invars[operand])

    def broadcast(self, operand: int, extra: Facts = ()) -> list[MapPiece]:
        """Return the operand of an elementwise equation at the place of the output."""
        return self.operand(operand, self.broadcast_index(operand), extra)

    def broadcast_index(self, operand: int) -> Index:
        """Return where in an operand the element at the place is; a dimension of 1 has one for all places."""
        shape = self.equation.invars[operand].aval.shape
        if not shape:
            return ()
        return tuple(of(0) if _is_one(size) else place for size, place in zip(shape, self.index, strict=True))

    def integers(self, operand: int, index: Index, extra: Facts = ()) -> list[tuple[Facts, Polynomial]]:
        """Return the integers at a place of an operand."""
        pieces = self.operand(operand, index, extra)
        return [(piece.facts, self.integer(piece.source, operand)) for piece in pieces]

    def integer(self, source: Source, operand: int) -> Polynomial:
        """Return the integer or boolean that a source is; an unknown one where it depends on the values of inputs.

        Raises:
            NotCovered: the operand is a float.
        """
        if isinstance(source, Integer):
            return source.value
        if self.dtype(operand).kind not in "iub":
            raise self.not_covered(f"an index or a condition is a float: {source}")
        source = canonical_source(self.space, source)
        total = few_summed(self.space, source, self.evaluator.assumed)
        if total is not None:
            return total
        return self.space.value_of(source, Polynomial() + 2 if self.dtype(operand).kind == "b" else None)

    def zero(self) -> Source:
        """Return the constant zero of the output's dtype."""
        return constant(np.zeros((), self.output_dtype)[()])

    def at(self, facts: Facts) -> Demand:
        """Return the same demand where further facts hold."""
        return replace(self, facts=(*self.facts, *facts))

    def alone(self) -> Demand:
        """Return the same demand without what holds of the place."""
        return replace(self, facts=())

    def on(self, devices: Devices) -> Demand:
        """Return the same demand on another device."""
        return replace(self, devices=devices)

    def not_covered(self, why: str) -> NotCovered:
        """Return the error of this equation."""
        return NotCovered(f"{self}: {why}")

    def __str__(self) -> str:
        return str(Step.of(self.equation))


def _is_one(size: Any) -> bool:
    """Tell whether a dimension is the number 1, which jax broadcasts; a symbol that may stand for 1 is not."""
    return isinstance(size, int) and size == 1


def constant(value: Any) -> Source:
    """Return a NumPy scalar as a source: integers and booleans as numbers, all else by its bits."""
    value = np.asarray(value)[()]
    if value.dtype.kind in "iub":
        return Integer(Polynomial() + int(value))
    return Number.of(value)


def few_summed(space: Space, source: Source, assumed: dict[Fact, None]) -> Polynomial | None:
    """Return the sum of a few integers as a polynomial; None of any other source.

    The program's sum wraps around; that this one does not is assumed, where it is not shown.
    """
    if not isinstance(source, Reduction) or source.kind != "sum" or np.dtype(source.dtype).kind not in "iu":
        return None
    sizes = [space.ranges[name].constant for name in source.bound]
    if len(source.pieces) != 1 or source.pieces[0].facts or None in sizes:
        return None
    lengths = [size for size in sizes if size is not None]
    if math.prod(lengths) > FEW:
        return None
    total, inner = of(0), source.pieces[0].source
    for numbers in itertools.product(*map(range, lengths)):
        values = {name: of(number) for name, number in zip(source.bound, numbers, strict=True)}
        try:
            summand = canonical_source(space, Substitution(space, values).source(inner))
        except NoFormula:
            return None  # as where a summand is a digit of an index that is replaced
        total += summand.value if isinstance(summand, Integer) else space.value_of(summand)
    limits = np.iinfo(np.dtype(source.dtype))
    for room in (int(limits.max) - total, total - int(limits.min)):
        if not is_not_negative(room, space.ranges, space.lowest):
            assumed[at_least(room, 0)] = None
    return total


# Arithmetic on elements: what preserves their bits is followed, all else is a term of its operands.
_ADDITIONS = frozenset({"add", "add_any"})
_PLACEMENT = frozenset({"sharding", "out_sharding", "update_jaxpr", "update_consts"})
"""Parameters that change no number: where a result lies, and what the name of a scatter says already."""

WIDER = "wider:"
"""How the operation of a cast to a float dtype that holds all numbers begins."""

ELEMENTWISE = frozenset(
    {"abs", "acos", "acosh", "add", "add_any", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clamp"}
    | {"convert_element_type", "cos", "cosh", "div", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor"}
    | {"ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne"}
    | {"neg", "one_minus_square", "pow", "reduce_precision", "rem", "round", "rsqrt", "sign", "sin", "sinh", "sqrt"}
    | {"square", "sub", "tan", "tanh", "nextafter", "not", "and", "or", "xor", "shift_left", "shift_right_logical"}
    | {"population_count"}
)
"""Primitives whose result at a place depends on their operands at that place alone."""


def elementwise(demand: Demand) -> list[MapPiece]:
    """Apply an operation to elements, case by case of its operands."""
    combined: list[tuple[Facts, tuple[Source, ...]]] = [((), ())]
    for number in range(demand.count):
        alike = demand.first_alike(number)
        if alike < number:
            combined = [(facts, (*sources, sources[alike])) for facts, sources in combined]
            continue
        combined = [
            (piece.facts, (*sources, piece.source))
            for facts, sources in combined
            for piece in demand.broadcast(number, facts)
        ]
    return [MapPiece(facts, _applied(demand, sources)) for facts, sources in combined]


def _applied(demand: Demand, sources: tuple[Source, ...]) -> Source:
    if demand.name in _ADDITIONS:
        for first, second in (sources, sources[::-1]):
            if is_number(first, 0):
                return added_zero(demand, first, second)
    if demand.name == "mul":
        for first, second in (sources, sources[::-1]):
            if is_number(first, 1):
                _promise(demand, second, "no_nan", "no_subnormal")
                return second
    if demand.name == "convert_element_type":
        return cast(sources[0], demand.dtype(0), demand)
    return Term(operation_text(demand), sources)


def operation_text(demand: Demand) -> str:
    """Return the primitive with the parameters that its result depends on."""
    kept = {key: value for key, value in demand.params.items() if key not in _PLACEMENT}
    words = ", ".join(f"{key}={kept[key]}" for key in sorted(kept) if kept[key] is not None)
    return f"{demand.name}[{words}]:{demand.output_dtype.name}"


def cast(source: Source, before: np.dtype[Any], demand: Demand) -> Source:
    """Return a source in the dtype of an output: the way back of a cast to a wider float is the source again."""
    after = demand.output_dtype
    if before == after:
        return source
    if isinstance(source, Integer) and source.value.constant is not None:
        return constant(np.asarray(source.value.constant).astype(before).astype(after))
    if isinstance(source, Number):
        return constant(np.frombuffer(source.bits, before)[0].astype(after))
    if isinstance(source, Term) and source.operation == f"{WIDER}{after.name}:{before.name}":
        _promise(demand, source.operands[0], "no_nan", "no_subnormal")
        return source.operands[0]
    if before.kind not in "iub" and after.kind not in "iub" and holds(after, before):
        return Term(f"{WIDER}{before.name}:{after.name}", (source,))
    return Term(f"{before.name} to {after.name}", (source,))


def is_number(source: Source, number: int) -> bool:
    """Tell whether a source is a constant of this value; -0.0 is no 0."""
    if isinstance(source, Integer):
        return source.value.constant == number
    return isinstance(source, Number) and source.text.lstrip("-") == str(float(number)) and source.text[0] != "-"


def added_zero(demand: Demand, first: Source, second: Source) -> Source:
    """Return the sum of two sources of which one is a constant zero, with what that promises; else a term."""
    for zero, other in ((first, second), (second, first)):
        if is_number(zero, 0):
            if not isinstance(zero, Integer):
                _promise(demand, other, "no_negative_zero", "no_subnormal", "no_signalling_nan")
            return other
    if isinstance(first, Integer) and isinstance(second, Integer):
        return Integer(first.value + second.value)
    return Term(operation_text(demand), (first, second))


def _promise(demand: Demand, source: Source, *facts: Any) -> None:
    for name in names_in(source):
        for fact in facts:
            demand.evaluator.promised[RequiredFact(fact, name)] = None


def names_in(source: Source) -> list[str]:
    """Return the inputs whose elements are in a source."""
    return [part.name for part in parts_of(source) if isinstance(part, Element)]
