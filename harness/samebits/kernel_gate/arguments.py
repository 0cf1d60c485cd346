"""What a kernel is called with: arrays that its author may know, and others like them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from samebits.check.smaller_sizes import same_but_for_sizes
from samebits.errors import RequestError
from samebits.interpret.inner_equations import equations, inner_programs
from samebits.interpret.kernels import interpreted_on_cpu
from samebits.programs.inputs import arg_dtype, arg_shape, drawn_values
from samebits.schema.argument_text import parse_arguments
from samebits.schema.case import Case
from samebits.user_errors import one_line

Arguments = tuple[Any, ...]

LARGE, MOST = 1 << 18, 1 << 24
"""Elements of the largest input from which smaller sizes stand for it, as a CPU executes every step of a kernel; and
those that it may have at most where none does."""

LEAST = (2, 8, 64, 256, 1024, 2048, 4096)
"""Sizes below which a dimension is not made smaller, in the order of trial: a kernel has blocks of some length."""


MANY = 64
"""The largest size that may become less than eight."""


QUICKLY = {"xla_backend_optimization_level": 0}
"""For programs that run once or twice, whose compilation takes longer than they do."""


FAR = 128.0
"""Of numbers whose exponentials overflow in float32."""


def drawn_arguments(words: Sequence[str]) -> Arguments:
    """Draw what `--arg` declares, in its order."""
    rng, case, values = np.random.default_rng(0), Case(id="call"), []
    for name, arg in parse_arguments(words).items():
        shape, dtype = arg_shape(arg, name, case), arg_dtype(arg, "float32")
        values.append(drawn_values(arg, name, rng, shape, dtype, case))
    return tuple(values)


def arguments(make: Callable[[], Any], sides: Callable[[], Sequence[Callable[..., Any]]]) -> tuple[Arguments, str]:
    """Return what both functions are called with, smaller where it is large, and what stands for what, in words.

    Args:
        make: returns the inputs.
        sides: gives the reference and the kernel, where inputs are large.

    Raises:
        RequestError: `make` raises, or returns no array, or large ones that nothing can stand for.
    """
    try:
        types = _types_of(make)
        shapes = _smaller(types, sides()) if largest(types) > LARGE else {}
        values = _of_shapes(make, types, shapes) if shapes else make()
    except RequestError:
        raise
    except Exception as error:
        raise RequestError(f"the inputs: raised {type(error).__name__}: {error}") from error
    values = _as_tuple(values)
    arrays = jax.tree.map(lambda leaf: np.asarray(leaf) if hasattr(leaf, "dtype") else leaf, values)
    if not any(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(arrays)):
        raise RequestError("the inputs: they hold no array; expected a tuple of arrays")
    return arrays, ", ".join(f"{small} for {size}" for (size, _), small in shapes.items())


def _types_of(make: Callable[[], Any]) -> Arguments:
    """Return the types of the arrays that are made, in their places; other things stay what they are."""
    known: list[Any] = []

    def arrays() -> list[Any]:
        leaves, tree = jax.tree.flatten(_as_tuple(make()))
        known[:] = tree, [None if hasattr(leaf, "dtype") else leaf for leaf in leaves]
        return [leaf for leaf in leaves if hasattr(leaf, "dtype")]

    types = iter(jax.eval_shape(arrays))
    tree, rest = known
    filled: Arguments = jax.tree.unflatten(tree, [next(types) if leaf is None else leaf for leaf in rest])
    return filled


def _as_tuple(values: Any) -> Arguments:
    return tuple(values) if isinstance(values, tuple | list) else (values,)


def largest(tree: Any) -> int:
    """Return how many elements the largest array has."""
    return max((math.prod(np.shape(leaf)) for leaf in jax.tree.leaves(tree)), default=0)


Sizes = Mapping[tuple[int, int | None], int]
"""Sizes that stand for others: of all dimensions, or of those that are at one place of their shapes."""


def _smaller(types: Any, sides: Sequence[Callable[..., Any]]) -> Sizes:
    """Return smaller sizes, the largest first, at which both programs are the same but for sizes.

    Dimensions of one size are one, unless arrays are too large then: heads may be as many as each has elements.
    """
    whole = [_traced(side, types) for side in sides]
    chosen: dict[tuple[int, int | None], int] = {}
    shapes = [leaf.shape for leaf in arrays_of(types)]
    everywhere = sorted({(size, None) for shape in shapes for size in shape}, reverse=True)
    by_place = sorted({(size, place) for shape in shapes for place, size in enumerate(shape)}, reverse=True)
    for key in (*everywhere, *by_place):
        if key[1] is not None and (largest(_resized(types, chosen)) <= MOST or (key[0], None) in chosen):
            continue
        for smaller in dict.fromkeys(filter(None, (_part(key[0], least) for least in LEAST))):
            trial = {**chosen, key: smaller}
            programs = [_traced(side, _resized(types, trial)) for side in sides]
            if all(map(_stands_for, programs, whole)):
                chosen = trial
                break
    left = largest(_resized(types, chosen))
    if left > MOST:
        raise RequestError(f"the inputs: an array has {left} elements, and no smaller sizes stand for it; give others")
    return chosen


def _part(size: int, least: int) -> int | None:
    """Return the smallest divisor of a size that is not below another; None where there is none but itself."""
    least = max(least, 8) if size > MANY else least  # such as batches and heads, of which two show what all do
    return next((part for part in range(least, size // 2 + 1) if size % part == 0), None)


def _stands_for(smaller: Any, whole: Any) -> bool:
    if isinstance(smaller, str) or isinstance(whole, str):
        return bool(smaller == whole)
    return same_but_for_sizes(whole, smaller)


def kernels_of(program: Any) -> list[Any]:
    """Return the equations of a program, inner ones included, that are kernels."""
    return [eqn for eqn in equations(program) if eqn.primitive.name == "pallas_call"]


def outside_kernels(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of an open jaxpr that call no other, inner ones included, but those within kernels."""
    for eqn in jaxpr.eqns:
        inner = [] if eqn.primitive.name == "pallas_call" else list(inner_programs(eqn))
        for each in inner:
            yield from outside_kernels(each)
        if not inner and eqn.primitive.name != "pallas_call":
            yield eqn


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray | jax.ShapeDtypeStruct)


def _resized(types: Any, sizes: Sizes) -> Any:
    def resized(leaf: Any) -> Any:
        new = (sizes.get((size, None), sizes.get((size, place), size)) for place, size in enumerate(leaf.shape))
        return jax.ShapeDtypeStruct(tuple(new), leaf.dtype)

    return changed(resized, types)


def _traced(function: Callable[..., Any], types: Any) -> Any:
    """Return the program of a function, or in words what it raises at these sizes."""
    call, arrays = of_arrays(function, types)
    try:
        return jax.make_jaxpr(call)(*arrays)
    except Exception as error:
        return one_line(error)


def _of_shapes(make: Callable[[], Any], types: Any, sizes: Sizes) -> Any:
    """Return floats drawn at other sizes, and of the integers the first ones, which index what is there."""
    leaves, tree = jax.tree.flatten(types)
    integers = [
        place
        for place, leaf in enumerate(leaves)
        if _is_array(leaf) and not jax.numpy.issubdtype(leaf.dtype, np.inexact)
    ]
    known = jax.jit(lambda: [jax.tree.leaves(make())[place] for place in integers])()  # floats are not computed
    rng, values, less = np.random.default_rng(0), [], {size: small for (size, _), small in sizes.items()}
    for place, leaf in enumerate(jax.tree.leaves(_resized(types, sizes))):
        if place in integers:
            values.append(cropped(np.asarray(known[integers.index(place)]), leaf.shape, less))
        elif _is_array(leaf):
            values.append(rng.standard_normal(leaf.shape).astype(leaf.dtype))
        else:
            values.append(leaf)
    return jax.tree.unflatten(tree, values)


def cropped(array: Any, shape: Sequence[int], sizes: Mapping[int, int]) -> Any:
    """Return the first elements of an array; integers that may index a dimension which is smaller now index it still.

    Those that add up to such a dimension, as the sizes of groups do, add up to what it is now.
    """
    part = array[tuple(map(slice, shape))]
    if array.dtype.kind not in "iu" or not part.size:
        return part
    total = int(array.sum())
    if total in sizes and array.ndim == 1 and array.min() >= 0 and array.size > 1:
        ends = np.cumsum(part, dtype=np.int64) * sizes[total] // max(int(part.sum()), 1)
        ends[-1] = sizes[total]
        return np.diff(ends, prepend=0).astype(array.dtype)
    end = min((small for size, small in sizes.items() if array.max() < size), default=None)
    return part if end is None else np.where(part >= end, part % end, part).astype(array.dtype)


def arrays_of(values: Arguments) -> list[Any]:
    """Return the arrays among arguments, in the order of their leaves."""
    return [leaf for leaf in jax.tree.leaves(values) if _is_array(leaf)]


def changed(change: Callable[[Any], Any], values: Arguments) -> Arguments:
    """Return arguments with each array changed."""
    result: Arguments = jax.tree.map(lambda leaf: change(leaf) if _is_array(leaf) else leaf, values)
    return result


def of_arrays(function: Callable[..., Any], values: Arguments) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function as one of its arrays alone, and these."""

    def call(*arrays: Any) -> Any:
        left = iter(arrays)
        return function(*changed(lambda _: next(left), values))

    return call, arrays_of(values)


def _jitted(function: Callable[..., Any], values: Arguments) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function of arrays alone, jitted once for arguments that are alike but for their arrays, and these."""
    leaves, tree = jax.tree.flatten(values)
    kept = tuple(None if _is_array(leaf) else (type(leaf), leaf) for leaf in leaves)
    try:
        return _jitted_once(function, tree, kept), arrays_of(values)
    except TypeError:  # an argument, or the function, has no hash
        return jax.jit(of_arrays(function, values)[0], compiler_options=QUICKLY), arrays_of(values)


@functools.lru_cache(maxsize=64)
def _jitted_once(function: Callable[..., Any], tree: Any, kept: tuple[Any, ...]) -> Callable[..., Any]:
    values = jax.tree.unflatten(tree, [np.zeros(()) if each is None else each[1] for each in kept])
    return jax.jit(of_arrays(function, values)[0], compiler_options=QUICKLY)


def output_types(function: Callable[..., Any], values: Arguments) -> list[tuple[tuple[int, ...], str]]:
    """Return shape and dtype of each output; raises whatever the function does."""
    call, arrays = _jitted(function, values)
    return [(out.shape, str(out.dtype)) for out in jax.tree.leaves(jax.eval_shape(call, *arrays))]


def executed(function: Callable[..., Any], values: Arguments) -> list[Any]:
    """Return the outputs of a function, compiled for this CPU; raises whatever it does."""
    call, arrays = _jitted(function, values)
    with interpreted_on_cpu():
        return [np.asarray(leaf) for leaf in jax.tree.leaves(call(*arrays))]


def same(first: Any, second: Any) -> bool:
    """Return whether two arrays have the same numbers."""
    return bool(np.array_equal(first, second, equal_nan=first.dtype.kind not in "iub"))


def near(got: Any, expected: Any) -> bool:
    """Return whether two results of one formula are, whatever is compiled together: up to the root of an epsilon."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    if expected.dtype.kind in "iub":
        return bool(np.array_equal(got, expected))
    epsilon = float(jax.numpy.finfo(expected.dtype).eps)
    first, second = got.astype(np.complex128), expected.astype(np.complex128)
    scale = np.max(np.abs(second), initial=0.0, where=np.isfinite(second))
    with np.errstate(invalid="ignore"):
        close = np.abs(first - second) <= epsilon**0.5 * scale
    return bool(np.all(close | (first == second) | (np.isnan(first) & np.isnan(second))))


def others(values: Arguments) -> Arguments:
    """Return other arguments of the same kind: floats in another order and half as large, integers in another order."""

    def other(leaf: Any) -> Any:
        turned = leaf.reshape(-1)[::-1].reshape(leaf.shape)
        return np.asarray(turned * leaf.dtype.type(0.5) if leaf.dtype.kind not in "iub" else turned, leaf.dtype)

    return changed(other, values)


@dataclass(frozen=True, slots=True)
class OtherArguments:
    """Arguments that a kernel may not have been written for.

    Args:
        words: what they are.
        values: the arguments.
        required: whether it must be right on them; else it only limits what is claimed where it is wrong.
    """

    words: str
    values: Arguments
    required: bool


def other_integers(values: Arguments) -> Iterator[OtherArguments]:
    """Yield other integers and booleans in their range; permutations, and sums that are sizes, stay such.

    Integers whose largest is an argument by itself too, such as a limit of groups, stay as they are.
    """
    arrays = arrays_of(values)
    sizes = {size for leaf in arrays for size in leaf.shape}
    limits = {leaf for leaf in jax.tree.leaves(values) if type(leaf) is int}
    if any(_is_drawn(leaf) for leaf in arrays):
        for seed, words in enumerate(("other integers", "integers that are alike", "more integers")):
            at = functools.partial(
                _redrawn, rng=np.random.default_rng(seed), sizes=sizes, limits=limits, alike=seed == 1
            )
            yield OtherArguments(words, changed(at, values), True)


def shifted_floats(values: Arguments) -> Iterator[OtherArguments]:
    """Yield arguments of which the floats of one array are all far below zero, or far above."""
    leaves, tree = jax.tree.flatten(values)
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, np.ndarray) and jax.numpy.issubdtype(leaf.dtype, np.floating):
            for sign, words in ((-1, "below"), (1, "above")):
                moved = (sign * (np.abs(leaf.astype(np.float64)) + FAR)).astype(leaf.dtype)
                at = jax.tree.unflatten(tree, [*leaves[:place], moved, *leaves[place + 1 :]])
                yield OtherArguments(f"numbers far {words} zero", at, True)


def _is_drawn(array: Any) -> bool:
    return array.dtype.kind in "iub" and array.size > 1


def _redrawn(array: Any, rng: np.random.Generator, sizes: Collection[int], limits: Collection[int], alike: bool) -> Any:
    if not _is_drawn(array) or (array.dtype.kind in "iu" and int(array.max()) in limits):
        return array
    flat = array.reshape(-1)
    if array.dtype.kind == "b":
        drawn = rng.random(flat.size) < (1.0 if alike else 0.5)
    elif np.array_equal(np.sort(flat), np.arange(flat.size) + flat.min()):
        drawn = rng.permutation(flat)
    elif int(flat.sum()) in sizes and flat.min() >= 0:  # the sizes of groups
        near_by = [0, flat.sum() // 2, flat.sum()]  # so that some groups are empty
        ends = np.sort(rng.choice(near_by, flat.size - 1) if alike else rng.integers(0, flat.sum() + 1, flat.size - 1))
        drawn = np.diff(np.concatenate([[0], ends, [flat.sum()]]))
    else:
        drawn = rng.integers(flat.min(), flat.max() + 1, 1 if alike else flat.size)
    return np.broadcast_to(np.asarray(drawn, array.dtype), flat.shape).reshape(array.shape).copy()


def nearby_sizes(values: Arguments) -> Iterator[OtherArguments]:
    """Yield each size doubled, then one less, and half of it; integers keep what they index, and their order."""
    arrays = arrays_of(values)
    integers = [leaf for leaf in arrays if leaf.dtype.kind in "iu"]
    sums = {int(leaf.sum()) for leaf in integers}
    sizes = sorted({size for leaf in arrays for size in leaf.shape if size > 1} - sums)
    fixed = {size for leaf in integers for size in leaf.shape}  # what integers of more places would be is not known
    for size in sizes:
        if size not in fixed:
            at = _resized_values(values, {size: 2 * size})
            yield OtherArguments(f"{2 * size} in place of {size}", at, True)
    for size in sizes:
        for smaller in dict.fromkeys((size - 1, size // 2)):
            at = _resized_values(values, {size: smaller})
            yield OtherArguments(f"{smaller} in place of {size}", at, False)


def _resized_values(values: Arguments, sizes: Mapping[int, int]) -> Arguments:
    rng = np.random.default_rng(1)

    def at(leaf: Any) -> Any:
        if not {*leaf.shape} & {*sizes}:
            return leaf
        shape = [sizes.get(size, size) for size in leaf.shape]
        if all(new <= old for new, old in zip(shape, leaf.shape, strict=True)):
            return cropped(leaf, shape, sizes)
        return np.asarray(rng.choice(leaf.reshape(-1), shape), leaf.dtype)

    return changed(at, values)
