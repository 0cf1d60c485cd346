"""One formula of training code: a reference, honest rewrites of it, and unequal twins that read like it.

A twin is a slip that people make: it computes something else. A rewrite computes the same, at the cost
of rounding alone: no limit of accuracy is set.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from samebits.schema.case import Arg, Case
from samebits.schema.contract import Contract
from samebits.schema.pair import Pair
from samebits.schema.values import Integers, Normal, Values

Array = Any
"""A traced array; untyped, so that sides can be written as lambdas."""
Function = Callable[..., Any]

DTYPES = ("bfloat16", "float32")
SEEDS = 20

CONTRACT = Contract(lowest="rounding", reason="the same formula in other operations")


@dataclass(frozen=True, kw_only=True, slots=True)
class Formula:
    """A formula with its rewrites and twins; each side takes the arguments of `args` by name.

    Args:
        name: lower-case letters, digits and `_`.
        reference: the side that the others are held against.
        args: the arguments by name, with values that make sense for the formula.
        honest: rewrites by name.
        twins: unequal functions by name.
        gradients: False where the formula has no derivative of interest.
        dtypes: the dtypes that it is defined for.
        widened: whether rewrites and twins compute in float32, whatever they are given, as the reference does.
    """

    name: str
    reference: Function
    args: Mapping[str, Arg]
    honest: Mapping[str, Function]
    twins: Mapping[str, Function]
    gradients: bool = True
    dtypes: tuple[str, ...] = DTYPES
    widened: bool = True

    def __post_init__(self) -> None:
        if self.widened:
            for field in ("honest", "twins"):
                sides = {name: wide(side) for name, side in getattr(self, field).items()}
                object.__setattr__(self, field, sides)

    def pair(self, variants: Mapping[str, Function], seeds: int = SEEDS) -> Pair:
        """These variants against the reference; each seed is a case, since the id of a case seeds its inputs."""
        return Pair(
            name=f"corpus_{self.name}",
            reference=self.reference,
            variants=dict(variants),
            args=self.args,
            cases=tuple(Case(id=f"seed{seed}") for seed in range(seeds)),
            dtypes=self.dtypes,
            meshes=("data1",),
            modes=("auto",),
            contracts=(CONTRACT,),
            gradients=self.gradients,
            origin=inspect.getfile(self.reference),
        )

    def sides(self) -> Iterator[tuple[str, Function]]:
        """Every variant by name, rewrites first."""
        yield from self.honest.items()
        yield from self.twins.items()


def normal(*shape: int, scale: float = 1.0, offset: float = 0.0, **more: Any) -> Arg:
    """An argument of normal numbers."""
    return Arg(shape=shape, values=Normal(scale=scale, offset=offset), **more)


def uniform(*shape: int, low: float, high: float, **more: Any) -> Arg:
    """An argument of uniform numbers of an interval."""

    def values(rng: Any, shape: tuple[int, ...]) -> Any:
        return rng.uniform(low, high, shape)

    return Arg(shape=shape, values=values, **more)


def integers(*shape: int, high: int, low: int = 0) -> Arg:
    """An argument of integers of `[low, high)`."""
    return Arg(shape=shape, values=Integers(low=low, high=high))


def drawn(*shape: int, values: Values, **more: Any) -> Arg:
    """An argument with values of its own."""
    return Arg(shape=shape, values=values, **more)


def f32(x: Array) -> Array:
    """The fixed float32 of library code."""
    return x.astype(jnp.float32)


def like(y: Array, x: Array) -> Array:
    """A result in the dtype of an argument."""
    return y.astype(x.dtype)


def wide(function: Function) -> Function:
    """A side that computes in float32 and returns the dtype of its first argument.

    The wrapper keeps the function's signature, which every side of a pair must share.
    """

    def computed(*args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(function).bind(*args, **kwargs)
        given = list(bound.arguments.items())
        widened = {name: f32(v) if jnp.issubdtype(v.dtype, jnp.floating) else v for name, v in given}
        dtype = given[0][1].dtype
        found = function(**widened)
        return jax.tree.map(lambda leaf: leaf.astype(dtype), found)

    computed.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    computed.__name__ = function.__name__
    return computed
