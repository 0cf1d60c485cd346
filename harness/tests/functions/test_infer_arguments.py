"""Arguments of two functions from their signatures: what is guessed, what is declared, and what cannot be."""

import warnings
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import samebits
from samebits.errors import CouldNotRun, RequestError
from samebits.functions.infer_arguments import infer_arguments
from samebits.schema.argument_text import argument_word, parse_arguments


def norm(x: Any, scale: Any, eps: float = 1e-6) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * scale


def other_norm(a: Any, weight: Any) -> Any:
    return weight * a / jnp.sqrt(jnp.mean(a * a, -1, keepdims=True) + 1e-6)


def product(x: Any, w: Any) -> Any:
    return jnp.einsum("btnh,hk->btnk", x, w)


def embed(table: Any, ids: Any) -> Any:
    return table[ids]


def embed_by_take(table: Any, ids: Any) -> Any:
    return jnp.take(table, ids, axis=0)


def largest(x: Any) -> Any:
    return jnp.argmax(x)


def by_axis(x: Any, axis: int) -> Any:
    return jnp.sum(x, axis)


def attention(q: Any, k: Any, v: Any, m: Any) -> Any:
    return jnp.einsum("btnh,bsnh->bnts", q, k) @ jnp.swapaxes(v * m, 1, 2)


def hopeless(x: Any) -> Any:
    raise ValueError("needs a table of 7 columns\nand more")


def copy(function: Any) -> Any:
    return lambda *args, **more: function(*args, **more)


@pytest.mark.parametrize(
    ("functions", "words", "guessed"),
    [
        ((norm, other_norm), "x=f32[8,16] scale=f32[8,16]", ("x", "scale")),
        ((product, copy(product)), "x=f32[2,8,4,16] w=f32[16,16]", ("x", "w")),
        ((embed, embed_by_take), "table=f32[8,16] ids=i32[8]:0..7", ("table", "ids")),
        (
            (attention, copy(attention)),
            "q=f32[2,8,4,16] k=f32[2,8,4,16] v=f32[2,8,4,16] m=f32[2,8,4,16]",
            tuple("qkvm"),
        ),
        ((jax.nn.gelu, jax.nn.silu), "x=f32[8,16]", ("x",)),
    ],
)
def test_guesses(functions: Any, words: str, guessed: tuple[str, ...]) -> None:
    inferred = infer_arguments(functions[0], functions[1], {}, {})
    assert " ".join(argument_word(name, arg) for name, arg in inferred.args.items()) == words
    assert inferred.guessed == guessed


def test_what_is_declared_is_not_guessed() -> None:
    declared = parse_arguments(["w=bf16[16,4]"])
    inferred = infer_arguments(product, copy(product), declared, {})
    assert (inferred.guessed, inferred.args["w"]) == (("x",), declared["w"])
    assert list(inferred.args) == ["x", "w"]


def test_other_names_are_mapped_in_their_order() -> None:
    assert infer_arguments(norm, other_norm, {}, {}).rename == {"x": "a", "scale": "weight"}


def test_gradients_need_a_float_on_both_ends() -> None:
    assert not infer_arguments(largest, copy(largest), {}, {}).gradients
    assert infer_arguments(norm, other_norm, {}, {}).gradients
    integers = parse_arguments(["x=i32[8]"])
    assert not infer_arguments(by_axis, copy(by_axis), integers, {"axis": 0}).gradients


def test_a_declared_key_is_a_typed_random_key() -> None:
    def dropped(x: Any, key: Any) -> Any:
        return jnp.where(jax.random.bernoulli(jax.random.split(key)[0], 0.5, x.shape), x, 0.0)

    inferred = infer_arguments(dropped, copy(dropped), parse_arguments(["key=key<fry>[]"]), {})
    assert inferred.guessed == ("x",) and inferred.gradients


def test_a_guess_that_warns_says_nothing() -> None:
    def warning(x: Any) -> Any:
        warnings.warn("a cast of NaN", RuntimeWarning, stacklevel=1)
        return x + 1

    with warnings.catch_warnings(record=True) as seen:
        assert list(infer_arguments(warning, copy(warning), {}, {}).args) == ["x"]
    assert seen == []


def test_statics_are_no_arrays() -> None:
    assert list(infer_arguments(by_axis, copy(by_axis), {}, {"axis": 1}).args) == ["x"]


@pytest.mark.parametrize(
    ("functions", "declared", "statics", "line"),
    [
        (
            (hopeless, copy(hopeless)),
            (),
            {},
            "the arguments of hopeless(x) cannot be inferred: with x=f32[8,16] it raised ValueError: needs a table of "
            "7 columns ({here}); 1 more line with --traceback; declare them with the shapes that fit, as in "
            "--arg x=f32[8,16]",
        ),
        (
            (norm, other_norm),
            ("y=f32[8]",),
            {},
            "'y' is not a parameter of the first function, which takes norm(x, scale, eps=1e-06)",
        ),
        (
            (norm, other_norm),
            (),
            {"epsilon": 1e-5},
            "'epsilon' is not a parameter of the first function, which takes norm(x, scale, eps=1e-06)",
        ),
        (
            (norm, jax.nn.gelu),
            (),
            {},
            "the second function takes (x, approximate=True), and no parameter 'scale'; declare its own names, or map "
            "them: rename={'scale': ...}",
        ),
        (
            (lambda: 1, lambda: 2),
            (),
            {},
            "the first function takes <lambda>(), and no parameter without a default; declare its arrays, as in "
            "--arg x=f32[8,16]",
        ),
        ((norm, norm), (), {}, "both functions are norm(x, scale, eps=1e-06); nothing would be compared"),
    ],
)
def test_what_cannot_be_inferred(functions: Any, declared: Any, statics: Any, line: str) -> None:
    with pytest.raises(RequestError) as error:
        infer_arguments(functions[0], functions[1], parse_arguments(declared), statics)
    place = f"{__file__}:{hopeless.__code__.co_firstlineno + 1}"
    assert str(error.value) == line.replace("{here}", place)


# --- arguments of complex dtypes, with gradients, and of dtypes narrower than a byte ---------------------------------

Function = Callable[..., Any]


def _rotated(x: Any, turns: Any) -> Any:
    turned = jax.lax.complex(x[..., ::2], x[..., 1::2]) * turns
    return jnp.stack([turned.real, turned.imag], -1).reshape(x.shape)


def _by_parts(x: Any, turns: Any, sign: float = 1.0) -> Any:
    even, odd = x[..., ::2], x[..., 1::2]
    turned = even * turns.real - sign * odd * turns.imag, sign * even * turns.imag + odd * turns.real
    return jnp.stack(turned, -1).reshape(x.shape)


@jax.custom_vjp
def _conjugated_pull(x: Any, turns: Any) -> Any:
    """The mistake of who knows the conjugate from papers: the cotangents of jax are not conjugated."""
    return x * turns


_conjugated_pull.defvjp(lambda x, t: (x * t, (x, t)), lambda kept, c: (c * kept[1].conj(), c * kept[0].conj()))


@jax.custom_vjp
def _right_pull(x: Any, turns: Any) -> Any:
    return x * turns


_right_pull.defvjp(lambda x, t: (x * t, (x, t)), lambda kept, c: (c * kept[1], c * kept[0]))


def _quantised(x: Any, weight: Any, scale: Any) -> Any:
    return (x @ weight.astype(x.dtype)) * scale


def _scaled_first(x: Any, weight: Any, scale: Any) -> Any:
    return x @ (weight.astype(x.dtype) * scale)


def _shape(dtype: str, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))


def _verdicts(reference: Function, variant: Function, *args: Any, **options: Any) -> dict[tuple[str, str], str]:
    compared = samebits.check(reference, variant, *args, **options)
    return {
        (leaf.place.direction, leaf.place.leaf): leaf.ruling.verdict
        for leaf in compared.leaves
        if leaf.place.variant != "(reference)"
    }


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mesh", [None, "fsdp8"])
def test_gradients_of_complex_arguments_are_compared(mesh: str | None) -> None:
    args = _shape("float32", 8, 16), _shape("complex64", 8, 8)
    honest = samebits.check(_rotated, _by_parts, *args, mesh=mesh)
    assert honest.ok
    assert ("gradient", "turns") in {(leaf.place.direction, leaf.place.leaf) for leaf in honest.leaves}
    wrong = _verdicts(_rotated, lambda x, t: _by_parts(x, jax.lax.stop_gradient(t)), *args, mesh=mesh)
    assert wrong["gradient", "turns"] == "different"
    assert "different" not in (wrong["forward", "out"], wrong["gradient", "x"])
    assert set(_verdicts(_rotated, lambda x, t: _by_parts(x, t, -1.0), *args, mesh=mesh).values()) == {"different"}


def test_a_conjugate_too_many_in_a_gradient_is_different() -> None:
    args = _shape("complex64", 4, 8), _shape("complex64", 4, 8)
    assert samebits.check(jnp.multiply, _right_pull, *args).ok
    wrong = _verdicts(jnp.multiply, _conjugated_pull, *args)
    assert wrong["gradient", "x"] == wrong["gradient", "turns"] == "different"
    assert wrong["forward", "out"] != "different"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("dtype", ["int4", "uint4", "float4_e2m1fn"])
def test_weights_narrower_than_a_byte(dtype: str) -> None:
    args = _shape("float32", 8, 16), _shape(dtype, 16, 8), _shape("float32", 8)
    assert samebits.check(_quantised, _scaled_first, *args, mesh="fsdp2").ok
    shifted = lambda x, w, s: _quantised(x, w, s + w[0].astype(s.dtype))  # noqa: E731
    assert set(_verdicts(_quantised, shifted, *args, mesh="fsdp2", gradients=False).values()) == {"different"}


def _quotient(z: Any, w: Any) -> Any:
    return z / w


def _by_conjugate(z: Any, w: Any, sign: float = 1.0) -> Any:
    return z * jax.lax.complex(w.real, -sign * w.imag) / (w.real**2 + w.imag**2)


def _unit(z: Any, w: Any) -> Any:
    return z / jnp.linalg.norm(z + w)


def _unit_by_root(z: Any, w: Any, epsilon: float = 0.0) -> Any:
    return z * jax.lax.rsqrt(jnp.sum(jnp.abs(z + w) ** 2) + epsilon)


def _convolved(z: Any, w: Any) -> Any:
    return jnp.fft.ifft(jnp.fft.fft(z) * jnp.fft.fft(w))


def _convolved_by_sums(z: Any, w: Any, turn: int = 0) -> Any:
    n = z.shape[-1]
    return jnp.stack([sum(z[:, j] * w[:, (i + turn - j) % n] for j in range(n)) for i in range(n)], 1)


OPAQUE = [
    (_quotient, _by_conjugate, lambda z, w: _by_conjugate(z, w, -1.0)),
    (_unit, _unit_by_root, lambda z, w: _unit_by_root(z, w, 1e-4)),
    (_convolved, _convolved_by_sums, lambda z, w: _convolved_by_sums(z, w, 1)),
    (lambda z, w: jnp.abs(z + w), lambda z, w: jnp.hypot((z + w).real, (z + w).imag), lambda z, w: (z + w).real),
]
"""Complex operations whose rounding has no rule, so that both sides are executed in complex128: twin and fault."""


@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # of infinite cotangents, which are not stated
@pytest.mark.sampled(1)
@pytest.mark.parametrize("number", range(len(OPAQUE)))
def test_complex_arrays_are_executed_in_complex128(number: int) -> None:
    reference, variant, wrong = OPAQUE[number]
    z, w = (jax.random.normal(jax.random.key(seed), (4, 6), jnp.complex64) for seed in (0, 1))
    honest = samebits.check(reference, variant, z, w + 4)
    assert honest.verdict in ("rounding", "bitwise") and honest.ok
    failing = samebits.check(reference, wrong, z, w + 4, gradients=False)
    assert failing.verdict == "different"
    assert "could not tell" not in failing.failure() and "not the same mathematics" in failing.failure()


# --- modules of flax with state: compared where they are arguments, and else told how --------------------------------

X = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.linear = nnx.Linear(4, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        return self.dropout(self.norm(self.linear(x)))


def called(model: Any, x: Any) -> Any:
    return model(x)


def by_parts(model: Any, x: Any) -> Any:
    y = jnp.einsum("bi,io->bo", x, model.linear.kernel[...]) + model.linear.bias[...]
    return model.dropout(model.norm(y))


def without_statistics(model: Any, x: Any) -> Any:
    y = by_parts(model, x)
    model.norm.mean[...] = jnp.zeros(8)
    return y


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        y = nn.BatchNorm(use_running_average=False)(nn.Dense(8)(x))
        return nn.Dropout(0.5, deterministic=not self.has_rng("dropout"))(y)


class Dropped(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dropout(0.5, deterministic=False)(x)


@pytest.mark.slow
def test_a_module_that_is_an_argument_is_compared_with_its_state() -> None:
    model = Block(nnx.Rngs(0))
    samebits.assert_same(called, by_parts, model, X)
    wrong = samebits.check(called, without_statistics, model, X, gradients=False)
    assert [leaf.place.leaf for leaf in wrong.leaves if not leaf.ruling.ok] == ["model.norm.mean.value after the call"]
    samebits.assert_same(called, without_statistics, model, X, gradients=False, ignore=("model.norm.mean.*",))


def linen(variables: Any, x: Any) -> Any:
    return Layer().apply(variables, x, mutable=["batch_stats"])


def linen_frozen(variables: Any, x: Any) -> Any:
    y, _ = linen(variables, x)
    return y, {"batch_stats": variables["batch_stats"]}


def test_collections_that_are_returned_are_compared() -> None:
    variables = Layer().init(jax.random.key(0), X)
    wrong = samebits.check(linen, linen_frozen, variables, X, gradients=False)
    failing = [leaf.place.leaf for leaf in wrong.leaves if not leaf.ruling.ok]
    assert failing == [f"out[1]['batch_stats']['BatchNorm_0']['{name}']" for name in ("mean", "var")]


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (Block, "a module with state is an argument, so that what is written into it is compared"),
        (lambda x: Layer().apply(Layer().init(jax.random.key(0), x), x), "is applied with mutable=['batch_stats']"),
        (Layer(), "a module is called by its variables: give a function of them"),
        (lambda x: Dropped().apply({}, x), "give it a key: rngs={'dropout': key} of apply"),
    ],
)
def test_how_a_module_with_state_is_compared_is_told(function: Any, advice: str) -> None:
    function = Block(nnx.Rngs(0)) if function is Block else function  # not while tests are collected: it starts jax
    with pytest.raises(CouldNotRun) as raised:
        samebits.assert_same(function, lambda x: x, X, gradients=False)
    assert advice in str(raised.value)
