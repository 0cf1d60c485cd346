"""The conditions of a program: what it decides by numbers that are computed element by element from its inputs.

Nothing is evaluated: each equation is looked at once, branches that no input takes and the bodies of loops included. A
value stands for all its elements, which are one term of one element of each of some inputs; what moves elements keeps
the term, and what mixes them, such as a sum, has none.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import NotCovered
from samebits.interpret import literals
from samebits.interpret.arrays import ARITHMETIC
from samebits.interpret.collectives import COLLECTIVES
from samebits.interpret.control_flow import scan_sizes
from samebits.interpret.data_movement import MOVES, STILL
from samebits.interpret.dead_code import live
from samebits.interpret.equation import Array, Step, Type, type_of
from samebits.interpret.interpreter import CALLS, called

FEW = 16
"""Of so many constants in a table a condition is asked for each by itself."""

DEEPEST = 120
"""Of how many steps in a row a term may be made: what is deeper is not a short chain back to an input."""

_MIX = ("bitcast_convert_type", "cumprod", "cumsum", "dot_general", "iota", "scatter-add")
_ELEMENTWISE = frozenset(name for name in ARITHMETIC if name not in _MIX and not name.startswith("reduce_"))
_SAME = frozenset(("reduce_max", "reduce_min", "reduce_and", "reduce_or", "sort", "cummax", "cummin", *MOVES, *STILL))
_SAME |= {name for name in COLLECTIVES if name not in ("axis_index", "psum", "psum_invariant")} - {"reduce_scatter"}
_WHOLE = ("floor_divide", "remainder", "true_divide")
_COMPARED = ("eq", "ge", "gt", "le", "lt", "max", "min", "ne")
_BOOL = np.dtype(bool)

EXACT: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "convert_element_type": lambda x: x,
}
"""Arithmetic of integers that wraps, and what it is where nothing wraps."""


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
        first, second: the numbers.
        within: where alone it decides anything: the branch that holds it is taken.
        step: the equation.
        compared: the program compares them, or chooses by them; else they decide how it rounds or wraps.
    """

    first: ElementTerm
    second: ElementTerm
    within: ElementTerm | None
    step: Step
    compared: bool

    def sides(self) -> list[ElementTerm]:
        """How it may come out; a boolean is true or false."""
        names = ("eq", "ne") if self.first.dtype == _BOOL else ("eq", "lt", "gt")
        return [both(made(name, _BOOL, self.first, self.second), self.within) for name in names]


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
    walk, closed = _ConditionWalk(), live(program)
    arguments: list[ElementTerm | None] = []
    for number, var in enumerate(closed.jaxpr.invars):
        kind = _kind(var)
        is_number = kind is not None and not (kind.is_key or kind.is_complex)
        step = Step("input", {"number": number}, (), (Type((), kind.dtype),)) if kind and is_number else None
        arguments.append(ElementTerm(step, (), hash(("input", number)), frozenset((number,))) if step else None)
    walk.closed(closed, arguments, None)
    return tuple(walk.found.values())


def value_of(term: ElementTerm, inputs: Mapping[int, Array], known: dict[int, Array]) -> Array:
    """The numbers of a term, one for each of the elements that are given of every input.

    Args:
        term: the term.
        inputs: by number, as many elements of each input.
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
        elif name == "wraps":  # whose first operand is the wrapped number
            exact = EXACT[term.operands[0].step.name](*(each.astype(object) for each in operands[1:]))
            result = exact != operands[0]
        else:
            with np.errstate(all="ignore"):
                result = ARITHMETIC[name](term.step, *operands)
        known[term.key] = np.asarray(result, np.float64 if kind.is_float else kind.dtype)
    return known[term.key]


def _kind(var: Any) -> Type | None:
    try:
        return type_of(var.aval)
    except NotCovered:  # a reference to memory
        return None


class _ConditionWalk:
    """Looks at equations in order; by variable it knows the term, or None."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, int, int | None], Condition] = {}
        self.axes: dict[Any, int] = {}

    def closed(
        self, closed: Any, args: Sequence[ElementTerm | None], within: ElementTerm | None
    ) -> list[ElementTerm | None]:
        """The terms of the outputs of a jaxpr; an open one has no constants."""
        jaxpr, known = getattr(closed, "jaxpr", closed), dict[Any, ElementTerm | None]()
        for var, value in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=False):
            known[var] = self._constant(value, var)
        known.update(zip(jaxpr.invars, args, strict=True))
        for eqn in jaxpr.eqns:
            terms = [self._read(known, var) for var in eqn.invars]
            outputs = self.equation(eqn, terms, within)
            known.update(zip(eqn.outvars, outputs, strict=True))
        return [self._read(known, var) for var in jaxpr.outvars]

    def _read(self, known: Mapping[Any, ElementTerm | None], var: Any) -> ElementTerm | None:
        return self._constant(var.val, var) if hasattr(var, "val") else known.get(var)

    def _constant(self, value: Any, var: Any) -> ElementTerm | None:
        kind = _kind(var)
        return None if kind is None or kind.is_key or kind.is_complex else constant(value, kind)

    def compares(
        self, first: ElementTerm | None, second: ElementTerm | None, within: ElementTerm | None, step: Step
    ) -> None:
        """Two numbers that an equation compares; of constants nothing is to be asked, but of each in a small table."""
        if first is None or second is None or not (first.inputs or second.inputs):
            return
        numbers = np.unique(second.values if second.values is not None else [])
        for number in numbers if 1 < numbers.size <= FEW else [None]:
            other = second if number is None else constant(number, second.step.output)
            key = (first.key, other.key, None if within is None else within.key)
            compared = step.name in (*_COMPARED, "clamp", "cond", "select_n")
            self.found.setdefault(key, Condition(first, other, within, step, compared))

    def equation(
        self, eqn: Any, terms: Sequence[ElementTerm | None], within: ElementTerm | None
    ) -> Sequence[ElementTerm | None]:
        """The terms of the outputs of one equation."""
        name, nothing = eqn.primitive.name, [None] * len(eqn.outvars)
        if eqn.params.get("name") in _WHOLE:
            return self._whole(eqn, terms, within)
        if name in CALLS:
            return self.closed(called(eqn), terms, within)
        if name in _INNER:
            return _INNER[name](self, eqn, terms, within)
        try:
            step = Step.of(eqn)
        except NotCovered:
            return nothing
        if step.has_complex or any(kind.is_key for kind in (*step.inputs, *step.outputs)):
            return nothing
        if name in ("iota", "axis_index"):
            size = step.params["shape"][step.params["dimension"]] if name == "iota" else self._size(step)
            return [constant(np.arange(min(size, 1024)), step.output)]
        if name in MOVES:
            return self._moved(step, terms, within)
        if name in ("reduce_sum", "cumsum") and terms[0] is not None and not step.output.is_float:  # of equal elements
            count = math.prod(step.inputs[0].shape) // max(1, math.prod(step.output.shape))
            counts = (
                count
                if name == "reduce_sum"
                else np.arange(1, 1 + min(1024, step.inputs[0].shape[step.params["axis"]]))
            )
            return [made("mul", step.output.dtype, terms[0], constant(counts, step.output))]
        if name in _SAME:
            return list(terms) if len(terms) == len(nothing) else [terms[0] for _ in nothing]
        if name not in _ELEMENTWISE or any(t is None or t.depth > DEEPEST for t in terms):
            return nothing
        operands = [term for term in terms if term is not None]
        self._decided(step, operands, within)
        result = made(name, step.output.dtype, *operands, step=step)
        if all(term.values is not None and term.values.size == 1 for term in operands):
            result = constant(value_of(result, {}, {}), step.output)
        return [result]

    def _whole(
        self, eqn: Any, terms: Sequence[ElementTerm | None], within: ElementTerm | None
    ) -> Sequence[ElementTerm | None]:
        """A function of jax that is one operation to its user: how its body decides is not asked, but what it gives."""
        before = dict(self.found)
        outputs = self.closed(called(eqn), terms, within)
        self.found = before
        for term in (*terms[:1], *outputs):
            if term is not None:
                self.compares(term, constant(0, term.step.output), within, Step.of(eqn))
        return outputs

    def _size(self, step: Step) -> int:
        axis = step.params["axis_name"]
        return self.axes.get(axis[0] if isinstance(axis, tuple) else axis, 1)

    def _moved(
        self, step: Step, terms: Sequence[ElementTerm | None], within: ElementTerm | None
    ) -> Sequence[ElementTerm | None]:
        """What moves elements: the term of those moved; index operands of slices are held inside."""
        at = MOVES[step.name].index_operands(step)
        if step.name == "select_n":
            which, *cases = terms
            known = [each for each in terms if each is not None]
            if which is not None and which.dtype != _BOOL:
                for number in range(len(cases)):
                    self.compares(which, constant(number, step.inputs[0]), within, step)
            whole = len(known) == len(terms) and max(each.depth for each in known) <= DEEPEST
            return [_common(cases) or (made("select_n", step.output.dtype, *known) if whole else None)]
        if step.name == "gather":
            size = step.inputs[0].shape[step.params["dimension_numbers"].start_index_map[0]]
            self.compares(terms[1], constant(np.arange(min(size, FEW)), step.inputs[1]), within, step)
        if step.name.startswith("dynamic_"):
            sizes = step.params.get("slice_sizes") or step.inputs[1].shape
            for number, whole_size, size in zip(at, step.inputs[0].shape, sizes, strict=False):
                last = whole_size - size
                starts = constant(np.arange(last + 1) if last < FEW else [0, last], step.inputs[number])
                self.compares(terms[number], starts if last else None, within, step)
        moved = [term for number, term in enumerate(terms) if number not in at and term is not None]
        first = next((term for term in moved if term.inputs), moved[0] if moved else None)
        return [first for _ in step.outputs]

    def _decided(self, step: Step, operands: Sequence[ElementTerm], within: ElementTerm | None) -> None:
        """What an elementwise equation decides by its operands."""
        name, first, out = step.name, operands[0], step.output

        def against(term: ElementTerm, *numbers: float) -> None:
            for number in numbers:
                self.compares(term, constant(np.asarray(number, term.dtype), term.step.output), within, step)

        is_float = first.step.output.is_float
        if name in _COMPARED and first.dtype != _BOOL:
            self.compares(first, operands[1], within, step)
        elif name == "clamp":
            self.compares(operands[1], first, within, step)
            self.compares(operands[1], operands[2], within, step)
        elif name in ("and", "or") and out.dtype == _BOOL:
            against(made(name, _BOOL, *operands, step=step), 1)
        elif name in ("sign", "abs"):
            against(first, 0)
        elif is_float and (name in ("floor", "ceil") or (name == "convert_element_type" and not out.is_float)):
            against(first, -1, 0, 1, 2)
        elif is_float and name == "round":
            against(first, -0.5, 0.5, 1.5, 2.5)
        elif not is_float and name in ("div", "rem", "shift_right_logical", "shift_right_arithmetic", "and"):
            against(first, 0)
            remainder = made("rem", out.dtype, *operands)  # which decides whether a quotient was rounded
            against(remainder if name == "div" else made(name, out.dtype, *operands, step=step), 0)
        elif name in EXACT and not is_float and not out.is_float and _BOOL not in (out.dtype, first.dtype):
            wraps = made("wraps", _BOOL, made(name, out.dtype, *operands, step=step), *operands)
            self.compares(wraps, constant(True, Type((), _BOOL)), within, step)

    def _cond(
        self, eqn: Any, terms: Sequence[ElementTerm | None], within: ElementTerm | None
    ) -> Sequence[ElementTerm | None]:
        """All branches, each within its number; the term of an output where all branches have the same."""
        (which, *operands), each = terms, []
        for number, branch in enumerate(eqn.params["branches"]):
            taken = within
            if which is not None and which.inputs:
                index = constant(number, which.step.output)
                if len(eqn.params["branches"]) > 2:
                    self.compares(which, index, within, Step.of(eqn))
                taken = both(made("eq", _BOOL, which, index), within)
            each.append(self.closed(branch, operands, taken))
        return [_common(outputs) for outputs in zip(*each, strict=True)]

    def _while(
        self, eqn: Any, terms: Sequence[ElementTerm | None], within: ElementTerm | None
    ) -> Sequence[ElementTerm | None]:
        """The condition and the body at the start; what the body leaves as it is has its term afterwards."""
        tests, bodies = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        test, body, carry = terms[:tests], terms[tests : tests + bodies], terms[tests + bodies :]
        (more,) = self.closed(eqn.params["cond_jaxpr"], [*test, *carry], within)
        entered = within if more is None or not more.inputs else both(more, within)
        after = self.closed(eqn.params["body_jaxpr"], [*body, *carry], entered)
        return [_common(both) for both in zip(carry, after, strict=True)]

    def _scan(
        self, eqn: Any, terms: Sequence[ElementTerm | None], within: ElementTerm | None
    ) -> Sequence[ElementTerm | None]:
        """The body at the start; what it stacks has its term, and what it carries where it leaves that as it is."""
        consts, carries = scan_sizes(eqn.params)
        outputs = self.closed(eqn.params["jaxpr"], terms, within)
        carried = zip(terms[consts : consts + carries], outputs[:carries], strict=True)
        return [*map(_common, carried), *outputs[carries:]]

    def _shard_map(
        self, eqn: Any, terms: Sequence[ElementTerm | None], within: ElementTerm | None
    ) -> Sequence[ElementTerm | None]:
        self.axes |= dict(eqn.params["mesh"].shape)
        return self.closed(eqn.params["jaxpr"], terms, within)


_INNER: dict[str, Callable[..., Sequence[ElementTerm | None]]] = {
    "cond": _ConditionWalk._cond,
    "scan": _ConditionWalk._scan,
    "shard_map": _ConditionWalk._shard_map,
    "while": _ConditionWalk._while,
}


def _common(terms: Sequence[ElementTerm | None]) -> ElementTerm | None:
    """The term of all, where they have one."""
    first = terms[0]
    return first if first is not None and all(each is not None and each.key == first.key for each in terms) else None
