"""A number of the field domain: residues at random points, a float64 shadow at the inputs of the case, a degree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.interpret.arrays import ARITHMETIC
from harness.interpret.degrees import Degree
from harness.interpret.step import Array, Step

TIE = 1e-9
"""Numbers of a relative distance below this are too close for the shadow to say which is larger.

Noise below it: float64 sums of 1e6 terms, about 1e-13 without cancellation. A tie of *equal* elements is no near tie.
"""


@dataclass(frozen=True, slots=True)
class Element:
    """A symbolic value.

    Args:
        parts: per prime an int64 array [rows, *shape], the rows as `Ring` says; fewer where exponentials used some up.
        shadow: float64 [*shape], the value at the inputs of the case.
        degree: bounds for the polynomials.
    """

    parts: tuple[Array, ...]
    shadow: Array
    degree: Degree

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.shadow.shape


def shadows(step: Step, *values: Any) -> Array:
    """The float64 value of an equation with one output, from the shadows of its inputs."""
    plain = [value.shadow if isinstance(value, Element) else value for value in values]
    return np.asarray(ARITHMETIC[step.name](step, *plain)).reshape(step.output.shape)


def spread(element: Element, shape: tuple[int, ...]) -> Element:
    """An element broadcast to a shape: jax lets a scalar literal stand for an array."""
    if element.shape == shape:
        return element
    grown = (1,) * (len(shape) - element.shadow.ndim) + element.shape
    parts = tuple(np.broadcast_to(part.reshape(-1, *grown), (len(part), *shape)) for part in element.parts)
    return Element(parts, np.broadcast_to(element.shadow, shape), element.degree)
