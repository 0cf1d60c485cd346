"""Sorts of a compiled module, whose comparison is any computation: by the keys that it compares, or by counting.

A total order of floats is one of their bits, which abstract domains do not have. Only zeros and NaNs have another place
in the order of numbers, so that bits are taken where there is one of them alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from samebits.hlo.module import HloComputation, Instruction, copy_of
from samebits.hlo.steps import HloStep
from samebits.hlo.types import literal_array


class _Key(NamedTuple):
    """What a comparison compares.

    Args:
        parameter: that it is computed from.
        root: the instruction that it is.
        total: floats are compared in their total order.
        descending: a larger one comes first.
    """

    parameter: int
    root: int
    total: bool
    descending: bool


def is_total(inst: Instruction) -> bool:
    """Return whether a comparison is of a total order, in either form in which versions of XLA say it."""
    return bool(inst.comparison_type == "TOTALORDER" or inst.comparison_order == "TOTAL")


def ordered_bits(value: Any) -> Any:
    """Return the bits of floats, those of negative numbers turned around: integers in their total order."""
    bits = lax.bitcast_convert_type(value, f"int{value.dtype.itemsize * 8}")
    return jnp.where(bits < 0, bits ^ np.array(jnp.iinfo(bits.dtype).max, bits.dtype), bits)


def sort(step: HloStep) -> Any:
    """Return the operands sorted along a dimension."""
    ordered = _sorted(step, step.values, step.inst.dimensions[0])
    return ordered if step.inst.shape.tuple_shapes else ordered[0]


def largest(step: HloStep) -> Any:
    """Return the largest values, and where they were."""
    if not step.inst.largest:
        raise step.refuse("a topk of the smallest")
    return tuple(lax.top_k(step.values[0], step.inst.k))


def top_k(step: HloStep) -> tuple[Any, Any]:
    """Return the first values in the order of the comparison that is called, and where they were."""
    value, shape = step.values[0], step.inst.shape.tuple_shapes[0]
    axis = value.ndim - 1
    places = lax.broadcasted_iota(np.int32, value.shape, axis)
    first, second = (
        lax.slice_in_dim(part, 0, shape.dimensions[axis], axis=axis) for part in _sorted(step, (value, places), axis)
    )
    return first, second


def _sorted(step: HloStep, values: Sequence[Any], axis: int) -> tuple[Any, ...]:
    """Sort stably by any comparison: by keys where the comparison is of some, else by counting what comes before."""
    computation = step.program.module.computations[step.inst.called_computation_ids[0]]
    keys = _keys(computation, computation.root)
    if keys is None:
        return _counted(step, values, axis)
    descending = keys[0].descending

    def by(numbers: Sequence[Any]) -> tuple[Any, ...]:
        towards = (
            each if key.descending == descending else _inverted(each) for each, key in zip(numbers, keys, strict=True)
        )
        arrays = (*towards, *values)
        if descending:  # a stable sort from the end
            arrays = tuple(jnp.flip(array, axis) for array in arrays)
        arrays = lax.sort(arrays, dimension=axis, is_stable=True, num_keys=len(keys))[len(keys) :]
        return tuple(jnp.flip(array, axis) if descending else array for array in arrays)

    numbers = [_evaluated(step, values, key) for key in keys]
    total = [
        key.total and jnp.issubdtype(each.dtype, jnp.floating) and not _is_canonical(computation, key.root)
        for each, key in zip(numbers, keys, strict=True)
    ]
    apart = [jnp.any((each == 0) | (each != each)) for each, is_one in zip(numbers, total, strict=True) if is_one]
    if not apart:
        return by(numbers)

    def by_bits() -> tuple[Any, ...]:
        return by([ordered_bits(each) if is_one else each for each, is_one in zip(numbers, total, strict=True)])

    ordered: tuple[Any, ...] = lax.cond(
        step.program.axes.anywhere(jnp.stack(apart).any()), by_bits, lambda: by(numbers)
    )
    return ordered


def _inverted(key: Any) -> Any:
    """Return a key of the inverse order."""
    return -key if jnp.issubdtype(key.dtype, jnp.floating) else ~key


def _keys(computation: HloComputation, root: int) -> list[_Key] | None:
    """Return the keys that a comparison is of.

    Several keys are compared as `first < first' or (first = first' and the rest)`, or as
    `the rest if (first < first') = (first' < first) else first < first'`.
    """
    inst = computation.instructions[root]
    if inst.opcode == "compare":
        key = _compared(computation, inst)
        return None if key is None or inst.comparison_direction not in ("LT", "GT") else [key]
    if inst.opcode == "select":
        return _unless_tied(computation, *inst.operand_ids)
    if inst.opcode != "or":
        return None
    for less, other in (inst.operand_ids, reversed(inst.operand_ids)):
        both, first = computation.instructions[other], _keys(computation, less)
        if both.opcode != "and" or first is None or len(first) != 1:
            continue
        for equal, rest in (both.operand_ids, reversed(both.operand_ids)):
            test, last = computation.instructions[equal], _keys(computation, rest)
            if test.opcode != "compare" or test.comparison_direction != "EQ" or last is None:
                continue
            key = _compared(computation, test)
            alike = key is not None and key.parameter // 2 == first[0].parameter // 2 and key.total == first[0].total
            operands = (*test.operand_ids, *computation.instructions[less].operand_ids)
            if alike and len({_form(computation, operand) for operand in operands}) == 1:
                return [*first, *last]
    return None


def _unless_tied(computation: HloComputation, tied: int, rest: int, less: int) -> list[_Key] | None:
    """Return the keys of a comparison by one, which is one by the rest where neither side is less."""
    test, first, last = computation.instructions[tied], _keys(computation, less), _keys(computation, rest)
    both = list(test.operand_ids)
    if (test.opcode, test.comparison_direction) != ("compare", "EQ") or less not in both or not (first and last):
        return None
    both.remove(less)
    # Parameters 2i and 2i + 1 are the two sides of operand i.
    swapped = _form(computation, less, lambda side: side) == _form(computation, both[0], lambda side: side ^ 1)
    return [*first, *last] if swapped else None


def _compared(computation: HloComputation, inst: Instruction) -> _Key | None:
    """Return the key of a comparison of the same function of both sides."""
    (left, first), (right, second) = ((o, _parameters(computation, o)) for o in inst.operand_ids)
    if len(first) != 1 or len(second) != 1 or _form(computation, left) != _form(computation, right):
        return None
    (one_side,), (other_side,) = first, second
    if one_side // 2 != other_side // 2 or one_side == other_side:
        return None
    value = _of_bits(computation, left)
    descending = (inst.comparison_direction == "GT") != (one_side > other_side)
    return _Key(one_side, left if value is None else value, is_total(inst) or value is not None, descending)


def _of_bits(computation: HloComputation, number: int) -> int | None:
    """Return the float whose bits an instruction turns into integers that have its total order, if it does so."""
    inst = computation.instructions[number]
    if inst.opcode != "select":
        return None
    test, turned, bits = computation.operands(inst)
    if (test.opcode, turned.opcode, bits.opcode) != ("compare", "xor", "bitcast-convert"):
        return None
    zero, ones = ([each for each in computation.operands(of) if each.id != bits.id] for of in (test, turned))
    if [each.opcode for each in (*zero, *ones)] != ["constant"] * 2 or test.operand_ids[0] != bits.id:
        return None
    least, most = (np.asarray(literal_array(each.literal)) for each in (*zero, *ones))
    turns = test.comparison_direction == "LT" and least == 0 and most == jnp.iinfo(most.dtype).max
    return bits.operand_ids[0] if turns else None


def _is_canonical(computation: HloComputation, root: int) -> bool:
    """Tell whether a key has one zero and one NaN, neither with a sign, as `jax.lax.sort` makes its keys."""
    operands = computation.operands
    no_nan = computation.instructions[root]
    if no_nan.opcode != "select" or operands(no_nan)[2].opcode != "select":
        return False
    is_nan, nan, no_zero = operands(no_nan)
    is_zero, zero, value = operands(no_zero)
    if [each.opcode for each in (is_nan, nan, is_zero, zero)] != ["compare", "constant"] * 2:
        return False
    compared, to = operands(is_zero)
    if to.opcode != "constant" or compared.id != value.id or list(is_nan.operand_ids) != [value.id] * 2:
        return False
    of_nan, of_zero, limit = (np.asarray(literal_array(each.literal)) for each in (nan, zero, to))
    return bool(
        (is_nan.comparison_direction, is_zero.comparison_direction) == ("NE", "EQ")
        and limit == 0
        and of_zero == 0
        and of_nan != of_nan
        and not np.signbit(of_zero)
        and not np.signbit(of_nan)
    )


def _parameters(computation: HloComputation, number: int) -> set[int]:
    """Return the parameters that an instruction is computed from."""
    inst = computation.instructions[number]
    if inst.opcode == "parameter":
        return {inst.parameter_number}
    return set[int]().union(*(_parameters(computation, operand) for operand in inst.operand_ids))


def _form(computation: HloComputation, number: int, named: Callable[[int], int] = lambda side: 0) -> Any:
    """Return how an instruction is computed, whatever its name; parameters are all alike, or as named."""
    inst = copy_of(computation.instructions[number])
    operands = tuple(_form(computation, operand, named) for operand in inst.operand_ids)
    if inst.opcode == "parameter":
        operands = (named(inst.parameter_number),)
    for field in ("name", "id", "operand_ids", "parameter_number", "metadata", "original_value"):
        inst.ClearField(field)
    return inst.SerializeToString(deterministic=True), operands


def _evaluated(step: HloStep, values: Sequence[Any], key: _Key) -> Any:
    """Evaluate a key for all elements."""
    value, number = values[key.parameter // 2], step.inst.called_computation_ids[0]

    def of_one(element: Any) -> Any:
        args = [element if at == key.parameter else None for at in range(2 * len(values))]
        return step.program.computation(number, args, key.root)

    plain = step.program.module.computations[number].instructions[key.root].opcode == "parameter"
    return value if plain else jax.vmap(of_one)(value.reshape(-1)).reshape(value.shape)


def _counted(step: HloStep, values: Sequence[Any], axis: int) -> tuple[Any, ...]:
    """Sort stably by any strict weak order: each element goes to the number of those that come before it."""
    arrays = [jnp.moveaxis(value, axis, -1) for value in values]
    size = arrays[0].shape[-1]
    rows = [array.reshape(-1, size) for array in arrays]

    def line(*values: Any) -> tuple[Any, ...]:
        def before(a: Sequence[Any], b: Sequence[Any]) -> Any:
            return step.called()(*(part for pair in zip(a, b, strict=True) for part in pair))

        less = jax.vmap(lambda *a: jax.vmap(lambda *b: before(a, b))(*values))(*values)
        earlier = np.arange(size)[:, None] < np.arange(size)[None, :]
        ranks = jnp.sum(less | (earlier & ~less.T), axis=0)
        return tuple(jnp.zeros_like(value).at[ranks].set(value) for value in values)

    ordered = jax.vmap(line)(*rows)
    return tuple(jnp.moveaxis(row.reshape(array.shape), -1, axis) for row, array in zip(ordered, arrays, strict=True))
