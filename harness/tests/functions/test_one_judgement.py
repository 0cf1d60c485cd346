"""`prove` and `check` of two functions judge alike: no proof holds what a check rejects, both leave out the same."""

import functools
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.functions.result import Comparing
from samebits.host import environment
from tests.check.accuracy_specimens import running, total
from tests.project.import_graph import ROOT
from tests.support.agreement import contradictions

environment.prepare()
pytestmark = pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # of other magnitudes

Array = Any
RNG = np.random.default_rng(3)
X, W = (RNG.normal(size=(16, 64)).astype(np.float32) for _ in range(2))
SMALL = X * np.where(np.arange(16) < 8, 1, 1e-3).astype(np.float32)[:, None]
TINY_BLOCK = RNG.normal(size=(4, 8, 32)).astype(np.float32) * np.array([1, 1, 1, 1e-4], np.float32)[:, None, None]


def times(x: Array, w: Array) -> Array:
    return x * w


def times_beside_one(x: Array, w: Array) -> Array:
    """What is below one loses the digits below those of one."""
    lift = 1 + w * w
    return (x * w + lift) - lift


def cubed(x: Array) -> Array:
    return x * x * x


def cubed_beside_one(x: Array) -> Array:
    return (x * x + 1) * x - x


def halves(x: Array) -> Array:
    return jnp.sum(x.reshape(*x.shape[:-1], 2, -1), -2)


def halves_beside_eight(x: Array) -> Array:
    y = x.reshape(*x.shape[:-1], 2, -1) + 8
    return y[..., 0, :] + y[..., 1, :] - 16


def product(x: Array, w: Array) -> Array:
    return x @ w


def product_beside_two(x: Array, w: Array) -> Array:
    """Of large rows the bound is hardly more than that of the product."""
    lift = 2 + jnp.cos(w[0])
    return (x @ w + lift) - lift


def summed(x: Array) -> Array:
    return jnp.sum(x, -1)


def summed_beside_two(x: Array) -> Array:
    lift = 2 + jnp.cos(x[..., 0])
    return (jnp.sum(x, -1) + lift) - lift


def squares(x: Array) -> Array:
    return jnp.einsum("bi,bj->bij", x, x).sum(-1)


def squares_beside_two(x: Array) -> Array:
    lift = 2 + jnp.cos(x)
    return (jnp.einsum("bi,bj->bij", x, x).sum(-1) + lift) - lift


BF = jnp.bfloat16
SQUARE = RNG.normal(size=(64, 64)).astype(np.float32)
STACK = RNG.normal(size=(4, 16, 64)).astype(np.float32) * np.array([1, 1, 1, 1e-4], np.float32)[:, None, None]
REJECTED: dict[str, tuple[Any, ...]] = {
    "small rows of a product": (product, product_beside_two, SMALL, SQUARE),
    "small rows of a product, limited": (product, product_beside_two, SMALL, SQUARE, {"accuracy": 2}),
    "small rows of a stacked product": (product, product_beside_two, STACK, SQUARE),
    "a small row of sums": (summed, summed_beside_two, STACK),
    "small rows of squares": (squares, squares_beside_two, SMALL),
    "small rows": (times, times_beside_one, SMALL, W),
    "a limit of small rows": (times, times_beside_one, SMALL * 0.01 + X * 0.1, W, {"accuracy": 2}),
    "small rows in bfloat16": (times, times_beside_one, (SMALL * 0.01).astype(BF), W.astype(BF)),
    "a small block": (halves, halves_beside_eight, TINY_BLOCK),
    "small rows of a gradient": (cubed, cubed_beside_one, SMALL, {"gradients": True}),
    "a running sum": (total, running(BF), X.astype(BF)),
    "a running sum under a limit": (total, running(BF), X.astype(BF), {"accuracy": 2}),
    "all rows small": (times, times_beside_one, X * np.float32(1e-3), W),
}
HELD: dict[str, tuple[Any, ...]] = {
    "an integer output": (lambda x: jnp.argmax(x, -1), lambda x: jnp.argmax(2 * x, -1), X, {"gradients": True}),
    "a boolean output": (lambda x: x > 0, lambda x: jnp.greater(x, 0), X, {"gradients": True}),
    "rounded": (jnp.round, lambda x: jnp.round(x, 0), X, {"gradients": True}),
    "ignored": (lambda x, t: 2 * jnp.sin(x), lambda x, t: jnp.sin(x) + jnp.sin(x), X, W, {"gradients": True}),
    "stopped": (
        lambda x, w: jnp.sin(x) + jax.lax.stop_gradient(jnp.cos(w)),
        lambda x, w: jax.lax.stop_gradient(jnp.cos(w)) + jnp.sin(x),
        X,
        W,
        {"gradients": True},
    ),
    "one integer of two outputs": (
        lambda x: (jnp.argmax(x, -1), jnp.sum(x * x, -1)),
        lambda x: (jnp.argmax(3 * x, -1), jnp.einsum("bi,bi->b", x, x)),
        X,
        {"gradients": True},
    ),
    "large rows beside one": (times, times_beside_one, X * 64, W),
    "an ignored leaf of a tree": (
        lambda p: 2 * jnp.sin(p["w"]),
        lambda p: jnp.sin(p["w"]) + jnp.sin(p["w"]),
        {"w": X, "unused": W},
        {"gradients": True},
    ),
}


def scaled(x: Array, s: Array) -> Array:
    return x * (s / 100.0)


def scaled_in_parts(x: Array, s: Array) -> Array:
    """Adds 0 to a product, of which -0.0 becomes 0.0."""
    return jnp.where(s < 100, x * (s / 100.0), 0) + jnp.where(s < 100, 0, x * (s / 100.0))


HELD["zero is added to a product that is not -0.0"] = (scaled, scaled_in_parts, X, np.int32(5), {"gradients": True})
FAST = (
    "small rows of a product",
    "zero is added to a product that is not -0.0",
    "a running sum",
    "an integer output",
    "ignored",
)


def both(reference: Any, variant: Any, *args: Any) -> tuple[Comparing, Comparing]:
    """A proof and a check of two functions; the last argument may be options."""
    options = {"gradients": False}
    if isinstance(args[-1], dict) and set(args[-1]) <= {"gradients", "accuracy"}:
        *args, more = args  # type: ignore[assignment]
        options |= more
    return samebits.prove(reference, variant, *args, **options), samebits.check(reference, variant, *args, **options)


def table(cases: dict[str, tuple[Any, ...]]) -> list[Any]:
    return [
        pytest.param(*[case], id=name, marks=[] if name in FAST else [pytest.mark.slow]) for name, case in cases.items()
    ]


@pytest.mark.parametrize("case", table(REJECTED))
def test_no_proof_holds_what_a_check_rejects(case: tuple[Any, ...]) -> None:
    proof, check = both(*case)
    assert check.verdict == "different" and not proof.ok, (str(proof), str(check))
    assert contradictions(proof.leaves, check.leaves) == []


def test_neither_holds_where_a_negative_zero_is_lost() -> None:
    proof, check = both(scaled, scaled_in_parts, np.where(X > 1, -0.0, X).astype(np.float32), np.int32(5))
    assert not check.ok and not proof.ok, (str(proof), str(check))
    assert "no -0.0" in str(proof)


@pytest.mark.parametrize("case", table(HELD))
def test_a_proof_leaves_out_what_a_check_does(case: tuple[Any, ...]) -> None:
    proof, check = both(*case)
    assert check.ok and proof.ok, (str(proof), str(check))
    compared = [[(leaf.place.direction, leaf.place.leaf) for leaf in one.leaves] for one in (proof, check)]
    assert compared[0] == compared[1]
    assert [n for n in proof.notes if "gradient" in n] == [n for n in check.notes if "gradient" in n]


# The layers of `examples/real/`, at small sizes: honest ones pass, and a fault in each is different.
PATH = ROOT / "examples" / "real" / "layers.py"
spec = importlib.util.spec_from_file_location("real_layers", PATH)
assert spec is not None and spec.loader is not None
layers: Any = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = layers
spec.loader.exec_module(layers)


def small(size: int) -> int:
    return size if size <= 16 else max(8, size // 256)


@pytest.fixture
def _few_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in (("HEADS", 4), ("GROUPS", 2)):
        monkeypatch.setattr(layers, name, number)


def checked(name: str, variant: Callable[..., Any] | None = None) -> Any:
    """Check a layer at small sizes, of which a block of keys has 4."""
    layer = layers.LAYERS[name]
    variant = layer.variant if variant is None else functools.partial(variant, layer.variant)
    if name == "attention":
        variant = functools.partial(variant, block=4)
        arrays = layers.arrays(layer._replace(shapes=_attention), 16, "float32")
    else:
        arrays = layers.arrays(layer, 16, "float32", small)
    return samebits.check(layer.reference, variant, *arrays.values(), gradients=name != "attention")


def _attention(tokens: int) -> dict[str, tuple[int, ...]]:
    return {"x": (tokens, 16), "wq": (16, 16), "wk": (16, 8), "wv": (16, 8), "wo": (16, 16)}


def one_late(honest: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """Take the row before, from the second row on."""
    result = honest(*args, **more)
    return jnp.concatenate([result[:1], result[:-1]])


@pytest.mark.usefixtures("_few_heads")
@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # of labels and experts beyond their range
@pytest.mark.parametrize("name", layers.LAYERS)
def test_both_ways_of_a_layer_are_the_same(name: str) -> None:
    compared = checked(name)
    assert compared.verdict in ("rounding", "bitwise"), compared


@pytest.mark.usefixtures("_few_heads")
@pytest.mark.parametrize("name", layers.LAYERS)
def test_rows_that_are_one_late_are_different(name: str) -> None:
    assert checked(name, one_late).verdict == "different"
