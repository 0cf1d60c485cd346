"""A decoder layer as a Flax NNX module, in Flax Linen, and as the NNX module in the wrapper that makes it Linen.

Weights go in by the names of the checkpoint. On one device all three compile to one program, forward and gradient,
where activations and weights have one dtype. Numbers: CPU, jax 0.10.2, flax 0.12.8, 8 devices, 24 seeds, case shapes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from samebits import (
    REFERENCE,
    VARIANT,
    Arg,
    Case,
    Claim,
    Contract,
    Documented,
    Domain,
    MeshSpec,
    Normal,
    Pair,
    RealSize,
    Refusal,
    assert_same_bits,
    compile_test,
    compiled_side,
    implementation,
    pair_test,
)

SIZES = {"batch": 4, "seq": 3, "embed": 4, "heads": 2, "width": 2, "hidden": 6, "one": 1}
STATICS = {"heads": 2, "hidden": 6}
BATCH = ("data", "fsdp")
FSDP = "data2_fsdp2"
FINITE = Domain(finite=("*",))
_SHAPES: dict[str, tuple[tuple[str, ...], tuple[str | None, ...]]] = {
    "pre_attention_norm/scale": (("embed",), ()),
    "attention/query/kernel": (("embed", "heads", "width"), ("fsdp", "tensor")),
    "attention/key/kernel": (("embed", "heads", "width"), ("fsdp", "tensor")),
    "attention/value/kernel": (("embed", "heads", "width"), ("fsdp", "tensor")),
    "attention/out/kernel": (("heads", "width", "embed"), ("tensor", None, "fsdp")),
    "pre_mlp_norm/scale": (("embed",), ()),
    "mlp/gate/kernel": (("embed", "hidden"), ("fsdp", "tensor")),
    "mlp/up/kernel": (("embed", "hidden"), ("fsdp", "tensor")),
    "mlp/down/kernel": (("hidden", "embed"), ("tensor", "fsdp")),
}


def _weights(*outer: str, dtype: str | None = None, gradients: bool = True) -> dict[str, Arg]:
    return {
        path: Arg(
            shape=(*outer, *shape),
            dtype=dtype,
            spec=(*(None for _ in outer), *spec),
            values=Normal(scale=0.5, offset=1.0 if path.endswith("scale") else 0.0),
            differentiable=gradients,
        )
        for path, (shape, spec) in _SHAPES.items()
    }


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    """All weights have gradients where one device adds them up; else x alone, whose rows no mesh here splits."""
    wide = case.id == "wide_weights"
    weights = _weights(dtype="float32" if wide else None, gradients=case.id == "alone")
    if case.id == "missing":
        del weights["mlp/up/kernel"]
    elif case.id == "unknown":
        weights["mlp/bias"] = Arg(shape=("hidden",))
    elif case.id == "misshapen":
        weights["mlp/up/kernel"] = Arg(shape=("embed", "one"))
    return {"x": Arg(shape=("batch", "seq", "embed"), spec=(BATCH,), differentiable=case.id == "alone"), **weights}


def _layers(layer: Any) -> Any:
    """The setting that the claim is made for: layers scanned, each recomputed going back."""

    def run(x: Any, *, heads: int, hidden: int, **weights: Any) -> Any:
        import jax

        @jax.checkpoint
        def step(x: Any, weights: Any) -> tuple[Any, None]:
            return layer(x, heads=heads, hidden=hidden, **weights), None

        return jax.lax.scan(step, x, weights)[0]

    return run


_CLAIMS = (
    Claim(
        shows=VARIANT.program == REFERENCE.program,
        source="the sides differ only in what Python does before there is a program",
    ),
    Claim(
        shows=VARIANT.temp_bytes < compiled_side("bridged").temp_bytes,
        variant="linen",
        source="MaxText pull request 3922, item 12: the wrapper makes modules and parameters that take memory",
        finding="FINDING: what the wrapper initialises is dead code to every compiler tried: one program on cpu, v5p "
        "and tpu7x, forward and gradient. What it costs is tracing: 306 equations for 64",
    ),
)
_COMPILED = (
    RealSize(
        case=Case(
            id="four_layers",
            sizes={"layers": 4, "batch": 8, "seq": 256, "embed": 256, "heads": 2, "width": 128, "hidden": 512},
            statics={"heads": 2, "hidden": 512},
        ),
        args={"x": Arg(shape=("batch", "seq", "embed"), spec=(BATCH,)), **_weights("layers")},
        within=_layers,
        layout="data*",
        dtype="bfloat16",
        targets=("cpu", "v5p:2x2x1", "tpu7x:2x2x1"),
        claims=_CLAIMS,
    ),
)


def _case(name: str, mesh: str, mode: Any, dtype: str, variants: tuple[str, ...] | None = None, **more: Any) -> Case:
    more = {"sizes": SIZES, "statics": STATICS, "symbols": {"embed": "2*width"}, **more}
    return Case(id=name, meshes=(mesh,), modes=(mode,), dtypes=(dtype,), variants=variants, **more)


def _refused(name: str, match: str) -> Case:
    return _case(name, "data1", "auto", "float32", refuses=(Refusal(error="ValueError", match=match),))


PAIR = Pair(
    name="decoder_layer",
    reference="nnx",
    variants=("linen", "bridged"),
    args=_args,
    cases=(
        _case("alone", "data1", "auto", "bfloat16", ("linen",)),
        _case("wrapped", "data1", "auto", "bfloat16", ("bridged",)),
        _case("split", FSDP, "explicit", "float32", ("linen",)),
        _case("wide_weights", "data1", "auto", "bfloat16", ("linen",)),
        _refused("missing", "weights lack 'mlp/up/kernel'; they have attention/key/kernel"),
        _refused("unknown", "weights have 'mlp/bias', which the layer has not; expected attention/key/kernel"),
        _refused("misshapen", r"'mlp/up/kernel' has shape \(4, 1\); expected \(4, 6\)"),
    ),
    dtypes=("bfloat16", "float32"),
    meshes=("data1", FSDP),
    modes=("auto", "explicit"),
    compiled=_COMPILED,
    documented=(
        Documented(
            id="3922.12",
            document="MaxText #3922, item 12: models/mixtral.py",
            says="the layer written in Linen is the one in NNX, names and weights kept, with less memory than the "
            "wrapper",
            variants=("linen",),
            saves="temp_bytes",
            directions=("gradient",),
        ),
    ),
    contracts=(
        Contract(lowest="proved"),
        Contract(
            case="split",
            lowest="rounding",
            reason="a mesh compiles the sums of the norms, the softmax and the products to other code: up to "
            "39 of 48 elements differ, for the reference itself too, whose bits linen has on the mesh",
            domain=FINITE,
        ),
        Contract(
            case="wide_weights",
            variant="linen",
            lowest="rounding",
            reason="FINDING: Linen's RMSNorm multiplies by a float32 scale, NNX's rounds the scale to "
            "bfloat16 first: with weights of float32 up to 33 of 48 elements differ",
            domain=FINITE,
        ),
    ),
    accuracy=2,
)

test_decoder_layer = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))

SIDES = pytest.mark.parametrize("side", PAIR.sides)
EMBED, HEADS, HIDDEN = 8, 2, 12


@functools.cache
def _layer(side: str) -> Any:
    import jax

    def run(x: Any, **weights: Any) -> Any:
        with jax.default_matmul_precision("highest"):  # a TPU and a GPU take float32 in fewer digits by default
            return implementation(PAIR, side)(x, heads=HEADS, hidden=HIDDEN, **weights)

    return jax.jit(run)


def _shape(path: str) -> tuple[int, ...]:
    sizes = {"embed": EMBED, "heads": HEADS, "width": EMBED // HEADS, "hidden": HIDDEN}
    return tuple(sizes[name] for name in _SHAPES[path][0])


def _numbers(seed: int = 0, dtype: str = "float32", kernels: str | None = None) -> tuple[Any, dict[str, Any]]:
    import jax.numpy as jnp

    rng = np.random.default_rng(seed)
    x = jnp.asarray(rng.standard_normal((4, 6, EMBED)), dtype)
    return x, {path: jnp.asarray(0.5 * rng.standard_normal(_shape(path)), kernels or dtype) for path in _SHAPES}


def _nested(weights: Mapping[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, leaf in weights.items():
        *above, name = path.split("/")
        place = tree
        for step in above:
            place = place.setdefault(step, {})
        place[name] = leaf
    return tree


def _pulled(side: str) -> Any:
    """The layer's output and all its gradients, compiled."""
    import jax

    def run(x: Any, weights: Any, cotangent: Any) -> Any:
        found, back = jax.vjp(lambda x, weights: _layer(side)(x, **weights), x, weights)
        return found, back(cotangent)

    return jax.jit(run)


def _differing(first: Any, second: Any) -> int:
    import jax

    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return sum(int((np.asarray(a) != np.asarray(b)).sum()) for a, b in pairs)


@pytest.mark.slow
@pytest.mark.cpu_only
@pytest.mark.parametrize("mode", ["explicit", pytest.param("auto", marks=pytest.mark.slow)])
def test_on_one_mesh_all_sides_have_the_same_bits(mode: Any) -> None:
    """What a mesh moves, it moves in all of them alike: forward and all ten gradients, over three axes."""
    import jax

    built = MeshSpec.parse("data2_fsdp2_tensor2").build(mode)
    x, weights = _numbers(dtype="bfloat16")
    with jax.set_mesh(built):
        rows = jax.NamedSharding(built, jax.P(("data", "fsdp")))
        placed = jax.device_put(x, rows), jax.device_put(-x, rows)
        split = {
            path: jax.device_put(leaf, jax.NamedSharding(built, jax.P(*_SHAPES[path][1])))
            for path, leaf in weights.items()
        }
        found = {side: _pulled(side)(placed[0], split, placed[1]) for side in PAIR.sides}
    assert _differing(found["nnx"], found["linen"]) == _differing(found["nnx"], found["bridged"]) == 0
    assert found["nnx"][0].sharding.spec[0] == ("data", "fsdp")


@SIDES
def test_the_layer_replayed_in_float64(side: str) -> None:
    """Relative to the largest."""
    x, weights = _numbers()
    found = np.asarray(_layer(side)(x, **weights), np.float64)
    x, w = np.asarray(x, np.float64), {path: np.asarray(leaf, np.float64) for path, leaf in weights.items()}

    def norm(x: Any, scale: Any) -> Any:
        return x / np.sqrt(np.mean(x**2, -1, keepdims=True) + 1e-6) * scale

    y = norm(x, w["pre_attention_norm/scale"])
    query, key, value = (
        np.einsum("bse,ehd->bshd", y, w[f"attention/{name}/kernel"]) for name in ("query", "key", "value")
    )
    mixed = np.zeros_like(query)
    for b, h, q in np.ndindex(4, HEADS, 6):
        scores = key[b, : q + 1, h] @ query[b, q, h] / np.sqrt(EMBED // HEADS)
        mixed[b, q, h] = np.exp(scores) / np.exp(scores).sum() @ value[b, : q + 1, h]
    x = x + np.einsum("bshd,hde->bse", mixed, w["attention/out/kernel"])
    y = norm(x, w["pre_mlp_norm/scale"])
    gate = y @ w["mlp/gate/kernel"]
    x = x + (gate / (1 + np.exp(-gate)) * (y @ w["mlp/up/kernel"])) @ w["mlp/down/kernel"]
    assert np.abs(found - x).max() / np.abs(x).max() < 5e-6


@SIDES
def test_a_tree_paths_or_another_order_give_the_same_bits(side: str) -> None:
    x, weights = _numbers()
    text = _layer(side).lower(x, **weights).as_text()  # one program, letter by letter
    for other in (_nested(weights), dict(reversed(weights.items())), _nested(dict(reversed(weights.items())))):
        assert _layer(side).lower(x, **other).as_text() == text


@SIDES
def test_a_later_token_changes_nothing_before_it(side: str) -> None:
    x, weights = _numbers()
    before, after = (np.asarray(_layer(side)(one, **weights)) for one in (x, x.at[:, 4:].set(7.0)))
    assert_same_bits(before[:, :4], after[:, :4])
    assert np.all(before[:, 4:] != after[:, 4:])


@pytest.mark.slow
@SIDES
def test_zeros_stay_zeros_with_finite_gradients(side: str) -> None:
    import jax

    x, weights = _numbers()
    found, gradients = _pulled(side)(0 * x, weights, x)
    assert not np.any(found)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


@SIDES
def test_wrong_arguments_are_refused(side: str) -> None:
    x, weights = _numbers()
    layer = functools.partial(implementation(PAIR, side), hidden=HIDDEN)
    for heads, array in ((3, x), (0, x), (2, x[0])):
        with pytest.raises(ValueError, match=f"heads is {heads}; expected .batch, seq, a multiple of heads"):
            layer(array, heads=heads, **weights)
    with pytest.raises(ValueError, match=r"'mlp/down/kernel' has shape \(8, 12\); expected \(12, 8\)"):
        layer(x, heads=2, **{**weights, "mlp/down/kernel": weights["mlp/up/kernel"]})
    with pytest.raises(ValueError, match="weights have 'attention/bias', which the layer has not"):
        layer(x, heads=2, **_nested({**weights, "attention/bias": x}))


def _modules() -> tuple[Any, Any]:
    """The layer in Linen, and the NNX layer in the wrapper."""
    import jax.numpy as jnp
    from flax import nnx

    known = implementation(PAIR, "linen").__globals__
    wrapped = nnx.bridge.ToLinen(
        known["_Held"], args=(EMBED, HEADS, HIDDEN, 1e-6, jnp.dtype("float32")), metadata_fn=None
    )
    return known["_Layer"](heads=HEADS, hidden=HIDDEN, epsilon=1e-6, dtype=jnp.float32), wrapped


@pytest.mark.slow
def test_names_and_shapes_are_those_of_the_checkpoint() -> None:
    """FINDING: one seed gives Linen and NNX other numbers in all seven kernels: parity has to copy weights."""
    import jax

    x, _ = _numbers()
    made = [jax.jit(module.init)(jax.random.key(0), x)["params"] for module in _modules()]
    expected = _nested({path: _shape(path) for path in _SHAPES})
    for tree in made:
        assert jax.tree.map(lambda leaf: leaf.shape, tree) == expected
    same = jax.tree.map(lambda a, b: bool((a == b).all()), *made)
    different = [jax.tree_util.keystr(path) for path, one in jax.tree.leaves_with_path(same) if not one]
    assert len(different) == 7 and all("kernel" in path for path in different)


@pytest.mark.slow
def test_what_the_wrapper_does_with_names_that_do_not_fit() -> None:
    """FINDING: a missing weight is replaced by a fresh one, a wrong shape that broadcasts is taken: not a word.

    Linen refuses the first two, and says nothing of an unknown name; so every side of this pair looks at names first.
    """
    import flax
    import jax

    linen, wrapped = _modules()
    x, weights = _numbers()
    lacking = {"params": _nested({path: leaf for path, leaf in weights.items() if path != "mlp/up/kernel"})}
    misshapen = {"params": _nested({**weights, "mlp/up/kernel": weights["mlp/up/kernel"][:, :1]})}
    unknown = {"params": _nested({**weights, "mlp/bias": x})}
    apply = jax.jit(wrapped.apply)
    right = apply({"params": _nested(weights)}, x)
    for wrong in (lacking, misshapen):
        found = apply(wrong, x)
        assert found.shape == right.shape and np.isfinite(found).all() and np.any(found != right)
    with pytest.warns(UserWarning, match="Found unknown module paths in incoming state"):
        assert_same_bits(apply(unknown, x), right)
    with pytest.raises(flax.errors.ScopeParamNotFoundError):
        linen.apply(lacking, x)
    with pytest.raises(flax.errors.ScopeParamShapeError):
        linen.apply(misshapen, x)
    assert_same_bits(jax.jit(linen.apply)(unknown, x), right)


@pytest.mark.parametrize(("dtype", "differ"), [("float32", False), ("bfloat16", True)])
def test_functions_of_one_name_are_not_the_same_in_both(dtype: str, differ: bool) -> None:
    """FINDING: `dot_product_attention` has a float32 softmax in NNX, one of the query's dtype in Linen.

    Over 24 seeds 1726 of 4608 bfloat16 elements differ, and none of float32.
    """
    import jax
    from flax import linen, nnx

    rng = np.random.default_rng(0)
    query, key, value = (rng.standard_normal((4, 6, 2, 4)).astype(dtype) for _ in range(3))
    mask = np.tril(np.ones((6, 6), bool))[None, None]
    found = [jax.jit(one.dot_product_attention)(query, key, value, mask=mask) for one in (nnx, linen)]
    assert (_differing(*found) > 0) is differ


def test_what_is_traced() -> None:
    """The wrapper traces 306 equations where the others have 64: initialisers, whose numbers nobody uses."""
    import jax

    x, weights = _numbers()
    counts = {side: len(_equations(jax.make_jaxpr(_layer(side))(x, **weights))) for side in PAIR.sides}
    assert counts["linen"] == counts["nnx"] < counts["bridged"] / 3, counts


def _equations(program: Any) -> list[Any]:
    """All equations, those of inner jaxprs too."""
    import jax

    found = []
    for equation in program.eqns:
        found.append(equation)
        for inner in jax.tree.leaves(list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")):
            if hasattr(inner, "eqns"):
                found += _equations(inner)
    return found
