"""Complex numbers, small integers and floats, functions that reject a dtype: decided or an error, never a guess."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.check.evidence import PrecisionLadder, fixed_dtype
from samebits.programs.plan import Request
from samebits.schema.case import Arg, Case
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding
from samebits.schema.pair import Pair
from tests.support.toys import run

Array = Any
Function = Callable[[Array], Array]


def one(function: Function) -> Function:
    return lambda x: function(x)


def results(reference: Function, variant: Function, dtype: str = "float32", *, gradients: bool = True) -> list[Finding]:
    """The results of a variant, forward and gradient."""
    pair = Pair(
        name="toy",
        reference=one(reference),
        variants={"other": one(variant)},
        args={"x": Arg(shape=("rows", "columns"), spec=("data", None))},
        cases=(Case(id="small", sizes={"rows": 4, "columns": 8}),),
        dtypes=(dtype,),
        meshes=("data1",),
        modes=("auto",),
        contracts=(Contract(lowest="rounding", reason="another order"),),
        gradients=gradients,
        accuracy=2,
    )
    return run(pair, Request(variants=("other",), full=True))


def paired(x: Array) -> Array:
    return jax.lax.complex(x, x[::-1])


def positive(x: Array) -> Array:
    return x @ x.T + 8 * jnp.eye(4, dtype=x.dtype)


def by_cholesky(x: Array) -> Array:
    low = jnp.linalg.cholesky(positive(x))
    half = jax.scipy.linalg.solve_triangular(low, x, lower=True)
    return jax.scipy.linalg.solve_triangular(low.T, half, lower=False)


def quantised(x: Array, dtype: Any) -> Array:
    return (jnp.clip(jnp.round(x * 3), -8, 7) if dtype == jnp.int4 else x).astype(dtype).astype(x.dtype)


def only(dtype: Any, function: Function) -> Function:
    def refusing(x: Array) -> Array:
        if x.dtype != dtype:
            raise TypeError(f"needs {np.dtype(dtype).name}, got {x.dtype}")
        return function(x)

    return refusing


def fourier(scale: float) -> Function:
    """As a product with a matrix whose dtype is fixed."""
    steps = np.arange(8)
    matrix = (scale * np.exp(-2j * np.pi * np.outer(steps, steps) / 8)).astype(np.complex64)
    return lambda x: jnp.abs(x.astype(jnp.complex64) @ matrix)


def gammas(shift: float) -> Function:
    """A function without a rule, so that it is executed."""
    return lambda x: (jax.lax.lgamma(x * x + shift) @ jnp.ones((8, 1), x.dtype)) * x


HONEST: dict[str, tuple[Function, Function, str, str]] = {
    "complex products": (
        lambda x: paired(x) * paired(x) * paired(x[::-1]),
        lambda x: paired(x) * (paired(x) * paired(x[::-1])),
        "float32",
        "rounding",
    ),
    "cholesky": (by_cholesky, lambda x: jnp.linalg.solve(positive(x), x), "float32", "rounding"),
    "a product with int4": (
        lambda x: (quantised(x, jnp.int4) * 0.3) @ x.T,
        lambda x: (quantised(x, jnp.int4) @ x.T) * 0.3,
        "float32",
        "rounding",
    ),
    "a product with int4 in bfloat16": (
        lambda x: (quantised(x, jnp.int4) * 0.3) @ x.T,
        lambda x: (quantised(x, jnp.int4) @ x.T) * 0.3,
        "bfloat16",
        "rounding",
    ),
    "a product with float8": (
        lambda x: (quantised(x, jnp.float8_e4m3fn) * 0.3) @ x.T,
        lambda x: (quantised(x, jnp.float8_e4m3fn) @ x.T) * 0.3,
        "float32",
        "rounding",
    ),
    "a fixed complex dtype": (lambda x: jnp.abs(jnp.fft.fft(x)), fourier(1.0), "float32", "error"),
    "a dtype refused": (
        only(jnp.float32, lambda x: jax.lax.lgamma(x * x + 1).sum(1, keepdims=True) * 3.3 * x),
        only(jnp.float32, lambda x: 3.3 * gammas(1.0)(x)),
        "float32",
        "error",
    ),
}
"""By name: reference, variant, dtype, and the lowest verdict that is right."""

FAULTY: dict[str, tuple[Function, Function, tuple[str, ...]]] = {
    "complex products": (
        lambda x: paired(x) * paired(x) * paired(x[::-1]),
        lambda x: paired(x) * (paired(x) * jnp.conj(paired(x[::-1]))),
        ("different",),
    ),
    "cholesky": (by_cholesky, lambda x: jnp.linalg.solve(positive(x) * 1.0001, x), ("different",)),
    "a product with int4": (
        lambda x: (quantised(x, jnp.int4) * 0.3) @ x.T,
        lambda x: (quantised(x, jnp.int4) @ x.T) * 0.31,
        ("different",),
    ),
    "a fixed complex dtype": (lambda x: jnp.abs(jnp.fft.fft(x)), fourier(1.001), ("different",)),
    "a dtype refused": (only(jnp.float32, gammas(1.0)), only(jnp.float32, gammas(1.001)), ("different", "error")),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", HONEST)
def test_what_rounds_is_never_called_different(name: str) -> None:
    reference, variant, dtype, lowest = HONEST[name]
    found = results(reference, variant, dtype)
    for result in found:
        assert result.ruling.verdict in ("bitwise", "proved", "rounding", lowest), (
            result.ruling.verdict,
            result.ruling.evidence,
            result.ruling.reason,
        )
        if result.ruling.verdict == "error":
            assert "could not tell" in (result.ruling.reason or "")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name == "cholesky" else name for name in FAULTY]
)
def test_what_is_wrong_is_never_accepted(name: str) -> None:
    reference, variant, allowed = FAULTY[name]
    for result in results(reference, variant):
        assert result.ruling.verdict in allowed and not result.ruling.ok, (
            result.ruling.verdict,
            result.ruling.evidence,
            result.ruling.reason,
        )


def test_a_rung_that_was_not_run_says_nothing() -> None:
    assert PrecisionLadder(None, 1e-7, 0.0).objection is None and PrecisionLadder(1e-2, None, 1e-13).objection is None
    assert "in float64" in str(PrecisionLadder(None, None, 1e-6).objection)
    assert "slope" in str(PrecisionLadder(1e-2, 1e-3, 0.0).objection)


def test_the_dtype_that_a_program_fixes_is_found_at_any_depth() -> None:
    def inner(x: Array) -> Array:
        return jax.lax.scan(lambda carry, row: (carry + row.astype(jnp.bfloat16).astype(row.dtype), row), x[0], x)[0]

    with jax.enable_x64(True):
        wide = np.ones((2, 3))
        assert fixed_dtype(jax.make_jaxpr(lambda x: x * 2)(wide)) is None
        found = fixed_dtype(jax.make_jaxpr(lambda x: jax.jit(inner)(x) + x.astype(jnp.float32))(wide))
    assert found is not None and found.dtype == "bfloat16" and "test_refused_dtypes.py" in str(found)
    assert not found.advice  # promote_types(x.dtype, jnp.bfloat16) would be float32 where x is
    assert found.hides(1e-2) and PrecisionLadder(None, None, 1e-2).objection is not None


def on_the_host(x: Array) -> Array:
    """A cosine that NumPy computes in float32, whatever it is given."""
    kind = jax.ShapeDtypeStruct(x.shape, jnp.float32)
    return jax.pure_callback(np.cos, kind, x.astype(jnp.float32)).astype(x.dtype)


def cancelling(x: Array) -> Array:
    return on_the_host(x) * 103 - on_the_host(x) * 100


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("dtype", "verdict"), [("float32", "error"), ("bfloat16", "different")])
def test_errors_against_a_value_of_the_same_dtype_are_no_loss(dtype: str, verdict: str) -> None:
    """In float64 the sides agree, but there they are float32 too: that is an ideal value for bfloat16 alone."""
    (found,) = results(lambda x: on_the_host(x) * 3, cancelling, dtype, gradients=False)
    assert found.ruling.verdict == verdict, (found.ruling.verdict, found.ruling.evidence, found.ruling.reason)
    if verdict == "error":
        assert "no value in float64 to hold errors against" in (found.ruling.reason or ""), found.ruling.reason
        assert "computes in float32 at check/test_refused_dtypes.py" in (found.ruling.reason or ""), found.ruling.reason
        assert "; write jnp.promote_types(x.dtype, jnp.float32) for that dtype" in (found.ruling.reason or ""), (
            found.ruling.reason
        )
    else:
        assert "loses accuracy" in (found.ruling.evidence or ""), found.ruling.evidence
