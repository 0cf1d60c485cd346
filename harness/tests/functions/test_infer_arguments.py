"""Arguments of two functions from their signatures: what is guessed, what is declared, and what cannot be."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from samebits.errors import RequestError
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
