"""Outputs as differentiated programs return them: rules of differentiation that return another value are found."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

import samebits

X, W = jax.ShapeDtypeStruct((4, 8), jnp.float32), jax.ShapeDtypeStruct((8, 8), jnp.float32)
LEAF = "out under differentiation"


def dense(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def _pull(residuals: Any, g: Any) -> Any:
    x, w, y = residuals
    d = g * (1 - y * y)
    return d @ w.T, x.T @ d


def ruled(returned: Callable[[Any], Any], function: Callable[..., Any] = dense) -> Callable[..., Any]:
    """The dense layer with a `custom_vjp` whose forward rule returns something made of the output."""

    @jax.custom_vjp
    def layer(x: Any, w: Any) -> Any:
        return function(x, w)

    def forward(x: Any, w: Any) -> Any:
        y = dense(x, w)
        return returned(y), (x, w, y)

    layer.defvjp(forward, _pull)
    return lambda x, w: layer(x, w)


def tangent(returned: Callable[[Any], Any]) -> Callable[..., Any]:
    """The dense layer with a `custom_jvp` whose rule returns something made of the output."""

    @jax.custom_jvp
    def layer(x: Any, w: Any) -> Any:
        return dense(x, w)

    @layer.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        (x, w), (dx, dw) = primals, tangents
        y = dense(x, w)
        return returned(y), (1 - y * y) * (dx @ w + x @ dw)

    return lambda x, w: layer(x, w)


def by_thirds(y: Any) -> Any:
    """The same number by another formula."""
    return (4 * y - y) / 3


def in_scan(layer: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, w: jax.lax.scan(lambda carry, _: (layer(carry, w), None), x, None, length=2)[0]


def in_remat(layer: Callable[..., Any]) -> Callable[..., Any]:
    return jax.checkpoint(layer)


def in_vmap(layer: Callable[..., Any]) -> Callable[..., Any]:
    return jax.vmap(layer, in_axes=(0, None))


def two_outputs(factor: float) -> Callable[..., Any]:
    """A layer with an auxiliary loss, of which the rule returns a multiple."""

    @jax.custom_vjp
    def layer(x: Any, w: Any) -> Any:
        y = dense(x, w)
        return y, (x * x).mean()

    def forward(x: Any, w: Any) -> Any:
        y = dense(x, w)
        return (y, factor * (x * x).mean()), (x, w, y)

    def backward(residuals: Any, g: Any) -> Any:
        dx, dw = _pull(residuals, g[0])
        return dx + g[1] * 2 * residuals[0] / residuals[0].size, dw

    layer.defvjp(forward, backward)
    return lambda x, w: layer(x, w)


def partly(factor: float) -> Callable[..., Any]:
    """A rule of a `functools.partial`, of which jax knows no source."""
    function = jax.custom_vjp(functools.partial(dense))

    def forward(x: Any, w: Any) -> Any:
        y = dense(x, w)
        return factor * y, (x, w, y)

    function.defvjp(forward, _pull, optimize_remat=True)
    return lambda x, w: function(x, w)


def in_notebook(factor: float) -> Callable[..., Any]:
    """The same from code without a file."""
    names: dict[str, Any] = {"jax": jax, "dense": dense, "pull": _pull}
    code = f"""
@jax.custom_vjp
def layer(x, w):
    return dense(x, w)
layer.defvjp(lambda x, w: (dense(x, w) * {factor}, (x, w, dense(x, w))), pull)
def function(x, w):
    return layer(x, w)
"""
    exec(compile(code, "<ipython-input-1>", "exec"), names)
    function: Callable[..., Any] = names["function"]
    return function


def largest(shift: int) -> Callable[..., Any]:
    """Each row's largest element and its index, of which the rule returns another one."""

    @jax.custom_vjp
    def top(x: Any, w: Any) -> Any:
        return x.max(-1) * w[0, 0], x.argmax(-1)

    def forward(x: Any, w: Any) -> Any:
        return (x.max(-1) * w[0, 0], (x.argmax(-1) + shift) % x.shape[-1]), (x, w)

    def backward(residuals: Any, g: Any) -> Any:
        x, w = residuals
        chosen = jax.nn.one_hot(x.argmax(-1), x.shape[-1])
        return g[0][:, None] * chosen * w[0, 0], jnp.zeros_like(w).at[0, 0].set((g[0] * x.max(-1)).sum())

    top.defvjp(forward, backward)
    return lambda x, w: top(x, w)


def called_back(factor: float) -> Callable[..., Any]:
    """The forward rule computes in a callback, which is not interpreted."""

    def forward(y: Any) -> Any:
        return jax.pure_callback(lambda a: np.asarray(a) * np.float32(factor), y, y)

    return ruled(forward)


def summed(forward_sums: bool) -> Callable[..., Any]:
    """A mean over a mesh whose forward rule may leave out the sum over devices."""

    @jax.custom_vjp
    def mean(x: Any) -> Any:
        return jax.lax.pmean((x * x).mean(), "dp")

    def forward(x: Any) -> Any:
        own = (x * x).mean()
        return jax.lax.pmean(own, "dp") if forward_sums else own * 1.0, x

    def backward(x: Any, g: Any) -> Any:
        return (2 * x * g / x.size / 1,)

    mean.defvjp(forward, backward)

    def function(x: Any, mesh: Any) -> Any:
        inner = jax.shard_map(mean, mesh=mesh, in_specs=P("dp"), out_specs=P(), check_vma=False)
        return inner(x)

    return function


WRONG: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "one percent": (dense, ruled(lambda y: y * 1.01)),
    "custom_jvp": (dense, tangent(lambda y: y + 0.01)),
    "in bfloat16": (dense, ruled(lambda y: y.astype(jnp.bfloat16).astype(y.dtype))),
    "callback": (dense, called_back(1.01)),
    "scan": (in_scan(dense), in_scan(ruled(lambda y: y * 1.01))),
    "remat": (in_remat(dense), in_remat(ruled(lambda y: y * 1.01))),
    "vmap": (in_vmap(dense), in_vmap(tangent(lambda y: y * 1.01))),
    "partial": (dense, partly(1.01)),
    "notebook": (dense, in_notebook(1.01)),
    "reference": (ruled(lambda y: y * 1.01), dense),
    "epsilon": (dense, ruled(lambda y: y + 1e-5)),
    "second output": (two_outputs(1.0), two_outputs(1.01)),
    "integer output": (largest(0), largest(1)),
    "sign of some": (dense, ruled(lambda y: jnp.where(y > 0.9, -y, y))),
    "jit": (dense, jax.jit(ruled(lambda y: jax.jit(lambda z: z * 1.01)(y)))),
}
HONEST: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "the function itself": (dense, ruled(lambda y: y)),
    "custom_jvp": (dense, tangent(lambda y: y)),
    "both": (ruled(lambda y: y), tangent(lambda y: y)),
    "another formula": (dense, ruled(by_thirds)),
    "callback": (dense, called_back(1.0)),
    "scan": (in_scan(dense), in_scan(ruled(by_thirds))),
    "remat": (dense, in_remat(ruled(lambda y: y))),
    "partial": (dense, partly(1.0)),
    "notebook": (dense, in_notebook(1.0)),
    "second output": (two_outputs(1.0), two_outputs(1.0)),
    "of jax": (lambda x, w: jax.nn.relu(x @ w), lambda x, w: jax.nn.relu((x @ w) * 1.0)),
    "both alike": (ruled(lambda y: y * 1.01), ruled(lambda y: y * 1.01)),
}
FAST = ("one percent", "custom_jvp", "in bfloat16", "second output", "the function itself", "another formula")


def _cases(table: dict[str, Any]) -> list[Any]:
    return [
        pytest.param(*pair, id=name, marks=() if name in FAST else pytest.mark.slow) for name, pair in table.items()
    ]


@pytest.mark.parametrize(("reference", "variant"), _cases(WRONG))
def test_a_rule_that_returns_another_value_is_different(reference: Any, variant: Any) -> None:
    compared = samebits.check(reference, variant, X, W)
    wrong = [leaf for leaf in compared.leaves if not leaf.ruling.ok]
    assert compared.verdict == "different", compared
    assert any("under differentiation" in leaf.place.leaf and leaf.place.direction == "gradient" for leaf in wrong), (
        compared
    )
    assert "as the differentiated program returns it is another output: " in compared.failure()


@pytest.mark.parametrize(("reference", "variant"), _cases(HONEST))
def test_a_rule_that_returns_the_same_value_passes(reference: Any, variant: Any) -> None:
    samebits.assert_same(reference, variant, X, W)


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in WRONG])
def test_formulas_show_it_without_execution(name: str) -> None:
    proved = samebits.prove(*WRONG[name], X, W)
    assert not proved.ok
    if name not in ("callback", "in bfloat16"):  # which formulas do not see, and the accuracy is in doubt then
        assert proved.verdict == "different", proved


def test_the_leaf_is_named_and_its_line_is_found() -> None:
    with pytest.raises(AssertionError, match=LEAF) as raised:
        samebits.assert_same(*WRONG["one percent"], X, W)
    assert "has `y * 1.01`" in str(raised.value)
    leaves = {leaf.place.leaf for leaf in samebits.prove(*HONEST["the function itself"], X, W).leaves}
    assert leaves == {"out", "x", "w"}  # whose rule computes the output as the function does


@pytest.mark.parametrize("sums", [True, pytest.param(False)])
def test_a_sum_over_devices_that_only_the_rule_leaves_out(sums: bool) -> None:
    x = jax.ShapeDtypeStruct((8, 4), jnp.float32)

    def reference(x: Any, mesh: Any = None) -> Any:
        return (x * x).mean()

    compared = samebits.check(reference, summed(sums), x, mesh="dp2", specs=P("dp"))
    by_leaf = {leaf.place.leaf: leaf.ruling.verdict for leaf in compared.leaves if leaf.place.variant != "reference"}
    assert by_leaf.get(LEAF, "rounding") == ("rounding" if sums else "different"), compared


def test_proofs_for_all_sizes_have_it_where_gradients_only_move() -> None:
    """They are proved for all sizes then, and nothing else asks for the proof at the declared ones."""

    def turned(factor: float) -> Callable[..., Any]:
        layer = jax.custom_vjp(lambda x: x[::-1])
        layer.defvjp(lambda x: (x[::-1] * factor, None), lambda _, g: (g[::-1],))
        return lambda x: layer(x)

    for factor, ok in ((1.0, True), (1.01, False)):
        proved = samebits.prove(lambda x: x[::-1], turned(factor), X, sizes="all")
        assert proved.ok is ok, proved


def test_proofs_for_all_sizes_have_it_at_the_declared_ones() -> None:
    proved = samebits.prove(*WRONG["one percent"], X, W, sizes="all")
    (wrong,) = [leaf for leaf in proved.leaves if not leaf.ruling.ok]
    assert (wrong.place.leaf, wrong.ruling.verdict, wrong.place.direction) == (LEAF, "different", "gradient"), proved


def test_contracts_of_forward_outputs_are_for_them() -> None:
    from samebits.schema.contract import Contract

    def pair(*contracts: Any) -> Any:
        return samebits.Pair(
            name="layer",
            reference=dense,
            variants={"ruled": ruled(by_thirds)},
            args={"x": samebits.Arg(shape=(4, 8)), "w": samebits.Arg(shape=(8, 8))},
            cases=(samebits.Case(id="small"),),
            dtypes=("float32",),
            meshes=("none",),
            contracts=contracts,
        )

    at = {"variant": "ruled", "case": "small", "dtype": "float32", "mesh": "none", "mode": "auto"}
    forward = Contract(direction="forward", lowest="rounding", reason="measured: 3 ulps", error_ratio=8.0)
    named = {**at, "direction": "gradient", "leaf": LEAF}
    assert pair(forward).contract(**named) is forward
    assert pair(Contract(direction="forward")).contract(**named).lowest == "rounding"
    assert pair(Contract()).contract(**named).lowest == "bitwise"
    assert pair().contract(**named).lowest == "rounding"
