"""A mixture of experts with SwiGLU: every expert on every token, only the chosen ones, and tokens sorted by expert.

Source: Shazeer, "GLU Variants Improve Transformer", 2020 (arXiv 2002.05202), equation 6; Fedus et al., "Switch
Transformers", 2021 (arXiv 2101.03961), equation 4, for the balance loss; weights renormalised over the chosen experts
as in Mixtral (arXiv 2401.04088), section 2.1.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from samebits.schema.case import Arg, Case
from samebits.schema.values import Normal
from tests.prove.mathematics.specimen import Array, Function, specimen, wide

SIZES = {"tokens": 16, "embed": 16, "hidden": 32, "experts": 4}

Output = dict[str, Array]
Routing = tuple[Array, Array, Array]
"""The probability of each expert `[tokens, experts]`; weight and number of each chosen expert `[tokens, top]`."""
Activation = Callable[[Array, Array], Array]


def experts(x: Array, router: Array, gate: Array, up: Array, down: Array, *, top: int, balance: float) -> Output:
    """The weighted outputs of each token's `top` experts, and the loss that asks for a balanced load.

    Every expert runs on every token; the weights of those not chosen are zero.
    """
    tokens, to_expert, to_gate, to_up, to_out = wide(x, router, gate, up, down)
    count = router.shape[1]
    probabilities = jax.nn.softmax(tokens @ to_expert, axis=-1)
    weights, chosen = jax.lax.top_k(probabilities, top)
    weights = weights / jnp.sum(weights, axis=-1, keepdims=True)
    one_hot = jax.nn.one_hot(chosen, count, dtype=tokens.dtype)
    hidden = jax.nn.silu(jnp.einsum("td,edh->teh", tokens, to_gate)) * jnp.einsum("td,edh->teh", tokens, to_up)
    out = jnp.einsum("tk,tke,teh,ehd->td", weights, one_hot, hidden, to_out)
    share = jnp.mean(one_hot, axis=(0, 1))
    return {"out": out.astype(x.dtype), "balance": balance * count * jnp.sum(share * jnp.mean(probabilities, axis=0))}


# --- the same in steps, each of which can be replaced ----------------------------------------------------------------


def _route(logits: Array, top: int) -> Routing:
    """The softmax of the chosen logits: what renormalising the chosen probabilities comes to."""
    values, chosen = jax.lax.top_k(logits, top)
    return jax.nn.softmax(logits, axis=-1), jax.nn.softmax(values, axis=-1), chosen


def _route_by_maximum(logits: Array, top: int) -> Routing:
    """The largest again and again, each taken out of the running by -inf."""
    probabilities, left, picked = jax.nn.softmax(logits, axis=-1), logits, []
    for _ in range(top):
        picked.append(jnp.argmax(left, axis=-1))
        left = jnp.where(jnp.arange(logits.shape[-1]) == picked[-1][:, None], -jnp.inf, left)
    chosen = jnp.stack(picked, axis=-1)
    weights = jnp.take_along_axis(probabilities, chosen, axis=-1)
    return probabilities, weights / jnp.sum(weights, axis=-1, keepdims=True), chosen


def _activate(gated: Array, raised: Array) -> Array:
    """SwiGLU with the sigmoid spelled out."""
    return gated / (1 + jnp.exp(-gated)) * raised


def _by_rule(slope: Callable[[Array, Array], Array] = lambda x, s: s + x * s * (1 - s)) -> Activation:
    """SwiGLU with a derivative rule: `slope(x, sigmoid of x)` is that of x sigmoid(x)."""

    @jax.custom_jvp
    def silu(x: Array) -> Array:
        return x * jax.nn.sigmoid(x)

    silu.defjvps(lambda tangent, out, x: slope(x, jax.nn.sigmoid(x)) * tangent)
    return lambda gated, raised: silu(gated) * raised


def _combine(weights: Array, chosen: Array, count: int) -> Array:
    """The weight of every expert for every token, zero where it is not chosen."""
    rows = jnp.arange(chosen.shape[0])[:, None]
    return jnp.zeros((chosen.shape[0], count), weights.dtype).at[rows, chosen].add(weights)


def _balance(probabilities: Array, chosen: Array) -> Array:
    count = probabilities.shape[-1]
    load = jnp.sum(chosen.reshape(-1, 1) == jnp.arange(count), axis=0) / chosen.size
    return count * jnp.vdot(load.astype(probabilities.dtype), jnp.mean(probabilities, axis=0))


Layers = tuple[Array, Array, Array]


def _together(tokens: Array, columns: Array, layers: Layers, activate: Activation) -> Array:
    """All experts in one product each; `columns` are the experts' weights `[tokens, experts]`."""
    to_gate, to_up, to_out = layers
    hidden = activate(*(jnp.einsum("td,edh->eth", tokens, matrix) for matrix in (to_gate, to_up)))
    return jnp.einsum("eth,te,ehd->td", hidden, columns, to_out)


def _looped(tokens: Array, columns: Array, layers: Layers, activate: Activation) -> Array:
    """One expert after another."""
    to_gate, to_up, to_out = layers
    out = jnp.zeros_like(tokens)
    for number in range(columns.shape[1]):
        hidden = activate(tokens @ to_gate[number], tokens @ to_up[number])
        out += columns[:, number, None] * (hidden @ to_out[number])
    return out


def _scanned(tokens: Array, columns: Array, layers: Layers, activate: Activation) -> Array:
    """One expert after another, as a scan."""

    def add(total: Array, expert: tuple[Array, ...]) -> tuple[Array, None]:
        column, to_gate, to_up, to_out = expert
        return total + (column[:, None] * activate(tokens @ to_gate, tokens @ to_up)) @ to_out, None

    out, _ = jax.lax.scan(add, jnp.zeros_like(tokens), (columns.T, *layers))
    return out


def _in_steps(
    *,
    route: Callable[[Array, int], Routing] = _route,
    activate: Activation = _activate,
    combine: Callable[[Array, Array, int], Array] = _combine,
    load: Callable[[Array, Array], Array] = _balance,
    run: Callable[[Array, Array, Layers, Activation], Array] = _together,
) -> Function:
    """A mixture of experts of these steps; without a replacement it is honest."""

    def in_steps(x: Array, router: Array, gate: Array, up: Array, down: Array, *, top: int, balance: float) -> Output:
        tokens, to_expert, to_gate, to_up, to_out = wide(x, router, gate, up, down)
        probabilities, weights, chosen = route(tokens @ to_expert, top)
        out = run(tokens, combine(weights, chosen, router.shape[1]), (to_gate, to_up, to_out), activate)
        return {"out": out.astype(x.dtype), "balance": balance * load(probabilities, chosen)}

    return in_steps


def gathered(x: Array, router: Array, gate: Array, up: Array, down: Array, *, top: int, balance: float) -> Output:
    """Each token fetches the matrices of its experts; gate and up are one product, split afterwards."""
    tokens, to_expert, to_gate, to_up, to_out = wide(x, router, gate, up, down)
    probabilities, weights, chosen = _route_by_maximum(tokens @ to_expert, top)
    both = jnp.einsum("td,tkdh->tkh", tokens, jnp.concatenate([to_gate, to_up], axis=-1)[chosen])
    hidden = _activate(*jnp.split(both, 2, axis=-1)) * weights[..., None]
    out = jnp.einsum("tkh,tkhd->td", hidden, to_out[chosen])
    return {"out": out.astype(x.dtype), "balance": balance * _balance(probabilities, chosen)}


# --- tokens sorted by expert -----------------------------------------------------------------------------------------


def _ragged(rows: Array, matrices: Array, sizes: Array) -> Array:
    """Consecutive groups of rows, each times its own matrix."""
    return jax.lax.ragged_dot(rows, matrices, sizes)


def _masked(rows: Array, matrices: Array, sizes: Array) -> Array:
    """The same with all matrices on all rows and a mask."""
    ends = jnp.cumsum(sizes)
    place = jnp.arange(rows.shape[0])[:, None]
    inside = (place >= ends - sizes) & (place < ends)
    return jnp.einsum("re,rd,edh->rh", inside.astype(rows.dtype), rows, matrices)


def _sorted(
    *,
    multiply: Callable[[Array, Array, Array], Array] = _ragged,
    back: Callable[[Array], Array] = jnp.argsort,
    weigh: Callable[[Array, Array], Array] = lambda weights, order: weights,
    token: Callable[[Array, int], Array] = lambda order, top: order // top,
    size: Callable[[Array], Array] = lambda sizes: sizes,
) -> Function:
    """Copies of the tokens sorted by expert, one matrix per group, and brought back by the inverse order."""

    def sort_by_expert(
        x: Array, router: Array, gate: Array, up: Array, down: Array, *, top: int, balance: float
    ) -> Output:
        tokens, to_expert, to_gate, to_up, to_out = wide(x, router, gate, up, down)
        probabilities, weights, chosen = _route(tokens @ to_expert, top)
        order = jnp.argsort(chosen.reshape(-1))
        sizes = size(jnp.bincount(chosen.reshape(-1), length=router.shape[1]).astype(jnp.int32))
        rows = tokens[token(order, top)]
        hidden = jax.nn.silu(multiply(rows, to_gate, sizes)) * multiply(rows, to_up, sizes)
        unsorted = multiply(hidden, to_out, sizes)[back(order)].reshape(*chosen.shape, -1)
        out = jnp.sum(weigh(weights, order)[..., None] * unsorted, axis=1)
        return {"out": out.astype(x.dtype), "balance": balance * _balance(probabilities, chosen)}

    return sort_by_expert


# --- faults ----------------------------------------------------------------------------------------------------------


def _weighed(change: Callable[[Array, Array, Array], Array]) -> Function:
    """Faults in the weights: `change(logits, numbers of the chosen, honest weights)`."""

    def route(logits: Array, top: int) -> Routing:
        probabilities, weights, chosen = _route(logits, top)
        return probabilities, change(logits, chosen, weights), chosen

    return _in_steps(route=route)


def _of(array: Array, chosen: Array) -> Array:
    return jnp.take_along_axis(array, chosen, axis=-1)


def _probabilities(logits: Array, chosen: Array) -> Array:
    return _of(jax.nn.softmax(logits, axis=-1), chosen)


def _normalised(weights: Array, epsilon: float = 0.0) -> Array:
    return weights / (jnp.sum(weights, axis=-1, keepdims=True) + epsilon)


def _first_choice(probabilities: Array, chosen: Array) -> Array:
    """Only each token's first expert counted."""
    return _balance(probabilities, chosen[:, :1])


EXPERTS = specimen(
    "mathematics_experts",
    reference=experts,
    rewrites={
        "in_steps": _in_steps(),
        "looped": _in_steps(run=_looped, activate=_by_rule()),
        "scanned": _in_steps(run=_scanned),
        "by_maximum": _in_steps(route=_route_by_maximum),
        "gathered": gathered,
        "sorted_ragged": _sorted(),
        "sorted_masked": _sorted(multiply=_masked),
    },
    faults={
        "normalised_before_top": _weighed(lambda logits, chosen, _: _probabilities(logits, chosen)),
        "softmax_of_softmax": _weighed(lambda logits, chosen, _: jax.nn.softmax(_probabilities(logits, chosen))),
        "sigmoid_for_softmax": _weighed(lambda logits, chosen, _: _normalised(jax.nn.sigmoid(_of(logits, chosen)))),
        "epsilon_in_the_weights": _weighed(lambda logits, chosen, _: _normalised(_probabilities(logits, chosen), 1e-6)),
        "weights_of_other_choice": _weighed(lambda logits, chosen, weights: weights[:, ::-1]),
        "weights_equal": _weighed(lambda logits, chosen, weights: jnp.full_like(weights, 1 / weights.shape[1])),
        "weights_squared": _weighed(lambda logits, chosen, weights: _normalised(weights * weights)),
        "gradient_of_router_dropped": _weighed(lambda logits, chosen, weights: jax.lax.stop_gradient(weights)),
        "one_expert_fewer": _in_steps(route=lambda logits, top: _route(logits, top - 1)),
        "experts_shifted": _in_steps(combine=lambda weights, chosen, n: _combine(weights, (chosen + 1) % n, n)),
        "last_expert_idle": _in_steps(combine=lambda weights, chosen, n: _combine(weights, chosen, n).at[:, -1].set(0)),
        "gate_and_up_swapped": _in_steps(activate=lambda gated, raised: _activate(raised, gated)),
        "silu_of_the_product": _in_steps(activate=lambda gated, raised: jax.nn.silu(gated * raised)),
        "gelu_for_silu": _in_steps(activate=lambda gated, raised: jax.nn.gelu(gated) * raised),
        "silu_missing": _in_steps(activate=lambda gated, raised: gated * raised),
        "silu_by_1702": _in_steps(activate=lambda gated, raised: gated * jax.nn.sigmoid(1.702 * gated) * raised),
        "gradient_of_silu_without_slope": _in_steps(activate=_by_rule(lambda x, sigmoid: sigmoid)),
        "gradient_of_silu_slope_squared": _in_steps(activate=_by_rule(lambda x, sigmoid: sigmoid + x * sigmoid**2)),
        "balance_without_count": _in_steps(load=lambda p, chosen: _balance(p, chosen) / p.shape[-1]),
        "balance_times_top": _in_steps(load=lambda p, chosen: _balance(p, chosen) * chosen.shape[-1]),
        "balance_of_first_choice": _in_steps(load=_first_choice),
        "balance_gradient_dropped": _in_steps(load=lambda p, chosen: _balance(jax.lax.stop_gradient(p), chosen)),
        "unsort_missing": _sorted(back=lambda order: jnp.arange(order.size)),
        "unsort_by_order": _sorted(back=lambda order: order),
        "weights_sorted": _sorted(weigh=lambda weights, order: weights.reshape(-1)[order].reshape(weights.shape)),
        "token_of_wrong_copy": _sorted(token=lambda order, top: order % (order.size // top)),
        "group_sizes_rolled": _sorted(size=lambda sizes: jnp.roll(sizes, 1)),
    },
    args={
        "x": Arg(shape=("tokens", "embed")),
        "router": Arg(shape=("embed", "experts"), values=Normal(scale=0.1)),
        "gate": Arg(shape=("experts", "embed", "hidden"), values=Normal(scale=0.03)),
        "up": Arg(shape=("experts", "embed", "hidden"), values=Normal(scale=0.03)),
        "down": Arg(shape=("experts", "hidden", "embed"), values=Normal(scale=0.03)),
    },
    # These ids give inputs without near ties, which no proof decides: the ids seed them.
    cases=(
        Case(id="half", sizes=SIZES, statics={"top": 2, "balance": 0.01}),
        Case(id="all_but_one", sizes=SIZES, statics={"top": 3, "balance": 0.01}),
    ),
)

SPECIMENS = (EXPERTS,)
