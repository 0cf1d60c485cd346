"""A function, and what it must not read; the arrays on which it runs.

What the properties mean, for arrays whose axes are batch, length and others (`on`: what must not be read):

- `causal`: `out[:, t]` does not read `on[:, s]` where `s > t`, along `axis`, 1 if nothing else is said.
- `packed`: `out[b, t]` does not read `on[b, s]` where `segment_ids[b, s] != segment_ids[b, t]`.
- `padding`: what is valid in the output does not read `on[b, s]` where `mask[b, s]` is false. An output that begins
  with the axes of the mask is valid where that is true, another one everywhere.
- `batch_rows`: `out[i]` does not read `on[j]` where `j != i`.
- `window`: `out[:, t]` reads `on[:, s]` in `t - size < s <= t` only.
- `gradient_stops`: the gradient of the sum of the outputs by `on` is zero everywhere; `gradient_reaches`: it is not.

With `gradient=True` the first five are about the transposed function: a cotangent at an output that must not read an
input gives that input a gradient of exactly zero; the gradient of `padding` is finite too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
Function = Callable[..., Any]

LENGTH, WIDTH = 12, 8
X = (2, LENGTH, WIDTH)
SEGMENTS = np.array([[0] * 5 + [1] * 4 + [2] * 3, [0] * 3 + [1] + [2] * 8], np.int32)
MASK = np.arange(LENGTH) < np.array([[9], [5]])
VOCABULARY = 11
TOKENS = np.random.default_rng(7).integers(1, VOCABULARY, (2, LENGTH)).astype(np.int32)


@dataclass(frozen=True, kw_only=True, slots=True)
class Specimen:
    """A function of arrays that has a property, or leaks.

    Args:
        name: unique among all specimens.
        property: see the module.
        function: takes the arrays in the order of `arguments`.
        arguments: makes the arrays, by the names of the parameters.
        keywords: what the property needs, by the names of the module's text.
        leaks: whether the property does not hold.
    """

    name: str
    property: str
    function: Function
    arguments: Callable[[], Arrays]
    keywords: Mapping[str, Any]
    leaks: bool


def arrays(**shapes: tuple[int, ...] | np.ndarray) -> Callable[[], Arrays]:
    """Arguments by name: normal float32 of a shape, the same in each call, or the array itself."""

    def make() -> Arrays:
        random = np.random.default_rng(3)
        return {
            name: shape if isinstance(shape, np.ndarray) else random.normal(size=shape).astype(np.float32)
            for name, shape in shapes.items()
        }

    return make


def twins(function: Function, **values: tuple[Any, Any]) -> tuple[Function, Function]:
    """A function with the values of keywords by which it leaks, and with those by which it is honest."""
    leak, honest = ({name: both[side] for name, both in values.items()} for side in (0, 1))
    return partial(function, **leak), partial(function, **honest)


def pair(
    name: str, both: tuple[Function, Function], property: str, arguments: Callable[[], Arrays], **keywords: Any
) -> tuple[Specimen, Specimen]:
    """A leak and its honest twin, which take the same arrays."""
    leak, honest = (
        Specimen(
            name=f"{name}_{kind}",
            property=property,
            function=function,
            arguments=arguments,
            keywords={"on": ("x",)} | keywords,
            leaks=kind == "leak",
        )
        for kind, function in zip(("leak", "honest"), both, strict=True)
    )
    return leak, honest
