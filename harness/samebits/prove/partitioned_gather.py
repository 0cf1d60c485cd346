"""Gathers along a split dimension, which the partitioner may compile to a sum over devices.

Each device gives its own rows and zeros for the others, and the sum of all is the gather; but -0.0 + 0.0 is 0.0, and
a sum may flush subnormal numbers. Seen with jax 0.10.2 and 0.12.0.1 on CPU, on meshes of two to eight devices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import AxisType

from samebits.interpret.dead_code import live
from samebits.interpret.interpreter import CALLS
from samebits.numerics import floats
from samebits.programs.inputs import differentiable
from samebits.programs.sides import Site, TracedSides
from samebits.prove.problem import traced_program
from samebits.schema.domain import Fact, RequiredFact

FACTS: tuple[Fact, ...] = ("no_negative_zero", "no_subnormal", "no_signalling_nan")
"""What an element needs to come out of a sum with zeros as it was."""

_SAME_LAYOUT = ("convert_element_type", "copy", "copy_p", "sharding_constraint")


class HeldInput(NamedTuple):
    """An input that a variable holds, perhaps in another shape.

    Args:
        split: by dimension, whether the mesh splits it.
        is_float: whether sums with zeros can change it.
    """

    name: str
    split: tuple[bool, ...]
    is_float: bool


def needed_by_sums(
    sides: TracedSides, direction: str, side: str, site: Site, *, more_devices: bool = False
) -> tuple[RequiredFact, ...]:
    """Return what must hold of the inputs that a side gathers along a dimension which the mesh splits.

    Only gathers straight from an input are seen: how what is computed lies on the devices, the compiler decides. What
    is inside `shard_map` is not partitioned. With `more_devices` it is for a mesh of these axes with more devices.
    """
    if not site.on_mesh or (site.mesh.devices == 1 and not more_devices):
        return ()
    types = {
        name: HeldInput(name, _named(kind.sharding, len(kind.shape)), floats.is_float(kind.dtype))
        for name, kind in sides.types(site).items()
    }
    names = differentiable(sides.args(site), site.dtype) if direction == "gradient" else []
    tree: Any = types
    if direction == "gradient":
        tree = ({n: types[n] for n in names}, {n: kind for n, kind in types.items() if n not in names})
    leaves = jax.tree.leaves(tree, is_leaf=lambda leaf: isinstance(leaf, HeldInput))
    jaxpr = live(traced_program(sides, direction, side, site).traced.jaxpr).jaxpr
    names_read = dict.fromkeys(_gathered(jaxpr, dict(zip(jaxpr.invars, leaves, strict=False))))
    return tuple(RequiredFact(fact, name) for name in names_read for fact in FACTS)


def _gathered(jaxpr: Any, inputs: dict[Any, HeldInput]) -> list[str]:
    """Return the inputs that are gathered along a split dimension; `held` gets the variables that hold an input."""
    gathered = []
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        source = None if not eqn.invars or hasattr(eqn.invars[0], "val") else inputs.get(eqn.invars[0])
        if name in CALLS:
            inner = getattr(eqn.params[CALLS[name]], "jaxpr", eqn.params[CALLS[name]])
            known = zip(inner.invars, eqn.invars, strict=False)
            gathered += _gathered(inner, {v: inputs[o] for v, o in known if not hasattr(o, "val") and o in inputs})
        elif source is None:
            continue
        elif name in ("gather", "dynamic_slice"):
            if source.is_float and _takes_part(eqn, source.split):
                gathered.append(source.name)
        else:
            split = _moved(eqn, source.split)
            if split is not None:
                inputs[eqn.outvars[0]] = source._replace(split=split)
    return gathered


def _moved(eqn: Any, split: tuple[bool, ...]) -> tuple[bool, ...] | None:
    """How the result of an equation lies that puts its operand into another shape; None for any other equation."""
    name, params, shape = eqn.primitive.name, eqn.params, eqn.outvars[0].aval.shape
    if name in _SAME_LAYOUT:
        return split
    if name in ("reshard", "mesh_cast"):
        return _laid_out(eqn.params["dst_sharding"], split)
    if name == "transpose":
        return tuple(split[d] for d in params["permutation"])
    if name in ("reshape", "squeeze", "expand_dims"):
        return _reshaped(eqn.invars[0].aval.shape, shape, split)
    return None


def _laid_out(sharding: Any, split: tuple[bool, ...]) -> tuple[bool, ...]:
    """Return what a new layout makes of split dimensions: with axes left to the compiler they may stay as they are."""
    free = any(kind != AxisType.Explicit for kind in sharding.mesh.axis_types)
    return tuple(now or (free and before) for now, before in zip(_named(sharding, len(split)), split, strict=True))


def _reshaped(old: Sequence[int], new: Sequence[int], split: tuple[bool, ...]) -> tuple[bool, ...]:
    """Return what a reshape makes of split dimensions: the first of those that one becomes is split in its place."""
    stride, starts = math.prod(new), {}
    for d, size in enumerate(new):
        if size > 1:
            starts[stride] = d
        stride //= max(size, 1)
    splits, stride = [False] * len(new), math.prod(old)
    for d, size in enumerate(old):
        if split[d] and stride in starts:
            splits[starts[stride]] = True
        stride //= max(size, 1)
    return tuple(splits)


def _takes_part(eqn: Any, split: tuple[bool, ...]) -> bool:
    """Return whether an equation takes part of a dimension that is split over devices."""
    sizes, shape = eqn.params["slice_sizes"], eqn.invars[0].aval.shape
    numbers = eqn.params.get("dimension_numbers")
    dimensions = range(len(shape)) if numbers is None else numbers.start_index_map
    return any(split[d] and sizes[d] < shape[d] for d in dimensions)


def _named(sharding: Any, rank: int) -> tuple[bool, ...]:
    """By dimension, whether a sharding names axes for it."""
    spec = sharding.spec.partitions  # jax allows no other way into one with reduced or unreduced axes
    return tuple(d < len(spec) and spec[d] is not None for d in range(rank))
