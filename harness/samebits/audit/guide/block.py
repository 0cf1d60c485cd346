"""Compiles the MLP of one layer for a TPU slice, and compares its communication volume with the prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from samebits.audit.guide import intensity
from samebits.audit.guide.intensity import BlockTraffic
from samebits.audit.guide.setup import TrainingSetup
from samebits.compile.compiler import compile_for
from samebits.compile.devices import compiler_version, target_mesh
from samebits.errors import RequestError
from samebits.schema.target import Target

if TYPE_CHECKING:
    from samebits.compile.cache import CompileCache

AXES = ("data", "fsdp", "tensor", "context")
"""The mesh axes that split a dense MLP."""


def predicted(setup: TrainingSetup) -> dict[str, float]:
    """Predict the bytes that a device sends in the forward pass of one block, by mesh axis.

    Weights are split over `fsdp` and `context` together, and gathered over both.
    """
    sent = {}
    if setup.axis_size("tensor") > 1:
        tensor = intensity.tensor_rule(setup)
        sent["tensor"] = intensity.whole_block(tensor, setup.axis_size("tensor"), collectives=2).bytes
    shards = setup.axis_size("fsdp") * setup.axis_size("context")
    if shards > 1:
        name = " and ".join(axis for axis in ("fsdp", "context") if setup.axis_size(axis) > 1)
        sent[name] = intensity.whole_block(intensity.weights_rule(setup), shards).bytes
    return sent


def compile_block(setup: TrainingSetup, target: str, dtype: str, cache: CompileCache | None = None) -> BlockTraffic:
    """Compile `down(silu(x @ gate) * (x @ up))` with the mesh's shardings, and read its communication volume.

    Args:
        setup: sizes and mesh; activations are split over batch and `tensor`, weights over `fsdp`, `context` and
            `tensor`, the hidden ones over `tensor`.
    """
    check_block(setup, target, dtype)
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = target_mesh(target, setup.mesh)
    rows = tuple(axis for axis in ("data", "fsdp", "context") if setup.axis_size(axis) > 1) or None
    shards = tuple(axis for axis in ("fsdp", "context") if setup.axis_size(axis) > 1) or None
    split = "tensor" if setup.axis_size("tensor") > 1 else None

    def placed(*spec: Any) -> NamedSharding:
        return NamedSharding(mesh, PartitionSpec(*spec))

    def array(shape: tuple[int, int], *spec: Any) -> Any:
        return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype), sharding=placed(*spec))

    def block(x: Any, gate: Any, up: Any, down: Any) -> Any:
        hidden = jax.nn.silu(x @ gate) * (x @ up)
        hidden = jax.lax.with_sharding_constraint(hidden, placed(rows, split))
        return jax.lax.with_sharding_constraint(hidden @ down, placed(rows, split))

    tokens, embed, mlp = setup.batch * setup.seq, setup.model.embed, setup.model.mlp
    facts = compile_for(
        jax.jit(block, out_shardings=placed(rows, split)),
        array((tokens, embed), rows, split),
        array((embed, mlp), shards, split),
        array((embed, mlp), shards, split),
        array((mlp, embed), split, shards),
        mesh=mesh,
        target=target,
        cache=cache,
        label="the MLP block",
    )
    predicted_bytes = predicted(setup)
    total = sum(predicted_bytes.values())
    return BlockTraffic(
        target=target,
        compiler=compiler_version(Target(name=target)),
        predicted=predicted_bytes,
        predicted_bytes=total,
        wire_bytes=facts.wire_bytes,
        ratio=facts.wire_bytes / total if facts.wire_bytes is not None and total else None,
        intensity=intensity.forward_flops(setup) / facts.wire_bytes if facts.wire_bytes else None,
        collectives=facts.collectives,
        program=facts.program,
    )


def check_block(setup: TrainingSetup, target: str, dtype: str) -> None:
    """Check that the block can be compiled."""
    if ":" not in target:
        raise RequestError(f"--compile: target '{target}' names no slice; give one, such as {target}:2x2x1")
    odd = [axis for axis in setup.mesh.names if setup.axis_size(axis) > 1 and axis not in AXES]
    if odd or setup.model.experts > 1:
        what = f"mesh axis '{odd[0]}'" if odd else "experts"
        raise RequestError(f"--compile compiles the dense MLP of one layer, which does not use {what}")
    if dtype != "bfloat16":
        raise RequestError(f"--compile: dtype {dtype} is not compiled here; expected bfloat16")
