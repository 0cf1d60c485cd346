"""Arithmetic on elements: what preserves their bits is followed, all else is a term of its operands."""

from __future__ import annotations

from typing import Any

import numpy as np

from samebits.interpret.jax_evaluation import holds
from samebits.schema.domain import RequiredFact
from samebits.sizes.places.demand import Demand, constant
from samebits.sizes.places.facts import (
    Element,
    Facts,
    Integer,
    MapPiece,
    Number,
    Reduction,
    Source,
    Term,
    WholeResult,
)

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
    """One operation on elements, case by case of its operands."""
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
    """The primitive with the parameters that its result depends on."""
    kept = {key: value for key, value in demand.params.items() if key not in _PLACEMENT}
    words = ", ".join(f"{key}={kept[key]}" for key in sorted(kept) if kept[key] is not None)
    return f"{demand.name}[{words}]:{demand.output_dtype.name}"


def cast(source: Source, before: np.dtype[Any], demand: Demand) -> Source:
    """A source of another dtype in that of an output: the way back of a cast to a wider float is the source again."""
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
    """Whether a source is a constant of this value; -0.0 is no 0."""
    if isinstance(source, Integer):
        return source.value.constant == number
    return isinstance(source, Number) and source.text.lstrip("-") == str(float(number)) and source.text[0] != "-"


def added_zero(demand: Demand, first: Source, second: Source) -> Source:
    """The sum of two sources of which one is a constant zero.

    Raises:
        NotCovered: neither is.
    """
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
    """The inputs whose elements are in a source."""
    if isinstance(source, Element):
        return [source.name]
    if isinstance(source, Term):
        return [name for operand in source.operands for name in names_in(operand)]
    if isinstance(source, Reduction):
        return [name for piece in source.pieces for name in names_in(piece.source)]
    if isinstance(source, WholeResult):
        return [name for whole in source.operands for piece in whole.pieces for name in names_in(piece.source)]
    return []
