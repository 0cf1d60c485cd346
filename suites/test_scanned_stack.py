"""scanned_stack: decoder layers as stages of a scanned pipeline, one form at a time in the one said to need less memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from harness import Arg, Case, Contract, Integers, MeshSpec, Normal, Pair, RealSize, compile_test, implementation, pair_test

VARIANTS = (
    "multiply",
    "no_trivial",
    "causal_type",
    "gather",
    "slices",
    "free_state",
    "one_name",
    "no_cast",
    "dynamic_slice",
    "all_together",
)


def _args(case: Case, mesh: MeshSpec, stages: int | None = None) -> Mapping[str, Arg]:
    rows = {"shape": ("batch", "seq"), "spec": ("stage",)}
    ones = case.id != "packed"
    layers = (stages or "stages", "layers")
    pulled = not case.id.startswith("forward")

    def weight(*shape: int | str, fsdp: int, values: Any = None) -> Arg:
        spec = ("stage", *(None,) * (fsdp - 1), "fsdp") if fsdp else ("stage",)
        return Arg(shape=(*layers, *shape), spec=spec, values=values or Normal(scale=0.4), differentiable=pulled)

    return {
        "tokens": Arg(values=Integers(high=case.sizes["vocab"]), **rows),
        "segments": Arg(values=(lambda rng, shape: np.ones(shape)) if ones else _packed, dtype="int32", **rows),
        "table": Arg(shape=("vocab", "embed"), differentiable=pulled),
        "scales": weight(2, "embed", fsdp=0, values=Normal(offset=1.0, scale=0.3)),
        "qkv": weight("embed", 3, "heads", "width", fsdp=2),
        "merge": weight("heads", "width", "embed", fsdp=4),
        "up": weight("embed", 2, "mlp", fsdp=2),
        "down": weight("mlp", "embed", fsdp=3),
    }


def _packed(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """Of every row two documents, that end elsewhere in each."""
    return (np.arange(shape[1]) >= rng.integers(1, shape[1], shape[:1])[:, None]).astype(np.int32) + 1


TINY = {"batch": 4, "seq": 3, "embed": 2, "stages": 2, "layers": 1, "heads": 1, "width": 2, "mlp": 2, "vocab": 5}
LARGE = {"batch": 16, "seq": 2048, "embed": 2048, "layers": 4, "heads": 8, "width": 256, "mlp": 4096, "vocab": 32768}

_COMPILED = (
    RealSize(
        case=Case(id="stages", sizes=LARGE, statics={"microbatches": 8, "repeats": 2}),
        args=lambda case, mesh: _args(case, mesh, mesh.size("stage")),
        layout="stage*",
        dtype="bfloat16",
        targets=("cpu", "v5p:2x2x1", "tpu7x:2x2x1"),
    ),
)

PAIR = Pair(
    name="scanned_stack",
    reference="as_before",
    variants=VARIANTS,
    args=_args,
    cases=(
        Case(id="whole", sizes=TINY, statics={"microbatches": 2}),
    ),
    dtypes=("bfloat16",),
    meshes=("stage2",),
    modes=("auto",),
    compiled=_COMPILED,
)

test_scanned_stack = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))
