"""One piece of the mathematics of training: a reference, honest rewrites, and faults that are not the same mathematics.

The functions are plain jax on one device. Each takes its arrays and its static arguments by keyword, computes in at
least float32 (`wide`) and returns the dtype it was given.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from samebits.schema.case import Arg, Case
from samebits.schema.contract import Contract
from samebits.schema.pair import Pair

Array = jax.Array
Function = Callable[..., Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Specimen:
    """A pair whose variants are honest, and the faults that could stand in their place.

    Args:
        pair: the reference and its honest rewrites: the same mathematics, other operations.
        faults: functions of the reference's signature that differ from it in at least one case of the pair.
    """

    pair: Pair
    faults: Mapping[str, Function]

    @property
    def faulty(self) -> Pair:
        """The same pair, on the same inputs, with the faults as its variants."""
        return dataclasses.replace(self.pair, variants=dict(self.faults))

    @property
    def reference(self) -> Function:
        """The reference as a function."""
        assert callable(self.pair.reference)
        return self.pair.reference

    @property
    def rewrites(self) -> Mapping[str, Function]:
        """The honest rewrites as functions, by name."""
        assert isinstance(self.pair.variants, Mapping)
        return {name: side for name, side in self.pair.variants.items() if callable(side)}


def specimen(
    name: str,
    *,
    reference: Function,
    rewrites: Mapping[str, Function],
    faults: Mapping[str, Function],
    args: Mapping[str, Arg],
    cases: tuple[Case, ...],
    gradients: bool = True,
) -> Specimen:
    """Declare a specimen: one device, bfloat16 and float32, and `rounding` as what a rewrite may cost."""
    pair = Pair(
        name=name,
        reference=reference,
        variants=dict(rewrites),
        args=args,
        cases=cases,
        dtypes=("bfloat16", "float32"),
        meshes=("data1",),
        modes=("auto",),
        contracts=(
            Contract(
                lowest="rounding",
                error_ratio=16.0,
                reason="the same mathematics in another order of operations, judged on small leaves: noise 4.7 (the "
                "bias's second moment in AdamW), bound 16; faults are refused by the identity, not by this",
            ),
        ),
        gradients=gradients,
        origin=inspect.getfile(reference),
    )
    return Specimen(pair=pair, faults=dict(faults))


def wide(*arrays: Array) -> tuple[Array, ...]:
    """The arrays in float32, or in float64 where they are float64."""
    return tuple(array.astype(jnp.promote_types(array.dtype, jnp.float32)) for array in arrays)
