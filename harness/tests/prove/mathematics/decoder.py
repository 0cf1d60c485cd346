"""Decoder layers made of the other specimens, and a whole training step around them.

A layer is `x + attention(norm(x))`, then `x + experts(norm(x))`. The rewrites put the honest rewrites of every part
together, under a loop, a scan or rematerialisation; each fault puts one wrong part, or one wrong wire, into the plain
form.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from samebits.schema.case import Arg, Case
from samebits.schema.values import Integers, Normal
from tests.prove.mathematics.attention import ATTENTION, attention
from tests.prove.mathematics.experts import EXPERTS, experts
from tests.prove.mathematics.loss import LOSS, cross_entropy
from tests.prove.mathematics.normalisation import RMS_NORM, rms_norm
from tests.prove.mathematics.optimiser import FAULTS as ADAMW_FAULTS
from tests.prove.mathematics.optimiser import Update, flat, second_moments, update
from tests.prove.mathematics.rotary import ROPE, rope
from tests.prove.mathematics.specimen import Array, Function, specimen, wide

SIZES = {
    "batch": 1,
    "seq": 32,
    "embed": 64,
    "heads": 4,
    "groups": 2,
    "width": 16,
    "experts": 8,
    "hidden": 64,
    "vocab": 128,
}

Weights = dict[str, Array]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What a layer is made of.

    Args:
        normalise, rotate, attend, route: the functions of the specimens.
        rotate_keys: where the keys are turned otherwise than the queries.
        residual: the sum of a block's input, its normalised input and its output.
        weights: a change of one layer's weights before they are used.
        order: a change of all layers' weights before they are used.
    """

    normalise: Function = rms_norm
    rotate: Function = rope
    rotate_keys: Function | None = None
    attend: Function = attention
    route: Function = experts
    residual: Callable[[Array, Array, Array], Array] = lambda x, normed, out: x + out
    weights: Callable[[Weights], Weights] = lambda weights: weights
    order: Callable[[Weights], Weights] = lambda weights: weights


Layer = Callable[[Array, Weights], tuple[Array, Array]]
Stack = Callable[[Layer, Array, Weights], tuple[Array, Array]]


def _layer(parts: Parts, top: int) -> Layer:
    """One layer: from its input and weights to its output and balance loss."""

    def project(x: Array, matrix: Array, axes: str) -> Array:
        rows, weights = wide(x, matrix)
        return jnp.einsum(axes, rows, weights).astype(x.dtype)

    def layer(x: Array, weights: Weights) -> tuple[Array, Array]:
        w = parts.weights(weights)
        normed = parts.normalise(x, w["norm_1"], epsilon=1e-6, scale_offset=0.0)
        q, k, v = (project(normed, w[name], "bsd,dhw->bshw") for name in ("query", "key", "value"))
        q, k = parts.rotate(q, base=10000.0), (parts.rotate_keys or parts.rotate)(k, base=10000.0)
        attended = parts.attend(q, k, v, softcap=0.0)
        x = parts.residual(x, normed, project(attended, w["output"], "bshw,hwd->bsd"))
        normed = parts.normalise(x, w["norm_2"], epsilon=1e-6, scale_offset=0.0)
        matrices = (w[name] for name in ("router", "gate", "up", "down"))
        found = parts.route(normed.reshape(-1, x.shape[-1]), *matrices, top=top, balance=0.01)
        return parts.residual(x, normed, found["out"].reshape(x.shape)), found["balance"]

    return layer


def _looped(layer: Layer, x: Array, weights: Weights) -> tuple[Array, Array]:
    total = jnp.zeros((), jnp.promote_types(x.dtype, jnp.float32))
    for number in range(weights["norm_1"].shape[0]):
        x, balance = layer(x, {name: array[number] for name, array in weights.items()})
        total += balance
    return x, total


def _scanned(layer: Layer, x: Array, weights: Weights) -> tuple[Array, Array]:
    x, balances = jax.lax.scan(layer, x, weights)
    return x, jnp.sum(balances)


def _rematerialised(layer: Layer, x: Array, weights: Weights) -> tuple[Array, Array]:
    """Only products without a batch dimension are saved for the gradient."""
    policy = jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    return _looped(jax.checkpoint(layer, policy=policy), x, weights)


def _scanned_rematerialised(layer: Layer, x: Array, weights: Weights) -> tuple[Array, Array]:
    return _scanned(jax.checkpoint(layer), x, weights)


def _decoder(parts: Parts, stack: Stack = _looped) -> Function:
    """Layers of these parts; `weights` have the layers as their first dimension."""

    def decoder(x: Array, *, top: int, **weights: Array) -> dict[str, Array]:
        out, balance = stack(_layer(parts, top), x, parts.order(weights))
        return {"out": out, "balance": balance}

    return decoder


_PLAIN = Parts()
_BLOCKS = Parts(
    normalise=RMS_NORM.rewrites["handwritten"],
    rotate=ROPE.rewrites["rotated_half"],
    attend=ATTENTION.rewrites["blocks_scanned"],
    route=EXPERTS.rewrites["sorted_ragged"],
)
_PRODUCTS = Parts(
    normalise=RMS_NORM.rewrites["einsum_form"],
    rotate=ROPE.rewrites["matrices"],
    attend=ATTENTION.rewrites["grouped"],
    route=EXPERTS.rewrites["in_steps"],
)


# --- faults of a layer -----------------------------------------------------------------------------------------------


def _with(changes: dict[str, str]) -> Parts:
    """The plain parts, some weights taken from others' places."""
    return Parts(weights=lambda weights: weights | {name: weights[other] for name, other in changes.items()})


def _ordered(order: Callable[[Array], Array]) -> Parts:
    return Parts(order=lambda weights: {name: order(array) for name, array in weights.items()})


PART_FAULTS: dict[str, Parts] = {
    **{f"norm_{name}": Parts(normalise=RMS_NORM.faults[name]) for name in ("epsilon_ten_times", "mean_over_one_less")},
    **{f"rope_{name}": Parts(rotate=ROPE.faults[name]) for name in ("base_10001", "last_pair_not_turned")},
    "rope_of_queries_only": Parts(rotate_keys=lambda x, *, base: x),
    "rope_of_keys_one_ahead": Parts(rotate_keys=ROPE.faults["positions_from_one"]),
    **{
        f"attention_{name}": Parts(attend=ATTENTION.faults[name])
        for name in ("scale_missing", "mask_of_minus_ten", "gradient_without_sum", "neither_rescaled")
    },
    **{
        f"experts_{name}": Parts(route=EXPERTS.faults[name])
        for name in ("normalised_before_top", "gelu_for_silu", "weights_of_other_choice", "balance_gradient_dropped")
    },
    "residual_of_the_normalised": Parts(residual=lambda x, normed, out: normed + out),
    "residual_halved": Parts(residual=lambda x, normed, out: x + out / 2),
    "one_norm_for_both": _with({"norm_2": "norm_1"}),
    "gate_and_up_swapped": _with({"gate": "up", "up": "gate"}),
    "values_by_the_key_matrix": _with({"value": "key"}),
    "heads_joined_backwards": Parts(weights=lambda weights: weights | {"output": weights["output"][::-1]}),
    "layers_reversed": _ordered(lambda array: array[::-1]),
    "first_layer_twice": _ordered(lambda array: jnp.stack([array[0]] * array.shape[0])),
}

_LAYERS = {
    "norm_1": Arg(shape=("layers", "embed"), values=Normal(scale=0.1, offset=1.0)),
    "query": Arg(shape=("layers", "embed", "heads", "width"), values=Normal(scale=0.03)),
    "key": Arg(shape=("layers", "embed", "groups", "width"), values=Normal(scale=0.03)),
    "value": Arg(shape=("layers", "embed", "groups", "width"), values=Normal(scale=0.03)),
    "output": Arg(shape=("layers", "heads", "width", "embed"), values=Normal(scale=0.03)),
    "norm_2": Arg(shape=("layers", "embed"), values=Normal(scale=0.1, offset=1.0)),
    "router": Arg(shape=("layers", "embed", "experts"), values=Normal(scale=0.1)),
    "gate": Arg(shape=("layers", "experts", "embed", "hidden"), values=Normal(scale=0.03)),
    "up": Arg(shape=("layers", "experts", "embed", "hidden"), values=Normal(scale=0.03)),
    "down": Arg(shape=("layers", "experts", "hidden", "embed"), values=Normal(scale=0.03)),
}

DECODER = specimen(
    "mathematics_decoder",
    reference=_decoder(_PLAIN),
    rewrites={
        "blocks": _decoder(_BLOCKS),
        "products_scanned": _decoder(_PRODUCTS, _scanned),
        "plain_rematerialised": _decoder(_PLAIN, _rematerialised),
        "plain_scanned": _decoder(_PLAIN, _scanned),
    },
    faults={name: _decoder(parts) for name, parts in PART_FAULTS.items()},
    args={"x": Arg(shape=("batch", "seq", "embed")), **_LAYERS},
    # These ids give inputs without near ties in the routing, as in `experts`.
    cases=(
        Case(id="one_deep", sizes=SIZES | {"layers": 1}, statics={"top": 2}),
        Case(id="pair_of_layers", sizes=SIZES | {"layers": 2}, statics={"top": 2}),
    ),
)


# --- a training step -------------------------------------------------------------------------------------------------

_PARAMS = {
    "embedding": Arg(shape=("vocab", "embed"), values=Normal(scale=0.1)),
    **_LAYERS,
    "norm_out": Arg(shape=("embed",), values=Normal(scale=0.1, offset=1.0)),
    "head": Arg(shape=("embed", "vocab"), values=Normal(scale=0.03)),
}


def _train_step(
    parts: Parts = _PLAIN,
    stack: Stack = _looped,
    *,
    loss: Function = cross_entropy,
    rule: Update = update,
    embed: Callable[[Array, Array], Array] = lambda table, tokens: table[tokens],
    balance: float = 1.0,
) -> Function:
    """Embedding, layers, loss, gradients and AdamW; the moments of parameter `p` are `m_p` and `v_p`."""

    def train_step(
        tokens: Array, mask: Array, step: Array, *, top: int, rate: float, clip: float, **arrays: Array
    ) -> dict[str, Any]:
        params = {name: arrays[name] for name in _PARAMS}

        def loss_of(params: Weights) -> Array:
            x = embed(params["embedding"], tokens)
            found = _decoder(parts, stack)(x, top=top, **{name: params[name] for name in _LAYERS})
            out = parts.normalise(found["out"], params["norm_out"], epsilon=1e-6, scale_offset=0.0)
            of_tokens = loss(out, params["head"], tokens, mask, z_weight=1e-4)["loss"]
            total: Array = of_tokens + balance * found["balance"]
            return total

        value, gradients = jax.value_and_grad(loss_of)(params)
        moments = ({name: arrays[f"{kind}_{name}"] for name in _PARAMS} for kind in ("m", "v"))
        trees = (dict(zip(tree, wide(*tree.values()), strict=True)) for tree in (params, gradients, *moments))
        found = rule(*trees, step, rate=rate, clip=clip, decay=0.1)
        new = [{name: array.astype(params[name].dtype) for name, array in tree.items()} for tree in found]
        return {"loss": value, "params": new[0], "m": new[1], "v": new[2]}

    return train_step


def _by_one_hot(table: Array, tokens: Array) -> Array:
    hot: Array = jax.nn.one_hot(tokens, table.shape[0], dtype=table.dtype)
    return jnp.einsum("bsv,vd->bsd", hot, table)


TRAIN_STEP = specimen(
    "mathematics_train_step",
    reference=_train_step(),
    rewrites={
        "rewritten": _train_step(
            _BLOCKS, _scanned_rematerialised, loss=LOSS.rewrites["handwritten"], rule=flat, embed=_by_one_hot
        )
    },
    faults={
        **{f"layer_{name}": _train_step(PART_FAULTS[name]) for name in ("norm_epsilon_ten_times", "layers_reversed")},
        **{
            f"loss_{name}": _train_step(loss=LOSS.faults[name])
            for name in ("z_missing", "gradient_of_z_without_two", "epsilon_in_the_count", "mask_not_shifted")
        },
        **{
            f"adamw_{name}": _train_step(rule=ADAMW_FAULTS[name])
            for name in ("clip_of_each_leaf", "correction_missing", "epsilon_inside_the_root", "decay_of_bias")
        },
        "balance_not_in_the_loss": _train_step(balance=0.0),
        "gradient_of_embedding_dropped": _train_step(embed=lambda table, tokens: jax.lax.stop_gradient(table[tokens])),
    },
    args={
        "tokens": Arg(shape=("batch", "seq"), values=Integers(high=SIZES["vocab"])),
        "mask": Arg(shape=("batch", "seq"), values=Integers(high=2)),
        "step": Arg(shape=(), values=Integers(low=100, high=101)),
        **_PARAMS,
        **{f"m_{name}": Arg(shape=arg.shape, values=Normal(scale=0.003)) for name, arg in _PARAMS.items()},
        **{f"v_{name}": Arg(shape=arg.shape, values=second_moments) for name, arg in _PARAMS.items()},
    },
    cases=(Case(id="stack", sizes=SIZES | {"layers": 2}, statics={"top": 2, "rate": 1e-3, "clip": 1.0}),),
    gradients=False,
)

SPECIMENS = (DECODER, TRAIN_STEP)
