"""The flags of the TPU v7x recipes: the same mathematics, other programs."""

from __future__ import annotations

from harness import Arg, Case, Documented, Normal, Pair, pair_test

BATCH = ("data", "fsdp")

PAIR = Pair(
    name="compiler_flags",
    reference="no_flags",
    variants=("recipe", "sparsecore", "no_sparsecore", "vmem", "unknown_flag"),
    args={
        "x": Arg(shape=("tokens", "embed"), spec=(BATCH,)),
        "gate": Arg(shape=("embed", "mlp"), spec=("fsdp", "tensor"), values=Normal(scale=0.5)),
        "up": Arg(shape=("embed", "mlp"), spec=("fsdp", "tensor"), values=Normal(scale=0.5)),
        "down": Arg(shape=("mlp", "embed"), spec=("tensor", "fsdp"), values=Normal(scale=0.5)),
    },
    cases=(Case(id="split", sizes={"tokens": 8, "embed": 8, "mlp": 4}, variants=("recipe",)),),
    dtypes=("float32", "bfloat16"),
    meshes=("data1",),
    documented=(
        Documented(
            id="4170.flags",
            document="MaxText #4170: LIBTPU_FLAGS",
            says="the 31 flags of the recipe place operations and leave the mathematics",
            variants=("recipe",),
        ),
        Documented(
            id="3857.sparsecore",
            document="MaxText #3857: SparseCore offload",
            says="collectives are offloaded to the SparseCore, and nothing else changes",
            variants=(
                "sparsecore",
                "no_sparsecore",
            ),
        ),
    ),
    modes=("auto",),
    out_spec={"out": (BATCH,)},
)

test_compiler_flags = pair_test(PAIR)
