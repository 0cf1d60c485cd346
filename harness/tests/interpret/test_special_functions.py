"""Special functions and integer operations: what jax and SciPy compute, identities of formulas, and unequal twins."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental.scheduling_groups import xla_metadata_call

from samebits.errors import NotCovered
from samebits.interpret import arrays
from samebits.interpret.arrays import ARITHMETIC, evaluate
from samebits.interpret.composite_primitives import AS_FORMULAS, EVERYWHERE
from samebits.interpret.equation import Step
from samebits.interpret.interpreter import CALLS, Interpreter
from samebits.interpret.rounding_error.domain import RoundingDomain
from samebits.interpret.rounding_error.rules import SPECIAL_RULES
from samebits.interpret.rounding_error.step_bounds import exactly
from tests.interpret.executed import answers, check

Function = Callable[..., Any]

RNG = np.random.default_rng(28)
X, Y = (RNG.uniform(0.15, 0.85, (3, 4)).astype(np.float32) for _ in range(2))
WHOLE = np.array([0, 1, -1, 7, -(2**31), 2**31 - 1], np.int32)


@jax.custom_batching.custom_vmap
def batched(x: Any) -> Any:
    return jnp.sin(x) * x


@batched.def_vmap
def _batched_rule(size: int, is_batched: Any, x: Any) -> Any:
    return jnp.sin(x) * x, is_batched[0]


def fast(x: Any) -> Any:
    """A function whose derivative stores nothing that it can compute again."""
    function = jax.custom_vjp(lambda x: jnp.sin(x) * x)
    function.defvjp(
        lambda x: (jnp.sin(x) * x, x), lambda x, g: (g * (jnp.cos(x) * x + jnp.sin(x)),), optimize_remat=True
    )
    return function(x)


EXECUTED: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "acosh": (lambda x: lax.acosh(1 + x), (X,)),
    "asinh": (lax.asinh, (X,)),
    "atanh": (lax.atanh, (X,)),
    "bessel_i0e": (lax.bessel_i0e, (X,)),
    "bessel_i1e": (lax.bessel_i1e, (X,)),
    "clz": (lax.clz, (WHOLE,)),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(3 * x, 1, reverse=True), (X,)),
    "digamma": (lax.digamma, (X,)),
    "erf_inv": (lax.erf_inv, (X,)),
    "igamma": (lambda x, y: lax.igamma(3 * x, y), (X, Y)),
    "igamma_grad_a": (jax.grad(lambda x, y: jnp.sum(lax.igamma(3 * x, y))), (X, Y)),
    "igammac": (lambda x, y: lax.igammac(3 * x, y), (X, Y)),
    "le_to": (lambda x, y: jnp.searchsorted(jnp.sort(x[0]), y[0]), (X, Y)),
    "lgamma": (lax.lgamma, (X,)),
    "log2": (jnp.log2, (X,)),
    "lt_to": (lambda x, y: jnp.searchsorted(jnp.sort(x[0]), y[0], side="right"), (X, Y)),
    "mulhi": (lambda n: lax.mulhi(n, n[::-1]), (WHOLE,)),
    "polygamma": (lambda x: lax.polygamma(jnp.full_like(x, 2), x), (X,)),
    "polynomial": (jax.grad(lambda x: jnp.sum(lax.erf(x) * lax.erfc(2 * x))), (X,)),
    "population_count": (lambda n: lax.population_count(n), (WHOLE,)),
    "regularized_incomplete_beta": (lambda x, y: lax.betainc(2 * x, 3 * y, y), (X, Y)),
    "zeta": (lambda x, y: lax.zeta(2 + x, y), (X, Y)),
    "approx_top_k": (lambda x: [*lax.approx_max_k(x, 2), *lax.approx_min_k(x, 2, reduction_dimension=0)], (X,)),
    "rem": (lambda x, y: [lax.rem(9 * x - 4, y), jnp.mod(9 * x - 4, y)], (X, Y)),
    "a batch of loops": (
        jax.vmap(lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + x, 2 * c[1]), (x, 1.0))[1]),
        (X[0],),
    ),
    "custom_vmap_call": (batched, (X,)),
    "optimize_remat, its derivative": (jax.grad(lambda x: jnp.sum(fast(x))), (X,)),
    "remat_opt": (lambda x: jax.vjp(fast, x)[0], (X,)),
    "xla_metadata_call": (xla_metadata_call(lambda x: jnp.sin(x) * 2, scheduling_group="a"), (X,)),
    "composite": (lax.composite(lambda x: jnp.sin(x) * 3, name="a.b"), (X,)),
    "linear_call": (
        lambda x, y: jax.custom_derivatives.linear_call(lambda r, v: r * v, lambda r, c: r * c, x, y),
        (X, Y),
    ),
    "call_hi_primitive": (lambda x, y: jnp.digitize(x, jnp.sort(y[0])), (X, Y)),
    "remat2": (jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(jnp.cos(x))))), (X,)),
}


def wide(args: tuple[Any, ...]) -> list[Any]:
    return [arg.astype(np.float64) if arg.dtype.kind == "f" else arg for arg in args]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EXECUTED)
def test_the_interpreter_computes_what_jax_does(name: str) -> None:
    function, args = EXECUTED[name]
    met = check(function, *wide(args))
    newer = {"polynomial", "log2", "call_hi_primitive"}  # primitives of jax 0.12, which has others no longer
    older = {"le_to", "lt_to", "approx_top_k", "remat_opt"}
    known = {*arrays.SPECIAL, *AS_FORMULAS, *EVERYWHERE, *CALLS}
    assert name in met or name in newer | older or name not in known


def test_jax_in_float64_is_what_scipy_computes() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.concatenate([np.linspace(-0.99, 0.99, 101), np.linspace(1, 40, 101)])
    for function, expected, domain in (
        (lax.lgamma, special.gammaln, x[x > 0]),
        (lax.digamma, special.digamma, x[x > 0]),
        (lax.erf_inv, special.erfinv, x[np.abs(x) < 1]),
        (lax.bessel_i0e, special.i0e, x),
        (lax.bessel_i1e, special.i1e, x),
    ):
        program = jax.make_jaxpr(function)(domain.astype(np.float32))
        step = Step.of(program.jaxpr.eqns[0])
        (found,) = arrays.by_jax(step, domain)
        assert np.abs(found - expected(domain)).max() <= 1e-13 * np.abs(expected(domain)).max()


EQUAL: dict[str, tuple[Function, Function]] = {
    "log2": (lambda x, y: jnp.log2(x) * jnp.log(2.0) * 2, lambda x, y: jnp.log2(x) * 2 * jnp.log(2.0)),
    "gamma from above": (lambda x, y: lax.igammac(x, y), lambda x, y: 1 - lax.igamma(x, y)),
    "erf_inv is odd": (lambda x, y: lax.erf_inv(x - y), lambda x, y: -lax.erf_inv(y - x)),
    "a binomial": (
        lambda x, y: lax.lgamma(x + y) - lax.lgamma(y) - lax.lgamma(x),
        lambda x, y: -(lax.lgamma(x) + lax.lgamma(y)) + lax.lgamma(y + x),
    ),
    "a cumulative logsumexp": (lambda x, y: lax.cumlogsumexp(x, 1)[:, -1], lambda x, y: jax.nn.logsumexp(x, -1)),
    "a softmax by its logarithm": (
        lambda x, y: jax.nn.softmax(x * y, -1),
        lambda x, y: jnp.exp(x * y - jax.nn.logsumexp(x * y, -1, keepdims=True)),
    ),
    "a softmax by a logarithm to the base two": (
        lambda x, y: jax.nn.softmax(x, -1),
        lambda x, y: jnp.exp(x - jnp.log2(jnp.exp(x).sum(-1, keepdims=True)) * jnp.log(2.0)),
    ),
    "a product of logarithms": (
        lambda x, y: (1 + x) / (y * y) * jnp.exp(y),
        lambda x, y: jnp.exp(jnp.log1p(x) - (jnp.log(y) - y) - jnp.log(y)),
    ),
    "logarithms that were put together": (
        lambda x, y: jnp.concatenate([1 / x, jnp.exp(-y)]),
        lambda x, y: jnp.exp(-jnp.concatenate([jnp.log(x), y])),
    ),
    "a remainder": (lambda x, y: jnp.mod(9 * x, y), lambda x, y: 9 * x - y * jnp.floor(9 * x / y)),
    "a batch of loops": (
        lambda x, y: jax.vmap(lambda n, v: lax.fori_loop(0, n, lambda i, s: s * v, v))(np.arange(4), x[0]),
        lambda x, y: jnp.stack([x[0, k] ** (k + 1) for k in range(4)]),
    ),
    "a custom batch": (lambda x, y: jax.vmap(batched)(x), lambda x, y: x * jnp.sin(x)),
    "a derivative with optimize_remat": (
        jax.grad(lambda x, y: jnp.sum(fast(x))),
        lambda x, y: x * jnp.cos(x) + jnp.sin(x),
    ),
    "the derivative of gelu": (
        jax.grad(lambda x, y: jnp.sum(jax.nn.gelu(x, approximate=False))),
        jax.grad(lambda x, y: jnp.sum(x * (1 + lax.erf(x / np.float32(2**0.5))) / 2)),
    ),
    "a search": (
        lambda x, y: x[0][jnp.searchsorted(jnp.sort(x[0]), y[0]) % 4],
        lambda x, y: x[0][jnp.sum(x[0][:, None] < y[0], 0) % 4],
    ),
}

DIFFERENT: dict[str, tuple[Function, Function]] = {
    "another argument": (lambda x, y: lax.lgamma(x), lambda x, y: lax.lgamma(x + 0.01)),
    "another function": (lambda x, y: lax.digamma(x), lambda x, y: lax.lgamma(x)),
    "the arguments exchanged": (lambda x, y: lax.igamma(x, y), lambda x, y: lax.igamma(y, x)),
    "another base": (lambda x, y: jnp.log2(x), lambda x, y: jnp.log(x)),
    "from the other end": (lambda x, y: lax.cumlogsumexp(x, 1), lambda x, y: lax.cumlogsumexp(x, 1, reverse=True)),
    "a sum of one term less": (
        lambda x, y: jax.nn.softmax(x, -1),
        lambda x, y: jnp.exp(x - jax.nn.logsumexp(x[:, :-1], -1, keepdims=True)),
    ),
    "a logarithm with another factor": (lambda x, y: x * x * y, lambda x, y: jnp.exp(1.999 * jnp.log(x)) * y),
    "a logarithm of another sign": (lambda x, y: jnp.exp(y) / x, lambda x, y: jnp.exp(y + jnp.log(x))),
    "logarithms of which one was changed": (lambda x, y: x * y, lambda x, y: jnp.exp(jnp.log(x) + 2 * jnp.log(y))),
    "rounded towards zero": (lambda x, y: jnp.mod(x - y, y), lambda x, y: lax.rem(x - y, y)),
    "one step more": (
        lambda x, y: jax.vmap(lambda n, v: lax.fori_loop(0, n, lambda i, s: s * v, v))(np.arange(4), x[0]),
        lambda x, y: jnp.stack([x[0, k] ** (k + 2) for k in range(4)]),
    ),
    "atan2 of the other quadrant": (lambda x, y: lax.atan2(x, y), lambda x, y: lax.atan2(y, x)),
    "the nearest of another dtype": (
        lambda x, y: lax.nextafter(x, y),
        lambda x, y: lax.nextafter(x, y + 1) * np.float32(1.01),
    ),
}


test_equal_formulas_are_proved = answers("equal", EQUAL, X, Y)
test_their_unequal_twins_are_different = answers("different", DIFFERENT, X, Y)


def test_zeros_of_both_signs_are_not_ordered_by_formulas() -> None:
    step = Step.of(jax.make_jaxpr(lax.lt)(X[0, :4], X[0, :4]).jaxpr.eqns[0])
    step = step.like("lt_to", step.inputs, step.outputs)
    x = np.array([-0.0, 0.0, 1.0, np.inf, np.nan])
    assert np.all(evaluate(step, [x[:-1], x[1:]])) and not np.any(evaluate(step, [x[1:], x[:-1]]))
    with pytest.raises(NotCovered, match="one NaN after another"):
        evaluate(step, [x[-4:], x[-4:]])


DTYPES = ("bfloat16", "float16", "float32")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", SPECIAL_RULES)
def test_the_bounds_of_special_functions_hold(name: str) -> None:
    function: Function = getattr(lax, name, jnp.log2)
    x = RNG.uniform(0.05, 0.95, 500)
    arguments = np.concatenate([x, 20 * x, -7.3 * x]) if name in ("asinh", "bessel_i0e", "bessel_i1e", "digamma") else x
    arguments = 1 + 20 * x if name in ("acosh", "lgamma", "log2") else arguments
    for dtype in DTYPES:
        inputs = np.asarray(jnp.asarray(arguments, dtype))

        factor = jnp.asarray(1.1 if name == "acosh" else 0.97, dtype)

        def program(x: Any, factor: Any = factor) -> Any:
            return function(x * factor)

        (bounded,) = Interpreter(RoundingDomain())(jax.make_jaxpr(program)(inputs), exactly(inputs))
        used = bounded.used(np.asarray(jax.jit(program)(inputs)))
        assert used.max() <= 1 and used.max() > 1e-4, f"{name} in {dtype} uses {used.max()} of its bound"


def test_every_operation_on_floats_is_covered() -> None:
    whole = {"and", "not", "or", "xor", "bitcast_convert_type", "reduce_and", "reduce_or", "reduce_xor"}
    whole |= {"clz", "mulhi", "population_count"}
    measured = {
        "igamma",
        "igamma_grad_a",
        "igammac",
        "polygamma",
        "random_gamma",
        "regularized_incomplete_beta",
        "zeta",
    }
    assert set(ARITHMETIC) - RoundingDomain.covers == whole | measured | arrays.MATRICES | {
        name for name in ARITHMETIC if name.startswith("shift")
    }
