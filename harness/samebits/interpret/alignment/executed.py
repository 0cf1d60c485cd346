"""The domain of the numbers that a program computes, each in its own dtype, for what no other domain has rules for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from samebits.interpret.equation import Array, Step, Type
from samebits.interpret.jax_evaluation import execute
from samebits.interpret.oracle import Oracle


class _AnyPrimitive(frozenset[str]):
    """All primitives."""

    def __contains__(self, name: object) -> bool:
        return True


class ExecutedNumbers(Oracle):
    """Runs every equation by itself; of replicas the first one counts."""

    name = "executed"
    keeps_constants = True
    covers = _AnyPrimitive()

    def lift(self, array: Array, kind: Type) -> Array:
        """A constant as it is."""
        return array

    def apply(self, step: Step, values: Sequence[Array]) -> list[Any]:
        """What jax computes."""
        return execute(step, values)

    def same(self, first: Array, second: Array) -> bool:
        """All replicas count as equal."""
        return True
