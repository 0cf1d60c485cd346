"""One training step: tokens laid out, loss, gradients, clipping, AdamW."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from samebits import Config, MeshSpec, Parts, Training

from . import data
from .decoder import Decoder
from .layout import PARAMETERS, TOKENS, lay
from .settings import Settings, settings


def build(config: Config, parts: Parts) -> Training:
    """The model of a configuration, with the chosen parts.

    Raises:
        DeclarationError: the configuration cannot be built.
    """
    s, mesh = settings(config), MeshSpec.parse(config.mesh)
    decoder = jax.eval_shape(lambda: _decoder(config, s, parts, None))
    graph, shapes = nnx.split(decoder)
    names = [_name(path) for path, _ in nnx.to_flat_state(shapes)]
    specs = {name: PARAMETERS[name] for name in names}
    optimizer = optax.chain(
        optax.clip_by_global_norm(s.clip),
        optax.adamw(s.learning_rate, b1=0.9, b2=0.95, weight_decay=s.weight_decay, mu_dtype=s.mu_dtype),
    )

    def model(parameters: dict[str, jax.Array]) -> Decoder:
        paths = [path for path, _ in nnx.to_flat_state(shapes)]
        leaves = [(path, nnx.Param(parameters[name])) for path, name in zip(paths, names, strict=True)]
        merged: Decoder = nnx.merge(graph, nnx.from_flat_state(leaves))
        return merged

    def loss(
        parameters: dict[str, jax.Array], inputs: dict[str, jax.Array], targets: jax.Array, weights: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The sum of the weighted losses of all tokens, and what is added to their mean."""
        decoder = model(parameters)
        hidden, balance = decoder(inputs["tokens"], inputs["positions"], inputs["segments"])
        found = parts["cross_entropy"](hidden, decoder.kernel(), targets, weights, z_loss=s.z_loss, chunks=s.chunks)
        return jnp.sum(found["loss"]), s.balance * balance

    def update(gradient: Any, parameter: Any, mu: Any, nu: Any, count: jax.Array) -> Any:
        state = optax.tree_utils.tree_set(optimizer.init(parameter), mu=mu, nu=nu, count=count)
        change, state = optimizer.update(gradient, state, parameter)
        got = (optax.tree_utils.tree_get(state, name) for name in ("mu", "nu"))
        return optax.apply_updates(parameter, change), *got

    def step(state: Any, batch: Any) -> tuple[Any, Any]:
        if s.balanced:
            reorder = parts["sequence_reorder"]
            batch = {
                name: lay(reorder(x, cp=mesh.size("context"), axis=1, to_contiguous=False), *TOKENS)
                for name, x in batch.items()
            }
        inputs = {name: batch[name] for name in ("tokens", "positions", "segments")}
        found = parts["gradient_accumulation"](
            inputs, batch["targets"], batch["weights"], state["parameters"], microbatches=s.accumulate, loss=loss
        )
        gradients = jax.tree.map(lambda x: x.astype(s.grad_dtype), found["gradient"])
        after = parts["optimizer_state"](
            gradients, state["parameters"], state["mu"], state["nu"], state["count"], update=update, layout=specs
        )
        new = {"parameters": after["parameter"], "mu": after["mu"], "nu": after["nu"], "count": state["count"] + 1}
        outputs = {
            "loss": found["loss"] + found["extra"],
            "perplexity": jnp.exp(found["loss"]),
            "gradients": gradients,
        }
        return new, outputs

    def initial() -> Any:
        flat = nnx.to_flat_state(nnx.split(_decoder(config, s, parts, np.random.default_rng(config.seed)))[1])
        parameters = {_name(path): np.asarray(leaf[...]) for path, leaf in flat}
        zeros = {name: np.zeros_like(x) for name, x in parameters.items()}
        mu = {name: x.astype(jnp.dtype(s.mu_dtype)) for name, x in zeros.items()}
        return {"parameters": parameters, "mu": mu, "nu": zeros, "count": np.zeros((), np.int32)}

    moments = specs
    types = {_name(path): jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for path, leaf in nnx.to_flat_state(shapes)}
    if config.choice.get("optimizer_state") == "zero1":
        moments = {name: _split_over_data(types[name].shape, spec, mesh) for name, spec in specs.items()}
    return Training(
        initial=initial,
        batch=lambda number: data.batch(s, config.seed, number),
        step=step,
        state_types={
            "parameters": types,
            "mu": {name: jax.ShapeDtypeStruct(x.shape, jnp.dtype(s.mu_dtype)) for name, x in types.items()},
            "nu": types,
            "count": jax.ShapeDtypeStruct((), jnp.int32),
        },
        batch_types=data.types(s),
        state_spec={"parameters": specs, "mu": moments, "nu": moments, "count": ()},
        batch_spec=dict.fromkeys(("tokens", "targets", "positions", "segments", "weights"), TOKENS),
        tokens=s.batch * s.seq,
    )


def _decoder(config: Config, s: Settings, parts: Parts, rng: np.random.Generator | None) -> Decoder:
    stages = MeshSpec.parse(config.mesh).size("stage")
    return Decoder(s, jnp.dtype(config.dtype), stages, parts, rng)


def _name(path: tuple[Any, ...]) -> str:
    return "/".join(str(key) for key in path)


def _split_over_data(shape: tuple[int, ...], spec: tuple[Any, ...], mesh: MeshSpec) -> tuple[Any, ...]:
    """The moments' layout under ZeRO-1: the first dimension that is not split, and divides, goes over `data`."""
    size = mesh.size("data")
    entries = [*spec, *(None,) * (len(shape) - len(spec))]
    for dimension, entry in enumerate(entries):
        axes = entry if isinstance(entry, tuple) else (entry,)
        if all(mesh.size(axis) == 1 for axis in axes if axis) and size > 1 and shape[dimension] % size == 0:
            entries[dimension] = "data"
            break
    return tuple(entries)
