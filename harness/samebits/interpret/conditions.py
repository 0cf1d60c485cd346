"""The conditions of a program: what it decides by numbers that are computed element by element from its inputs.

The interpreter looks at each equation once, branches that no input takes and the bodies of loops included. A value
stands for all its elements, which are one term of one element of each of some inputs; what moves elements keeps the
term, and what mixes them, such as a product of matrices, has none.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret import literals
from samebits.interpret.arrays import ARITHMETIC
from samebits.interpret.data_movement import MOVES, STILL
from samebits.interpret.devices import Axes
from samebits.interpret.equation import Array, Step, Type, scan_sizes, type_of
from samebits.interpret.interpreter import CALLS, Interpreter, called
from samebits.interpret.oracle import Oracle
from samebits.interpret.shard_map import COLLECTIVES

FEW = 16
"""Of so many constants in a table a condition is asked for each by itself."""

DEEPEST = 120
"""Of how many steps in a row a term may be made: terms are evaluated recursively."""

_MIX = ("bitcast_convert_type", "cumprod", "cumsum", "dot_general", "iota", "scatter-add")
_ELEMENTWISE = frozenset(name for name in ARITHMETIC if name not in _MIX and not name.startswith("reduce_"))
_SAME = frozenset(("reduce_max", "reduce_min", "reduce_and", "reduce_or", "sort", "cummax", "cummin", *MOVES, *STILL))
_SAME |= {name for name in COLLECTIVES if name not in ("psum", "psum_invariant", "reduce_scatter", "psum_scatter")}
_COMPARED = ("eq", "ge", "gt", "le", "lt", "max", "min", "ne")
_STEPS = {"abs": (0,), "sign": (0,), "round": (-0.5, 0.5, 1.5, 2.5), **dict.fromkeys(("ceil", "floor"), (-1, 0, 1, 2))}
_ROUNDED_DOWN = ("floor_divide", "remainder")
_BOOL = np.dtype(bool)


@dataclass(frozen=True, slots=True, eq=False)
class ElementTerm:
    """A number that is computed from one element of each of some inputs.

    Args:
        step: the equation; its name is `input` or `constant` of what is given.
        operands: of the equation.
        key: equal for terms that are computed alike, in any program.
        inputs: the numbers of the inputs that it is computed from.
        depth: how many steps it is made of, at most, in a row.
        values: of a constant, those of its elements, of which any may be meant.
    """

    step: Step
    operands: tuple[ElementTerm, ...]
    key: int
    inputs: frozenset[int] = frozenset()
    depth: int = 0
    values: Array | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the number."""
        return self.step.output.dtype


@dataclass(frozen=True, slots=True)
class Condition:
    """Two numbers that a program compares, or that decide like a comparison.

    Args:
        within: where alone it decides anything: the branch that holds it is taken.
    """

    first: ElementTerm
    second: ElementTerm
    within: ElementTerm | None

    def sides(self) -> list[ElementTerm]:
        """How it may come out; a boolean is true or false."""
        names = ("eq", "ne") if self.first.dtype == _BOOL else ("eq", "lt", "gt")
        return [both(made(name, _BOOL, self.first, self.second), self.within) for name in names]

    def crossings(self, number: int, others: Mapping[int, Array], grid: Array) -> Array:
        """Where its numbers meet as one input runs along a grid: at its numbers, or between the two nearest others.

        Args:
            others: by number, one element of each of the other inputs.
            grid: ascending, in the dtype of the evaluation; integers are never split.
        """

        def order(values: Array) -> Array:
            known: dict[int, Array] = {}
            both = (value_of(term, {**others, number: values}, known) for term in (self.first, self.second))
            first, second = (value.astype(np.float64) for value in both)
            with np.errstate(invalid="ignore"):
                return np.broadcast_to(np.sign(first - second), values.shape)

        signs = order(grid)
        change = np.flatnonzero(signs[:-1] * signs[1:] < 0)
        low, high, before = grid[change], grid[change + 1], signs[change]
        for _ in range(64 if change.size and grid.dtype.kind != "b" else 0):  # bits of the largest number
            middle = low + (high - low) // 2 if grid.dtype.kind in "iu" else low + (high - low) / 2
            left = order(middle) == before
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        return np.unique(np.concatenate([grid[signs == 0], low, high]))


def made(name: str, dtype: Any, *operands: ElementTerm, step: Step | None = None) -> ElementTerm:
    """The term of an equation, or of one that no program has."""
    kinds = tuple(Type((), operand.dtype) for operand in operands)
    step = step or Step(name, {}, kinds, (Type((), np.dtype(dtype)),))
    also = tuple(str(step.params.get(parameter)) for parameter in ("y", "rounding_method"))
    key = hash((name, step.output.dtype.name, also, *(operand.key for operand in operands)))
    inputs = frozenset().union(*(operand.inputs for operand in operands))
    return ElementTerm(step, operands, key, inputs, 1 + max((operand.depth for operand in operands), default=0))


def both(first: ElementTerm, second: ElementTerm | None) -> ElementTerm:
    """Whether two terms are true; a second one that is None always is."""
    return first if second is None else made("and", _BOOL, first, second)


def constant(values: Any, kind: Type) -> ElementTerm:
    """The term of a constant, whose elements are any of some values."""
    array = literals.meant(values) if kind.is_float else np.asarray(values, kind.dtype)
    array = array.reshape(-1)[:1024]
    step = Step("constant", {}, (), (Type((), kind.dtype),))
    return ElementTerm(step, (), hash((kind.dtype.name, array.tobytes())), values=array)


@functools.lru_cache(maxsize=256)
def conditions(program: Any) -> tuple[Condition, ...]:
    """What a closed jaxpr decides by numbers that are computed element by element from its inputs; each once."""
    walk = _ConditionWalk()
    with contextlib.suppress(NotCovered):  # a value is not an array; what was found before it counts
        walk(program, *(_input(number, var) for number, var in enumerate(program.jaxpr.invars)))
    return tuple(walk.found.values())


def _input(number: int, var: Any) -> ElementTerm | None:
    kind = type_of(var.aval)
    if kind.is_key or kind.is_complex:
        return None
    step = Step("input", {"number": number}, (), (Type((), kind.dtype),))
    return ElementTerm(step, (), hash(("input", number)), frozenset((number,)))


def value_of(term: ElementTerm, inputs: Mapping[int, Array], known: dict[int, Array]) -> Array:
    """The numbers of a term, one for each of the elements that are given of every input.

    Args:
        inputs: by number, as many elements of each input, or one.
        known: what was evaluated at these elements already, by key.
    """
    if term.key not in known:
        operands = [value_of(operand, inputs, known) for operand in term.operands]
        name, kind = term.step.name, term.step.output
        if name == "input":
            result = inputs[term.step.params["number"]]
        elif term.values is not None:
            result = np.resize(term.values, max((len(each) for each in inputs.values()), default=1))
        elif name == "select_n":
            result = np.choose(np.clip(operands[0].astype(np.int64), 0, len(operands) - 2), operands[1:])
        else:
            with np.errstate(all="ignore"):
                result = ARITHMETIC[name](term.step, *operands)
        known[term.key] = np.asarray(result, np.float64 if kind.is_float else kind.dtype)
    return known[term.key]


class _ConditionWalk(Interpreter):
    """Looks at equations in order; a value is a term, or None where there is none."""

    def __init__(self) -> None:
        super().__init__(Oracle())
        self.found: dict[tuple[int, int, int | None], Condition] = {}
        self.within: ElementTerm | None = None

    def constant(self, array: Any, kind: Type) -> ElementTerm | None:
        """The term of a constant of the program."""
        return None if kind.is_key or kind.is_complex else constant(array, kind)

    def compares(self, first: ElementTerm | None, second: ElementTerm | None) -> None:
        """Two numbers that are compared; of constants nothing is to be asked, but of each in a small table."""
        if first is None or second is None or not (first.inputs or second.inputs):
            return
        numbers = np.unique(second.values if second.values is not None else [])
        for number in numbers if 1 < numbers.size <= FEW else [None]:
            other = second if number is None else constant(number, second.step.output)
            key = (first.key, other.key, None if self.within is None else self.within.key)
            self.found.setdefault(key, Condition(first, other, self.within))

    def against(self, term: ElementTerm | None, numbers: Any) -> None:
        """A number that is compared with each of some others."""
        if term is None:
            return
        for number in numbers:
            self.compares(term, constant(np.asarray(number, term.dtype), term.step.output))

    def equation(self, eqn: Any, values: list[Any], axes: Axes) -> Sequence[ElementTerm | None]:
        """The terms of the outputs of one equation."""
        name, nothing = eqn.primitive.name, [None] * len(eqn.outvars)
        if name in CALLS:
            before = dict(self.found)
            outputs = self.closed(called(eqn), values, axes)
            if eqn.params.get("name") in _ROUNDED_DOWN and _is_known(values):
                self.found = before  # without what only its own body decides by
                self.against(made("rem", values[0].dtype, *values), [0])
            return outputs
        if name == "shard_map":
            return self.closed(eqn.params["jaxpr"], values, Axes(tuple(eqn.params["mesh"].shape.items())))
        if name == "scan":  # its first turn
            carries = scan_sizes(eqn.params)[1]
            return [*nothing[:carries], *self.closed(eqn.params["jaxpr"], values, axes)[carries:]]
        try:
            step = self._steps.of(eqn)
        except NotCovered:
            return nothing
        if name == "cond":
            return self._cond(step, values, axes)
        if name == "while":
            self._while(step, values, axes)
            return nothing
        if step.has_complex:
            return nothing
        if name in ("iota", "axis_index"):
            size = step.params["shape"][step.params["dimension"]] if name == "iota" else axes.devices
            return [constant(np.arange(min(size, 1024)), step.output)]
        if not values:  # such as uninitialised memory
            return nothing
        if name == "select_n":
            return [_chosen(*values)]
        if name in MOVES:
            return [self._moved(step, values) for _ in nothing]
        if name in _SAME:
            return list(values) if len(values) == len(nothing) else [values[0] for _ in nothing]
        if not _is_known(values):
            return nothing
        if name == "reduce_sum" and not step.output.is_float:  # of equal elements
            count = math.prod(step.inputs[0].shape) // max(1, math.prod(step.output.shape))
            return [made("mul", step.output.dtype, *values, constant(count, step.output))]
        elementwise = name in _ELEMENTWISE and len(nothing) == 1
        return [self._elementwise(step, values)] if elementwise else nothing

    def _moved(self, step: Step, terms: Sequence[ElementTerm | None]) -> ElementTerm | None:
        """What moves elements: the term of those moved; index operands of slices are held inside."""
        at, shape = MOVES[step.name].index_operands(step), step.inputs[0].shape
        if step.name == "gather":
            for axis in step.params["dimension_numbers"].start_index_map[:1]:  # none where all is taken
                self.against(terms[1], _places(shape[axis] - 1))
        if step.name.startswith("dynamic_"):
            sizes = step.params.get("slice_sizes") or step.inputs[1].shape
            for number, whole, size in zip(at, shape, sizes, strict=False):
                self.against(terms[number], _places(whole - size) if whole > size else ())
        moved = [term for number, term in enumerate(terms) if number not in at and term is not None]
        return next((term for term in moved if term.inputs), moved[0] if moved else None)

    def _elementwise(self, step: Step, operands: Sequence[ElementTerm]) -> ElementTerm:
        """The term of an elementwise equation, and what it decides by its operands."""
        name, first, out = step.name, operands[0], step.output
        result, is_float = made(name, out.dtype, *operands, step=step), first.step.output.is_float
        if name in _COMPARED and first.dtype != _BOOL:
            self.compares(first, operands[1])
        elif name == "clamp":
            self.compares(operands[1], first)
            self.compares(operands[1], operands[2])
        elif name in ("and", "or") and out.dtype == _BOOL:
            self.against(result, [True])
        elif is_float and name == "convert_element_type" and not out.is_float:
            self.against(first, _STEPS["floor"])
        elif name in _STEPS:
            self.against(first, _STEPS[name])
        elif not is_float and name in ("div", "rem"):
            self.against(made("rem", out.dtype, *operands), [0])  # which decides whether a quotient was rounded
        return result

    def _cond(self, step: Step, values: Sequence[Any], axes: Axes) -> Sequence[ElementTerm | None]:
        """All branches, each within its number."""
        (which, *operands), branches = values, step.params["branches"]
        if len(branches) > 2:
            self.against(which, range(len(branches)))
        each = []
        for number, branch in enumerate(branches):
            taken = None if which is None else made("eq", _BOOL, which, constant(number, step.inputs[0]))
            each.append(self._inside(taken, branch, operands, axes))
        return [_chosen(which, *cases) for cases in zip(*each, strict=True)]

    def _while(self, step: Step, values: Sequence[Any], axes: Axes) -> None:
        """The condition and the body of a loop, in its first turn."""
        tests, bodies = step.params["cond_nconsts"], step.params["body_nconsts"]
        carry = values[tests + bodies :]
        (more,) = self.closed(step.params["cond_jaxpr"], [*values[:tests], *carry], axes)
        self._inside(more, step.params["body_jaxpr"], [*values[tests : tests + bodies], *carry], axes)

    def _inside(self, taken: ElementTerm | None, closed: Any, args: Sequence[Any], axes: Axes) -> list[Any]:
        """The outputs of an inner program whose conditions decide something only where a term is true."""
        outer = self.within
        self.within = both(taken, outer) if taken is not None and taken.inputs else outer
        outputs = self.closed(closed, args, axes)
        self.within = outer
        return outputs


def _is_known(terms: Sequence[ElementTerm | None]) -> TypeGuard[Sequence[ElementTerm]]:
    return all(term is not None and term.depth <= DEEPEST for term in terms)


def _chosen(*terms: ElementTerm | None) -> ElementTerm | None:
    """One of some cases, by a boolean or their number, which comes first."""
    return made("select_n", terms[-1].dtype, *terms) if _is_known(terms) else None


def _places(last: int) -> Sequence[int]:
    """The places from 0 to a last one, or only the ends of many."""
    return range(last + 1) if last < FEW else (0, last)
