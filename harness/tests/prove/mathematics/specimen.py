"""One piece of the mathematics of training: a reference, honest rewrites, and faults that are not the same mathematics.

The functions are plain jax on one device. Each takes its arrays and its static arguments by keyword, computes in at
least float32 (`wide`) and returns the dtype it was given, so that the same code run in float64 is its own oracle.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from samebits.programs.host_trees import named_leaves
from samebits.programs.inputs import Record, cotangent, differentiable, records
from samebits.schema.case import Arg, Case
from samebits.schema.contract import Contract
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair

Array = jax.Array
Function = Callable[..., Any]
Leaves = dict[str, NDArray[np.float64]]

QUICK = {"xla_backend_optimization_level": 0}
"""Each program runs once, on a few numbers: its time is that of compiling it."""

ONE_DEVICE = MeshSpec.parse("data1")


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


def evaluate(
    pair: Pair, functions: Mapping[str, Function], case: Case, dtype: str, *, x64: bool = False
) -> dict[str, Leaves]:
    """The outputs of functions and the pull-backs of a random cotangent, as float64 numbers.

    One program runs them all: what they share is compiled once.

    Args:
        pair: gives the inputs and the static arguments.
        functions: the reference, rewrites and faults, by name.
        case: one of the pair's cases.
        dtype: of the inputs drawn.
        x64: widen the inputs and run in float64.

    Returns:
        For each function `out...` for each output, and `to NAME` for the gradient of each differentiable argument.
    """
    with jax.enable_x64(x64):
        arrays = drawn(pair, case, dtype, x64=x64)
        names = differentiable(pair.arguments(case, ONE_DEVICE), dtype) if pair.gradients else ()
        chosen = {name: arrays.pop(name) for name in names}

        def run(chosen: dict[str, Array], rest: dict[str, Array]) -> dict[str, Any]:
            return {name: _pulled(pair, f, case, dtype, chosen, rest) for name, f in functions.items()}

        found = jax.jit(run, compiler_options=QUICK)(chosen, arrays)
        return {name: _leaves(*results) for name, results in found.items()}


def _leaves(outputs: Any, gradients: dict[str, Array]) -> Leaves:
    leaves = named_leaves(outputs, "forward") | {f"to {name}": leaf for name, leaf in gradients.items()}
    return {path: np.asarray(leaf, np.float64) for path, leaf in leaves.items()}


def drawn(pair: Pair, case: Case, dtype: str, *, x64: bool = False) -> Record:
    """The ordinary inputs of a case, their floats in float64 where asked for."""
    record = records(pair, case, dtype, ONE_DEVICE)["ordinary"]
    widened = jnp.floating if x64 else np.void
    return {name: a.astype(np.float64) if jnp.issubdtype(a.dtype, widened) else a for name, a in record.items()}


def _pulled(
    pair: Pair, function: Function, case: Case, dtype: str, chosen: dict[str, Array], rest: dict[str, Array]
) -> tuple[Any, dict[str, Array]]:
    """The outputs, and the gradients of the chosen arguments."""
    statics = pair.statics(case, ONE_DEVICE)
    if not chosen:
        return function(**rest, **statics), {}
    outputs, pull = jax.vjp(lambda chosen: function(**chosen, **rest, **statics), chosen)
    names = (pair.name, case.id, dtype)
    cotangents = [
        jnp.asarray(cotangent("random", leaf.shape, leaf.dtype, *names, path))
        for path, leaf in named_leaves(outputs, "forward").items()
    ]
    return outputs, pull(jax.tree.unflatten(jax.tree.structure(outputs), cotangents))[0]


def relative_difference(found: Leaves, reference: Leaves) -> dict[str, float]:
    """The largest difference of each leaf, relative to the largest value of the reference's leaf.

    Raises:
        ValueError: the leaves are not the same ones, or a leaf of the reference is zero or not finite everywhere.
    """
    if found.keys() != reference.keys():
        raise ValueError(f"the leaves are {sorted(found)}; the reference has {sorted(reference)}")
    differences = {}
    for path, expected in reference.items():
        largest = float(np.abs(expected).max())
        if not (np.isfinite(expected).all() and largest > 0):
            raise ValueError(f"leaf '{path}' of the reference is zero or not finite; comparing it would say nothing")
        difference = float(np.abs(found[path] - expected).max()) / largest
        differences[path] = difference if np.isfinite(difference) else float("inf")
    return differences
