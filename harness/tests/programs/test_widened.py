"""Programs in float64: fixed dtypes are widened too; honest code passes, and a fault is still found."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.host import environment
from samebits.programs.sides import wide, widened
from samebits.schema.contract import Contract
from tests.support.toys import alone, of, run, toy

environment.prepare()

ROUNDING = (Contract(lowest="rounding", reason="for this test"),)


def f32(x: Any) -> Any:
    return x.astype(jnp.float32)


def filtered(x: Any, *, factor: float = 2.0) -> Any:
    """A filter in the frequency domain, in a fixed float32; complex numbers end a proof."""
    spectrum = jnp.fft.fft(f32(x)) * jnp.arange(1, 17, dtype=jnp.float32) / factor
    return jnp.fft.ifft(spectrum).real.astype(x.dtype)


def filtered_in_parts(x: Any, *, factor: float = 2.0) -> Any:
    """Three tenths of it and seven tenths of it."""
    spectrum = jnp.fft.fft(f32(x)) * jnp.arange(1, 17, dtype=jnp.float32) / factor
    return (jnp.fft.ifft(0.3 * spectrum).real + jnp.fft.ifft(0.7 * spectrum).real).astype(x.dtype)


def filtered_wrongly(x: Any, *, factor: float = 2.0) -> Any:
    """Another frequency response by a millionth."""
    spectrum = jnp.fft.fft(f32(x)) * (jnp.arange(1, 17, dtype=jnp.float32) / factor + 1e-6)
    return jnp.fft.ifft(spectrum).real.astype(x.dtype)


def filtered_coarsely(x: Any, *, factor: float = 2.0) -> Any:
    """The spectrum rounded to bfloat16 on its way."""
    spectrum = jnp.fft.fft(f32(x)) * jnp.arange(1, 17, dtype=jnp.float32) / factor
    real, imag = (part.astype(jnp.bfloat16).astype(jnp.float32) for part in (spectrum.real, spectrum.imag))
    return jnp.fft.ifft(jax.lax.complex(real, imag)).real.astype(x.dtype)


def filtered_where_it_is_wide(x: Any, *, factor: float = 2.0) -> Any:
    """Right in float64 alone, as an oracle that traces again would see it."""
    return filtered(x, factor=factor if x.dtype == jnp.float64 else factor * 1.001)


@pytest.mark.slow
def test_a_fixed_float32_is_judged_and_not_rejected() -> None:
    """In float64, with casts as identities, the sides are equal, and so are their formulas."""
    results = of(run(toy(filtered, parts=filtered_in_parts), contracts=ROUNDING), variant="parts")
    assert [(r.place.direction, r.ruling.ok) for r in results] == [("forward", True), ("gradient", True)], results
    assert any(r.ruling.verdict == "rounding" and "the same formulas" in str(r.ruling.evidence) for r in results), (
        results
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (filtered_wrongly, "only the variant has the literal 1e-06"),
        (filtered_coarsely, "loses accuracy: error "),
        (filtered_where_it_is_wide, "not the same mathematics: out["),
    ],
)
def test_a_fault_beside_a_fixed_float32_is_different(fault: Callable[..., Any], said: str) -> None:
    (found,) = run(toy(filtered, fault=fault), alone("fault"), contracts=ROUNDING)
    assert found.ruling.verdict == "different"
    assert said in str(found.ruling.evidence)


def _scanned(x: Any) -> Any:
    return jax.lax.scan(lambda c, a: (c * f32(a), f32(c) + 0.7 * a), f32(x[0]), f32(x))[1].astype(x.dtype)


def _looped(x: Any) -> Any:
    return jax.lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, jnp.sin(f32(s[1])) * 0.7), (0, f32(x)))[1]


def _branched(x: Any) -> Any:
    return jax.lax.cond(jnp.sum(x) > -1e9, lambda y: f32(y) / 3, lambda y: f32(y) * 3, x)


def _solved(x: Any) -> Any:
    matrix = jnp.outer(f32(x), f32(x)) + 3 * jnp.eye(6)
    return jnp.linalg.solve(matrix, f32(x)[:, None])[:, 0]


def _composed(x: Any) -> Any:
    return jax.checkpoint(lambda y: jax.nn.gelu(jax.nn.relu(jax.nn.logsumexp(f32(y)) + y), approximate=False))(x)


def _bits(x: Any) -> Any:
    """The exponent of the declared float32, which float64 has elsewhere."""
    bits = jax.lax.bitcast_convert_type(f32(x), jnp.uint32) & np.uint32(0x7F800000)
    return jax.lax.bitcast_convert_type(bits, jnp.float32) * f32(x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("function", [_scanned, _looped, _branched, _solved, _composed, _bits])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_widened_program_is_the_program_of_float64_numbers(function: Callable[..., Any], dtype: str) -> None:
    """Traced for narrow numbers, and equal to what the same code gives once no dtype is fixed in it."""
    x = np.array([0.3, -1.1, 0.7, 2.3, -0.2, 0.9]).astype(jnp.dtype(dtype))
    closed = jax.make_jaxpr(function)(x)
    run_widened = widened(closed)
    assert run_widened is not None
    with jax.enable_x64(True):
        (found,) = jax.jit(run_widened)(x.astype(np.float64))
        with pytest.MonkeyPatch.context() as patched:
            if function is not _bits:
                patched.setattr(f"{__name__}.f32", lambda x: x)
            expected = function(x.astype(np.float64))
    assert found.dtype == np.float64
    scale = 1e-6 if function is _bits else 1e-14
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected, np.float64), rtol=scale, atol=scale)


def test_an_opaque_program_is_not_widened() -> None:
    def called(x: Any) -> Any:
        return jax.lax.fori_loop(0, 2, lambda _, y: jax.pure_callback(np.asarray, y, y), x)

    assert widened(jax.make_jaxpr(called)(np.ones(3, np.float32))) is None


def _accumulated(x: Any, w: Any) -> Any:
    """A matrix product in two blocks, added up in place."""
    total = jax.new_ref(jnp.zeros((x.shape[0], w.shape[1]), x.dtype))

    def add(block: Any, carry: Any) -> Any:
        rows = jax.lax.dynamic_slice_in_dim(w, 4 * block, 4)
        total[...] += jax.lax.dynamic_slice_in_dim(x, 4 * block, 4, 1) @ rows
        return carry

    jax.lax.fori_loop(0, 2, add, None)
    return total[...]


def test_arrays_written_in_place_are_judged_in_float64() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 8), (8, 4)))
    assert widened(jax.make_jaxpr(_accumulated)(x, w)) is None
    compared = samebits.check(lambda x, w: x @ w, _accumulated, x, w, gradients=False)
    assert compared.ok, compared


def test_dtypes_that_stand_for_others() -> None:
    assert [str(wide(d)) for d in ("float32", jnp.bfloat16, "complex64", "int32", "bool")] == [
        "float64",
        "float64",
        "complex128",
        "int32",
        "bool",
    ]
