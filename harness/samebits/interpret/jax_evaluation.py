"""Arithmetic on constants by jax itself, one equation at a time: the bits are those that the program would compute."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.extend.core.primitives
import numpy as np

from samebits.errors import NotCovered
from samebits.interpret.equation import Array, Step


def execute(step: Step, values: Sequence[Array]) -> list[Any]:
    """The outputs of an equation on constants, in their own dtypes.

    Raises:
        NotCovered: jax cannot run this equation by itself.
    """
    if step.equation is None or step.equation.primitive.name != step.name:
        raise NotCovered(f"{step} on constants has no equation of its own")
    try:
        # Outside of every mesh: constants lie on one device.
        with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
            result = step.equation.primitive.bind(*(jax.numpy.asarray(v) for v in values), **_local(step))
    except Exception as error:
        raise NotCovered(f"{step} on constants does not run alone: {type(error).__name__}") from error
    outputs = result if step.equation.primitive.multiple_results else [result]
    return [np.asarray(output) for output in outputs]


def in_float64(step: Step, values: Sequence[Array]) -> list[Array]:
    """The outputs of an equation by jax itself, on the CPU, with every float widened to float64.

    Raises:
        NotCovered: jax cannot run this equation by itself.
    """
    primitive = _primitive(step)
    try:
        with (
            jax.enable_x64(True),
            jax.default_device(jax.local_devices(backend="cpu")[0]),
            jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())),
        ):
            result = primitive.bind(*(jax.numpy.asarray(value) for value in values), **_local(step))
            outputs = result if primitive.multiple_results else [result]
            return [np.asarray(output) for output in outputs]
    except Exception as error:
        raise NotCovered(f"{step} does not run in float64: {type(error).__name__}") from error


def _primitive(step: Step) -> Any:
    """The primitive of a step, which may be part of another equation."""
    if step.equation is not None and step.equation.primitive.name == step.name:
        return step.equation.primitive
    known = _public().get(step.name)
    if known is None:
        raise NotCovered(f"{step} has no equation of its own")
    return known


@functools.cache
def _public() -> dict[str, Any]:
    values = vars(jax.extend.core.primitives).values()
    return {value.name: value for value in values if isinstance(value, jax.extend.core.Primitive)}


def _local(step: Step) -> dict[str, Any]:
    """The parameters without the sharding that holds on the mesh only."""
    return {name: None if "sharding" in name else value for name, value in step.params.items()}


def holds(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Whether a float format holds every number of another."""
    order = ("bfloat16", "float32", "float64")
    if wide == narrow:
        return True
    return wide.name in order and narrow.name in order and order.index(wide.name) >= order.index(narrow.name)
