"""The abstract domain in which every number is a random element of finite fields: equal formulas give equal elements.

Sums, products and quotients are exact there, so the order of adding does not matter and rounding casts change
nothing. If two formulas differ, their difference is a polynomial that is not zero, and such a polynomial vanishes at
a random point with a probability of at most its degree over the size of the field (Schwartz 1980; Zippel 1979). A
float64 *shadow* beside each element decides comparisons; where it cannot decide, there is no proof.

An element carries residues modulo up to five primes, each of which divides the one before less one, so that exp(x)
keeps its law exp(a) exp(b) = exp(a + b) (Mirage, arXiv 2405.05751); each exp uses up one of them.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret import literals
from samebits.interpret.arrays import ARITHMETIC, MATRICES, OF_PARTS, evaluate
from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.field import residues
from samebits.interpret.field.arithmetic import (
    FORMULAS,
    FUNCTIONS,
    Rule,
    constant,
    log_of_two,
    negative,
    operands,
    product,
    reciprocal,
    sum_of,
)
from samebits.interpret.field.base import FieldBase
from samebits.interpret.field.comparisons import CHOICES, whole_part
from samebits.interpret.field.element import FieldElement, reaching, shadows, spread, together
from samebits.interpret.literals import SurdLiteral
from samebits.interpret.source_constants import SourceConstant

if TYPE_CHECKING:
    from samebits.interpret.field.base import FieldBase


# Special functions of the field domain: uninterpreted ones of several arguments, remainders, and whole
# factorisations.
_SMALL = 2.0**-20
_KEYS = 24  # of a digest; NumPy broadcasts at most 64 arrays


def _sensitive_to_all(step: Step, shadow: Array, elements: Sequence[FieldElement]) -> Array | None:
    """The reach of a function of several elements: the largest change that a small one of each makes."""
    plain = [element.shadow for element in elements]
    changes = []
    for number, element in enumerate(elements):
        if element.reach is not None:
            moved = [each + (_SMALL * element.reach if other == number else 0) for other, each in enumerate(plain)]
            changes.append(np.abs(shadows(step, *moved) - shadow) / _SMALL)
    return np.asarray(np.max(changes, 0)) if changes else None


def _several(name: str) -> Rule:
    """An unknown function of several arguments, each in its place."""

    def rule(field: FieldBase, step: Step, *values: Any) -> FieldElement:
        elements = operands(field, step, values)
        shadow = shadows(step, *elements)
        named = f"{name} {step.output.dtype.name}" if name == "nextafter" else name
        result = field.unknown(named, [x.parts[0] for x in elements], shadow, together(x.degree for x in elements))
        result = reaching(result, _sensitive_to_all(step, shadow, elements))
        return field.settled(result, elements)

    return rule


def _igammac(field: FieldBase, step: Step, a: Any, x: Any) -> FieldElement:
    """1 - igamma(a, x)."""
    own = shadows(step, *operands(field, step, (a, x)))
    inner = _several("igamma")(field, step.like("igamma", step.inputs, step.outputs), a, x)
    result = sum_of(field, negative(field, inner), constant(field, 1.0, inner))
    return replace(result, shadow=own)


def _log2(field: FieldBase, step: Step, x: FieldElement) -> FieldElement:
    """log(x) / log(2)."""
    natural = FUNCTIONS["log"](field, step.like("log", step.inputs, step.outputs), x)
    result = product(field, natural, reciprocal(field, step, log_of_two(field, x)))
    return replace(result, shadow=shadows(step, x))


def _rem(field: FieldBase, step: Step, value: Any, divisor: Any) -> FieldElement:
    """X - y trunc(x / y)."""
    x, y = operands(field, step, (value, divisor))
    quotient = product(field, x, reciprocal(field, step, y))
    whole = whole_part(field, step, quotient)
    return replace(sum_of(field, x, negative(field, product(field, y, whole))), shadow=shadows(step, x, y))


def _in_total_order(name: str) -> Rule:
    """Comparisons that distinguish -0.0 from 0.0, which formulas do not."""

    def rule(field: FieldBase, step: Step, first: Any, second: Any) -> Array:
        x, y = operands(field, step, (first, second))
        zeros = (x.shadow == 0) & (y.shadow == 0) & (np.signbit(x.shadow) != np.signbit(y.shadow))
        if np.any(zeros) or np.isnan(x.shadow).any() or np.isnan(y.shadow).any():
            raise NotCovered(f"{step} orders zeros by their signs, or NaNs")
        return np.asarray(CHOICES[name](field, step, x, y))

    return rule


def _random_gamma(field: FieldBase, step: Step, keys: Any, alpha: FieldElement) -> FieldElement:
    """Model a gamma sample as an uninterpreted function of key, index and parameter."""
    x = spread(alpha, step.output.shape)
    shadow = evaluate(step, [np.asarray(keys), x.shadow])[0]
    places = np.arange(shadow.size, dtype=np.int64).reshape(1, *shadow.shape)
    name = f"random gamma {np.asarray(keys).tobytes().hex()} {step.params['log_space']}"
    return field.settled(field.unknown(name, [x.parts[0], places], shadow, x.degree), [x])


# -- whole matrices


def _matrices(field: FieldBase, step: Step, *values: FieldElement) -> list[Any]:
    """Each element of the results: an unknown function of all elements of the operands' matrices."""
    elements = [_read(step, value) for value in values]
    if not all(np.isfinite(element.shadow).all() for element in elements):
        raise NotCovered(f"{step} factors a matrix with numbers that are not finite")
    batch = _batch(step)
    count = math.prod(batch)
    rows: list[Array] = []
    for element in elements:
        flat = element.parts[0].reshape(len(element.parts[0]), count, -1)
        rows += [np.ascontiguousarray(row[:, place, None]) for place in range(flat.shape[2]) for row in flat]
    keys: Array = _folded(field, rows)
    degree, name = together(element.degree for element in elements), f"{step.name} {_flags(step)}"
    size = max(float(np.max(element.size, initial=1.0)) for element in elements)
    outputs: list[Any] = []
    for number, (shadow, kind) in enumerate(
        zip(evaluate(step, [e.shadow for e in elements]), step.outputs, strict=True)
    ):
        if not kind.is_float:
            outputs.append(shadow)
            continue
        table = shadow.reshape(count, -1)
        places = np.arange(table.shape[1], dtype=np.int64).reshape(1, 1, -1)
        unknown = field.unknown(f"{name} {number}", [keys, places], table, degree)
        parts = tuple(part.reshape(len(part), *kind.shape) for part in unknown.parts)
        result = FieldElement(parts, shadow, unknown.degree)
        outputs.append(field.settled(reaching(result, np.full(kind.shape, size)), []))
    return outputs


def _folded(field: FieldBase, rows: list[Array]) -> Array:
    """As many keys as a digest takes: each block of rows as two digests of it, 100 bits together."""
    while len(rows) > _KEYS:
        blocks = [rows[start : start + _KEYS] for start in range(0, len(rows), _KEYS)]
        rows = [residues.digest("matrix", block, field.primes[0], salt) for block in blocks for salt in (0, 1)]
    return np.stack(rows)


def _read(step: Step, element: FieldElement) -> FieldElement:
    """The elements that a factorisation reads: of a symmetric matrix one triangle."""
    if step.name.removesuffix(OF_PARTS) not in ("eigh", "tridiagonal"):
        return element
    rows, columns = np.indices(element.shape[-2:])
    read = rows >= columns if step.params["lower"] else rows <= columns
    return replace(element, parts=tuple(np.where(read, part, 0) for part in element.parts))


def _batch(step: Step) -> tuple[int, ...]:
    """The leading dimensions, of which each has matrices of its own."""
    return step.inputs[0].shape[: len(step.inputs[0].shape) - _RANKS.get(step.name, 2)]


_RANKS = {"tridiagonal_solve": 1}
"""Dimensions of one first operand, where it is not a matrix."""


def _flags(step: Step) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(step.params.items()))


_SEVERAL = ("atan2", "igamma", "igamma_grad_a", "nextafter", "polygamma", "regularized_incomplete_beta", "zeta")

SPECIAL_RULES: dict[str, Rule] = {
    **{name: _several(name) for name in _SEVERAL},
    "eq_to": _in_total_order("eq"),
    "igammac": _igammac,
    "le_to": _in_total_order("le"),
    "log2": _log2,
    "lt_to": _in_total_order("lt"),
    "random_gamma": _random_gamma,
    "rem": _rem,
    **dict.fromkeys(MATRICES, _matrices),
}
"""By primitive, its rule."""


RULES = ChainMap(CHOICES, FUNCTIONS, FORMULAS, SPECIAL_RULES)


_PLAIN = {"convert_element_type": 0, "random_gamma": 0, "scatter-add": 1}
"""By primitive, the operand that its rule takes as it is, unless it is a float: what is cast, keys, indices."""


class Field(FieldBase):
    """The domain of field elements, with the rules of its primitives; the arguments are those of `FieldBase`."""

    covers = frozenset(RULES)

    def apply(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        """Arithmetic in the fields, with the shadow beside it; rules get elements."""
        plain = _PLAIN.get(step.name)
        operands = enumerate(zip(values, step.inputs, strict=True))
        values = [v if n == plain and not kind.is_float else self.element(v, kind) for n, (v, kind) in operands]
        with np.errstate(all="ignore"):
            outputs = RULES[step.name](self, step, *values)
        outputs = outputs if isinstance(outputs, list) else [outputs]
        for output in outputs:
            self.held(output)
        return outputs


# The field domain with constants computed first: in float64, and each standing for the number it is a rounding of.
_LIMIT = 1 << 16


class FoldedField(Field):
    """A field domain whose constants stay float64 arrays until they meet a symbolic value.

    Args:
        stands: by value, the number that a constant stands for.
    """

    name = "field"
    keeps_constants = True

    def __init__(self, *args: Any, stands: Mapping[float, SurdLiteral], **known: Any) -> None:
        super().__init__(*args, **known)
        self._stands = stands
        self._step: Step | None = None
        self._literals: set[float] = set()
        self._exact: dict[float, SurdLiteral] = {}
        self.met: tuple[dict[float, SourceConstant], dict[float, SourceConstant]] = {}, {}
        """By side: the constants that met symbolic values."""
        self.inner: tuple[dict[float, SourceConstant], dict[float, SourceConstant]] = {}, {}
        """By side: the constants that were computed, or that others were computed from."""
        self.used: set[float] = set()
        """Constants that came to stand for others."""

    def lift(self, array: Array, kind: Type) -> Any:
        """A float constant as the float64 numbers that it stands for; integers made from floats as elements."""
        array = np.asarray(array)
        if not kind.is_float or array.dtype.kind in "biu":
            return super().lift(array, kind)
        unique, places = np.unique(array.astype(np.float64), return_inverse=True, equal_nan=True)
        numbers = [self._float(v, array.dtype.name) if np.isfinite(v) else v for v in unique.tolist()]
        if array.size == 1:
            self._literals.update(numbers)
        return np.array(numbers, np.float64)[places].reshape(array.shape)

    def element(self, value: Any, kind: Type) -> FieldElement:
        """A value as an element: here a constant meets one."""
        if isinstance(value, FieldElement):
            return value
        array = np.asarray(value)
        if not kind.is_float or array.dtype.kind in "biu":
            return super().lift(array, kind)
        self._note(self.met, array, kind)
        return super().lift(array.astype(np.float64), kind)

    def number(self, value: float, dtype: str) -> SurdLiteral:
        """What a constant stands for."""
        if value in self._stands:
            self.used.add(value)
            return self._stands[value]
        return self._exact[value] if value in self._exact else literals.standing(value, dtype)

    def _float(self, value: float, dtype: str) -> float:
        """A literal in float64, from which its number is found again."""
        if value in self._stands:
            self.used.add(value)
            number = self._stands[value]
        else:
            number = literals.number(value, dtype)
        self._exact[float(number)] = number
        return float(number)

    def _note(self, known: tuple[dict[float, SourceConstant], ...], array: Array, kind: Type) -> None:
        if array.size > _LIMIT:
            return
        unique = np.unique(array[np.isfinite(array)]).tolist()
        place = "" if self._step is None else self._step.place
        for value in unique:
            written = value in self._literals
            table = len(unique) > 1 and not written
            constant = SourceConstant(value, kind.dtype.name, place, not written, table, self._exact.get(value))
            known[self.side].setdefault(value, constant)

    def apply(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        """Constants are computed; all else is as in the field."""
        self._step = step
        try:
            if step.name not in ARITHMETIC or any(isinstance(value, FieldElement) for value in values):
                return super().apply(step, values)
            outputs = evaluate(step, values)
            for array, kind in zip([*values, *outputs], [*step.inputs, *step.outputs], strict=True):
                if kind.is_float:
                    self._note(self.inner, array, kind)
            return outputs
        finally:
            self._step = None
