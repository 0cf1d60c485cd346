"""A mixture of experts: every expert on every token, against sorting and sending, and against a ring of experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from harness import Arg, Case, Contract, MeshSpec, Normal, Pair, Refusal, pair_test

BATCH, CONTEXT = ("data", "fsdp", "expert"), "context"
FINITE = "every number is finite, and no two experts are equally good for a token"


def _bias(case: Case) -> Any:
    """What moves the choice: not at all, away from experts 0 and 5, or all of it to expert 2."""

    def values(rng: Any, shape: tuple[int, ...]) -> Any:
        bias = 0.3 * rng.standard_normal(shape)
        if case.id == "group_limited":
            bias[[0, 5]] = -9
        if case.id == "one_expert":
            bias[2] = 9
        return bias

    return values


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    kernel, up = Normal(scale=0.5), ("expert", None, "tensor")
    return {
        "x": Arg(shape=("batch", "seq", "embed"), spec=(BATCH, CONTEXT)),
        "router": Arg(shape=("embed", "experts")),
        "bias": Arg(shape=("experts",), dtype="float32", values=_bias(case), differentiable=False),
        "w_gate": Arg(shape=("experts", "embed", "hidden"), spec=up, values=kernel),
        "w_up": Arg(shape=("experts", "embed", "hidden"), spec=up, values=kernel),
        "w_down": Arg(shape=("experts", "hidden", "embed"), spec=("expert", "tensor"), values=kernel),
    }


def _case(name: str, mesh: str, dtype: str, **statics: Any) -> Case:
    sizes = {"batch": 4, "seq": 4, "embed": 4, "experts": 8, "hidden": 4}
    return Case(id=name, sizes=sizes, statics={"top_k": 2, **statics}, meshes=(mesh,), dtypes=(dtype,))


PAIR = Pair(
    name="moe",
    reference="dense",
    variants=("sparse", "ring"),
    args=_args,
    cases=(
        _case("softmax", "expert2_context2", "float32"),
        _case("group_limited", "expert4", "bfloat16", routing="group_limited", groups=4, top_groups=2, scaling=2.5),
        _case("one_expert", "expert2_tensor2", "float32", routing="sigmoid"),
        _case("random", "expert2_fsdp2", "float32", routing="random", seed=7, top_k=3),
        Case(
            id="too_many",
            sizes={"batch": 2, "seq": 2, "embed": 2, "experts": 4, "hidden": 2},
            statics={"top_k": 3, "routing": "group_limited", "groups": 2, "top_groups": 1},
            meshes=("expert2_context2",),
            dtypes=("float32",),
            refuses=(Refusal(error="ValueError", match="top_k is 3; expected 1 to 2"),),
        ),
    ),
    dtypes=("float32", "bfloat16"),
    meshes=("expert4", "expert2_fsdp2", "expert2_tensor2", "expert2_context2"),
    out_spec={"out['out']": (BATCH, CONTEXT)},
    contracts=(Contract(lowest="rounding", reason="measuring 1", domain=FINITE),),
)

test_moe = pair_test(PAIR)
