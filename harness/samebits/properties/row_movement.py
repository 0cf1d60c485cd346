"""The first equation that moves a row's part of a value: two batches evaluated in lockstep, one equation at a time.

Every equation is compiled alone, which is not what the fused program does: where none moves the row, that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.data_movement import MOVES
from samebits.interpret.dead_code import only
from samebits.interpret.equation import Step, is_key
from samebits.interpret.interpreter import CALLS, Interpreter, called
from samebits.interpret.oracle import Oracle
from samebits.numerics.bits import same_bits
from samebits.properties.row_batch import BatchChange, RowBatch, on_host, row_axis

REARRANGING = frozenset({*MOVES, "sort"} - {"select_n"})
"""Primitives that put elements elsewhere and compute nothing: a row that is elsewhere has not moved its bits."""


class _Pair(NamedTuple):
    """A value at both batches; `same` says that the row's part is, None that it cannot be told."""

    first: Any
    second: Any
    same: bool | None = True


class _Moved(Exception):
    """What moves the row first, in words."""


def first_movement(batch: RowBatch, change: BatchChange, output: int) -> str:
    """Say what moves a row of an output first; a third batch, of another size, tells the dimensions of the batch."""
    programs, inputs = zip(*(batch.program(each) for each in (batch.whole, change, batch.other)), strict=True)
    lockstep = _Lockstep(batch, change)
    try:
        (value,) = lockstep.closed(
            [only(program, (output,)) for program in programs],
            [_Pair(a, b) for a, b in zip(inputs[0], inputs[1], strict=True)],
        )
    except _Moved as moved:
        return str(moved)
    if value.same is not False:
        return (
            "evaluated one equation at a time, no equation moves the row: the compiled program, fused for this batch, "
            "does"
        )
    if where := lockstep.rearranged:
        return (
            f"an equation after {where} moves the row; there its elements are rearranged, so that it cannot be followed"
        )
    return "the row cannot be followed through the equations"


class _Lockstep:
    """Evaluates the equations of a program at two batches."""

    def __init__(self, batch: RowBatch, change: BatchChange) -> None:
        self._change, size, other = change, batch.size, len(batch.other.order)
        self._sizes, self._all_sizes = (size, other), (size, len(change.order), other)
        self.rearranged: Step | None = None
        self._calls: list[str] = []

    def closed(self, programs: Sequence[Any], values: Sequence[_Pair]) -> list[_Pair]:
        jaxprs = [getattr(program, "jaxpr", program) for program in programs]
        a, b, _ = jaxprs
        environment: dict[Any, _Pair] = dict(zip(a.invars, values, strict=True))
        consts = [getattr(program, "consts", ()) for program in programs]
        environment.update((var, _Pair(x, y)) for var, x, y in zip(a.constvars, *consts[:2], strict=True))

        def read(variables: Sequence[Any], others: Sequence[Any]) -> list[_Pair]:
            pairs = zip(variables, others, strict=True)
            return [_Pair(var.val, other.val) if hasattr(var, "val") else environment[var] for var, other in pairs]

        for equations in _aligned(jaxprs, self._all_sizes):
            values = read(equations[0].invars, equations[1].invars)
            environment.update(zip(equations[0].outvars, self._equation(equations, values), strict=True))
        return read(a.outvars, b.outvars)

    def _equation(self, equations: Sequence[Any], values: list[_Pair]) -> list[_Pair]:
        name = equations[0].primitive.name
        if name in CALLS:
            return self._inside(equations, lambda: self.closed([called(eqn) for eqn in equations], values))
        if name == "scan" and len({eqn.params["length"] for eqn in equations}) == 1:  # else it is over the rows
            return self._inside(equations, lambda: self._scan(equations, values))
        if name == "cond" and np.array_equal(values[0].first, values[0].second):
            branch = int(np.clip(int(values[0].first), 0, len(equations[0].params["branches"]) - 1))
            return self.closed([eqn.params["branches"][branch] for eqn in equations], values[1:])
        first = _run(equations[0], [value.first for value in values])
        second = _run(equations[1], [value.second for value in values])
        results = zip(equations[0].outvars, equations[2].outvars, first, second, strict=True)
        return [self._compared(equations[0], values, (var, other), (a, b)) for var, other, a, b in results]

    def _inside(self, equations: Sequence[Any], evaluate: Callable[[], list[_Pair]]) -> list[_Pair]:
        """Evaluate an equation's inner one, whose equations have its place where they have none of their own."""
        self._calls.append(Step(equations[0].primitive.name, {}, (), (), equations[0]).place)
        outputs = evaluate()
        self._calls.pop()
        return outputs

    def _compared(self, equation: Any, values: Sequence[_Pair], variables: Any, pair: tuple[Any, Any]) -> _Pair:
        """Compare the row's part of a result; where its operands are the same and it is not, it is found."""
        same = self._same([variable.aval.shape for variable in variables], *pair)
        if same is not False:
            return _Pair(*pair, same)
        step = Step.of(equation)
        floats = [value for value, kind in zip(values, step.inputs, strict=True) if kind.is_float]
        follows = floats if floats and step.outputs[0].is_float else values  # positions may differ, and be read
        if step.name == "iota" or any(value.same is not True for value in follows):
            return _Pair(*pair, False)
        if step.name in REARRANGING:
            self.rearranged = self.rearranged or step
            return _Pair(*pair, False)
        where = next((place for place in reversed(self._calls) if place), "")
        raise _Moved(f"{step} at {where}" if where and not step.place else str(step))

    def _same(self, shapes: Sequence[Any], first: Any, second: Any) -> bool | None:
        try:
            axis = row_axis(shapes[0], shapes[1], self._sizes)
        except NotCovered:
            return None
        if axis is None:
            return same_bits(on_host(first), on_host(second))
        sides = ((first, self._change.own), (second, self._change.rows))
        return any(
            same_bits(*(axis.rows(array, taken, inner=inner) for array, taken in sides)) for inner in (False, True)
        )

    def _scan(self, equations: Sequence[Any], values: list[_Pair]) -> list[_Pair]:
        """Evaluate the body of a scan, one trip after the other."""
        params = equations[0].params
        consts, carries = params["num_consts"], params["num_carry"]
        fixed, carry, xs = values[:consts], values[consts : consts + carries], values[consts + carries :]
        bodies = [eqn.params["jaxpr"] for eqn in equations]
        trips = range(params["length"])
        stacked: list[list[_Pair]] = []
        for trip in reversed(trips) if params["reverse"] else trips:
            slices = [_Pair(x.first[trip], x.second[trip], x.same) for x in xs]
            outputs = self.closed(bodies, [*fixed, *carry, *slices])
            carry = outputs[:carries]
            stacked.append(outputs[carries:])
        if params["reverse"]:
            stacked.reverse()
        return [*carry, *map(_stack, zip(*stacked, strict=True))]


def _stack(parts: Sequence[_Pair]) -> _Pair:
    same = None if any(p.same is None for p in parts) else all(p.same for p in parts)
    stack = jax.numpy.stack
    return _Pair(stack([p.first for p in parts]), stack([p.second for p in parts]), same)


def _aligned(jaxprs: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
    """Pair the equations of the programs; they are the same but for the sizes of their batches, or that is found."""
    aligned = list(zip(*(jaxpr.eqns for jaxpr in jaxprs), strict=False))
    for equations in aligned:
        shapes = [[tuple(getattr(var.aval, "shape", ())) for var in eqn.outvars] for eqn in equations]
        if len({eqn.primitive for eqn in equations}) > 1 or not all(
            _grow_with(each, sizes) for each in zip(*shapes, strict=True)
        ):
            a, b, _ = (
                f"{eqn.primitive.name} to {', '.join(map(str, s))}" for eqn, s in zip(equations, shapes, strict=True)
            )
            place = Step.of(equations[0]).place
            where = f" ({place})" if place else ""
            raise _Moved(f"the program is not the same at both batches: {a} is {b} in the other{where}")
    if len({len(jaxpr.eqns) for jaxpr in jaxprs}) > 1:
        raise _Moved("the program does not have the same equations at both batches")
    return aligned


def _grow_with(shapes: Sequence[tuple[int, ...]], sizes: Sequence[int]) -> bool:
    """Whether every dimension of three shapes is the same linear function of the batch."""
    if len({len(shape) for shape in shapes}) > 1:
        return False
    x, y, z = sizes
    return all((b - a) * (z - x) == (c - a) * (y - x) for a, b, c in zip(*shapes, strict=True))


def _run(equation: Any, values: Sequence[Any]) -> Sequence[Any]:
    """Execute an equation alone."""
    result = equation.primitive.bind(*values, **equation.params)
    return result if equation.primitive.multiple_results else [result]


def float64_outputs(closed: Any, arrays: Sequence[Any]) -> list[Any]:
    """Return the outputs of a program in float64.

    Raises:
        NotCovered: a primitive has no rule there.
    """
    inputs = []
    for value, aval in zip(arrays, closed.in_avals, strict=True):
        is_float = not is_key(aval.dtype) and jax.numpy.issubdtype(aval.dtype, jax.numpy.floating)
        inputs.append(np.asarray(value, np.float64) if is_float else value if is_key(aval.dtype) else np.asarray(value))
    with np.errstate(all="ignore"):
        return list(Interpreter(Oracle())(closed, *inputs))
