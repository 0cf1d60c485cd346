"""MaxText's own code of a model and of its train step, with scaled widths and a changed configuration.

For Python 3.12, with `requirements_maxtext.txt`. The step is the one that MaxText's `train_compile` compiles, on a mesh
of devices that are described only. Attention is `dot_product`, since Pallas kernels are not run; dtypes are float32;
rotary positions are not scaled, and the optimizer is `adam_pax`: proofs do not follow what is compiled of the model's
own. Random state, which no operation of the step reads, is fixed.
"""

import os
import re
from typing import Any

os.environ.setdefault("DECOUPLE_GCLOUD", "TRUE")

import jax
import jax.numpy as jnp
import numpy as np
from flax.core.spmd import logical_axis_rules
from jax.sharding import Mesh
from maxtext.configs import pyconfig
from maxtext.trainers.pre_train import train, train_compile
from maxtext.utils import maxtext_utils, sharding

USUAL: dict[str, Any] = {
    "run_name": "pod",
    "base_output_directory": "nowhere",
    "override_model_config": True,
    "skip_jax_distributed_system": True,
    "log_config": False,
    "enable_checkpointing": False,
    "attention": "dot_product",
    "dtype": "float32",
    "sharding_tolerance": 1.0,
    "context_parallel_load_balance": False,
    "opt_type": "adam_pax",
    "learning_rate_schedule_steps": 163840,
}
MODELS: dict[str, dict[str, Any]] = {
    "llama3.1-405b": {
        "base_emb_dim": 64,
        "base_num_query_heads": 16,
        "base_num_kv_heads": 8,
        "head_dim": 4,
        "base_mlp_dim": 128,
        "vocab_size": 128,
        "rope_use_scale": False,
    },
}
"""What is scaled, and what is not as the model's file says it."""

RANDOM = "['rngs']"
"""What the names of random state hold."""

COUNT = 20
"""How many steps were taken: the learning rate of the first is 0."""


def configured(model: str, shape: tuple[int, int], partitions: int, changed: dict[str, Any]) -> Any:
    """Return MaxText's configuration for a batch and length of the tokens."""
    place: dict[str, Any] = {"compile_topology": f"tpu7x-{partitions}", "compile_topology_num_slices": 1}
    base = os.path.join(os.path.dirname(pyconfig.__file__), "base.yml")
    return pyconfig.initialize(
        ["", base],
        **USUAL,
        **MODELS[model],
        **(place if partitions > 1 else {"internal_compile": True, "internal_compile_num_devices": 1}),
        **changed,
        model_name=model,
        per_device_batch_size=shape[0] / partitions,
        max_target_length=shape[1],
    )


def key_or_zero(leaf: Any) -> jax.Array:
    """Return random state of a type: keys, or how many were taken of them."""
    if not jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jnp.zeros(leaf.shape, leaf.dtype)
    return jnp.broadcast_to(jax.random.key(0), leaf.shape)


def traced(config: Any, mesh: Mesh) -> tuple[Any, dict[str, Any]]:
    """Trace MaxText's train step on a mesh, as a function of what is not random; also return its types by name."""
    args, _, state_shardings, _, graph = train_compile.get_shaped_inputs(mesh, config)
    parameters, state_shardings = sharding.maybe_update_params_sharding_with_opt(config, state_shardings)
    step, _, (state_out, _), *_ = maxtext_utils.get_functional_train_with_signature(
        train.train_step, sharding.get_input_data_sharding(config, mesh), state_shardings, graph, config, parameters
    )
    named, tree = jax.tree_util.tree_flatten_with_path(args)
    leaves = {jax.tree_util.keystr(path): leaf for path, leaf in named}
    types = {name: leaves[name] for name in sorted(leaves) if RANDOM not in name}

    def without_random(arguments: dict[str, jax.Array]) -> dict[str, jax.Array]:
        values = [arguments[name] if name in arguments else key_or_zero(leaf) for name, leaf in leaves.items()]
        state, metrics = step(*jax.tree.unflatten(tree, values))
        state = jax.lax.with_sharding_constraint(state, state_out)
        outputs = jax.tree_util.tree_leaves_with_path((state, metrics["scalar"]))
        named = {jax.tree_util.keystr(path): leaf for path, leaf in outputs}
        return {name: named[name] for name in named if RANDOM not in name}

    with jax.set_mesh(mesh), logical_axis_rules(config.logical_axis_rules):
        return jax.jit(without_random).trace(types), types


def drawn(types: dict[str, Any], vocabulary: int) -> dict[str, np.ndarray]:
    """Draw arguments: small weights, positive second moments, two documents in each sequence."""
    random = np.random.default_rng(0)

    def values_of(name: str, kind: Any) -> np.ndarray:
        if name.endswith(("['inputs']", "['targets']")):
            return random.integers(0, vocabulary, kind.shape, np.int32)
        if kind.ndim == 2 and kind.dtype == jnp.int32:
            places, half = np.broadcast_to(np.arange(kind.shape[1], dtype=np.int32), kind.shape), kind.shape[1] // 2
            return places % half if name.endswith("position']") else 1 + places // half
        if not jnp.issubdtype(kind.dtype, jnp.floating):
            return np.full(kind.shape, COUNT, kind.dtype)
        if "['nu']" in name:
            return random.uniform(0.5, 1, kind.shape).astype(kind.dtype)
        return (random.standard_normal(kind.shape) / 5).astype(kind.dtype)

    return {name: values_of(name, kind) for name, kind in types.items()}


def forms(model: str, shape: tuple[int, int], partitions: int, layout: str, mode: str) -> tuple[Any, ...]:
    """Return a step traced for one device and for a mesh, the mesh, flat arguments by name, and the number of layers.

    Args:
        layout: such as `fsdp*_tensor2`, whose star is the rest of the devices.
    """
    changed: dict[str, Any] = {"shard_mode": mode}
    axes = {f"ici_{axis}_parallelism": int(size) for axis, size in re.findall(r"([a-z]+)(\d+)", layout)}
    alone, spread = configured(model, shape, 1, changed), configured(model, shape, partitions, changed | axes)
    mesh = train_compile.get_topology_mesh(spread)
    single = Mesh(maxtext_utils.create_device_mesh(alone, jax.devices()[:1]), alone.mesh_axes)
    (written, _), (sharded, types) = traced(alone, single), traced(spread, mesh)
    return written, sharded, mesh, drawn(types, alone.vocab_size), alone.num_decoder_layers
