"""One step of AdamW with clipping by the global norm, on a kernel that decays and a bias that does not.

Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2017 (arXiv 1711.05101), algorithm 2; Kingma
and Ba, "Adam", 2014 (arXiv 1412.6980), end of section 2 for the factored bias correction; Pascanu et al., "On the
difficulty of training recurrent neural networks", 2012 (arXiv 1211.5063), algorithm 1 for the clipping.
"""

import importlib.util
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from samebits.schema.case import Arg, Case
from samebits.schema.values import Integers, Normal
from tests.prove.mathematics.specimen import Array, Function, specimen, wide

SIZES = {"rows": 32, "columns": 16}
B1, B2, EPSILON = 0.9, 0.95, 1e-8

Tree = dict[str, Array]
State = tuple[Tree, Tree, Tree]
"""Parameters, first moments and second moments."""
Update = Callable[..., State]


def update(
    params: Tree, gradients: Tree, m: Tree, v: Tree, step: Array, *, rate: float, clip: float, decay: float
) -> State:
    """The parameters and moments after update number `step`, counted from 1; matrices decay, vectors do not."""
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(gradient)) for gradient in gradients.values()))
    factor = jnp.where(norm > clip, clip / norm, 1)
    for name, param in params.items():
        gradient = gradients[name] * factor
        m = m | {name: B1 * m[name] + (1 - B1) * gradient}
        v = v | {name: B2 * v[name] + (1 - B2) * jnp.square(gradient)}
        m_hat, v_hat = m[name] / (1 - _power(B1, step, param)), v[name] / (1 - _power(B2, step, param))
        change = m_hat / (jnp.sqrt(v_hat) + EPSILON)
        if param.ndim > 1:
            change = change + decay * param
        params = params | {name: param - rate * change}
    return params, m, v


def _power(base: float, step: Array, like: Array) -> Array:
    return jnp.power(jnp.asarray(base, like.dtype), step)


def _component(update: Update) -> Function:
    """A rule for trees as a function of a kernel and a bias."""

    def adamw(
        kernel: Array,
        bias: Array,
        to_kernel: Array,
        to_bias: Array,
        kernel_m: Array,
        bias_m: Array,
        kernel_v: Array,
        bias_v: Array,
        step: Array,
        *,
        rate: float,
        clip: float,
        decay: float,
    ) -> dict[str, Tree]:
        pairs = ((kernel, bias), (to_kernel, to_bias), (kernel_m, bias_m), (kernel_v, bias_v))
        trees = (dict(zip(("kernel", "bias"), wide(*pair), strict=True)) for pair in pairs)
        found = update(*trees, step, rate=rate, clip=clip, decay=decay)
        narrow = [{name: array.astype(kernel.dtype) for name, array in tree.items()} for tree in found]
        return dict(zip(("params", "m", "v"), narrow, strict=True))

    return adamw


# --- rewrites --------------------------------------------------------------------------------------------------------


def flat(
    params: Tree, gradients: Tree, m: Tree, v: Tree, step: Array, *, rate: float, clip: float, decay: float
) -> State:
    """All leaves as one vector."""
    wd = jnp.concatenate(
        [jnp.full(param.size, decay if param.ndim > 1 else 0, param.dtype) for param in params.values()]
    )
    w, g, m1, v1 = (jnp.concatenate([tree[name].ravel() for name in params]) for tree in (params, gradients, m, v))
    g = g * (clip / jnp.maximum(jnp.sqrt(jnp.vdot(g, g)), clip))
    m1, v1 = m1 * B1 + g * (1 - B1), v1 * B2 + (g * (1 - B2)) * g
    root = EPSILON + jnp.sqrt(v1 / (1 - _power(B2, step, w)))
    w = w * (1 - rate * wd) - rate * m1 / ((1 - _power(B1, step, w)) * root)
    return _split(w, params), _split(m1, params), _split(v1, params)


def _split(vector: Array, like: Tree) -> Tree:
    found, start = {}, 0
    for name, array in like.items():
        found[name] = vector[start : start + array.size].reshape(array.shape)
        start += array.size
    return found


def _optax() -> dict[str, Function]:
    """The public implementation, where it is installed."""
    if importlib.util.find_spec("optax") is None:
        return {}

    def of_optax(
        params: Tree, gradients: Tree, m: Tree, v: Tree, step: Array, *, rate: float, clip: float, decay: float
    ) -> State:
        optax: Any = importlib.import_module("optax")
        clipping = optax.clip_by_global_norm(clip)
        decaying = {name: array.ndim > 1 for name, array in params.items()}
        rule = optax.adamw(rate, b1=B1, b2=B2, eps=EPSILON, weight_decay=decay, mask=decaying)
        adam, *others = rule.init(params)
        clipped, _ = clipping.update(gradients, clipping.init(params))
        # optax counts the updates that were made before this one.
        state = (adam._replace(count=step - 1, mu=m, nu=v), *others)
        changes, (adam, *_) = rule.update(clipped, state, params)
        return optax.apply_updates(params, changes), adam.mu, adam.nu

    return {"optax": _component(of_optax)}


# --- the same in steps, each of which can be replaced ----------------------------------------------------------------


def _clipped(gradients: Tree, clip: float) -> Tree:
    norm = jnp.sqrt(jnp.sum(jnp.stack([jnp.vdot(gradient, gradient) for gradient in gradients.values()])))
    return {name: jnp.where(norm < clip, gradient, gradient / norm * clip) for name, gradient in gradients.items()}


def _averaged(old: Array, new: Array, beta: float) -> Array:
    return old * beta + new * (1 - beta)


def _change(m: Array, v: Array, correct_m: Array, correct_v: Array) -> Array:
    return m / correct_m / (jnp.sqrt(v / correct_v) + EPSILON)


def _factored(m: Array, v: Array, correct_m: Array, correct_v: Array) -> Array:
    """The bias corrections joined: m sqrt(c2) / (c1 (sqrt(v) + epsilon sqrt(c2)))."""
    root = jnp.sqrt(correct_v)
    return m * root / (correct_m * (jnp.sqrt(v) + EPSILON * root))


def _decayed(param: Array, change: Array, rate: float, decay: float) -> Array:
    # Not `param * (1 - rate * decay)`: Python would round that number, and the sides would differ by a constant.
    return (param - rate * (decay * param) if param.ndim > 1 else param) - rate * change


def _in_steps(
    *,
    clipped: Callable[[Tree, float], Tree] = _clipped,
    gradient_of: Callable[[Array, Array, float], Array] = lambda gradient, param, decay: gradient,
    first: Callable[[Array, Array], Array] = lambda m, gradient: _averaged(m, gradient, B1),
    second: Callable[[Array, Array], Array] = lambda v, gradient: _averaged(v, gradient * gradient, B2),
    count: Callable[[Array], Array] = lambda step: step,
    change: Callable[[Array, Array, Array, Array], Array] = _change,
    nesterov: bool = False,
    decayed: Callable[[Array, Array, float, float], Array] = _decayed,
) -> Update:
    """AdamW of these steps; without a replacement it is honest."""

    def in_steps(
        params: Tree, gradients: Tree, m: Tree, v: Tree, step: Array, *, rate: float, clip: float, decay: float
    ) -> State:
        new_params, new_m, new_v = {}, {}, {}
        for name, gradient in clipped(gradients, clip).items():
            param = params[name]
            gradient = gradient_of(gradient, param, decay)
            new_m[name], new_v[name] = first(m[name], gradient), second(v[name], gradient)
            ahead = first(new_m[name], gradient) if nesterov else new_m[name]
            corrections = (1 - _power(beta, count(step), param) for beta in (B1, B2))
            new_params[name] = decayed(param, change(ahead, new_v[name], *corrections), rate, decay)
        return new_params, new_m, new_v

    return in_steps


# --- faults ----------------------------------------------------------------------------------------------------------


def _clipped_without_root(gradients: Tree, clip: float) -> Tree:
    total = sum(jnp.vdot(gradient, gradient) for gradient in gradients.values())
    return {name: jnp.where(total < clip, gradient, gradient / total * clip) for name, gradient in gradients.items()}


def _scaled_always(gradients: Tree, clip: float) -> Tree:
    """Short gradients made longer too."""
    norm = jnp.sqrt(sum(jnp.vdot(gradient, gradient) for gradient in gradients.values()))
    return {name: gradient / norm * clip for name, gradient in gradients.items()}


def _clipped_after(params: Tree, gradients: Tree, m: Tree, v: Tree, step: Array, **settings: float) -> State:
    """The moments take the gradients as they are; what is clipped is what they make of them."""
    new, m, v = _in_steps(clipped=lambda gradients, clip: gradients)(params, gradients, m, v, step, **settings)
    changes = {name: (new[name] - param) / settings["rate"] for name, param in params.items()}
    clipped = _clipped(changes, settings["clip"])
    return {name: param + settings["rate"] * clipped[name] for name, param in params.items()}, m, v


FAULTS: dict[str, Update] = {
    "clip_missing": _in_steps(clipped=lambda gradients, clip: gradients),
    "clip_of_each_leaf": _in_steps(
        clipped=lambda gradients, clip: {
            name: _clipped({name: gradient}, clip)[name] for name, gradient in gradients.items()
        }
    ),
    "clip_without_root": _in_steps(clipped=_clipped_without_root),
    "clip_always": _in_steps(clipped=_scaled_always),
    "clip_after": _clipped_after,
    "epsilon_inside_the_root": _in_steps(change=lambda m, v, c1, c2: m / c1 / jnp.sqrt(v / c2 + EPSILON)),
    "epsilon_ten_times": _in_steps(change=lambda m, v, c1, c2: m / c1 / (jnp.sqrt(v / c2) + 10 * EPSILON)),
    "epsilon_missing": _in_steps(change=lambda m, v, c1, c2: m / c1 / jnp.sqrt(v / c2)),
    "root_missing": _in_steps(change=lambda m, v, correct_m, correct_v: m / correct_m / (v / correct_v + EPSILON)),
    "correction_missing": _in_steps(change=lambda m, v, c1, c2: m / (jnp.sqrt(v) + EPSILON)),
    "correction_of_first_missing": _in_steps(change=lambda m, v, c1, c2: m / (jnp.sqrt(v / c2) + EPSILON)),
    "correction_of_second_missing": _in_steps(change=lambda m, v, c1, c2: m / c1 / (jnp.sqrt(v) + EPSILON)),
    "correction_outside_the_root": _in_steps(change=lambda m, v, c1, c2: m / c1 / (jnp.sqrt(v) / c2 + EPSILON)),
    "correction_one_step_late": _in_steps(count=lambda step: step - 1),
    "b2_for_b1": _in_steps(first=lambda m, gradient: _averaged(m, gradient, B2)),
    "b1_for_b2": _in_steps(second=lambda v, gradient: _averaged(v, gradient * gradient, B1)),
    "gradient_not_squared": _in_steps(second=lambda v, gradient: _averaged(v, jnp.abs(gradient), B2)),
    "average_without_complement": _in_steps(first=lambda m, gradient: B1 * m + gradient),
    "nesterov": _in_steps(nesterov=True),
    "decay_missing": _in_steps(decayed=lambda param, change, rate, decay: param - rate * change),
    "decay_of_bias": _in_steps(decayed=lambda param, change, rate, decay: param - rate * (change + decay * param)),
    "decay_without_rate": _in_steps(
        decayed=lambda param, change, rate, decay: _decayed(param, change, rate, decay / rate)
    ),
    "decay_after_change": _in_steps(
        decayed=lambda w, change, rate, decay: _decayed(w - rate * change, 0 * w, rate, decay)
    ),
    "decay_in_the_gradient": _in_steps(
        gradient_of=lambda gradient, param, decay: gradient + decay * param if param.ndim > 1 else gradient,
        decayed=lambda param, change, rate, decay: param - rate * change,
    ),
}


def second_moments(rng: Any, shape: tuple[int, ...]) -> Any:
    """Squares of numbers between 0.005 and 0.01: positive, as moments are, and none so small that it alone counts."""
    return (0.005 * (1 + rng.random(shape))) ** 2


_KERNEL, _BIAS = ("rows", "columns"), ("columns",)
ADAMW = specimen(
    "mathematics_adamw",
    reference=_component(update),
    rewrites={
        "in_steps": _component(_in_steps()),
        "factored": _component(_in_steps(change=_factored)),
        "flat": _component(flat),
        **_optax(),
    },
    faults={name: _component(rule) for name, rule in FAULTS.items()},
    args={
        "kernel": Arg(shape=_KERNEL, values=Normal(scale=0.05)),
        "bias": Arg(shape=_BIAS, values=Normal(scale=0.05)),
        "to_kernel": Arg(shape=_KERNEL, values=Normal(scale=0.01)),
        "to_bias": Arg(shape=_BIAS, values=Normal(scale=0.01)),
        "kernel_m": Arg(shape=_KERNEL, values=Normal(scale=0.003)),
        "bias_m": Arg(shape=_BIAS, values=Normal(scale=0.003)),
        "kernel_v": Arg(shape=_KERNEL, values=second_moments),
        "bias_v": Arg(shape=_BIAS, values=second_moments),
        "step": Arg(shape=(), values=Integers(low=100, high=101)),
    },
    cases=(
        Case(id="clipped", sizes=SIZES, statics={"rate": 1e-3, "clip": 0.1, "decay": 0.1}),
        Case(id="free", sizes=SIZES, statics={"rate": 1e-3, "clip": 1.0, "decay": 0.1}),
    ),
)

SPECIMENS = (ADAMW,)
