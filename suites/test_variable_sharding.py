"""Variables of a Flax layer: laid out as they are made, as they came, or laid out where the code asks.

The option `flax_always_shard_variable` puts a constraint (a reshard, where axes are explicit) on every `nnx.Variable`
that names the axes of its dimensions. It changes no value: the inputs are whole numbers whose sums float32 holds in any
order, so that forward every bit must be the same on the mesh. What it changes is the layout, which no value shows:
`LAYOUTS` declares it, measured on CPU (jax 0.10.2, flax 0.12.8, 8 devices).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from harness import Arg, Case, Contract, MeshSpec, Pair, Refusal, implementation, pair_test

MESH = "fsdp4_tensor2"
SIZES = {"batch": 8, "embed": 8, "mlp": 4, "wrong": 2}


def _whole(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Different whole numbers, whose products and sums float32 holds in any order."""
    size = int(np.prod(shape))
    return (rng.permutation(size) - size // 3).reshape(shape).astype(np.float64)


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    """Kernels that come split as the names say, or over the two axes exchanged."""
    up, down = (("fsdp", "tensor"), ("tensor", "fsdp")) if case.id == "split" else (("tensor", "fsdp"), ("fsdp",))
    more: Any = {"values": _whole, "differentiable": case.id == "pulled"}
    return {
        "x": Arg(shape=("batch", "embed"), spec=("fsdp",), **more),
        "up": Arg(shape=("embed", "mlp"), spec=up, **more),
        "down": Arg(shape=("wrong" if case.id == "misfit" else "mlp", "embed"), spec=down[:0], **more)
        if case.id == "misfit"
        else Arg(shape=("mlp", "embed"), spec=down, **more),
    }


def _case(name: str, mode: Any, refuses: tuple[Refusal, ...] = ()) -> Case:
    return Case(id=name, sizes=SIZES, modes=(mode,), refuses=refuses)


PAIR = Pair(
    name="variable_sharding",
    reference="always",
    variants=("never", "requested"),
    args=_args,
    cases=(
        _case("split", "auto"),
        _case("moved", "auto"),
        _case("pulled", "explicit"),
        _case("misfit", "auto", (Refusal(error="ValueError", match=r"shapes \(8, 8\), \(8, 4\) and \(2, 8\); expected"),)),
    ),
    dtypes=("float32",),
    meshes=(MESH,),
)
