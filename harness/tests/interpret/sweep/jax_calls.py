"""The public functions of jax itself: `jax.numpy`, `jax.nn`, `jax.lax`, `jax.scipy`, `jax.random`, `jax.image`."""

import inspect
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import jax.scipy.linalg
import jax.scipy.special
import jax.scipy.stats
import numpy as np
from jax import lax

from tests.interpret.sweep.calls import SPD, B, I, LibraryCall, N, V, X, Y, Z, of_module

KEY = object()
"""The place of a random key, which is made when a call is: a key starts jax's backend."""
HEADS = np.random.default_rng(4).normal(size=(1, 4, 2, 4)).astype(np.float32)

SKIP = frozenset(
    {"from_dlpack", "load", "save", "savez", "printoptions", "get_printoptions", "set_printoptions", "frombuffer"}
    | {"fromfile", "fromstring", "fromfunction", "infeed", "outfeed", "create_token", "after_all", "array_repr"}
    | {"all_gather", "all_to_all", "axis_index", "pcast", "pmax", "pmean", "pmin", "ppermute", "pshuffle", "psum"}
    | {"psum_scatter", "pswapaxes", "pvary", "ragged_all_to_all", "custom_linear_solve", "axis_size"}
    | {"array_str", "promote_types", "result_type", "can_cast", "isdtype", "ndim", "shape", "size", "iscomplexobj"}
)
"""No computation, effects outside of a program, or what needs a mesh or a solver (`hand_calls` has both)."""

PARTICULAR: dict[str, tuple[Any, ...]] = {
    "jax.nn.dot_product_attention": (HEADS, HEADS, HEADS),
    "jax.nn.one_hot": (N, 4),
    "jax.lax.reduce_precision": (X, 5, 7),
    "jax.lax.integer_pow": (X, 3),
    "jax.lax.iota": (np.float32, 4),
    "jax.lax.reshape": (X, (16,)),
    "jax.lax.select_n": (B, X, Y),
    "jax.lax.clamp": (0.3, X, 0.7),
    "jax.lax.rng_bit_generator": (np.arange(4, dtype=np.uint32), (4,)),
}

RANDOM: dict[str, tuple[Any, ...]] = {
    "ball": (KEY, 3),
    "bernoulli": (KEY, 0.3, (4,)),
    "beta": (KEY, 0.5, 2.0, (4,)),
    "binomial": (KEY, 4.0, 0.5, (4,)),
    "categorical": (KEY, X),
    "choice": (KEY, V, (2,)),
    "chisquare": (KEY, 2.0, (4,)),
    "dirichlet": (KEY, V, (2,)),
    "f": (KEY, 2.0, 3.0, (4,)),
    "fold_in": (KEY, 3),
    "gamma": (KEY, V),
    "generalized_normal": (KEY, 2.0, (4,)),
    "geometric": (KEY, 0.5, (4,)),
    "key": (3,),
    "key_data": (KEY,),
    "loggamma": (KEY, V),
    "multinomial": (KEY, 4.0, V / V.sum()),
    "multivariate_normal": (KEY, V, SPD),
    "pareto": (KEY, 2.0, (4,)),
    "poisson": (KEY, 2.0, (4,)),
    "randint": (KEY, (4,), 0, 9),
    "rayleigh": (KEY, 2.0, (4,)),
    "split": (KEY,),
    "t": (KEY, 2.0, (4,)),
    "triangular": (KEY, 0.0, 0.5, 1.0, (4,)),
    "truncated_normal": (KEY, -1.0, 1.0, (4,)),
    "wald": (KEY, 2.0, (4,)),
    "weibull_min": (KEY, 2.0, 1.0, (4,)),
    "wrap_key_data": (np.arange(2, dtype=np.uint32),),
    "PRNGKey": (3,),
    "clone": (KEY,),
    "permutation": (KEY, V),
}


def random_calls() -> Iterator[LibraryCall]:
    """The functions of `jax.random`; those of a key and a shape need no particular arguments."""
    for name in sorted(dir(jax.random)):
        function = getattr(jax.random, name)
        if name.startswith("_") or not callable(function) or isinstance(function, type):
            continue
        for args in (RANDOM[name],) if name in RANDOM else ((KEY, (4,)), (KEY, X)):
            with_key = tuple(jax.random.key(0) if arg is KEY else arg for arg in args)
            call = LibraryCall(f"jax.random.{name}", function, with_key)
            try:
                if call.program().out_avals:
                    yield call
                    break
            except Exception:  # no sampler of a key and a shape
                continue


def hand_calls() -> Iterator[LibraryCall]:
    """What tests of modules do not reach: transformations, control flow, complex arithmetic, updates at indices."""
    calls: dict[str, tuple[Any, tuple[Any, ...]]] = {
        "jax.checkpoint": (jax.checkpoint(lambda x: jnp.sin(jnp.cos(x))), (X,)),
        "jax.custom_batching.custom_vmap": (_batched, (X,)),
        "jax.lax.cond": (lambda x: lax.cond(x[0, 0] > 0.5, jnp.sin, jnp.cos, x), (X,)),
        "jax.lax.while_loop": (
            lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, 2 * s[1]), (0, x)),
            (X,),
        ),
        "jax.lax.fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, s: s + x[i], V), (X,)),
        "jax.lax.scan": (lambda x: lax.scan(lambda s, r: (s + r, s * r), V, x), (X,)),
        "jax.lax.associative_scan": (lambda x: lax.associative_scan(jnp.multiply, x), (X,)),
        "jax.lax.map": (lambda x: lax.map(jnp.sin, x), (X,)),
        "jax.lax.custom_linear_solve": (lambda a, v: jsp.sparse.linalg.cg(a, v, maxiter=3)[0], (SPD, V)),
        "jax.lax.custom_root": (_rooted, (V,)),
        "jax.lax.conv": (lambda x, y: lax.conv(x[None, None], y[None, None], (1, 1), "SAME"), (X, Y)),
        "jax.lax.reduce_window": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (2, 2), (1, 1), "VALID"), (X,)),
        "jax.lax.sort_key_val": (lambda x, y: lax.sort_key_val(x, y), (X, Y)),
        "jax.lax.platform_dependent": (lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), (X,)),
        "x.at.add": (lambda x, n: x.at[n].add(1.0), (X, N)),
        "x.at.set": (lambda x: x.at[np.arange(4)].set(1.0), (X,)),
        "x.at.multiply": (lambda x, n: x.at[n].multiply(2.0), (X, N)),
        "x.at.divide": (lambda x, n: x.at[n].divide(2.0), (X, N)),
        "x.at.power": (lambda x, n: x.at[n].power(2.0), (X, N)),
        "x.at.min": (lambda x, n: x.at[n].min(0.5), (X, N)),
        "x.at.max": (lambda x, n: x.at[n].max(0.5), (X, N)),
        "x.at.apply": (lambda x, n: x.at[n].apply(jnp.sin), (X, np.array([2, 0], np.int32))),
        "rotation by a complex product": (_rotated, (X, V[:2])),
        "jax.vmap of a solve": (jax.vmap(jnp.linalg.solve), (np.stack([SPD, SPD + 1]), np.stack([X, Y]))),
        "jax.lax.bitcast_convert_type": (lambda x: lax.bitcast_convert_type(x, np.int32), (X,)),
        "jax.lax.reduce_and": (lambda b: lax.reduce_and(b, (0,)), (B,)),
        "jax.lax.reduce": (lambda x: lax.reduce(x, 0.0, lambda a, b: a + b * 1.0, (0,)), (X,)),
        "jax.jvp": (lambda x: jax.jvp(jnp.tanh, (x,), (x,)), (X,)),
        "jax.hessian": (jax.hessian(lambda v: jnp.sum(jax.nn.gelu(v) ** 2)), (V,)),
        "jax.lax.top_k": (lambda x: lax.top_k(x, 2), (X,)),
        "jax.lax.approx_max_k": (lambda x: lax.approx_max_k(x, 2), (X,)),
        "jax.lax.ragged_dot": (
            lambda x, y, n: lax.ragged_dot(x, jnp.stack([y, y]), n),
            (X, Y, np.array([1, 3], np.int32)),
        ),
        "jnp.fft of a product": (lambda z: jnp.fft.ifft(jnp.fft.fft(z) * 2), (Z,)),
        "population count": (lambda i: lax.population_count(i) + lax.clz(i), (I,)),
    }
    for name, (function, args) in calls.items():
        yield LibraryCall(name, function, args)


@jax.custom_batching.custom_vmap
def _batched(x: Any) -> Any:
    return jnp.sin(x)


@_batched.def_vmap
def _batched_rule(size: int, batched: Any, x: Any) -> Any:
    return jnp.sin(x), batched[0]


def _rooted(v: Any) -> Any:
    def solve(f: Any, x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, s: s - f(s) / (3 * s * s), x)

    return lax.custom_root(lambda s: s**3 - v, v, solve, lambda g, y: y / jnp.diag(jax.jacobian(g)(y)))


def _rotated(x: Any, angles: Any) -> Any:
    """Rotary position embedding as published with the first Llama models."""
    pairs = lax.complex(x[:, 0::2], x[:, 1::2]) * jnp.exp(1j * angles)
    return jnp.stack([jnp.real(pairs), jnp.imag(pairs)], -1).reshape(x.shape)


def jax_calls() -> Iterator[LibraryCall]:
    """Every call of this file."""
    modules = {
        "jax.numpy": jnp,
        "jax.numpy.linalg": jnp.linalg,
        "jax.numpy.fft": jnp.fft,
        "jax.nn": jax.nn,
        "jax.lax": lax,
        "jax.lax.linalg": lax.linalg,
        "jax.scipy.special": jax.scipy.special,
        "jax.scipy.linalg": jax.scipy.linalg,
        "jax.scipy.stats": jax.scipy.stats,
    }
    for prefix, module in modules.items():
        yield from of_module(module, prefix, PARTICULAR, SKIP)
    for name in sorted(dir(jax.scipy.stats)):
        inner = getattr(jax.scipy.stats, name)
        if inspect.ismodule(inner) and not name.startswith("_"):
            yield from of_module(inner, f"jax.scipy.stats.{name}", PARTICULAR, SKIP)
    yield from random_calls()
    yield from hand_calls()
