from harness import Arg, Case, Contract, Integers, Pair, pair_test
BATCH = ("data", "fsdp")
PAIR = Pair(
    name="jit_form",
    reference="decorated",
    variants=("partial", "wrapped_late"),
    args={
        "rows": Arg(shape=("rows", "columns"), spec=(None, "tensor")),
        "ids": Arg(shape=("named",), dtype="int32", spec=(BATCH,), values=Integers(high=6)),
        "weights": Arg(shape=("named",), spec=(BATCH,)),
    },
    cases=(
        Case(id="pairs", sizes={"rows": 6, "columns": 4, "named": 16}, statics={"group": 2}),
        Case(id="means", sizes={"rows": 6, "columns": 4, "named": 24}, statics={"group": 3, "reduce": "mean"}),
    ),
    dtypes=("float32", "bfloat16"),
    meshes=("data1", "fsdp4_tensor2"),
    out_spec={"out": (BATCH, "tensor")},
)
test_jit_form = pair_test(PAIR)
