"""Planted faults of samebits itself: with each of them a check would pass although it compared nothing, or wrong data.

A tree plants them on one of its own pairs: one that moves data and has a gradient, on a mesh that splits its arguments.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from samebits.audit.faults.fault import Fault
from samebits.numerics.bits import Comparison
from samebits.programs.plan import Request
from samebits.schema.meshes import MeshSpec

_HERE = Request(cases=("*",), dtypes=("float32",), modes=("auto",), directions=("forward",))
_PULL = Request(cases=("*",), dtypes=("float32",), modes=("auto",), directions=("gradient",))


def _one_device_mesh(self: MeshSpec, mode: str, devices: Any = None) -> Any:
    import jax

    return jax.make_mesh((1,) * len(self.axes), self.names, devices=jax.devices()[:1])


def _one_device(spec: Any, shape: Any, name: str, mesh: Any, built: Any) -> Any:
    import jax

    return jax.sharding.SingleDeviceSharding(jax.devices()[0])


def _unsplit(spec: Any, mesh: Any) -> Any:
    from jax.sharding import PartitionSpec

    return PartitionSpec()


def _constant_records(pair: Any, case: Any, dtype: str, mesh: Any, draw: int = 0) -> Any:
    from samebits.programs.inputs import arg_dtype, arg_shape

    args = pair.arguments(case, mesh)
    return {"ordinary": {n: np.ones(arg_shape(a, n, case), arg_dtype(a, dtype)) for n, a in args.items()}}


def _reference_for_all(pair: Any, side: str) -> Any:
    from samebits.programs.implementations import implementation

    return implementation(pair, pair.reference_name)


def _fault(
    name: str, target: str, replacement: Any, verdict: str, kind: str | None = None, request: Request = _HERE
) -> Fault:
    return Fault(
        name=name,
        pair="",
        side="",
        patch=(target, replacement),
        request=request,
        verdict=verdict,
        kind=kind,
    )


def _always_the_same(domain: Any, name: str, *of_both: Any, **more: Any) -> Any:
    from samebits.interpret.field_proof.proof import FieldIdentity

    return FieldIdentity(True, 1, log2_error=-99.0, repetitions=2), 0


def _hold_as_positive(values: Any, element: Any) -> None:
    """Take the value itself as the root of a square at any number of points, without a random sign."""
    if element.degree.largest and not element.degree.guessed:
        values.hold(element.parts[0], abs(element.shadow))


def _no_range(question: Any) -> Any:
    from samebits.interpret.float64_differences import OverflowReach

    return OverflowReach()


_FAULTS = (
    _fault(
        "mesh built over one device",
        "samebits.schema.meshes:MeshSpec.build",
        _one_device_mesh,
        "error",
        "was asked for",
    ),
    _fault("runner ignores the mesh", "samebits.programs.placement:sharding", _one_device, "error"),
    _fault("specs ignored, nothing is split", "samebits.programs.placement:partition", _unsplit, "error", "split over"),
    _fault(
        "comparator says equal to everything",
        "samebits.programs.host_trees:compare_leaf",
        lambda path, reference, variant: Comparison(path=path, elements=reference.array.size),
        "CheckerBroken",
    ),
    _fault(
        "comparator compares no leaves",
        "samebits.programs.host_trees:named_leaves",
        lambda tree, direction: {},
        "error",
        "nothing to compare",
    ),
    _fault(
        "cotangents are all zero",
        "samebits.check.execution:cotangent",
        lambda kind, shape, dtype, *names: np.zeros(shape, dtype),
        "error",
        "zero for every",
        _PULL,
    ),
    _fault("inputs are all ones", "samebits.check.execution:records", _constant_records, "error", "permutation"),
    _fault(
        "compiled programs mixed up between cases",
        "samebits.programs.sides:TracedSides._key",
        lambda sides, direction, side, site: (direction, site.built is None),
        "error",
    ),
    _fault(
        "the reference is compared with itself",
        "samebits.programs.sides:implementation",
        _reference_for_all,
        "DeclarationError",
    ),
    _fault(
        "labels forget which element is which",
        "samebits.interpret.labels:LabelTable.labels",
        lambda table, codes: np.zeros_like(codes),
        "CheckerBroken",
    ),
    _fault(
        "proofs keep silent about -0.0",
        "samebits.interpret.labels:LabelProver._promises",
        lambda prover, first, two: (),
        "CheckerBroken",
    ),
    _fault(
        "products in the fields vanish",
        "samebits.interpret.field.residues:multiply",
        lambda a, b, p: np.zeros(np.broadcast_shapes(np.shape(a), np.shape(b)), np.int64),
        "CheckerBroken",
    ),
    _fault(
        "the fields call everything the same",
        "samebits.interpret.field_proof.proof:compare_formulas",
        _always_the_same,
        "CheckerBroken",
    ),
    _fault("roots take any sign", "samebits.interpret.field.base:HeldValues.add", _hold_as_positive, "CheckerBroken"),
    _fault(
        "a stored result passes", "samebits.interpret.field_proof.proof:stored", lambda question: {}, "CheckerBroken"
    ),
    _fault("fields look at no range", "samebits.interpret.field_proof.proof:reach_of", _no_range, "CheckerBroken"),
)


def machinery_faults(*, pair: str, side: str, mesh: str) -> tuple[Fault, ...]:
    """Return the planted faults of samebits itself, to be seen on one side of a pair.

    Args:
        pair: where they show.
        side: the honest side on which they show; it moves data and has a gradient.
        mesh: one that splits its arguments.

    Returns:
        One fault for each part of the checks that can be broken.
    """
    return tuple(
        replace(fault, pair=pair, side=side, request=replace(fault.request, meshes=(mesh,))) for fault in _FAULTS
    )
