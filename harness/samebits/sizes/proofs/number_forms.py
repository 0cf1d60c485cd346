"""Slices and counted loops of programs that are traced with symbols, as jax has them where sizes are numbers.

Of an array with a symbol in its shape, `x[0::2]` is traced as a gather along an iota and its transpose as a
scatter-add; with numbers, which is what runs, they are a slice and a pad. `lax.slice` is a slice in both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import export, lax
from jax.errors import InconclusiveDimensionOperation
from jax.extend.core import jaxpr_as_fun

from samebits.interpret.dead_code import each_level
from samebits.interpret.inner_equations import equations
from samebits.prove.same_program import written


class _Strided(NamedTuple):
    """Integers that are `start + step * k` along one dimension; without one, `step` is 0."""

    start: Any
    step: Any


class _AxisSlice(NamedTuple):
    """A slice along one axis, which is dropped where one place is taken of it by its number."""

    axis: int
    start: Any
    limit: Any
    stride: int
    dropped: bool

    def of(self, x: Any) -> Any:
        """Slice an array, with the operations that jax has for it."""
        starts, limits, strides = [0] * x.ndim, list(x.shape), [1] * x.ndim
        starts[self.axis], limits[self.axis], strides[self.axis] = self.start, self.limit, self.stride
        part = lax.slice(x, starts, limits, strides)
        return lax.squeeze(part, (self.axis,)) if self.dropped else part


def with_slices(closed: Any) -> Any:
    """Return a program with the slices that jax writes as gathers for symbols alone, and their transposes.

    Programs without symbols stay as they are: there a gather is what runs. A gather that code itself asks for may be
    taken for a slice here, and is distinguished from one where both programs are traced with numbers.
    """
    changed = each_level(closed.jaxpr, _sliced)
    return closed if changed is closed.jaxpr else closed.replace(jaxpr=changed)


def _sliced(jaxpr: Any) -> Any:
    origins = _made_by(jaxpr)
    eqns: list[Any] = []
    for eqn in jaxpr.eqns:
        function = _function(eqn, origins)
        eqns += [eqn] if function is None else _in_place_of(eqn, *function)
    return jaxpr if list(map(id, eqns)) == list(map(id, jaxpr.eqns)) else jaxpr.replace(eqns=eqns)


def _in_place_of(eqn: Any, function: Callable[[Any], Any], operand: Any) -> list[Any]:
    """Return the equations of a function of one operand, with the result of another equation."""
    kind = jax.ShapeDtypeStruct(operand.aval.shape, operand.aval.dtype)
    inner = jax.make_jaxpr(function)(kind).jaxpr
    names = {inner.invars[0]: operand, inner.outvars[0]: eqn.outvars[0]}
    return _with_names(inner.eqns, names)


def _function(eqn: Any, origins: dict[Any, Any]) -> tuple[Callable[[Any], Any], Any] | None:
    """Return what a gather or scatter-add of a slice is, as a function of an operand; None for any other equation."""
    name, params = eqn.primitive.name, eqn.params
    if name not in ("gather", "scatter-add", "scatter_add") or not any(
        export.is_symbolic_dim(size) for size in eqn.invars[0].aval.shape
    ):
        return None
    if params["mode"] != lax.GatherScatterMode.PROMISE_IN_BOUNDS:
        return None
    if not (params["indices_are_sorted"] and params["unique_indices"]):  # jax sets both for a slice
        return None
    shape, places = eqn.invars[0].aval.shape, _places(eqn.invars[1], origins)
    if places is None:
        return None
    numbers = params["dimension_numbers"]
    if name == "gather":
        if numbers.operand_batching_dims:
            return None
        form = numbers.start_index_map, numbers.collapsed_slice_dims, numbers.offset_dims, params["slice_sizes"]
        sliced = _slice(shape, eqn.outvars[0].aval.shape, places, *form)
        return None if sliced is None else (sliced.of, eqn.invars[0])
    if numbers.operand_batching_dims or not _is_zero(eqn.invars[0], origins):
        return None
    updates, (axes, collapsed) = eqn.invars[2], (numbers.scatter_dims_to_operand_dims, numbers.inserted_window_dims)
    sizes = _window(shape, collapsed, numbers.update_window_dims, updates.aval.shape)
    sliced = (
        None
        if sizes is None
        else _slice(shape, updates.aval.shape, places, axes, collapsed, numbers.update_window_dims, sizes)
    )
    if sliced is None:
        return None
    kind = jax.ShapeDtypeStruct(shape, eqn.invars[0].aval.dtype)
    return (lambda cotangent: jax.linear_transpose(sliced.of, kind)(cotangent)[0]), updates


def _window(shape: Sequence[Any], collapsed: Sequence[int], dims: Sequence[int], updates: Sequence[Any]) -> Any:
    """Return the size of the window of a scatter along each axis of its operand."""
    kept = [axis for axis in range(len(shape)) if axis not in collapsed]
    if len(kept) != len(dims):
        return None
    sizes = {axis: updates[at] for axis, at in zip(kept, dims, strict=True)}
    return tuple(sizes.get(axis, 1) for axis in range(len(shape)))


def _slice(
    shape: Sequence[Any],
    part: Sequence[Any],
    places: _Strided,
    axes: Sequence[int],
    collapsed: Sequence[int],
    window: Sequence[int],
    sizes: Sequence[Any],
) -> _AxisSlice | None:
    """Return the slice of an array of a shape, whose part lies at places along one axis; None where it is not one."""
    if len(axes) != 1:
        return None
    (axis,), (start, step) = axes, places
    rest = [at for at in range(len(shape)) if at != axis]
    if any(sizes[at] != shape[at] for at in rest):
        return None
    if step == 0 and tuple(collapsed) == (axis,) and tuple(window) == tuple(range(len(part))):
        return _AxisSlice(axis, start, start + 1, 1, dropped=True)
    if step == 0 and not collapsed and tuple(window) == tuple(range(len(part))):
        return _AxisSlice(axis, start, start + sizes[axis], 1, dropped=False)
    if tuple(collapsed) != (axis,) or tuple(window) != tuple(rest) or not isinstance(step, int) or step < 1:
        return None
    # Up to the end of the array; where a slice that ends earlier does is not seen in the places.
    limit = shape[axis]
    if any(count != part[axis] for count in ((limit - start + step - 1) // step, (limit - start - 1) // step + 1)):
        return None
    return _AxisSlice(axis, start, limit, step, dropped=False)


def _is_zero(atom: Any, origins: dict[Any, Any]) -> bool:
    """Tell whether an array is a broadcast zero."""
    eqn = origins.get(atom) if not hasattr(atom, "val") else None
    if eqn is None or eqn.primitive.name != "broadcast_in_dim":
        return False
    value = getattr(eqn.invars[0], "val", None)
    return value is not None and np.asarray(value).astype(np.float64).tobytes() == bytes(8)  # and no negative one


def _places(atom: Any, origins: dict[Any, Any]) -> _Strided | None:
    """Return the index of a gather, `[1]` or `[n, 1]`, as places; None where it is computed otherwise."""
    eqn = None if hasattr(atom, "val") else origins.get(atom)
    if eqn is None or eqn.primitive.name != "broadcast_in_dim" or atom.aval.shape[-1] != 1:
        return None
    places = _integers(eqn.invars[0], origins)
    ndim = eqn.invars[0].aval.ndim
    dimensions = tuple(eqn.params["broadcast_dimensions"])
    is_column = atom.aval.ndim == ndim + 1 and dimensions == tuple(range(ndim)) and ndim <= 1
    return places if is_column else None


def size_of(atom: Any, origins: dict[Any, Any]) -> Any:
    """Return the size or number that an integer is; None where it is computed otherwise."""
    number = _integers(atom, origins)
    return None if number is None or number.step != 0 else number.start


def _integers(atom: Any, origins: dict[Any, Any]) -> _Strided | None:
    """Return integers of at most one dimension as places."""
    if hasattr(atom, "val"):
        is_number = atom.aval.dtype.kind == "i" and atom.aval.ndim == 0
        return _Strided(int(atom.val), 0) if is_number else None
    eqn = origins.get(atom)
    if eqn is None or atom.aval.dtype.kind != "i" or atom.aval.ndim > 1:
        return None
    if eqn.primitive.name == "dim_as_value":
        return _Strided(eqn.params["dim"], 0)
    if eqn.primitive.name == "iota":
        return _Strided(0, 1)
    if eqn.primitive.name not in ("copy", "convert_element_type", "add", "mul"):
        return None
    operands = [_integers(operand, origins) for operand in eqn.invars]
    if any(operand is None for operand in operands):
        return None
    first, *others = (operand for operand in operands if operand is not None)
    if not others:
        return first
    (second,) = others
    if eqn.primitive.name == "add":
        return _Strided(first.start + second.start, first.step + second.step)
    if first.step != 0 and second.step != 0:
        return None
    factor, other = (first.start, second) if first.step == 0 else (second.start, first)
    return _Strided(factor * other.start, factor * other.step)


def same_on_one_device(first: Any, second: Any) -> bool:
    """Tell whether two closed jaxprs are the same program on one device; False decides nothing.

    What jax writes otherwise for symbols alone is written as for numbers, which says nothing of code that writes it so
    itself: the programs at numbers have to be compared too.
    """
    text = written(with_slices(first))
    return text is not None and text == written(with_slices(second))


# The counted loops of a program that is traced with symbols for sizes, as jax has them where sizes are numbers.
def with_scans(closed: Any, *, differentiable: bool = False) -> Any:
    """Return a program whose counted `while` loops are scans; itself where it has none.

    A loop counts where its predicate compares a carried integer with a size, and each step adds 1 to that integer,
    which starts at a size or a number. A loop that may end before it begins stays as it is. Where `differentiable`,
    only loops of `lax.fori_loop` count: a `lax.while_loop` has no gradient at any size.
    """
    if not any(eqn.primitive.name == "while" for eqn in equations(closed.jaxpr)):
        return closed
    changed = each_level(closed.jaxpr, functools.partial(_scanned, differentiable=differentiable))
    return closed if changed is closed.jaxpr else closed.replace(jaxpr=changed)


def _scanned(jaxpr: Any, differentiable: bool) -> Any:
    origins = _made_by(jaxpr)
    eqns: list[Any] = []
    kept: dict[Any, Any] = {}  # a result that is what the loop got
    is_changed = False
    for eqn in jaxpr.eqns:
        eqn = eqn.replace(invars=_renamed(eqn.invars, kept)) if kept else eqn
        inner = _scan_of(eqn, origins, differentiable) if eqn.primitive.name == "while" else None
        if inner is None:
            eqns.append(eqn)
            continue
        is_changed = True
        names = dict(zip(inner.invars, _operands(eqn), strict=True))
        for var, outer in zip(inner.outvars, eqn.outvars, strict=True):
            if var in names:
                kept[outer] = names[var]
            else:
                names[var] = outer
        eqns += _with_names(inner.eqns, names)
    return jaxpr.replace(eqns=eqns, outvars=_renamed(jaxpr.outvars, kept)) if is_changed else jaxpr


def _operands(eqn: Any) -> list[Any]:
    """Return the constants and carries of the body of a `while`."""
    return list(eqn.invars[eqn.params["cond_nconsts"] :])


def _renamed(atoms: Iterable[Any], names: dict[Any, Any]) -> list[Any]:
    return [atom if hasattr(atom, "val") else names.get(atom, atom) for atom in atoms]


def _with_names(eqns: Iterable[Any], names: dict[Any, Any]) -> list[Any]:
    return [eqn.replace(invars=_renamed(eqn.invars, names), outvars=_renamed(eqn.outvars, names)) for eqn in eqns]


def _scan_of(eqn: Any, origins: dict[Any, Any], differentiable: bool) -> Any:
    """Return the jaxpr of a scan with the body of a `while`; None where its steps are not counted."""
    steps = None if eqn.effects else _steps(eqn, origins, differentiable)
    if steps is None:
        return None
    body, consts = eqn.params["body_jaxpr"], eqn.params["body_nconsts"]

    def loop(*operands: Any) -> Any:
        def step(carry: Any, _: Any) -> tuple[Any, None]:
            return tuple(jaxpr_as_fun(body)(*operands[:consts], *carry)), None

        # A number of steps has to be a number; an array has as many rows as its shape says.
        return lax.scan(step, tuple(operands[consts:]), lax.iota(np.int32, steps))[0]

    closed = jax.make_jaxpr(loop)(*(atom.aval for atom in _operands(eqn)))
    # A number as a result has no equation that could give it.
    is_plain = not closed.consts and not any(hasattr(var, "val") for var in closed.jaxpr.outvars)
    return closed.jaxpr if is_plain else None


def _steps(eqn: Any, origins: dict[Any, Any], differentiable: bool) -> Any:
    """Return how many steps a `while` takes, as a size; None where that is not seen."""
    test, tests = eqn.params["cond_jaxpr"].jaxpr, eqn.params["cond_nconsts"]
    body, consts = eqn.params["body_jaxpr"].jaxpr, eqn.params["body_nconsts"]
    before, starts = body.invars[consts:], eqn.invars[tests + consts :]
    counter, end = _compared(test)
    if counter not in test.invars[tests:]:
        return None
    number = test.invars[tests:].index(counter)
    if not _adds_one(body, before[number], body.outvars[number]):
        return None
    if end in test.invars[tests:]:
        place = test.invars[tests:].index(end)
        last = size_of(starts[place], origins) if body.outvars[place] is before[place] else None
    elif differentiable:
        last = None
    elif end in test.invars:
        last = size_of(eqn.invars[test.invars.index(end)], origins)
    else:
        last = size_of(end, _made_by(test))
    first = size_of(starts[number], origins)
    if first is None or last is None:
        return None
    try:
        return last - first if last - first >= 0 else None
    except InconclusiveDimensionOperation:  # it depends on the sizes whether there is a step
        return None


def _made_by(jaxpr: Any) -> dict[Any, Any]:
    return {var: eqn for eqn in jaxpr.eqns for var in eqn.outvars}


def _compared(test: Any) -> tuple[Any, Any]:
    """Return what a predicate says is below what; None twice where it says something else."""
    eqn = _made_by(test).get(test.outvars[0]) if not hasattr(test.outvars[0], "val") else None
    if eqn is None or eqn.primitive.name not in ("lt", "gt"):
        return None, None
    small, large = eqn.invars if eqn.primitive.name == "lt" else reversed(eqn.invars)
    return small, large


def _adds_one(body: Any, before: Any, after: Any) -> bool:
    """Tell whether a step adds 1 to an integer that it carries."""
    eqn = _made_by(body).get(after) if not hasattr(after, "val") else None
    if eqn is None or eqn.primitive.name != "add" or before.aval.dtype.kind != "i":
        return False
    others = [atom for atom in eqn.invars if atom is not before]
    return len(others) == 1 and hasattr(others[0], "val") and int(others[0].val) == 1
