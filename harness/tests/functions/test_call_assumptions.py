"""Static arguments at their defaults: listed where a comparison passes, and booleans tried with the other value."""

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.functions.as_pair import pair_of
from samebits.functions.call_assumptions import left_at_defaults
from samebits.functions.request import compare_request
from samebits.functions.result import OtherInputsWarning
from tests.support.invoke import samebits as command

X = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
Function = Callable[..., Any]


def norm(x: Any, *, center: bool = False, eps: float = 1e-6) -> Any:
    x = x - x.mean(-1, keepdims=True) if center else x
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + eps)


def norm_centered(x: Any, *, center: bool = False, eps: float = 1e-6) -> Any:
    x = x - jnp.mean(x, -1)[:, None] if center else x
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + eps)


def norm_ignoring(x: Any, *, center: bool = False, eps: float = 1e-6) -> Any:
    return norm_centered(x, eps=eps)


def scores(x: Any, causal: bool = False) -> Any:
    return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(x.shape, bool)), x @ x.T, -1e9) if causal else x @ x.T)


def scores_masked(x: Any, causal: bool = False) -> Any:
    products = jnp.einsum("id,jd->ij", x, x)
    if causal:
        rows, columns = jnp.indices(x.shape)
        products = jnp.where(rows < columns, -1e9, products)
    return jax.nn.softmax(products)


def scores_ignoring(x: Any, causal: bool = False) -> Any:
    return jax.nn.softmax(jnp.einsum("id,jd->ij", x, x))


def sums(x: Any, reverse: bool = False) -> Any:
    return jnp.cumsum(x[::-1], 0)[::-1] if reverse else jnp.cumsum(x, 0)


def sums_scanned(x: Any, reverse: bool = False) -> Any:
    return jax.lax.associative_scan(jnp.add, x, reverse=reverse)


def sums_ignoring(x: Any, reverse: bool = False) -> Any:
    return jax.lax.associative_scan(jnp.add, x)


def sums_turned(x: Any, reverse: bool = False) -> Any:
    return sums_scanned(x, reverse)[::-1] if reverse else sums_scanned(x)


def total(x: Any, keepdims: bool = False) -> Any:
    return jnp.sum(x, -1, keepdims=keepdims)


def total_of_product(x: Any, keepdims: bool = False) -> Any:
    return (x @ jnp.ones(8))[..., None] if keepdims else x @ jnp.ones(8)


def total_ignoring(x: Any, keepdims: bool = False) -> Any:
    return x @ jnp.ones(8)


def flipped(x: Any, columns: bool = False) -> Any:
    return x[:, ::-1] if columns else x[::-1]


def flipped_by_jax(x: Any, columns: bool = False) -> Any:
    return jnp.flip(x, int(columns))


def flipped_ignoring(x: Any, columns: bool = False) -> Any:
    return jnp.flip(x, 0)


def dropped(x: Any, deterministic: bool = True) -> Any:
    if not deterministic:
        raise ValueError("no key")
    return x * 2


def dropped_too(x: Any, deterministic: bool = True) -> Any:
    if not deterministic:
        raise TypeError("a key is missing")
    return x + x


def never_dropped(x: Any, deterministic: bool = True) -> Any:
    return x + x


CASES: list[tuple[Function, Function, Function, str]] = [
    (norm, norm_centered, norm_ignoring, "center=True on both sides"),
    (scores, scores_masked, scores_ignoring, "causal=True on both sides"),
    (sums, sums_scanned, sums_ignoring, "reverse=True on both sides"),
    (sums, sums_scanned, sums_turned, "reverse=True on both sides"),
    (total, total_of_product, total_ignoring, "shape: reference=(8, 1), variant=(8,), with keepdims=True"),
    (flipped, flipped_by_jax, flipped_ignoring, "columns=True on both sides"),
    (dropped, dropped_too, never_dropped, "'dropped' alone raises ValueError with deterministic=False"),
    (lambda x, *, wide=False: x * (3 if wide else 2), lambda x, *, wide=False: x + x * (2 if wide else 1),
     lambda x, *, wide=False: x + x, "wide=True on both sides"),
    (lambda x, wide=False: jax.lax.platform_dependent(x, cpu=lambda x: x * (3 if wide else 2), default=lambda x: x * 2),
     lambda x, wide=False: x + x * (2 if wide else 1), lambda x, wide=False: x + x, "wide=True on both sides"),
]  # fmt: skip
"""A reference, an honest variant, and one that is the same at the default alone."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_flag_that_the_variant_ignores_is_told(number: int) -> None:
    """It passes with a warning, forward; the honest twin passes without, and both list the defaults."""
    reference, honest, ignoring, words = CASES[number]
    with pytest.warns(OtherInputsWarning, match="not at others") as warned:
        samebits.assert_same(reference, ignoring, X)
    assert words in str(warned[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compared = samebits.check(reference, honest, X, gradients=False)
        compared.raise_for_status()
    assert any(taken.word == "defaults" for taken in compared.assumptions)


@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")
@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_proofs_and_meshes_say_the_same(number: int) -> None:
    reference, honest, ignoring, words = CASES[number]
    for call, more in ((samebits.prove, {}), (samebits.check, {"mesh": "dp2"})):
        told = call(reference, ignoring, X, gradients=False, **more)
        assert not told.ok or words in str(told)
        assert "seen to be false" not in str(call(reference, honest, X, gradients=False, **more))


def test_what_is_listed() -> None:
    compared = samebits.check(norm, norm_centered, X, gradients=False)
    assert "assumes: the defaults center=False, eps=1e-06; false where another value is given" in str(compared)
    given = samebits.check(norm, norm_centered, X, gradients=False, center=True)
    assert "assumes: the defaults eps=1e-06;" in str(given)
    assert "defaults" not in str(samebits.check(norm, norm_centered, X, gradients=False, center=True, eps=1e-5))


@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")
def test_without_assumptions_only_a_difference_is_told() -> None:
    assert "defaults" not in str(samebits.check(flipped, flipped_by_jax, X, assumptions=False))
    assert "columns=True on both sides" in str(samebits.check(flipped, flipped_ignoring, X, assumptions=False))


def _left(reference: Function, variant: Function, *args: Any, **more: Any) -> dict[str, Any]:
    return left_at_defaults(pair_of(compare_request(reference, variant, args, more)))


def test_which_parameters_are_left() -> None:
    """Those of both by name; not what is given, bound by a `partial`, or None."""
    assert _left(norm, norm_centered, X) == {"center": False, "eps": 1e-6}
    assert _left(norm, norm_centered, x=X, eps=1e-5) == {"center": False}
    assert _left(scores, scores_masked, X) == {"causal": False} and _left(scores, scores_masked, X, True) == {}
    assert _left(norm, functools.partial(norm_centered, center=False), X) == {"eps": 1e-6}
    assert _left(lambda x, a=None, b=True: x, lambda x, a=None, c=True: x, X) == {}
    adapt = samebits.Adapt(outputs=lambda y: y)
    assert _left(norm, norm_centered, X, adapt=adapt) == {}


def test_the_command_lists_them_and_notes_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flips.py").write_text(
        "import jax.numpy as jnp\n\n\n"
        "def flipped(x, columns=False):\n    return x[:, ::-1] if columns else x[::-1]\n\n\n"
        "def ignoring(x, columns=False):\n    return jnp.flip(x, 0)\n"
    )
    done = command("compare", "flips.py:flipped", "flips.py:ignoring", "--arg", "x=f32[4,8]", "--forward")
    assert done.code == 0
    assert "the same only at inputs like those tried: out[0, " in done.out
    assert "1 of 1 results hold under assumptions that other values could break (defaults 1)" in done.out
