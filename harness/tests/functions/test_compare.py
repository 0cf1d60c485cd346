"""`assert_same`, `check` and `prove` of two functions, as somebody calls them from a test."""

import functools
import importlib
import os.path
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import samebits
from samebits import Adapt, Arg, Case, Pair, Request
from samebits.errors import CouldNotRun, RequestError
from samebits.functions.as_pair import PositionalCall, pair_of, shown_name, side_names
from samebits.functions.compare import session
from samebits.functions.request import compare_request
from tests.functions import specimens as f
from tests.support.child import run_python


def test_the_same_mathematics_passes() -> None:
    samebits.assert_same(f.softmax, f.shifted, f.rows())
    samebits.assert_same(f.softmax, f.shifted, f.rows(), axis=0, gradients=False)


def test_what_only_moves_data_is_proved() -> None:
    compared = samebits.check(f.rows_flipped, f.rows_reversed, f.rows())
    assert compared.verdict == "proved"
    assert [leaf.place.direction for leaf in compared.leaves] == ["forward", "gradient"]
    samebits.assert_same(f.rows_flipped, f.rows_reversed, f.rows(), accept="proved")


def test_another_axis_is_different_with_a_witness() -> None:
    with pytest.raises(AssertionError) as raised:
        samebits.assert_same(f.softmax, f.wrong_axis, f.rows())
    text = str(raised.value)
    assert "softmax_wrong_axis: different: 2 of 2 leaves do not hold" in text
    assert "witness   out[" in text
    assert "replay    pytest 'harness/tests/functions/test_compare.py::" in text


def test_rounding_is_not_accepted_where_bits_are_required() -> None:
    x = f.drawn(2, 8, 256)
    first, second = lambda x: jnp.sum(x, axis=1), lambda x: jnp.sum(x.reshape(8, 16, 16).sum(1), 1)
    compared = samebits.check(first, second, x, accept="bitwise", gradients=False)
    if compared.leaves[0].ruling.verdict == "rounding":  # which depends on the processor
        with pytest.raises(AssertionError, match="verdict   rounding, required bitwise"):
            compared.raise_for_status()


def test_a_bias_of_zeros_hides_nothing() -> None:
    params = f.parameters()
    samebits.assert_same(f.dense, f.einsum, params, f.rows(), gradients=False)
    x = f.rows()
    assert np.array_equal(f.dense(params, x), f.without_bias(params, x))
    compared = samebits.check(f.dense, f.without_bias, params, x)
    verdicts = {(leaf.place.direction, leaf.place.leaf): leaf.ruling.verdict for leaf in compared.leaves}
    assert verdicts["forward", "out"] == "different"
    assert verdicts["gradient", "params['b']"] == "different"


def test_shapes_suffice() -> None:
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), f.parameters())
    compared = samebits.check(f.dense, f.einsum, shapes, jax.ShapeDtypeStruct((6, 4), jnp.bfloat16))
    assert compared.ok
    assert {leaf.place.leaf for leaf in compared.leaves} == {"out", "params['w']", "params['b']", "x"}


@pytest.mark.slow
def test_random_keys_none_and_integers_are_arguments() -> None:
    def sampled(key: Any, ids: Any, nothing: Any, *, deterministic: bool) -> Any:
        noise = jax.random.normal(key, (4,))
        return {"noise": noise, "ids": ids + 1, "key": jax.random.split(key)[0], "none": nothing}

    def other(key: Any, ids: Any, nothing: Any, *, deterministic: bool) -> Any:
        out = sampled(jax.random.wrap_key_data(jax.random.key_data(key)), ids, nothing, deterministic=deterministic)
        return {**out, "ids": 1 + ids}

    for key in (jax.random.key(3), jax.random.PRNGKey(3)):
        if key.ndim:  # a raw key is an array of words, which the other function cannot unwrap
            samebits.assert_same(
                sampled, lambda *a, **k: sampled(*a, **k), key, jnp.arange(4), None, deterministic=True
            )
        else:
            samebits.assert_same(sampled, other, key, jnp.arange(4), None, deterministic=True)


def test_another_key_is_different() -> None:
    compared = samebits.check(
        lambda key: jax.random.bits(key, (2,)),
        lambda key: jax.random.bits(jax.random.fold_in(key, 1), (2,)),
        jax.random.key(0),
    )
    assert compared.verdict == "different"


def test_auxiliary_outputs_are_compared_and_not_differentiated() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(x**2), {"max": jnp.max(x), "count": x.size}

    def other(x: Any) -> Any:
        return jnp.sum(x * x), {"max": jnp.max(x), "count": x.size}

    def wrong(x: Any) -> Any:
        return jnp.sum(x * x), {"max": jnp.min(x), "count": x.size}

    samebits.assert_same(loss, other, f.rows(), has_aux=True)
    compared = samebits.check(loss, wrong, f.rows(), has_aux=True)
    assert {(leaf.place.direction, leaf.place.leaf): leaf.ruling.verdict for leaf in compared.leaves}[
        "forward", "out[1]['max']"
    ] == "different"
    assert {leaf.place.leaf: leaf.ruling.ok for leaf in compared.leaves if leaf.place.direction == "gradient"} == {
        "x": True
    }
    with pytest.raises(samebits.DeclarationError, match=r"has_aux=True and '.*' returned an array float32\[6,4\]"):
        samebits.assert_same(lambda x: x, lambda x: x + 0.0, f.rows(), has_aux=True)


def test_partials_methods_jitted_and_built_in_functions() -> None:
    class Layer:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        def __call__(self, x: Any) -> Any:
            return x * self.scale

        def apply(self, x: Any) -> Any:
            return self.scale * x

    samebits.assert_same(Layer(2.0), Layer(2.0).apply, f.rows())
    jitted = jax.jit(f.shifted, static_argnames="axis")
    samebits.assert_same(functools.partial(f.softmax, axis=0), jitted, f.rows(), axis=0, gradients=False)
    samebits.assert_same(jnp.add, lambda x, y: x + y, f.rows(), f.rows() * 2, gradients=False)


def test_positional_arguments_need_no_common_names() -> None:
    first, second = lambda q, k: q @ k.T, lambda query, key: jnp.einsum("ij,kj->ik", query, key)
    samebits.assert_same(first, second, f.rows(), f.rows(), gradients=False)


def test_keyword_arguments_are_renamed() -> None:
    def ours(x: Any, *, scale: Any) -> Any:
        return x * scale

    def theirs(x: Any, *, multiplier: Any, unused: int = 3) -> Any:
        return multiplier * x

    names = {"scale": "multiplier"}
    samebits.assert_same(ours, theirs, f.rows(), scale=np.float32(3), rename=names, gradients=False)
    with pytest.raises(
        RequestError, match=r"'theirs' takes \(x, \*, multiplier, unused=3\) and cannot be called with 1"
    ):
        samebits.assert_same(ours, theirs, f.rows(), scale=np.float32(3))


@pytest.mark.slow
def test_fused_and_split_parameters_stand_beside_each_other() -> None:
    def split(params: Any, x: Any) -> Any:
        return {"q": x @ params["q"], "k": x @ params["k"]}

    def fused(weights: Any, x: Any) -> Any:
        return x @ weights

    keys = jax.random.split(jax.random.key(0), 2)
    params = {name: jax.random.normal(key, (4, 4)) for name, key in zip("qk", keys, strict=True)}
    adapt = Adapt(
        arguments=lambda params, x: {"weights": jnp.concatenate([params["q"], params["k"]], axis=1), "x": x},
        outputs=lambda out: {"q": out[:, :4], "k": out[:, 4:]},
    )
    compared = samebits.check(split, fused, params, f.rows(), adapt=adapt)
    assert compared.ok, compared
    assert {leaf.place.leaf for leaf in compared.leaves if leaf.place.direction == "gradient"} == {
        "params['q']",
        "params['k']",
        "x",
    }
    swapped = Adapt(arguments=adapt.arguments, outputs=lambda out: {"k": out[:, :4], "q": out[:, 4:]})
    assert samebits.check(split, fused, params, f.rows(), adapt=swapped).verdict == "different"
    lossy = Adapt(arguments=lambda params, x: {"weights": params["q"], "x": x}, outputs=adapt.outputs)
    with pytest.raises(samebits.DeclarationError, match=r"16 of 16 elements of leaf 'params\['k'\]' are lost"):
        samebits.assert_same(split, fused, params, f.rows(), adapt=lossy)


def test_a_mesh_by_name_and_by_object() -> None:
    x, w = f.rows(), f.drawn(5, 4, 8)

    def matmul(x: Any, w: Any) -> Any:
        return x @ w

    def split(x: Any, w: Any, axis: str = "tp") -> Any:
        return jax.shard_map(
            lambda x, w: jax.lax.psum(x @ w, axis), in_specs=(P(None, axis), P(axis, None)), out_specs=P()
        )(x, w)

    specs = (P(None, "tp"), P("tp", None))
    compared = samebits.check(matmul, split, x, w, mesh="tp4", specs=specs)
    assert compared.ok, compared
    assert {leaf.place.mesh for leaf in compared.leaves} == {"tp4"}
    assert {leaf.run.devices for leaf in compared.leaves} == {4}
    mesh = jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    samebits.assert_same(matmul, split, x, w, mesh=mesh, specs=specs, gradients=False)
    placed = jax.device_put(x, NamedSharding(mesh, specs[0]))
    assert {leaf.place.mesh for leaf in samebits.check(matmul, split, placed, w, gradients=False).leaves} == {"dp2_tp4"}

    def forgets_the_sum(x: Any, w: Any) -> Any:
        return jax.shard_map(
            lambda x, w: x @ w, in_specs=(P(None, "tp"), P("tp", None)), out_specs=P(), check_vma=False
        )(x, w)

    compared = samebits.check(matmul, forgets_the_sum, x, w, mesh="tp4", specs=specs, gradients=False)
    assert compared.verdict == "different"


def test_a_mesh_that_splits_nothing_is_not_green() -> None:
    compared = samebits.check(f.softmax, f.shifted, f.rows(), mesh="tp4", specs=P(), gradients=False)
    assert compared.verdict == "error"
    with pytest.raises(CouldNotRun, match=r"no argument and no output is split over 'tp'; give specs=\.\.\."):
        compared.raise_for_status()


def test_more_seeds_are_more_inputs() -> None:
    compared = samebits.check(f.softmax, f.shifted, f.rows(), seeds=3, gradients=False)
    assert [leaf.place.case for leaf in compared.leaves] == ["call", "call_1", "call_2"]
    bits = {leaf.comparison.bits for leaf in compared.leaves}
    assert len(bits) == 3


def test_proofs_run_nothing_and_need_no_devices() -> None:
    compared = samebits.prove(
        f.rows_flipped, f.rows_reversed, jax.ShapeDtypeStruct((1024, 64), jnp.float32), mesh="dp512"
    )
    assert compared.verdict == "proved"
    wrong = samebits.prove(f.rows_flipped, lambda x: jnp.roll(x, 2, axis=0), jax.ShapeDtypeStruct((8, 2), jnp.float32))
    assert wrong.verdict == "different"
    with pytest.raises(AssertionError, match="required"):
        wrong.raise_for_status()


def test_a_declared_pair_is_checked_and_proved() -> None:
    pair = Pair(
        name="flipped",
        reference=f.rows_flipped,
        variants={"reversed": f.rows_reversed},
        args={"x": Arg(shape=(6, 4))},
        cases=(Case(id="small"),),
        dtypes=("float32", "bfloat16"),
    )
    assert samebits.check(pair).verdict == "proved"
    assert len(samebits.check(pair, Request(dtypes=("bfloat16",), directions=("forward",))).leaves) == 2
    assert samebits.prove(pair).ok
    with pytest.raises(RequestError, match=r"samebits\.check\(PAIR\) takes a pair, and Request"):
        samebits.check(pair, f.rows())


def test_an_integer_result_has_no_gradient() -> None:
    compared = samebits.check(lambda x: jnp.argmax(x), lambda x: jnp.argmax(x.reshape(-1)), f.rows())
    assert compared.ok
    assert {leaf.place.direction for leaf in compared.leaves} == {"forward"}
    assert any("no gradient" in note for note in compared.notes)


def test_other_output_trees_are_different() -> None:
    compared = samebits.check(lambda x: (x, 2 * x), lambda x: [x, 2 * x], f.rows())
    assert compared.verdict == "different"
    with pytest.raises(AssertionError, match="structure"):
        compared.raise_for_status()


def test_a_second_call_compiles_nothing() -> None:
    samebits.assert_same(f.dense, f.einsum, f.parameters(), f.rows())
    before = session().programs.compilations
    samebits.assert_same(f.dense, f.einsum, jax.tree.map(lambda w: w + 1, f.parameters()), f.rows() * 2)
    assert session().programs.compilations == before


def test_what_is_no_array_in_a_tree_counts() -> None:
    def scaled(params: Any, x: Any) -> Any:
        return x * params["w"] * params["rate"]

    def other(params: Any, x: Any) -> Any:
        return x * params["w"] * 0.5

    w, x = f.drawn(0, 4), f.rows()
    assert samebits.check(scaled, other, {"w": w, "rate": 0.5}, x, gradients=False).ok
    assert samebits.check(scaled, other, {"w": w, "rate": 0.25}, x, gradients=False).verdict == "different"


def test_a_function_that_takes_its_mesh_gets_that_of_the_context() -> None:
    def plain(x: Any) -> Any:
        return jnp.sum(x, axis=0)

    def split(x: Any, mesh: Any) -> Any:
        return jax.shard_map(
            lambda x: jax.lax.psum(jnp.sum(x, axis=0), "tp"), mesh=mesh, in_specs=P("tp", None), out_specs=P(None)
        )(x)

    x = f.drawn(3, 8, 4)
    assert samebits.check(plain, split, x, mesh="tp4", specs=P("tp")).ok
    forward: dict[str, Any] = {"mesh": "tp4", "specs": P("tp"), "gradients": False}
    assert samebits.check(split, lambda x: plain(x), x, **forward).ok
    assert samebits.check(plain, lambda x, mesh: split(2 * x, mesh), x, **forward).verdict == "different"


def test_a_function_on_a_mesh_of_its_own() -> None:
    own = jax.make_mesh((2, 4), ("dp", "tp"))

    def split(x: Any, w: Any) -> Any:
        return jax.shard_map(
            lambda x, w: jax.lax.psum(x @ w, "tp"), mesh=own, in_specs=(P("dp", "tp"), P("tp")), out_specs=P("dp")
        )(x, w)

    def matmul(x: Any, w: Any) -> Any:
        return x @ w

    x, w = f.rows(), f.drawn(5, 4, 8)
    compared = samebits.check(matmul, split, x, w, mesh=own, specs=(P("dp", "tp"), P("tp")), gradients=False)
    assert [leaf.ruling.verdict for leaf in compared.leaves if leaf.place.variant != compared.reference] != []
    assert all(leaf.ruling.ok for leaf in compared.leaves if leaf.place.variant != compared.reference), compared


# --- two functions as a declaration: names, and calls by position ----------------------------------------------------


def test_positional_arguments_have_the_names_of_the_parameters() -> None:
    pair = pair_of(compare_request(f.dense, f.einsum, (f.parameters(), f.rows()), {}))
    assert list(pair.args) == ["params", "x"]  # type: ignore[arg-type]
    assert pair.name == "dense_einsum"


def test_arguments_without_names_are_numbered() -> None:
    pair = pair_of(compare_request(lambda *xs: xs[0], lambda *xs: xs[1], (f.rows(), f.rows()), {}))
    assert list(pair.args) == ["arg0", "arg1"]  # type: ignore[arg-type]


def test_the_same_function_is_the_same_side() -> None:
    pairs = [pair_of(compare_request(f.softmax, f.shifted, (f.rows(),), {})) for _ in range(2)]
    assert pairs[0].reference is pairs[1].reference


def test_a_call_passes_by_position_and_by_other_names() -> None:
    call = PositionalCall(lambda a, b, *, c: (a, b, c), ("x", "y"), {"z": "c"}, "f")
    assert call(y=2, x=1, z=3) == (1, 2, 3)


# --- two functions are told apart in reports, whatever they are ------------------------------------------------------


def scaled(x: Any, by: Any = 2) -> Any:
    return x * by


def other(x: Any) -> Any:
    return x + x


class Layer:
    def __call__(self, x: Any) -> Any:
        return x


LAMBDA = lambda x: 2 * x  # noqa: E731
ANOTHER = lambda x: x + x  # noqa: E731


@pytest.mark.parametrize(
    ("functions", "names"),
    [
        ((scaled, other), ("scaled", "other")),
        ((jax.nn.gelu, functools.partial(scaled, by=0)), ("gelu", "partial_scaled")),
        ((f.softmax, jax.nn.softmax), ("tests_softmax", "jax_softmax")),
        ((LAMBDA, other), ("reference", "other")),
        ((scaled, LAMBDA), ("scaled", "variant")),
        ((LAMBDA, ANOTHER), ("reference", "variant")),
        ((scaled, functools.partial(scaled, by=3)), ("scaled", "partial_scaled")),
        ((functools.partial(functools.partial(scaled), by=3), other), ("partial_scaled", "other")),
        ((functools.partial(LAMBDA), other), ("partial", "other")),
        (
            (functools.partial(scaled, by=2), functools.partial(scaled, by=3)),
            ("partial_scaled_reference", "partial_scaled_variant"),
        ),
        ((jax.jit(scaled), other), ("scaled", "other")),
        ((scaled, jax.jit(scaled)), ("scaled_reference", "scaled_variant")),
        ((Layer(), other), ("layer", "other")),
        ((Layer(), Layer()), ("layer_reference", "layer_variant")),
        ((os.path.join, str.join), ("posixpath_join", "join")),
    ],
)
def test_functions_are_told_apart(functions: tuple[Callable[..., Any], ...], names: tuple[str, str]) -> None:
    assert side_names(functions[0], functions[1]) == names


def test_a_command_has_names_for_them() -> None:
    assert side_names(LAMBDA, ANOTHER, ("m:fast", "m.py:Layer.slow")) == ("fast", "slow")
    assert side_names(scaled, functools.partial(scaled), ("m:scaled", "m:thrice")) == ("scaled", "thrice")
    assert side_names(scaled, scaled, ("m:scaled", "m:scaled")) == ("scaled_reference", "scaled_variant")


def test_a_lambda_in_a_message_has_its_place() -> None:
    assert shown_name(LAMBDA, "second") == "the second function, a lambda,"
    assert shown_name(functools.partial(scaled), "first") == "'scaled'"


# --- `samebits.check` and `samebits.prove` are functions, although rooms of the package have their names -------------


def test_a_room_does_not_take_the_name_of_a_function() -> None:
    importlib.import_module("samebits.check.judge")
    importlib.import_module("samebits.prove.prover")
    assert samebits.check.__module__ == samebits.prove.__module__ == "samebits.functions.compare"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "first", ["import samebits.check.runner", "import samebits", "from samebits import check", "import samebits.check"]
)
def test_whatever_is_imported_first(first: str) -> None:
    done = run_python("-c", f"{first}\nimport samebits\nprint(samebits.check.__name__, samebits.check.__module__)")
    assert done.stdout.strip() == "check samebits.functions.compare", done.stderr


# --- gradients that are zero by construction on both sides are left out and named; on one side alone they differ -----


def test_what_both_ignore_is_left_out_and_said() -> None:
    compared = samebits.check(lambda x, t: 2 * x, lambda x, t: x + x, f.rows(), jnp.ones(3))
    assert compared.ok
    assert {leaf.place.leaf for leaf in compared.leaves if leaf.place.direction == "gradient"} == {"x"}
    assert any(note.startswith("no gradient with respect to t:") for note in compared.notes)


def test_what_one_side_ignores_is_different() -> None:
    def stopped(x: Any, w: Any) -> Any:
        return x * jax.lax.stop_gradient(w)

    for sides in ((lambda x, w: x * w, stopped), (stopped, lambda x, w: x * w)):
        compared = samebits.check(*sides, f.rows(), f.drawn(9, 4))
        verdicts = {
            leaf.place.leaf: leaf.ruling.verdict for leaf in compared.leaves if leaf.place.direction == "gradient"
        }
        assert verdicts["x"] in ("bitwise", "proved")
        assert verdicts["w"] == "different"


def test_nothing_to_differentiate_at_all() -> None:
    compared = samebits.check(jnp.round, lambda x: jnp.round(x, 0), f.rows())
    assert compared.ok
    assert {leaf.place.direction for leaf in compared.leaves} == {"forward"}
