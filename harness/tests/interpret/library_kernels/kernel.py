"""One kernel of a library: how it is called, what it is compared with, and faults that its source may get."""

from __future__ import annotations

import functools
import importlib
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

import samebits

Array = Any
Function = Callable[..., Any]
OPS = "jax.experimental.pallas.ops."
"""The package of the modules below."""


@dataclass(frozen=True, slots=True)
class LibraryKernel:
    """A kernel of jax.

    Args:
        name: for people.
        module: where it is, below `OPS`.
        plain: the function that it is compared with.
        against: that function in words.
        call: makes a function of the module, or of a copy of it that has a fault.
        shapes: of the arguments.
        faults: by name, a text of the module's source and what stands in its place.
        gradients: whether it has any.
        dtype: of the arguments.
        quick: whether the fast tests prove it too.
        axis: of a mesh of two devices over which its rows are split, if any.
    """

    name: str
    module: str
    plain: Function
    call: Callable[[Any], Function]
    shapes: tuple[tuple[int, ...], ...]
    faults: Mapping[str, tuple[str, str]]
    against: str = "attention, all scores at once"
    gradients: bool = True
    dtype: str = "float32"
    quick: bool = False
    axis: str = ""

    def __str__(self) -> str:
        return f"{self.name}, {self.dtype}"

    @property
    def arguments(self) -> tuple[Array, ...]:
        """Arrays of its shapes."""
        rng = np.random.default_rng(2)
        return tuple(jnp.asarray(0.5 * rng.standard_normal(shape), self.dtype) for shape in self.shapes)

    def proof(self, fault: str | None = None) -> Any:
        """What is proved of it, or with a fault; gradients are asked of faults of gradients alone."""
        module = source(self.module, *self.faults[fault]) if fault else importlib.import_module(OPS + self.module)
        gradients = self.gradients and (fault is None or "gradient" in fault)
        split = {"mesh": mesh_of(self.axis), "specs": (PartitionSpec(self.axis),)} if self.axis else {}
        return samebits.prove(self.plain, self.call(module), *self.arguments, gradients=gradients, **split)


def mesh_of(axis: str) -> jax.sharding.Mesh:
    """A mesh of two devices."""
    return jax.make_mesh((2,), (axis,), devices=jax.devices()[:2])


@functools.lru_cache(maxsize=4)
def source(module: str, old: str = "", new: str = "", **names: Any) -> types.ModuleType:
    """A copy of a module below `OPS` in which one text stands for another, with further names in it."""
    before = importlib.import_module(OPS + module)
    text = inspect.getsource(before)
    if old not in text:
        raise ValueError(f"{module} has no text {old!r}: this fault is for another version of jax")
    copy = types.ModuleType(before.__name__)
    copy.__dict__.update(names, __file__=before.__file__, __package__=before.__package__)
    exec(compile(text.replace(old, new), str(before.__file__), "exec"), copy.__dict__)
    return copy
