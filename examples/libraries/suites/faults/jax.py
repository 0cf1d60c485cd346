"""Slips in the pairs over jax."""

from __future__ import annotations

from typing import Any

from samebits import Fault, Request


def _fault(pair: str, side: str, name: str, old: str, new: str, **where: Any) -> Fault:
    request = Request(**{"dtypes": ("float32",), **where})
    return Fault(name=name, pair=pair, side=side, old=old, new=new, request=request)


FAULTS = (
    _fault("jax_gelu", "by_erf", "another scale", "np.sqrt(0.5)", "np.sqrt(2.0)"),
    _fault(
        "jax_softmax", "by_log_softmax", "over another axis", "jax.nn.log_softmax(x)", "jax.nn.log_softmax(x, axis=0)"
    ),
    _fault("jax_softmax", "by_logsumexp", "the sum over another axis", "axis=-1, keepdims", "axis=0, keepdims"),
    _fault("jax_logsumexp", "plain", "powers of 2", "jnp.exp(a)", "jnp.exp2(a)"),
    _fault("jax_relu", "where", "zero counts as positive", "x > 0", "x >= 0"),
    _fault("jax_silu", "quotient", "the sign of the exponent", "jnp.exp(-x)", "jnp.exp(x)"),
    _fault("jax_silu", "by_tanh", "half of the argument forgotten", "jnp.tanh(0.5 * x)", "jnp.tanh(x)"),
    _fault("jax_softplus", "by_log_sigmoid", "the sign of the argument", "log_sigmoid(-x)", "log_sigmoid(x)"),
    _fault("jax_take", "one_hot", "ids off by one", "one_hot(ids,", "one_hot(ids + 1,", cases=("inside",)),
    _fault(
        "jax_einsum", "dot_general", "axes of batch and heads swapped", "transpose(0, 2, 1, 3)", "transpose(2, 0, 1, 3)"
    ),
    _fault("jax_einsum", "per_head", "heads in reverse", "(x, kernel)\n\n\nPAIR", "(x, kernel[:, ::-1])\n\n\nPAIR"),
    _fault("jax_cumsum", "scan", "exclusive", "(total + row,) * 2", "(total + row, total)"),
    _fault("jax_cumsum", "triangle", "exclusive", "jnp.tri(len(x),", "jnp.tri(len(x), k=-1,"),
    _fault("jax_cumsum", "associative_scan", "from the end", "jnp.add, x)", "jnp.add, x, reverse=True)"),
    _fault(
        "jax_top_k",
        "by_sort",
        "ties in reverse",
        "jnp.argsort(x, axis=-1, descending=True, stable=True)",
        "jnp.argsort(x, axis=-1)[..., ::-1]",
    ),
    _fault(
        "jax_ragged_dot",
        "masked",
        "group sizes in reverse",
        "one_hot(group_of_row(len(lhs), group_sizes)",
        "one_hot(group_of_row(len(lhs), group_sizes[::-1])",
    ),
    _fault("jax_ragged_dot", "gathered", "kernels in reverse", "rhs[group_of_row", "rhs[::-1][group_of_row"),
    _fault(
        "jax_conv",
        "by_patches",
        "a convolution for a correlation",
        "kernel.reshape(",
        "kernel[..., ::-1, ::-1].reshape(",
    ),
    _fault(
        "jax_attention", "formula", "looks one token ahead", "jnp.tri(query.shape[1],", "jnp.tri(query.shape[1], k=1,"
    ),
    _fault("jax_attention", "formula", "divided by the head dimension", "query.shape[-1] ** 0.5", "query.shape[-1]"),
    _fault(
        "jax_variance",
        "square_of_deviation",
        "one degree of freedom less",
        "jnp.std(x, axis=-1)",
        "jnp.std(x, axis=-1, ddof=1)",
    ),
    _fault("jax_roll", "concatenate", "in the other direction", "[x[-3:], x[:-3]]", "[x[3:], x[:3]]"),
    _fault("jax_roll", "gather", "one row less", "jnp.arange(len(x)) - 3", "jnp.arange(len(x)) - 2"),
    _fault("jax_sort", "by_argsort", "the order of another axis", "jnp.argsort(a, axis=-1)", "jnp.argsort(a, axis=0)"),
    _fault("jax_sort", "by_top_k", "descending", "-lax.top_k(-a, a.shape[-1])", "lax.top_k(a, a.shape[-1])"),
    _fault("jax_segment_sum", "scatter_add", "the last row of a segment only", ".add(data)", ".set(data)"),
    _fault(
        "jax_map",
        "vmapped",
        "tanh before the product",
        "jax.vmap(lambda row: jnp.tanh(row @ kernel))",
        "jax.vmap(lambda row: jnp.tanh(row) @ kernel)",
    ),
)
