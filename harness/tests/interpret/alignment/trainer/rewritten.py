"""The functions of `reference.py` in the forms that people replace them by; the slips are planted into this file."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P


def rms_norm(x: Any, scale: Any) -> Any:
    square = jnp.square(x)
    variance = square.sum(-1, keepdims=True) / x.shape[-1]
    inverse = jax.lax.rsqrt(variance + 1e-6)
    return x * inverse * scale


def layer_norm(x: Any, scale: Any, bias: Any) -> Any:
    mean = jnp.mean(x, -1, keepdims=True)
    second = jnp.mean(jnp.square(x), -1, keepdims=True)
    variance = second - jnp.square(mean)
    normal = (x - mean) * jax.lax.rsqrt(variance + 1e-5)
    return scale * normal + bias


def rope(x: Any, positions: Any) -> Any:
    half = x.shape[-1] // 2
    exponent = jnp.arange(half) / half
    frequency = 1.0 / 10000.0**exponent
    angle = jnp.einsum("bt,f->btf", positions, frequency)[:, :, None]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    first, second = jnp.split(x, 2, -1)
    low = first * cos - second * sin
    high = second * cos + first * sin
    return jnp.concatenate([low, high], -1)


def attention(q: Any, k: Any, v: Any) -> Any:
    batch, length, heads, width = q.shape
    groups = k.shape[2]
    q = q.reshape(batch, length, groups, heads // groups, width)
    q = q * width**-0.5
    scores = jnp.einsum("bqgrd,bkgd->bgrqk", q, k)
    scores = jnp.tanh(scores / 30.0) * 30.0
    row = jax.lax.broadcasted_iota(jnp.int32, (length, length), 0)
    column = jax.lax.broadcasted_iota(jnp.int32, (length, length), 1)
    causal = row >= column
    near = row < column + 3
    scores = jnp.where(causal & near, scores, -1e30)
    top = jax.lax.stop_gradient(scores.max(-1, keepdims=True))
    exponents = jnp.exp(scores - top)
    total = exponents.sum(-1)
    out = jnp.einsum("bgrqk,bkgd->bqgrd", exponents, v)
    out = out / total.transpose(0, 3, 1, 2)[..., None]
    return out.reshape(batch, length, heads, width)


def moe(x: Any, router: Any, w_in: Any, w_out: Any) -> Any:
    logits = jnp.einsum("td,de->te", x, router)
    probabilities = jax.nn.softmax(logits, axis=-1)
    weights, chosen = jax.lax.top_k(probabilities, 2)
    total = jnp.sum(weights, -1, keepdims=True)
    weights = weights / total
    mine = jax.nn.one_hot(chosen, router.shape[1])
    combine = jnp.einsum("tk,tke->te", weights, mine)
    hidden = jnp.einsum("td,edf->tef", x, w_in)
    hidden = hidden * jax.nn.sigmoid(hidden)
    out = jnp.einsum("tef,efd->ted", hidden, w_out)
    out = jnp.einsum("te,ted->td", combine, out)
    load = mine.sum((0, 1)) / x.shape[0]
    share = jnp.mean(probabilities, 0)
    balance = jnp.sum(load * share) * router.shape[1]
    return out, balance


def cross_entropy(logits: Any, labels: Any, mask: Any) -> Any:
    top = jax.lax.stop_gradient(logits.max(-1, keepdims=True))
    log_z = jnp.log(jnp.exp(logits - top).sum(-1)) + top[:, 0]
    hot = jax.nn.one_hot(labels, logits.shape[-1])
    right = jnp.sum(logits * hot, -1)
    loss = log_z - right
    loss = loss + 1e-4 * jnp.square(log_z)
    loss = loss * mask
    return jnp.sum(loss) / jnp.sum(mask)


def adamw(w: Any, g: Any, m: Any, v: Any) -> Any:
    m = m + 0.1 * (g - m)
    v = 0.95 * v + 0.05 * jnp.square(g)
    m_hat = m / (1 - 0.9**3)
    v_hat = v / (1 - 0.95**3)
    root = jnp.sqrt(v_hat)
    update = m_hat / (root + 1e-8)
    update = update + 0.1 * w
    return w - 3e-4 * update, m, v


def clipped(g: Any, w: Any) -> Any:
    squares = [jnp.vdot(leaf, leaf) for leaf in (g, w)]
    norm = jnp.sqrt(sum(squares))
    factor = jnp.where(norm > 0.5, 0.5 / norm, 1.0)
    return jax.tree.map(lambda leaf: factor * leaf, (g, w))


def lora(x: Any, w: Any, a: Any, b: Any) -> Any:
    scale = 16.0 / a.shape[1]
    merged = w + scale * (a @ b)
    return jnp.einsum("td,df->tf", x, merged)


def quantised(x: Any, w: Any) -> Any:
    largest = jnp.abs(w).max(0, keepdims=True)
    scale = largest / 127.0
    whole = jnp.round(w / scale)
    whole = jnp.clip(whole, -127, 127)
    product = x @ whole
    return product * scale


def layers(x: Any, w: Any, scale: Any) -> Any:
    def body(x: Any, parameters: Any) -> Any:
        weight, factor = parameters
        h = rms_norm(x, factor)
        h = jnp.tanh(h @ weight)
        return x + 0.5 * h, None

    return jax.lax.scan(body, x, (w, scale))[0]


def accumulated(w: Any, x: Any, y: Any) -> Any:
    def loss(w: Any, x: Any, y: Any) -> Any:
        error = jnp.tanh(x @ w) - y
        return jnp.sum(jnp.square(error)) / error.size

    def body(total: Any, batch: Any) -> Any:
        gradient = jax.grad(loss)(w, *batch)
        return total + gradient / 2, None

    batches = x.reshape(2, -1, x.shape[-1]), y.reshape(2, -1, y.shape[-1])
    start = jnp.zeros_like(w)
    total, _ = jax.lax.scan(body, start, batches)
    return total


@jax.custom_vjp
def gated(a: Any, b: Any) -> Any:
    return a * jax.nn.sigmoid(a) * b


def gated_forward(a: Any, b: Any) -> Any:
    return gated(a, b), (a, b)


def gated_backward(saved: Any, ct: Any) -> Any:
    a, b = saved
    s = jax.nn.sigmoid(a)
    slope = s + a * s * (1 - s)
    return ct * b * slope, ct * a * s


gated.defvjp(gated_forward, gated_backward)


def swiglu(x: Any, gate: Any, up: Any) -> Any:
    both = x @ jnp.concatenate([gate, up], 1)
    a, b = jnp.split(both, 2, 1)
    return gated(a, b)


MESH = AbstractMesh((2, 2), ("data", "tensor"), axis_types=(AxisType.Auto,) * 2)


def mlp(x: Any, w_in: Any, w_out: Any) -> Any:
    specs = (P("data"), P(None, "tensor"), P("tensor"))

    @functools.partial(jax.shard_map, mesh=MESH, in_specs=specs, out_specs=P("data"), check_vma=False)
    def local(x: Any, w_in: Any, w_out: Any) -> Any:
        hidden = x @ w_in
        hidden = jax.nn.gelu(hidden, approximate=True)
        part = hidden @ w_out
        return jax.lax.psum(part, "tensor")

    return local(x, w_in, w_out)


def prefix(x: Any, decay: Any) -> Any:
    keep = jax.nn.sigmoid(decay)

    def body(t: Any, carry: Any) -> Any:
        state, states = carry
        state = keep * state + (1 - keep) * x[t]
        states = states.at[t].set(state)
        return state, states

    start = (jnp.zeros_like(x[0]), jnp.zeros_like(x))
    return jax.lax.fori_loop(0, x.shape[0], body, start)[1]


def distill(student: Any, teacher: Any) -> Any:
    target = jax.nn.softmax(teacher / 2.0, -1)
    target = jax.lax.stop_gradient(target)
    log_p = student / 2.0
    log_p = log_p - jax.scipy.special.logsumexp(log_p, -1, keepdims=True)
    soft = -jnp.sum(target * log_p) / student.shape[0]
    error = student - teacher
    return soft + 0.1 * jnp.mean(jnp.square(error))
