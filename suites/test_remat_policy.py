from harness import Arg, Case, Claim, Contract, Normal, Pair, RealSize, Refusal, compile_test, implementation, pair_test
from typing import Any
BATCH = ("data", "fsdp")
SIZES = {"iterations": 2, "layers": 2, "tokens": 8, "embed": 4, "mlp": 4, "columns": 4}
ONE_LAYER = {**SIZES, "layers": 1}
FINITE="finite"
def _case(name: str, mesh: str, mode: Any, dtype: str = "float32", sizes: Any = SIZES, **more: Any) -> Case:
    statics = {"scanned": name != "written_out"}
    return Case(id=name, sizes=sizes, statics=statics, dtypes=(dtype,), meshes=(mesh,), modes=(mode,), **more)

def _real(name: str, iterations: int, layers: int, claims: Any, variants: Any = None) -> RealSize:
    sizes = {"iterations": iterations, "layers": layers, "tokens": 16384, "embed": 2048, "mlp": 4096, "columns": 2048}
    return RealSize(
        case=Case(id=name, sizes=sizes, variants=variants),
        layout="fsdp*",
        dtype="bfloat16",
        targets=("cpu", "v5p:2x2x1", "tpu7x:2x2x1"),
        claims=claims,
    )

PAIR = Pair(
    name="remat_policy",
    reference="both_names",
    variants=("iteration_input_only", "offloaded", "nothing_saved", "everything_saved"),
    args={
        "x": Arg(shape=("iterations", "tokens", "embed"), spec=(None, BATCH)),
        "scale": Arg(shape=("iterations", "layers", "embed"), values=Normal(scale=0.1, offset=1.0)),
        "up": Arg(shape=("iterations", "layers", "embed", "mlp"), spec=(None, None, None, "tensor"), values=Normal(scale=0.5)),
        "down": Arg(shape=("iterations", "layers", "mlp", "columns"), spec=(None, None, "tensor"), values=Normal(scale=0.5)),
    },
    cases=(
        _case("scanned", "data1", "auto"),
        _case("written_out", "data1", "explicit", "bfloat16", variants=("iteration_input_only", "everything_saved")),
        _case("split", "fsdp2_tensor2", "explicit", sizes=ONE_LAYER, variants=("iteration_input_only", "offloaded")),
        _case("split_auto", "fsdp2_tensor2", "auto", sizes=ONE_LAYER, variants=("offloaded",)),
    ),
    dtypes=("float32", "bfloat16"),
    meshes=("data1", "fsdp2_tensor2"),
    out_spec={"out": (BATCH,)},
    compiled=(
        _real("four_layers", 8, 4, ()),
        _real("one_layer", 32, 1, (), ("iteration_input_only",)),
    ),
)
test_remat_policy = pair_test(PAIR)
