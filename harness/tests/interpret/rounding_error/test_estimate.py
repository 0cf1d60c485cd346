"""Error bounds compared with execution: results of jax lie inside, and a bound that omits a term is caught."""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.sharding import PartitionSpec

from samebits.errors import NotCovered
from samebits.interpret.arrays import evaluate
from samebits.interpret.equation import Step, Type
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle
from samebits.interpret.rounding_error import domain, rules, step_bounds
from samebits.interpret.rounding_error.domain import RoundingDomain
from samebits.interpret.rounding_error.rules import RULES, RuleOperands
from samebits.interpret.rounding_error.step_bounds import BoundedValue, exactly, lifted
from samebits.programs.catalogue import Locator, load
from samebits.programs.inputs import cotangent, differentiable, records
from samebits.programs.program_cache import Programs
from samebits.programs.sides import Site, TracedSides
from samebits.schema.meshes import MeshSpec

Function = Callable[..., Any]
Held = list[tuple[Any, BoundedValue]]
DTYPES = pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])


def interpreted(function: Any, *args: Any, platform: str | None = None) -> tuple[list[Any], RoundingDomain]:
    """The outputs of a function, or of a closed jaxpr, with their bounds where jax runs, and the domain."""
    platform = platform or jax.default_backend()
    jaxpr = jax.make_jaxpr(function)(*args) if callable(function) else function
    domain, flat = RoundingDomain(platform), [np.asarray(leaf) for leaf in jax.tree.leaves(args)]
    return Interpreter(domain, platform)(jaxpr, *(a if a.dtype.kind in "iub" else exactly(a) for a in flat)), domain


def held(function: Function, *args: Any) -> Held:
    return list(zip(jax.tree.leaves(jax.jit(function)(*args)), interpreted(function, *args)[0], strict=True))


def worst_use(pairs: Held) -> float:
    """The predicate of this file: the largest share of its bound that an error takes; above 1 a bound does not hold."""
    assert pairs and all(np.isfinite(bound.error).all() for _, bound in pairs)
    return max(float(np.max(bound.used(computed))) for computed, bound in pairs)


def used(function: Function, *args: Any) -> float:
    return worst_use(held(function, *args))


def normal(shape: tuple[int, ...], dtype: str, seed: int = 0, scale: float = 1.0) -> jax.Array:
    return jnp.asarray((np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype))  # not by XLA


def pulled(function: Function, pull_of: jax.Array, *args: jax.Array) -> Any:
    out, pull = jax.vjp(function, *args)
    return out, pull(pull_of)


PROGRAMS: dict[str, Function] = {
    "centred": lambda x, scale: (x - jnp.mean(x, -1, keepdims=True)) / jnp.sqrt(jnp.var(x, -1, keepdims=True) + 1e-3),
    "chain": lambda x, scale: jnp.log(jnp.exp(x) + 1) * lax.rsqrt(jnp.square(x) + 1) + scale,
    "cumsum": lambda x, scale: jnp.cumsum(x * scale, -1),
    "dot": lambda x, scale: (x * scale) @ x.T,
    "log_sum_exp": lambda x, scale: jax.nn.logsumexp(x * scale, -1),
    "masked": lambda x, scale: jax.nn.softmax(jnp.where(jnp.arange(x.shape[1]) % 3 == 0, x * scale, -jnp.inf)),
    "masked_by_a_number": lambda x, scale: jax.nn.softmax(jnp.where(scale > 0, x, jnp.finfo(x.dtype).min / 2)),
    "powers": lambda x, scale: lax.integer_pow(x, 5) + jnp.abs(scale) ** 1.5 / lax.integer_pow(x**2 + 1, -2),
    "rms_norm": lambda x, scale: x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * scale,
    "scatter_add": lambda x, scale: jnp.zeros_like(x).at[:, jnp.arange(x.shape[1]) % 5].add(x * scale),
    "silu_gate": lambda x, scale: jax.nn.silu(x) * jax.nn.sigmoid(x * scale),
    "softmax": lambda x, scale: jax.nn.softmax(x * scale),
    "waves": lambda x, scale: jnp.sin(x * 9) * jnp.cos(scale) + jnp.arctan2(x, 5 + scale),
}


@pytest.mark.slow
@DTYPES
def test_programs_and_gradients_lie_inside_useful_bounds(dtype: str) -> None:
    x, scale = normal((8, 48), dtype), normal((48,), dtype, 1)
    pulls = {name: normal(jax.eval_shape(f, x, scale).shape, dtype, 2) for name, f in PROGRAMS.items()}

    def all_of_them(pulls: dict[str, jax.Array], x: jax.Array, scale: jax.Array) -> Any:
        return {name: pulled(f, pulls[name], x, scale) for name, f in PROGRAMS.items()}

    inputs = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves((pulls, x, scale))]
    oracle = Interpreter(Oracle(), "cpu")(jax.make_jaxpr(all_of_them)(pulls, x, scale), *inputs)
    names = [name for name in sorted(PROGRAMS) for _ in ("out", "to x", "to scale")]
    for name, pair, exact in zip(names, held(all_of_them, pulls, x, scale), oracle, strict=True):
        np.testing.assert_array_equal(pair[1].value, exact, err_msg=name)
        assert worst_use([pair]) <= 1, name
        assert np.max(pair[1].error) <= 1e4 * np.max(np.abs(np.asarray(pair[0], np.float64) - exact)), name
        assert np.all(pair[1].likely <= pair[1].error), name


UNARY: dict[str, tuple[tuple[float, float], Function]] = {
    "abs atan cbrt ceil cos cosh erf erfc exp exp2 expm1 floor logistic neg round": ((-3, 3), lambda x: x),
    "sign sin sinh square tanh": ((-3, 3), lambda x: x),
    "log log1p rsqrt sqrt": ((0.01, 5), lambda x: jnp.abs(x) + 0.01),
    "acos asin tan": ((-1.2, 1.2), lambda x: x / 12),
}


FUNCTIONS: dict[str, Function] = {
    **{n: lambda x, n=n, f=f: getattr(lax, n)(f(x)) for names, (_, f) in UNARY.items() for n in names.split()},
    "choices": lambda x: (lax.cummax(x * x), lax.cummin(x * x, reverse=True), jnp.sort(x * x), lax.top_k(x * x, 5)[0]),
    "clamp": lambda x: lax.clamp(jnp.asarray(-1, x.dtype), x * x, jnp.asarray(2, x.dtype)),
    "constant": lambda x: x / 3.3 + jnp.arange(x.size).astype(x.dtype),
    "merged": lambda x: jnp.exp(x / 4) * jnp.exp(jnp.abs(x) / 4),
    "pow": lambda x: lax.pow(jnp.abs(x) + 1, jnp.asarray(1.7, x.dtype)),
    "products": lambda x: (lax.cumprod(1 + x[:300] / 1000), jnp.prod(1 + x[:300] / 1000)),
    "rem": lambda x: lax.rem(x, jnp.flip(x)),
}


@pytest.mark.slow
@DTYPES
def test_functions_lie_inside_their_bounds(dtype: str) -> None:
    x = jnp.concatenate([normal((4000,), dtype, scale=3), jnp.asarray(np.geomspace(-11.2, -1e-3, 1000), dtype)])
    computed = jax.jit(lambda x: [function(x) for function in FUNCTIONS.values()])(x)
    for name, ran in zip(FUNCTIONS, computed, strict=True):
        assert worst_use(list(zip(jax.tree.leaves(ran), interpreted(FUNCTIONS[name], x)[0], strict=True))) <= 1, name


@settings(max_examples=8, deadline=None, derandomize=True, database=None)
@given(
    names=st.lists(st.sampled_from(sorted(set(PROGRAMS) - {"dot", "log_sum_exp", "powers"})), min_size=2, max_size=4),
    dtype=st.sampled_from(["bfloat16", "float16", "float32"]),
    width=st.sampled_from([1, 5, 300]),
    seed=st.integers(0, 99),
)
def test_random_programs_lie_inside(names: list[str], dtype: str, width: int, seed: int) -> None:
    def chained(x: jax.Array, scale: jax.Array) -> jax.Array:
        return functools.reduce(lambda value, name: PROGRAMS[name](value, scale), names, x)

    args = normal((6, width), dtype, seed + 1), normal((6, width), dtype, seed), normal((width,), dtype, seed + 2)
    assert all(np.max(bound.used(ran)) <= 1 for ran, bound in held(functools.partial(pulled, chained), *args))


@DTYPES
@pytest.mark.parametrize("count", [1, 2, 300])
def test_a_plain_sum_of_positive_numbers(count: int, dtype: str) -> None:
    x = jnp.asarray(np.random.default_rng(count).uniform(0.5, 1, (count, 4)), dtype)
    function = functools.partial(lax.reduce, init_values=np.asarray(0, dtype), computation=lax.add, dimensions=(0,))
    ((computed, bound),) = held(function, x)
    unit, total = float(ml_dtypes.finfo(dtype).eps) / 2, np.sum(np.asarray(x, np.float64), 0)
    assert worst_use([(computed, bound)]) <= 1
    assert np.all(bound.error < 2 * count * unit * total) and np.all(bound.error >= (count - 1) * unit * total)
    assert bound.error.any() == (count > 1) and (count < 300 or np.all(bound.likely < 0.5 * bound.error))


def test_a_cancellation_has_a_large_relative_bound() -> None:
    pairs = held(lambda x, y: x + y - x, normal((64,), "float32", scale=1e5), normal((64,), "float32", 1))
    assert worst_use(pairs) <= 1 and np.median(pairs[0][1].error / np.abs(pairs[0][1].value)) > 1e-3


SAMPLED: list[tuple[str, tuple[tuple[float, float], ...], dict[str, Any]]] = [
    *(
        (name, (low_high,), {"rounding_method": lax.RoundingMethod(1)})
        for names, (low_high, _) in UNARY.items()
        for name in names.split()
    ),
    *(("integer_pow", ((-3, 3),), {"y": power}) for power in (3, -2)),
    *((name, ((-3, 3), (-3, 3)), {}) for name in ("add", "atan2", "div", "max", "min", "mul", "rem", "sub")),
    ("pow", ((-0.5, 3), (-3, 3)), {}),
]


def test_the_error_handed_on_is_the_largest_and_not_much_more() -> None:
    """Operands moved by all of their errors or by half of them, this way and that: none gets further."""
    rng, kind = np.random.default_rng(0), Type((4000,), np.dtype(float))
    for name, ranges, params in SAMPLED:
        step = Step(name, params, (kind,) * len(ranges), (kind,))
        x = [rng.uniform(low, high, kind.shape) for low, high in ranges]
        e = [10 ** rng.uniform(-6, -0.5, kind.shape) for _ in ranges]
        with np.errstate(all="ignore"):
            (y,) = evaluate(step, x)
            moved = np.asarray(RULES[name](RuleOperands(step, x, e, y, rules.worst, "cpu")).propagated)
            signs = itertools.product((-1, -0.5, 0.5, 1), repeat=len(x))
            ends = [evaluate(step, [a + s * b for a, b, s in zip(x, e, by, strict=True)])[0] for by in signs]
        known, far = np.isfinite(moved) & np.isfinite(y), np.max(np.abs(np.array(ends) - y), axis=0)
        assert known.sum() > 1000 and np.all(far[known] <= moved[known] * (1 + 1e-6) + 1e-12), name
        assert np.max(far[known] / np.maximum(moved[known], 1e-12)) > 0.4, name


def noisy(function: Function) -> Function:
    """A function of numbers between 1 and 2 with an error a thousand times that of one rounding."""
    return lambda x, y: function(1.5 + jnp.tanh(x * 1000 + y - x * 1000) / 2)


FORGETFUL: list[tuple[str, Function, dict[str, float]]] = [
    ("div", noisy(lambda n: 1 / n), {"propagated": 0}),
    ("dot_general", noisy(lambda n: n.reshape(32, 2) @ jnp.array([[1.0], [2.0]])), {"propagated": 0}),
    ("exp", noisy(jnp.exp), {"propagated": 0}),
    ("mul", noisy(lambda n: n * jnp.flip(n)), {"propagated": 0}),
    ("reduce_sum", noisy(lambda n: jnp.sum(n.reshape(32, 2), 1)), {"propagated": 0}),
    ("sub", noisy(lambda n: n - jnp.flip(n)), {"propagated": 0}),
    ("add", lambda x, y: x + y, {"units": 0}),
    ("convert_element_type", lambda x, y: x.astype(jnp.bfloat16), {"units": 0}),
    ("dot_general", lambda x, y: x @ y, {"absolute": 0}),
    ("exp", lambda x, y: jnp.exp(x), {"units": 0}),
    ("reduce_precision", lambda x, y: lax.reduce_precision(x, 8, 7), {"units": 0}),
    ("reduce_sum", lambda x, y: jnp.sum(x), {"absolute": 0}),
]


@pytest.mark.cpu_only
@pytest.mark.parametrize(("name", "function", "changed"), FORGETFUL)
def test_a_rule_that_forgets_an_error_is_caught(name: str, function: Function, changed: Any, monkeypatch: Any) -> None:
    args, honest = (normal((64,), "float32"), normal((64,), "float32", 1)), RULES[name]
    assert used(function, *args) <= 1
    monkeypatch.setitem(RULES, name, lambda given: honest(given)._replace(**changed))
    assert used(function, *args) > 1


@pytest.mark.cpu_only
def test_a_sum_counted_as_one_rounding_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    terms = jnp.full((4096,), 0.01, jnp.bfloat16)  # one by one they add up to 4

    def function(terms: jax.Array) -> jax.Array:
        return jnp.zeros(2, terms.dtype).at[jnp.zeros(4096, jnp.int32)].add(terms)

    assert used(function, terms) <= 1
    assert "scatter-add[bfloat16, 4096 summands] at " in (interpreted(function, terms)[0][0].loses_most or "")
    monkeypatch.setattr(domain, "worst", lambda n, unit: np.minimum(n, 1) * unit)
    assert used(function, terms) > 1


@pytest.mark.cpu_only
def test_numbers_flushed_to_zero_lie_inside_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    x, honest = jnp.asarray([1.2e-38, 3e-38, 1e-30], jnp.float32), rules.format_of
    assert used(lambda x: x * 0.5, x) <= 1
    for module in (rules, domain, step_bounds):
        monkeypatch.setattr(module, "format_of", lambda d: dataclasses.replace(honest(d), tiny=0.0, flush=0.0))
    assert used(lambda x: x * 0.5, x) > 1


def test_an_unknown_bound_is_infinite_and_infinities_are_exact() -> None:
    x = jnp.asarray([300.0, 2.0, -jnp.inf, jnp.nan], jnp.float16)
    square, root, less = interpreted(lambda x: (x * x, jnp.sqrt(x / 3 - 2 / 3), x - 1), x)[0]
    np.testing.assert_array_equal(np.isinf(square.error), [True, False, False, False])  # beyond 65504
    np.testing.assert_array_equal(np.isinf(root.error), [False, True, False, False])  # perhaps of a negative number
    np.testing.assert_array_equal(less.used([np.inf, 1, -np.inf, np.nan]), [np.inf, 0, 0, 0])
    np.testing.assert_array_equal(less.used([299.0, 1.5, np.inf, 0]), [0, np.inf, np.inf, np.inf])


def test_decisions_nearer_than_the_error_are_counted() -> None:
    def function(x: jax.Array, by: jax.Array) -> Any:
        y = x * by / by
        return jnp.where(y > 1, x, -x), jnp.argmax(y), y.astype(int), lax.top_k(y, 2)

    ties = interpreted(function, jnp.asarray([3.0, 1.0, 3.0000002], jnp.float32), jnp.float32(1.1))[1].near_ties
    assert sorted(step.split("(")[0] for step in ties) == ["argmax", "convert_element_type", "gt", "top_k"]


def pieces(x: Any, platform: str) -> tuple[Any, Any]:
    if platform == "gpu":  # TensorFloat-32, cut off
        return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32), 0 * x
    first = x.astype(ml_dtypes.bfloat16).astype(np.float32)
    return first, (x - first).astype(ml_dtypes.bfloat16).astype(np.float32)


@pytest.mark.parametrize(("platform", "better"), [("gpu", "highest"), ("tpu", "high")])
def test_truncated_operands_lie_inside_their_own_bound_only(platform: str, better: str) -> None:
    x, y = np.asarray(normal((32, 64), "float32")), np.asarray(normal((64, 32), "float32", 1))
    (a, c), (b, d) = pieces(x, platform), pieces(y, platform)
    plain, careful = (
        interpreted(lambda x, y, p=p: jnp.dot(x, y, precision=p), x, y, platform=platform)[0][0] for p in (None, better)
    )
    assert np.max(plain.used(a @ b)) <= 1 < np.max(careful.used(a @ b))
    assert platform == "gpu" or np.max(careful.used(a @ b + (a @ d + c @ b))) <= 1


@pytest.mark.devices(4)
def test_a_sum_over_devices_is_a_sum() -> None:
    mesh, spec = MeshSpec.parse("data4").build("auto"), PartitionSpec("data")
    summed = jax.shard_map(lambda x: lax.psum(jnp.exp(x), "data"), mesh=mesh, in_specs=spec, out_specs=PartitionSpec())
    assert used(summed, normal((8, 16), "bfloat16")) <= 1


def test_what_cannot_be_bounded_is_refused() -> None:
    with pytest.raises(NotCovered, match=r"dot_general.* has no bound"):
        interpreted(lambda x: jnp.dot(x, x, precision="BF16_BF16_F32"), normal((4, 4), "float32"))


def call_of(sides: TracedSides, side: str, site: Site, direction: str) -> tuple[Any, ...]:
    """The arguments of a side's program: a record, for a gradient with a random cotangent."""
    record = records(sides.pair, site.case, site.dtype, site.mesh)["ordinary"]
    if direction == "forward":
        return (record,)
    names, types = differentiable(sides.args(site), site.dtype), sides.cotangent_types(side, site)
    parts = [{name: a for name, a in record.items() if (name in names) == chosen} for chosen in (True, False)]
    return *parts, [cotangent("random", kind.shape, kind.dtype, path) for path, kind in types.items()]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("name", "case"), [("rms_norm", "default"), ("embedding", "one_token")])
def test_what_the_pairs_compute_lies_inside(name: str, case: str, dtype: str, direction: str) -> None:
    sides = TracedSides(load(Locator(name=name)), Programs(threads=1))
    site = Site(case=sides.pair.case(case), dtype=dtype, mesh=MeshSpec.parse("data1"), mode="auto", built=None)
    for side in sides.pair.sides:
        program, call = getattr(sides, direction)(side, site), call_of(sides, side, site, direction)
        computed = jax.tree.leaves(sides.programs.start(program).result()(*call))
        assert worst_use(list(zip(computed, interpreted(program.traced.jaxpr, *call)[0], strict=True))) <= 1, side
    sides.programs.close()


# A number with bounds names the operation with the largest error of its own.
X = np.linspace(0.1, 1, 16, dtype=np.float32)


def cut(x: Any) -> Any:
    return x.astype(jnp.bfloat16).astype(jnp.float32)


def product(x: Any) -> Any:
    """The cast loses 2^-9, the sum of 16 terms 2^-20, and their product 2^-24."""
    return cut(x) * jnp.sum(x)


def exchanged(x: Any) -> Any:
    return jnp.sum(x) * cut(x)


@pytest.mark.parametrize("function", [product, exchanged])
def test_the_largest_of_several_errors_is_named(function: Callable[[Any], Any]) -> None:
    (found,) = Interpreter(RoundingDomain("cpu"), "cpu")(jax.make_jaxpr(function)(X), lifted(X))
    assert found.loses_most is not None and found.loses_most.startswith("convert_element_type[bfloat16] at "), found


def test_where_nothing_rounds_nothing_is_named() -> None:
    assert exactly(X).loses_most is None
