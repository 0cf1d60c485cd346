"""Taps: read and replace the inputs and outputs of every part of a model, and their cotangents, during interpretation.

A part is wrapped so that its floating-point inputs and outputs pass through a named identity. The name stays in the
traced program, and also names the cotangent. The interpreter of that program reaches the names in the order of
computation. At each it records the value and, given the values of another step, compares it and continues with the
other step's value.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.ad_checkpoint import checkpoint_name

from samebits.interpret.devices import PerDevice
from samebits.interpret.equation import Step
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle
from samebits.numerics.floats import is_float
from samebits.schema.model import Parts
from samebits.train.distance import relative
from samebits.train.parts import pair_of

PREFIX = "samebits:"

BACK = "~"
"""The suffix of a cotangent's name."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """One value at a tap.

    Args:
        name: of the tap, such as `moe@layer2:out:out`, with the suffix `~` for its cotangent.
        turn: counts the evaluations of the tap from 0: microbatches, and recomputation.
    """

    name: str
    turn: int

    @property
    def part(self) -> str:
        """The site of the part: `moe@layer2`."""
        return self.name.split(":")[0]

    @property
    def enters(self) -> bool:
        """Whether the value enters the part: as an input, or as the cotangent of an output."""
        return (self.name.split(":")[1] == "in") != self.name.endswith(BACK)

    def __str__(self) -> str:
        part, way, leaf = self.name.removesuffix(BACK).split(":")
        words = f"{'input' if way == 'in' else 'output'} {leaf} of {part}"
        turn = f", time {self.turn + 1}" if self.turn else ""
        return (f"the cotangent of {words}" if self.name.endswith(BACK) else words) + turn


@dataclass(slots=True)
class Nesting:
    """Which part is called inside which, recorded while tracing."""

    within: dict[str, set[str]] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)

    @property
    def containers(self) -> set[str]:
        """The sites of parts that call other parts."""
        return {place for places in self.within.values() for place in places}


def tapped(parts: Parts, places: Sequence[str], nesting: Nesting) -> dict[str, Callable[..., Any]]:
    """Return parts with taps, wrapped separately for every site.

    Args:
        places: the sites: `embedding`, `moe@layer1`, ...
    """
    wrapped = dict(parts)
    for place in places:
        wrapped[place] = _wrapped(parts[place] if place in parts else parts[pair_of(place)], place, nesting)
    return wrapped


def _wrapped(part: Callable[..., Any], place: str, nesting: Nesting) -> Callable[..., Any]:
    signature = inspect.signature(part)

    @functools.wraps(part)
    def call(*args: Any, **kwargs: Any) -> Any:
        nesting.within.setdefault(place, set()).update(nesting.active)
        bound = signature.bind(*args, **kwargs)
        tapped_arguments = {name: _tap(f"{place}:in:{name}", value) for name, value in bound.arguments.items()}
        bound.arguments.update(tapped_arguments)
        nesting.active.append(place)
        try:
            out = part(*bound.args, **bound.kwargs)
        finally:
            nesting.active.pop()
        return _tap(f"{place}:out", out, outer=True)

    return call


def _tap(name: str, tree: Any, outer: bool = False) -> Any:
    """Pass every floating-point array of a tree through a tap."""

    def tap_leaf(path: Any, leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or not is_float(leaf.dtype):
            return leaf
        inner = "/".join(str(getattr(key, "key", getattr(key, "name", getattr(key, "idx", key)))) for key in path)
        return _identity(PREFIX + name + (":" + (inner or "value") if outer else "/" + inner if inner else ""))(leaf)

    return jax.tree_util.tree_map_with_path(tap_leaf, tree)


def _identity(name: str) -> Callable[[jax.Array], jax.Array]:
    @jax.custom_vjp
    def tap(x: jax.Array) -> jax.Array:
        named: jax.Array = checkpoint_name(x, name)
        return named

    def forward(x: jax.Array) -> tuple[jax.Array, None]:
        return checkpoint_name(x, name), None

    def backward(_: None, cotangent: jax.Array) -> tuple[jax.Array]:
        return (checkpoint_name(cotangent, name + BACK),)

    tap.defvjp(forward, backward)
    return tap


class TapInterpreter(Interpreter):
    """An interpreter in float64 that records the values at taps, and replaces them.

    Args:
        rounded: whether every value is rounded to the dtype of the program.
        forced: the values of another step to continue with; None only records.
        skip: sites of parts whose inner parts are not compared; their own taps are.
    """

    def __init__(
        self,
        *,
        rounded: bool = False,
        forced: Mapping[Tensor, Any] | None = None,
        skip: Iterable[str] = (),
        nesting: Nesting | None = None,
    ) -> None:
        super().__init__(Oracle())
        self.rounded = rounded
        self.forced = forced
        self.skip = frozenset(skip)
        self.nesting = nesting or Nesting()
        self.values: dict[Tensor, Any] = {}
        self.apart: dict[Tensor, float] = {}
        self.unlike: list[Tensor] = []
        self._turns: dict[str, int] = {}

    def local(self, step: Step, values: Sequence[Any]) -> Sequence[Any]:
        """Interpret an equation; a `name` equation with a tap's name is the tap."""
        if step.name == "name" and str(step.params["name"]).startswith(PREFIX):
            return [self._met(str(step.params["name"]).removeprefix(PREFIX), values[0])]
        outputs = super().local(step, values)
        if not self.rounded:
            return outputs
        return [_rounded(value, kind) for value, kind in zip(outputs, step.outputs, strict=True)]

    def _met(self, name: str, value: Any) -> Any:
        turn = self._turns[name] = self._turns.get(name, -1) + 1
        tensor = Tensor(name, turn)
        if isinstance(value, PerDevice) or self.nesting.within.get(tensor.part, set()) & self.skip:
            return value
        return self.end(tensor, value)

    def missing(self) -> list[Tensor]:
        """Return the cotangents of the other step that are missing here although their value exists."""
        missing = []
        for tensor in self.forced or ():
            forward = Tensor(tensor.name.removesuffix(BACK), tensor.turn)
            if tensor.name.endswith(BACK) and tensor.name not in self._turns and forward in self.apart:
                missing.append(tensor)
        return missing

    def end(self, tensor: Tensor, value: Any) -> Any:
        """Record a value and compare it; returns the value to continue with."""
        self.values[tensor] = value
        if self.forced is None:
            return value
        good = self.forced.get(tensor)
        if good is None or np.size(good) != np.size(value):
            self.unlike.append(tensor)
            return value
        good = np.reshape(good, np.shape(value))
        self.apart[tensor] = relative(good, value)
        return good


def _rounded(value: Any, kind: Any) -> Any:
    if isinstance(value, PerDevice):
        return PerDevice(tuple(_rounded(device_value, kind) for device_value in value.values))
    if not kind.is_float or not isinstance(value, np.ndarray):
        return value
    with np.errstate(over="ignore", invalid="ignore"):
        return value.astype(kind.dtype).astype(np.float64)
