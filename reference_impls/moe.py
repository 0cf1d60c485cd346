"""A mixture of experts in which every expert processes every token, and experts not chosen have weight zero.

Source: Shazeer et al., "Outrageously Large Neural Networks", arXiv 1701.06538, section 2 (equation 1); SwiGLU as in
arXiv 2002.05202, equation 6. Routing: `softmax` as in Mixtral, arXiv 2401.04088, section 2.1; `sigmoid` and
`group_limited` as in DeepSeek-V3, arXiv 2412.19437, sections 2.1.2 and 2.1.3 (equations 12 to 16). The balance loss:
Switch Transformers, arXiv 2101.03961, equation 4, per sequence as in DeepSeek-V3, equations 17 to 20.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

ROUTINGS = ("softmax", "sigmoid", "group_limited", "random")

GroupedMatmul = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]
WeightSum = Callable[[jax.Array, jax.Array], jax.Array]


def dense(
    x: jax.Array,
    router: jax.Array,
    bias: jax.Array,
    w_gate: jax.Array,
    w_up: jax.Array,
    w_down: jax.Array,
    *,
    top_k: int,
    routing: str = "softmax",
    groups: int = 1,
    top_groups: int = 1,
    scaling: float = 1.0,
    seed: int = 0,
    grouped_matmul: GroupedMatmul | None = None,
    weight_sum: WeightSum | None = None,
) -> dict[str, jax.Array]:
    """The weighted answers of each token's `top_k` experts, and the loss that asks for a balanced load.

    Equivalent to

        logits = x @ router
        softmax:       values, ids = top_k(logits); weights = softmax(values)
        sigmoid:       ids = top_k(sigmoid(logits) + bias); values = sigmoid(logits)[ids]
                       weights = values / (sum(values) + 1e-20) * scaling
        group_limited: as sigmoid, but only from the `top_groups` groups whose two best `sigmoid(logits) + bias` have
                       the largest sums
        random:        ids drawn with replacement, from `seed` and the token's place in the whole batch;
                       weights = softmax(logits)[ids]
        out = sum(weights[k] * (silu(x @ w_gate[e]) * (x @ w_up[e])) @ w_down[e] for k, e in enumerate(ids))
        share[b, e] = mean over the sequence of how often e is among the ids of a token
        balance_loss = mean over b and e of (share * mean over the sequence of softmax(logits)) * experts**2 / top_k

    so that a balanced load has a loss of 1. An expert drawn twice by a token counts twice. Of equals the expert with
    the lower number is taken.

    Logits, weights and the balance loss are computed in at least float32; products with the experts' kernels take the
    dtype of `x` and are summed in at least float32. Rounded to the dtype of `x` are, once each: the hidden numbers
    `silu(..) * (..)`, each expert's answer, and the weighted sum.

    Args:
        x: `[batch, seq, embed]`, floating point, finite; split over `data`, `fsdp`, `expert`, and over `context`.
        router: `[embed, experts]`, floating point.
        bias: float32 `[experts]`; decides who is chosen in `sigmoid` and `group_limited`, has no gradient.
        w_gate, w_up: `[experts, embed, hidden]`; split over `expert`, and the last dimension over `tensor`.
        w_down: `[experts, hidden, embed]`; split over `expert` and `tensor`.
        top_k: how many experts a token asks.
        routing: `softmax`, `sigmoid`, `group_limited` or `random`.
        groups: into how many groups of equal size the experts are cut, for `group_limited`.
        top_groups: of how many of them a token may ask experts.
        scaling: a factor on the weights of `sigmoid` and `group_limited`.
        seed: of the experts drawn by `random`; they are drawn while tracing, and a constant of the program.
        grouped_matmul: `(rows [n, D], kernels [experts, D, F], sizes int32 [experts]) -> [n, F]` in place of the
            products here; it gets every token once for every expert.
        weight_sum: `(rows [tokens, n, D], weights [tokens, n]) -> [tokens, D]` in place of the sum here; it gets the
            answers of all experts.

    Returns:
        {"out": `[batch, seq, embed]`, dtype of `x`, split as `x` is; "balance_loss": a number, at least float32}.

    Raises:
        ValueError: an unknown routing, sizes that do not fit, groups that do not divide, or more chosen than there are.
    """
    _check(x, router, bias, w_gate, w_up, w_down, top_k, routing, groups, top_groups)
    wide = jnp.promote_types(x.dtype, jnp.float32)
    experts = router.shape[1]

    def product(rows: jax.Array, kernels: jax.Array) -> jax.Array:
        """Rows of every expert, `[batch, seq, experts, ...]`, by its own kernel."""
        kernels = kernels.astype(x.dtype)
        if grouped_matmul is None:
            return jnp.einsum("bsed,edf->bsef", rows.astype(wide), kernels.astype(wide))
        by_expert = jnp.moveaxis(rows, 2, 0)
        sizes = jnp.full(experts, x.shape[0] * x.shape[1], jnp.int32)
        found = grouped_matmul(by_expert.reshape(-1, rows.shape[3]), kernels, sizes)
        return jnp.moveaxis(found.reshape(*by_expert.shape[:3], -1), 0, 2).astype(wide)

    def layer(
        x: jax.Array, router: jax.Array, bias: jax.Array, w_gate: jax.Array, w_up: jax.Array, w_down: jax.Array
    ) -> dict[str, jax.Array]:
        # Experts that are almost as good must not change places on hardware that rounds factors to bfloat16.
        logits = jnp.einsum("bsd,de->bse", x.astype(wide), router.astype(wide), precision="highest")
        ids, weights = _routed(logits, bias, top_k, routing, groups, top_groups, scaling, seed)
        chosen = ids[..., None] == jnp.arange(experts)  # [batch, seq, top_k, experts]

        tokens = jnp.broadcast_to(x[:, :, None], (*x.shape[:2], experts, x.shape[2]))
        hidden = jax.nn.silu(product(tokens, w_gate)) * product(tokens, w_up)
        answers = product(hidden.astype(x.dtype), w_down).astype(x.dtype)
        shares = jnp.sum(jnp.where(chosen, weights[..., None], 0), axis=2)
        if weight_sum is None:
            out = jnp.einsum("bsed,bse->bsd", answers.astype(wide), shares)
        else:
            out = weight_sum(answers.reshape(-1, *answers.shape[2:]), shares.reshape(-1, experts)).reshape(x.shape)

        asked = jnp.mean(jnp.sum(chosen, axis=2).astype(wide), axis=1)
        likely = jnp.mean(jax.nn.softmax(logits, axis=-1), axis=1)
        return {
            "out": out.astype(x.dtype),
            "balance_loss": jnp.mean(asked * likely) * (experts**2 / top_k),
        }

    # Experts are split over devices: where shardings are part of types, the compiler places the sums over them.
    places = {"out": PartitionSpec(*jax.typeof(x).sharding.spec), "balance_loss": PartitionSpec()}
    return jax.sharding.auto_axes(layer, out_sharding=places)(x, router, bias, w_gate, w_up, w_down)


def _routed(
    logits: jax.Array,
    bias: jax.Array,
    top_k: int,
    routing: str,
    groups: int,
    top_groups: int,
    scaling: float,
    seed: int,
) -> tuple[jax.Array, jax.Array]:
    """The experts of each token, and the weights of their answers, `[batch, seq, top_k]` each."""
    experts = logits.shape[-1]
    if routing == "softmax":
        values, ids = jax.lax.top_k(logits, top_k)
        return ids, jax.nn.softmax(values, axis=-1)
    if routing == "random":
        # By NumPy: a constant of the program, whose drawing is not compiled.
        drawn = np.random.default_rng(seed).integers(0, experts, (*logits.shape[:2], top_k), np.int32)
        ids = jnp.asarray(drawn)
        return ids, jnp.take_along_axis(jax.nn.softmax(logits, axis=-1), ids, axis=-1)
    scores = jax.nn.sigmoid(logits)
    biased = scores + bias
    if routing == "group_limited":
        by_group = biased.reshape(*logits.shape[:2], groups, -1)
        best = jax.lax.top_k(jnp.sum(jax.lax.top_k(by_group, 2)[0], axis=-1), top_groups)[1]
        eligible = jnp.any(best[..., None] == jnp.arange(groups), axis=-2)
        biased = jnp.where(jnp.repeat(eligible, experts // groups, axis=-1), biased, -jnp.inf)
    ids = jax.lax.top_k(biased, top_k)[1]
    values = jnp.take_along_axis(scores, ids, axis=-1)
    return ids, values / (jnp.sum(values, axis=-1, keepdims=True) + 1e-20) * scaling


def _check(
    x: jax.Array,
    router: jax.Array,
    bias: jax.Array,
    w_gate: jax.Array,
    w_up: jax.Array,
    w_down: jax.Array,
    top_k: int,
    routing: str,
    groups: int,
    top_groups: int,
) -> None:
    if routing not in ROUTINGS:
        raise ValueError(f"routing is {routing!r}; expected one of {', '.join(ROUTINGS)}")
    if x.ndim != 3 or router.ndim != 2 or router.shape[0] != x.shape[2] or bias.shape != router.shape[1:]:
        raise ValueError(
            f"x, router and bias have shapes {x.shape}, {router.shape} and {bias.shape}; expected [batch, seq, embed], "
            "[embed, experts], [experts]"
        )
    up, down = (router.shape[1], x.shape[2], w_gate.shape[-1]), (router.shape[1], w_gate.shape[-1], x.shape[2])
    if not (w_gate.shape == w_up.shape == up and w_down.shape == down):
        raise ValueError(
            f"w_gate, w_up and w_down have shapes {w_gate.shape}, {w_up.shape} and {w_down.shape}; expected {up}, "
            f"{up}, {down}"
        )
    experts, room = router.shape[1], router.shape[1]
    if routing == "group_limited":
        if groups < 1 or experts % groups or experts // groups < 2:
            raise ValueError(f"groups is {groups}; expected a divisor of {experts} experts that leaves two to a group")
        if not 1 <= top_groups <= groups:
            raise ValueError(f"top_groups is {top_groups}; expected 1 to {groups}")
        room = experts // groups * top_groups
    if top_k < 1 or (top_k > room and routing != "random"):
        raise ValueError(f"top_k is {top_k}; expected 1 to {room}, the experts that a token may choose from")
