"""decoder_layer."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from harness import Arg, Case, Claim, Contract, MeshSpec, Normal, Pair, RealSize, Refusal, compile_test, implementation, pair_test

SIZES = {"batch": 4, "seq": 3, "embed": 4, "heads": 2, "width": 2, "hidden": 6}
STATICS = {"heads": 2, "hidden": 6}
BATCH = ("data", "fsdp")
FSDP = "data2_fsdp2"
FINITE = "x and weights are finite"

_SHAPES: dict[str, tuple[tuple[str, ...], tuple[str | None, ...]]] = {
    "pre_attention_norm/scale": (("embed",), ()),
    "attention/query/kernel": (("embed", "heads", "width"), ("fsdp", "tensor")),
    "attention/key/kernel": (("embed", "heads", "width"), ("fsdp", "tensor")),
    "attention/value/kernel": (("embed", "heads", "width"), ("fsdp", "tensor")),
    "attention/out/kernel": (("heads", "width", "embed"), ("tensor", None, "fsdp")),
    "pre_mlp_norm/scale": (("embed",), ()),
    "mlp/gate/kernel": (("embed", "hidden"), ("fsdp", "tensor")),
    "mlp/up/kernel": (("embed", "hidden"), ("fsdp", "tensor")),
    "mlp/down/kernel": (("hidden", "embed"), ("tensor", "fsdp")),
}


def _weights(*outer: str, dtype: str | None = None, gradients: bool = True) -> dict[str, Arg]:
    return {
        path: Arg(
            shape=(*outer, *shape),
            dtype=dtype,
            spec=(*(None for _ in outer), *spec),
            values=Normal(scale=0.5, offset=1.0 if path.endswith("scale") else 0.0),
            differentiable=gradients,
        )
        for path, (shape, spec) in _SHAPES.items()
    }


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    """All weights have gradients where one device adds them up; else x alone, whose rows no mesh here splits."""
    wide = case.id == "wide_weights"
    weights = _weights(dtype="float32" if wide else None, gradients=case.id == "alone")
    if case.id == "missing":
        del weights["mlp/up/kernel"]
    elif case.id == "unknown":
        weights["mlp/bias"] = Arg(shape=("hidden",))
    elif case.id == "misshapen":
        weights["mlp/up/kernel"] = Arg(shape=("embed", "one"))
    return {"x": Arg(shape=("batch", "seq", "embed"), spec=(BATCH,), differentiable=case.id == "alone"), **weights}


def _case(name: str, mesh: str, mode: Any, dtype: str, variants: tuple[str, ...] | None = None, **more: Any) -> Case:
    return Case(
        id=name, sizes=SIZES, statics=STATICS, meshes=(mesh,), modes=(mode,), dtypes=(dtype,), variants=variants, **more
    )


PAIR = Pair(
    name="decoder_layer",
    reference="nnx",
    variants=("linen", "bridged"),
    args=_args,
    cases=(
        _case("alone", "data1", "auto", "bfloat16", ("linen",)),
        _case("wrapped", "data1", "auto", "bfloat16", ("bridged",)),
        _case("split", FSDP, "explicit", "float32", ("linen",)),
        _case("wide_weights", "data1", "auto", "bfloat16", ("linen",)),
    ),
    dtypes=("bfloat16", "float32"),
    meshes=("data1", FSDP),
)
