"""Compiler flags of the TPU v7x recipes: the same mathematics, and the TPU program under each set of flags.

Flags never reach the traced program, so on one device both sides are proved to be one program for a CPU. For the TPU
each side is compiled with its flags (`RealSize.options`): accepted or refused, and what it moves.
"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from samebits import (
    REFERENCE,
    VARIANT,
    Arg,
    Case,
    Claim,
    Contract,
    Documented,
    Domain,
    MeshSpec,
    Normal,
    Pair,
    RealSize,
    Refusal,
    compile_test,
    pair_test,
)

BATCH = ("data", "fsdp")
_OFFLOAD = "xla_tpu_enable_sparse_core_collective_offload_"
_KINDS = ("all_gather", "2d_all_gather", "3d_all_gather", "reduce_scatter", "nd_reduce_scatter", "all_reduce")
_SCHEDULER = "xla_tpu_enable_latency_hiding_layer_scheduler"

RECIPE = {
    "xla_tpu_dvfs_p_state": "7",
    "xla_tpu_scoped_vmem_limit_kib": "65536",
    "xla_tpu_num_sparse_cores_for_gather_offloading": "1",
    "xla_tpu_bf16_emission_mode": "NATIVE_EMISSION",
    "xla_tpu_enable_sparse_core_reduce_scatter_v2": "true",
    "xla_tpu_use_tc_device_shape_on_sc": "True",
    "xla_sc_disable_megacore_partitioning": "True",
    "xla_tpu_enable_async_collective_fusion_fuse_all_gather": "false",
    "xla_enable_async_all_gather": "true",
    "xla_tpu_prefer_async_allgather_to_allreduce": "true",
    "xla_tpu_use_single_sparse_core_for_all_gather_offload": "true",
    "xla_tpu_enable_concurrent_sparse_core_offloading": "true",
    "xla_tpu_enable_offloading_gather_to_sparsecore": "true",
    "xla_tpu_sparse_core_all_gather_latency_multiplier": "1",
    "xla_tpu_sparse_core_reduce_scatter_latency_multiplier": "3",
    "xla_tpu_enable_sparse_core_collective_aggregator": "true",
    _SCHEDULER: "true",
    "xla_tpu_scheduler_percent_shared_memory_limit": "150",
    "xla_tpu_enable_layer_scheduler_for_dependent_collectives": "true",
    "xla_tpu_pcie_bandwidth_multiplier": "0.03",
    "xla_tpu_enable_sparse_core_offload_queuing_in_lhs": "true",
    "xla_tpu_enable_multi_compute_overlap_in_layer_scheduler": "false",
    "xla_tpu_enable_3d_reduce_scatter_decomposer": "false",
    "xla_tpu_enable_ici_ag_pipelining": "true",
    "xla_tpu_enable_ici_rs_pipelining": "true",
    **{f"{_OFFLOAD}{kind}": "true" for kind in _KINDS},
}
"""`LIBTPU_FLAGS` of MaxText #4170, all 31."""

ALONE = {"xla_tpu_scoped_vmem_limit_kib": "another program", _SCHEDULER: "refused"}
"""What a flag of the recipe does alone, where it is not nothing: to the program, on tpu7x:2x2x1 (libtpu 0.0.42.1)."""

_FINITE = Domain(finite=("*",))
_SOURCE = "MaxText #3857 and #4170"

PAIR = Pair(
    name="compiler_flags",
    reference="no_flags",
    variants=("recipe", "sparsecore", "no_sparsecore", "scheduler_alone", "unknown_flag"),
    args={
        "x": Arg(shape=("tokens", "embed"), spec=(BATCH,)),
        "gate": Arg(shape=("embed", "mlp"), spec=("fsdp", "tensor"), values=Normal(scale=0.5)),
        "up": Arg(shape=("embed", "mlp"), spec=("fsdp", "tensor"), values=Normal(scale=0.5)),
        "down": Arg(shape=("mlp", "embed"), spec=("tensor", "fsdp"), values=Normal(scale=0.5)),
    },
    cases=(Case(id="block", sizes={"tokens": 8, "embed": 8, "mlp": 12}, variants=("recipe", "sparsecore")),),
    dtypes=("bfloat16", "float32"),
    meshes=("data1",),
    modes=("auto",),
    out_spec={"out": (BATCH,)},
    compiled=(
        RealSize(
            case=Case(
                id="block_1k",
                sizes={"tokens": 2048, "embed": 1024, "mlp": 2048},
                refuses=(
                    Refusal(error="RequestError", match="No such compile option", variants=("unknown_flag",)),
                    Refusal(
                        error="CouldNotRun",
                        match="requires sparse core collective aggregator to be enabled",
                        variants=("scheduler_alone",),
                    ),
                ),
            ),
            layout="fsdp*_tensor2",
            dtype="bfloat16",
            targets=("tpu7x:2x2x1",),
            options={
                "recipe": RECIPE,
                "sparsecore": {f"{_OFFLOAD}{kind}": "true" for kind in _KINDS},
                "no_sparsecore": {f"{_OFFLOAD}{kind}": "false" for kind in _KINDS},
                "scheduler_alone": {_SCHEDULER: "true"},
                "unknown_flag": {"xla_tpu_enable_such_a_thing": "true"},
            },
            claims=(
                Claim(
                    variant="sparsecore",
                    shows=VARIANT.program != REFERENCE.program,
                    source=_SOURCE,
                    finding="FINDING: libtpu 0.0.42.1 offloads on its own: asked for, it is the same program. "
                    "Without, the gradient needs no temporary memory for 16.3 MB and sends 1.51 times as much",
                ),
                Claim(variant="no_sparsecore", shows=VARIANT.sparsecore == 0, source="the flags' own names"),
            ),
        ),
    ),
    documented=(
        Documented(
            id="4170.flags",
            document="MaxText #4170: LIBTPU_FLAGS",
            says="the 31 flags of the recipe place operations otherwise and leave the mathematics",
            variants=("recipe",),
            real=("block_1k",),
            directions=("gradient",),  # that of training
        ),
        Documented(
            id="3857.sparsecore",
            document="MaxText #3857: SparseCore offload",
            says="collectives are offloaded to the SparseCore, and nothing else changes",
            variants=("sparsecore", "no_sparsecore"),
            real=("block_1k",),
            directions=("gradient",),  # that of training
        ),
    ),
    contracts=(
        Contract(lowest="proved", domain=_FINITE),
        Contract(
            platform="gpu",
            lowest="rounding",
            reason="FINDING: on a mesh of one device XLA lays out and fuses the reference otherwise than alone (jax "
            "0.11.2, H100): two programs, whose bits were equal in 30 of 30 results",
        ),
    ),
    accuracy=2,
)

test_compiler_flags = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECIPE)
def test_what_a_flag_of_the_recipe_does_alone(name: str) -> None:
    """FINDING: of the 31 one moves anything alone, one needs another, and 29 are what libtpu does without them."""
    import jax

    from samebits import SamebitsError, compile_for, target_mesh

    mesh = target_mesh("tpu7x:2x2x1", MeshSpec.parse("fsdp4_tensor2"), "auto")

    def array(shape: tuple[int, int], *axes: str) -> Any:
        return jax.ShapeDtypeStruct(shape, "bfloat16", sharding=jax.NamedSharding(mesh, jax.P(*axes)))

    def gathered(x: Any, kernel: Any) -> Any:
        return jax.lax.with_sharding_constraint(x @ kernel, jax.P("fsdp"))

    types = array((4096, 1024), "fsdp"), array((1024, 4096), "fsdp", "tensor")
    plain = compile_for(gathered, *types, mesh=mesh, target="tpu7x:2x2x1")
    found = "refused"
    with contextlib.suppress(SamebitsError):
        given = compile_for(gathered, *types, mesh=mesh, target="tpu7x:2x2x1", options={name: RECIPE[name]})
        found = "nothing" if given.program == plain.program else "another program"
    assert found == ALONE.get(name, "nothing")


def test_the_recipe_is_whole() -> None:
    assert len(RECIPE) == 31 and set(ALONE) < set(RECIPE)
