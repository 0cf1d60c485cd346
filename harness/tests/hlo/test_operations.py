"""What XLA:CPU made of small functions, run by it and as a JAX function: the same bits where they are defined."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from samebits.hlo import as_jax
from samebits.hlo.module import HloModule
from samebits.hlo.steps import Untranslated
from tests.hlo.execution import compiled

RANDOM = np.random.default_rng(0)


def whole(*shape: int, dtype: str = "int32") -> np.ndarray[Any, Any]:
    """Small whole numbers: every sum of them is exact."""
    return RANDOM.integers(-8, 9, shape).astype(dtype)


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return whole(*shape, dtype="float32")


def everywhere(values: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Each value beside each."""
    return [side.reshape(-1) for side in np.meshgrid(values, values)]


def each(functions: Sequence[Callable[..., Any]], *arrays: Any, **kwargs: Any) -> list[Any]:
    return [function(*arrays, **kwargs) for function in functions]


X, XF = whole(4, 6), floats(4, 6)
SPECIAL = np.array(
    [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan, 1e-40, 3.4e38, -3.4e38, 1e5, -7, 7, 3], np.float32
)
SMOOTH = RANDOM.uniform(-3, 3, 64).astype(np.float32)
COMPARED = (lax.eq, lax.ne, lax.lt, lax.le, lax.gt, lax.ge)
ROUNDED = (lax.ceil, lax.floor, lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO))
CUT = lambda x: lax.reduce_precision(x, 5, 3)  # noqa: E731
EXACT = (*ROUNDED, lax.abs, lax.neg, lax.sign, lax.is_finite, lax.sqrt, jnp.round, CUT)
CURVES = (
    lax.acos, lax.acosh, lax.asin, lax.asinh, lax.atan, lax.atanh, lax.cbrt, lax.cos, lax.cosh, lax.erf, lax.erfc,
    lax.exp, lax.exp2, lax.expm1, lax.log, lax.log1p, lax.logistic, lax.rsqrt, lax.sin, lax.sinh, lax.tan, lax.tanh,
    lax.lgamma, lax.digamma, lax.erf_inv,
)  # fmt: skip
ARITHMETIC = (lax.add, lax.sub, lax.mul, lax.div, lax.rem, lax.max, lax.min)
BITWISE = (lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor)
SHIFTS = (lax.shift_left, lax.shift_right_arithmetic, lax.shift_right_logical)
KINDS = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int4", "uint4", "int2", "float16", "bfloat16",
    "float32", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float8_e4m3", "float4_e2m1fn", "float8_e8m0fnu",
)  # fmt: skip
EQUAL_KEYS = RANDOM.integers(0, 4, (5, 12)).astype(np.int32)
UNORDERED = np.array([[3, np.nan, -0.0, 0, -np.inf, 2, np.nan, np.inf, 2, -1]], np.float32)
PLACES = np.array([[0, 1], [3, 5], [-1, 2], [4, 0], [2, 7], [-5, -7], [1, -1], [1, 1]], np.int32)
STARTS = [np.int32(start) for start in (-5, 0, 1, 9)]
KEY = np.array([1, 2], np.uint32)
FOUR_KEY = np.array([1, 2, 3, 4], np.uint32)


def integers(dtype: str) -> np.ndarray[Any, Any]:
    """The ends of a type and small numbers, with shifts by its width and more."""
    limits = jnp.iinfo(dtype)
    numbers = {0, 1, 2, 3, 7, limits.bits, limits.bits + 1, -1, -2, -7, limits.min, limits.min + 1, limits.max}
    return np.array(sorted(number for number in numbers if limits.min <= number <= limits.max)).astype(dtype)


def total_order(x: Any, y: Any) -> list[Any]:
    from jax._src.lax.lax import eq_to_p, le_to_p, lt_to_p

    return [primitive.bind(x, y) for primitive in (eq_to_p, le_to_p, lt_to_p)]


def of_integers(x: Any, y: Any) -> list[Any]:
    signs = [] if x.dtype in ("int4", "uint4", "int2") else [lax.sign(x), jnp.abs(x)]
    pairs = each((*ARITHMETIC, *BITWISE, *SHIFTS, *COMPARED), x, y)
    return [*pairs, *signs, ~x, -x, lax.clz(x), lax.population_count(x), x**3, lax.clamp(x[1], y, x[2])]


def of_predicates(p: Any, q: Any, x: Any) -> list[Any]:
    counted = [jnp.sum(p), jnp.any(p), jnp.all(p), p.astype(int) + q, lax.select_n(p.astype(int) + q, x, x + 1, x * 2)]
    pairs = each((*BITWISE, lax.max, lax.min, *COMPARED), p, q)
    return [*pairs, ~p, *counted, jnp.where(p, x, -x), jnp.where(p[0], x, 7)]


def converted(x: Any) -> list[Any]:
    return [x.astype(kind) for kind in KINDS]


def constants(x: Any) -> list[Any]:
    """One of each type, behind what the compiler cannot fold."""
    chosen = x[0, :3] > 0
    return [jnp.where(chosen, np.array([1, 0, 2]).astype(kind), np.array([0, 1, 1]).astype(kind)) for kind in KINDS]


def reduced(x: Any) -> list[Any]:
    functions = (jnp.sum, jnp.prod, jnp.max, jnp.min, jnp.argmax, jnp.argmin, jnp.any, jnp.all)
    return [function(x, axis=axis) for function in functions for axis in (None, 0, 1)]


def reduced_by_own(x: Any, y: Any) -> list[Any]:
    def larger(a: Any, b: Any) -> Any:
        return jnp.where(a[0] >= b[0], a[0], b[0]), jnp.where(a[0] >= b[0], a[1], b[1])

    starts = np.float32(-np.inf), np.int32(0)
    plain = [(-1, lax.bitwise_and), (0, lax.bitwise_or), (5, lax.bitwise_xor), (3, lax.add), (2, lax.max)]
    return [
        *(lax.reduce(y, np.int32(start), function, (1,)) for start, function in plain),
        lax.reduce((x, y), starts, larger, (1,)),
        lax.reduce_window((x, y), starts, larger, (2, 2), (1, 1), "VALID"),
        jnp.sum(x[:, :0], axis=1),
    ]


def windows(x: Any) -> list[Any]:
    def of(start: float, function: Any, *args: Any, **kwargs: Any) -> Any:
        return lax.reduce_window(x, start, function, *args, **kwargs)

    return [
        of(-np.inf, lax.max, (2, 3), (2, 1), "SAME"),
        of(0.0, lax.add, (2, 2), (1, 2), "VALID", base_dilation=(2, 1), window_dilation=(1, 2)),
        of(0.0, lax.add, (2, 2), (1, 1), ((-1, 2), (0, -1))),
        *(function(x, axis=axis) for function in (lax.cumsum, lax.cummax, lax.cummin) for axis in (0, 1)),
        lax.cumsum(x, axis=1, reverse=True),
    ]


def pooled(x: Any) -> list[Any]:
    def pool(x: Any, start: float, function: Any, size: tuple[int, int], stride: tuple[int, int]) -> Any:
        return jnp.sum(lax.reduce_window(x, start, function, size, stride, "SAME") * 3)

    return [
        jax.grad(pool)(x, -np.inf, lax.max, (2, 2), (2, 2)),
        jax.grad(pool)(x, -np.inf, lax.max, (2, 3), (1, 2)),
        jax.grad(pool)(x, np.inf, lax.min, (2, 2), (1, 1)),
    ]


def ordered(x: Any) -> list[Any]:
    return [
        jnp.sort(x, axis=0), jnp.sort(x, descending=True), jnp.argsort(x), jnp.argsort(x, descending=True),
        lax.top_k(x, 3), lax.top_k(x, x.shape[1]),
    ]  # fmt: skip


def ordered_by_several(x: Any, y: Any, z: Any) -> list[Any]:
    by = [lax.sort((x, y, z), num_keys=number, dimension=axis) for number in (1, 2, 3) for axis in (0, 1)]
    unique = jnp.unique(x, size=5, return_counts=True)
    return [*by, lax.sort((x.astype(jnp.float32), y), num_keys=2), lax.sort(x + 1j * y), unique]


def turned(x: Any, y: Any) -> list[Any]:
    return [
        jnp.concatenate([x, y, x]), jnp.concatenate([x, y], 1), jnp.flip(x), x.T, jnp.roll(x, (1, 2), (0, 1)),
        jnp.tile(x, (2, 3)), jnp.stack([x, y], 2), x[1:4:2, ::-2], x.reshape(3, 8), jnp.squeeze(x[:1]), jnp.triu(x),
        jnp.broadcast_to(x[:, None], (4, 3, 6)), jnp.repeat(y, 2, 1), jnp.transpose(x.reshape(2, 2, 6), (2, 0, 1)),
        lax.broadcasted_iota("int8", (3, 4), 0) + x[0, 0].astype("int8"), jnp.arange(5, dtype="bfloat16") + x[:, :1],
    ]  # fmt: skip


def padded(x: Any, y: Any) -> list[Any]:
    by = [((1, 2, 0), (0, 3, 1)), ((-1, 2, 0), (1, -2, 0)), ((-1, -1, 1), (2, 0, 2)), ((0, 0, 3), (-2, -3, 1))]
    return [lax.pad(array, array.dtype.type(9), config) for array in (x, y) for config in by]


def sliced(x: Any, small: Any, *starts: Any) -> list[Any]:
    places = [(first, second) for first in starts for second in starts]
    tight = lax.dynamic_slice(x, (starts[0].astype("int8"), starts[0].astype("int8")), (2, 3))
    return [
        *(lax.dynamic_slice(x, place, (2, 3)) for place in places),
        *(lax.dynamic_update_slice(x, small, place) for place in places),
        lax.dynamic_slice(x, (starts[0], starts[-1]), (4, 3)), tight, x[starts[1]], x[:, starts[-1]],
        lax.dynamic_slice(x, (starts[0].astype("uint32"), starts[1].astype("uint32")), (2, 3)),
    ]  # fmt: skip


def gathered(x: Any, places: Any) -> list[Any]:
    modes = [(mode, places) for mode in ("clip", "fill")] + [("promise_in_bounds", jnp.abs(places) % 4)]
    numbers = [((1,), (0,), (0, 1), (1, 2)), ((1, 2), (), (0, 1), (2, 2)), ((), (0, 1), (1, 0), (1, 1))]
    return [
        lax.gather(x, at, lax.GatherDimensionNumbers(*form), sizes, mode=mode)
        for mode, at in modes for *form, sizes in numbers
    ]  # fmt: skip


def gathered_in_batches(x: Any, y: Any, i: Any) -> list[Any]:
    plain = lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,))
    other = lax.GatherDimensionNumbers((2,), (1,), (1,), (0,), (1,))
    return [
        lax.gather(x, i[..., None], plain, (1, 1), mode="clip"),
        lax.gather(y, i.T[..., None], other, (1, 1, 5), mode="fill"),
        jax.vmap(lambda row, at: row[at])(x, i), jnp.take_along_axis(x, i % 6, axis=1),
        *(jnp.take(x, i[0], axis=1, mode=mode) for mode in ("fill", "clip", "wrap")),
    ]  # fmt: skip


def scattered(x: Any, places: Any, rows: Any, blocks: Any) -> list[Any]:
    rules = (lax.scatter_add, lax.scatter_mul, lax.scatter_min, lax.scatter_max, lax.scatter_sub)
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0, 1)), lax.ScatterDimensionNumbers((1, 2), (), (0, 1))
    return [
        rule(x, places, updates, number, mode=mode)
        for mode in ("clip", "fill") for rule in rules for number, updates in zip(numbers, (rows, blocks), strict=True)
    ]  # fmt: skip


def scattered_otherwise(x: Any, i: Any, rows: Any) -> list[Any]:
    batched = lax.ScatterDimensionNumbers((), (1,), (1,), (0,), (0,))
    number = lax.ScatterDimensionNumbers((), (0, 1), (0, 1))
    places = jnp.stack([i[0], i[1]], axis=1)
    return [
        *(rule(x, i[..., None], rows[:, :3], batched) for rule in (lax.scatter_add, lax.scatter, lax.scatter_sub)),
        lax.scatter_apply(x, places, lambda v: v * 2 + 1, number, update_shape=(3,)),
        x.at[i[0]].set(rows[:3]), x.at[:, i[0]].max(rows.T[:4, :3]), x.at[::2, 1::2].set(3), x.at[1:3].multiply(0),
        (x > 0).at[i[0]].set(rows[:3] > 0), x.astype("int8").at[i[0]].add(rows[:3].astype("int8")),
        jax.ops.segment_max(x, i[:, 0] % 4, 4), jax.vmap(lambda row, at, u: row.at[at].add(u))(x, i, rows[:, :3]),
    ]  # fmt: skip


def products(a: Any, b: Any, c: Any, d: Any) -> list[Any]:
    kinds = (
        ("bfloat16", "float32"),
        ("bfloat16", None),
        ("int8", "int32"),
        ("int32", None),
        ("float8_e4m3fn", "float32"),
    )
    return [
        a @ b, jnp.einsum("bij,bjk->bik", c, d), jnp.einsum("ij,kj->ki", a, a), jnp.einsum("bij,bjk->kib", c, d),
        a[0] @ b, a[0] @ b[:, 0], jnp.einsum("bij,bij->b", c, c), jnp.outer(a[0], b[0]),
        jnp.tensordot(c, c, ((0, 2), (0, 2))), lax.ragged_dot(a[:3], c.reshape(4, 6, 1), jnp.array([1, 0, 2, 0])),
        *(lax.dot(a.astype(kind), b.astype(kind), preferred_element_type=wide) for kind, wide in kinds),
    ]  # fmt: skip


def convolutions(image: Any, kernel: Any, one_group: Any) -> list[Any]:
    def of(rhs: Any, stride: tuple[int, int] = (1, 1), padding: Any = "VALID", **kwargs: Any) -> Any:
        return lax.conv_general_dilated(image, rhs, stride, padding, **kwargs)

    gradient = jax.grad(lambda rhs: jnp.sum(of(rhs, (2, 1), ((1, 1), (2, 0)), rhs_dilation=(1, 2)) * 2))
    turned = jnp.transpose(image, (0, 2, 3, 1)), jnp.transpose(kernel, (2, 3, 1, 0))
    return [
        of(kernel), of(kernel, (2, 3), "SAME"), of(kernel, padding=((-1, 0), (0, -1))), of(kernel, rhs_dilation=(2, 3)),
        of(kernel, (2, 1), ((1, 2), (3, 0)), lhs_dilation=(2, 3), rhs_dilation=(2, 2)), gradient(kernel),
        of(one_group, feature_group_count=4), of(kernel, batch_group_count=2), of(kernel[:, :2], feature_group_count=2),
        lax.conv_general_dilated(*turned, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        lax.conv_transpose(image, kernel[:4], (2, 2), "SAME", dimension_numbers=("NCHW", "IOHW", "NCHW")),
        lax.conv_general_dilated(image[:, :, 0], kernel[:, :, 0], (1,), "SAME"),
    ]  # fmt: skip


def looped(x: Any, n: Any, p: Any) -> list[Any]:
    return [
        lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 2, c[1] * 2 + c[0]), (np.int32(0), x)),
        lax.while_loop(lambda c: c[0], lambda c: (c[1] < n, c[1] + 1), (p, np.int32(0))),
        lax.fori_loop(2, n, lambda i, c: c + i * c[0], x),
        lax.scan(lambda c, v: (c * 2 + v, c - v), x[0], x),
        lax.scan(lambda c, v: (lax.fori_loop(0, 3, lambda i, a: a + v * i, c), c * v), x[0], x, reverse=True),
        lax.scan(lambda c, v: (c + v, lax.cond(v[0] > 0, jnp.sum, jnp.max, v)), x[0], x),
        lax.map(lambda v: v.sum() * v, x), lax.associative_scan(lax.add, x),
    ]  # fmt: skip


def looped_on_a_predicate(p: Any) -> Any:
    """Body and condition return the same type."""
    return lax.while_loop(lambda c: c, lambda c: ~c, p)


def branched(x: Any, *indices: Any) -> list[Any]:
    branches = [lambda x: x + 1, lambda x: x * 2, lambda x: x - 9, lambda x: -x]
    chosen = [lax.switch(index, branches, x) for index in indices]
    return [*chosen, *(lax.cond(index > 0, lambda x: (x, x + 2), lambda x: (x * 5, x), x) for index in indices)]


def raw_branches(x: Any, *indices: Any) -> list[Any]:
    """An index that nothing clamps before XLA does."""
    from jax._src.lax.control_flow.conditionals import cond_p

    jaxprs = tuple(jax.make_jaxpr(function)(x) for function in (lambda x: x + 1, lambda x: x * 2, lambda x: x - 9))
    return [cond_p.bind(index, x, branches=jaxprs) for index in indices]


def cast(x: Any, halves: Any, small: Any) -> list[Any]:
    kinds = [(x, kind) for kind in ("int32", "int16", "uint8", "bfloat16")]
    pairs = [*kinds, (halves, "float32"), (small, "int4"), (small, "uint4"), (small.astype("int4")[:, :2], "int8")]
    return [lax.bitcast_convert_type(array, kind) for array, kind in pairs]


def complexes(a: Any, b: Any, c: Any) -> list[Any]:
    z, w = lax.complex(a, b), lax.complex(b, -a)
    fixed = jnp.where(a[0, :2] > 0, np.array([complex(np.inf, 1), 2 - 3j], np.complex64), z[1, :2])
    return [
        z * w, z + c, z - w, jnp.conj(z), z.real, z.imag, z == w, z != c, -z, jnp.sum(z), z @ w.T, z.T, c[::-1],
        jnp.where(a > 0, c, z), jnp.concatenate([z, c]), z * 3, fixed,
    ]  # fmt: skip


def complex_curves(a: Any, b: Any) -> list[Any]:
    functions = (jnp.exp, jnp.abs, jnp.angle, jnp.log, jnp.sqrt, jnp.sin, jnp.tanh, lax.sign, lax.rsqrt, lax.log1p)
    return [*each(functions, lax.complex(a, b)), lax.complex(a, b) / lax.complex(b + 2, a), lax.complex(a, b) ** 2]


def fouriers(z: Any) -> list[Any]:
    return [*each((jnp.fft.fft, jnp.fft.ifft, jnp.fft.irfft, jnp.fft.fft2, jnp.fft.irfft2), z), jnp.fft.rfft2(z.real)]


def random_bits(key: Any, four: Any, x: Any) -> list[Any]:
    drawn = [lax.rng_bit_generator(four, (5,), dtype=kind) for kind in (np.uint32, np.uint16, np.uint8)]
    return [*drawn, jax.random.bits(key, (5,)), jax.random.permutation(key, x), jax.random.randint(key, (4,), 0, 100)]


def layers(x: Any, w: Any) -> list[Any]:
    step = jax.checkpoint(lambda c, v: (jnp.tanh(c @ w + v), None))
    grad = jax.grad(lambda x: jnp.sum(lax.scan(step, x[0], x)[0]))(x)
    return [jax.nn.softmax(x), jax.nn.gelu(x), jax.nn.logsumexp(x, axis=1), grad, lax.cumlogsumexp(x, axis=1)]


class Program(NamedTuple):
    """A function with arguments; how many units in the last place of the largest it may be off."""

    function: Callable[..., Any]
    arguments: Sequence[Any]
    ulps: int = 0


def narrow(dtype: str) -> Any:
    """Special values of a type of floats, or numbers from end to end."""
    values: Any = SPECIAL if "float" in dtype else np.arange(-140, 140, 9)
    with np.errstate(all="ignore"):
        return (abs(values) if dtype == "float8_e8m0fnu" else values).astype(dtype)


PROGRAMS: dict[str, Program] = {
    "exact functions": Program(lambda x: each(EXACT, x), [SPECIAL]),
    "exact functions of bfloat16": Program(lambda x: each(EXACT[:-1], x), [narrow("bfloat16")]),
    "arithmetic": Program(lambda x, y: each((*ARITHMETIC, *COMPARED, lax.nextafter), x, y), everywhere(SPECIAL)),
    "arithmetic of float16": Program(lambda x, y: each((*ARITHMETIC, *COMPARED), x, y), everywhere(narrow("float16"))),
    "arithmetic of bfloat16": Program(lambda x, y: each(ARITHMETIC, x, y), everywhere(narrow("bfloat16"))),
    "total order": Program(total_order, everywhere(SPECIAL)),
    "curves": Program(lambda x: each(CURVES, x), [SMOOTH], 4),
    "curves of special values": Program(lambda x: each(CURVES, x), [SPECIAL], 4),
    "curves of two": Program(lambda x, y: each((lax.atan2, lax.pow), x, y), everywhere(SPECIAL), 4),
    **{
        f"arithmetic of {kind}": Program(of_integers, everywhere(integers(kind)))
        for kind in ("int8", "uint16", "int32", "uint32", "int4", "uint4", "int2")
    },
    "predicates": Program(of_predicates, [*everywhere(np.array([True, False])), np.arange(4, dtype=np.float32)]),
    "clamp": Program(lambda x: [lax.clamp(np.float32(-1), x, np.float32(2)), lax.clamp(-x, x, x + 1)], [SPECIAL]),
    **{f"converted from {kind}": Program(converted, [narrow(kind)]) for kind in KINDS if kind != "float4_e2m1fn"},
    "constants": Program(constants, [X]),
    "reductions": Program(reduced, [X]),
    "reductions of floats": Program(reduced, [np.where(XF == 3, np.nan, XF)]),
    "own reductions": Program(reduced_by_own, [XF, X]),
    "windows": Program(windows, [XF]),
    "pools": Program(pooled, [XF]),
    "sort": Program(ordered, [EQUAL_KEYS]),
    "sort of special values": Program(ordered, [UNORDERED]),
    "sort of bfloat16": Program(ordered, [EQUAL_KEYS.astype(narrow("bfloat16").dtype)]),
    "sort of predicates": Program(lambda x: [jnp.sort(x), jnp.argsort(x, descending=True)], [EQUAL_KEYS > 1]),
    "sort by several": Program(ordered_by_several, [EQUAL_KEYS, EQUAL_KEYS[::-1].copy(), whole(5, 12)]),
    "movement": Program(turned, [X, whole(4, 6)]),
    "padding": Program(padded, [X, XF]),
    "dynamic slices": Program(sliced, [X, whole(2, 3), *STARTS]),
    "gather": Program(gathered, [X, PLACES]),
    "gather in batches": Program(gathered_in_batches, [XF, floats(4, 6, 5), whole(4, 3)]),
    "scatter": Program(scattered, [X, PLACES, whole(8, 2), whole(8, 2, 2)]),
    "other scatters": Program(scattered_otherwise, [X, whole(4, 3), whole(4, 6)]),
    "products": Program(products, [floats(4, 6), floats(6, 3), floats(2, 3, 4), floats(2, 4, 5)]),
    "convolutions": Program(convolutions, [floats(2, 4, 7, 6), floats(6, 4, 3, 2), floats(4, 1, 3, 2)]),
    "loops": Program(looped, [X, np.int32(7), np.bool_(True)]),
    "a loop on a predicate": Program(looped_on_a_predicate, [np.bool_(True)]),
    "branches": Program(branched, [X, *(np.int32(index) for index in (-5, 0, 2, 3, 9))]),
    "branches without a clamp": Program(raw_branches, [X, *(np.int32(index) for index in (-5, 0, 1, 2, 3, 9))]),
    "casts": Program(cast, [XF, RANDOM.integers(0, 65536, (3, 2)).astype(np.uint16), whole(4, 6, dtype="int8")]),
    "complex numbers": Program(complexes, [XF, floats(4, 6), (floats(4, 6) + 1j).astype(np.complex64)]),
    "complex curves": Program(complex_curves, [XF / 8 + 2, floats(4, 6) / 8], 8),
    "fourier transforms": Program(fouriers, [(XF + 1j * floats(4, 6)).astype(np.complex64)], 8),
    "random bits": Program(random_bits, [KEY, FOUR_KEY, np.arange(9)]),
    "layers": Program(layers, [XF / 8, floats(6, 6) / 8], 8),
    "barrier": Program(lambda x: lax.optimization_barrier((x + 1, x * 2)), [X]),
    "nothing in it": Program(lambda x: [x, x.sum(), x.T, jnp.concatenate([x, x])], [np.zeros((0, 3), np.float32)]),
}


SLOW = (
    "curves of special values",
    "arithmetic of float16",
    *(f"arithmetic of {kind}" for kind in ("int8", "uint16", "uint4", "int2")),
    *(f"converted from {kind}" for kind in KINDS if kind not in ("bool", "int4", "uint32", "bfloat16", "float32")),
)
"""More types of what the others show of one."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in PROGRAMS]
)
def test_the_translation_is_what_runs(name: str) -> None:
    function, arguments, ulps = PROGRAMS[name]
    program = compiled(function, *arguments)
    assert program.differences(program.translated(), ulps) == []


NOT_HERE = {
    "add-dependency", "after-all", "all-gather", "all-reduce", "all-to-all", "collective-broadcast", "domain",
    "collective-permute", "optimization-barrier", "partition-id", "ragged-all-to-all", "reduce-scatter",
    "replica-id", "acos", "acosh", "asin", "asinh", "atanh", "cosh", "sinh", "logistic", "copy-start", "copy-done",
    "async-start", "async-update", "async-done", "map",
}  # fmt: skip
"""What XLA:CPU takes apart on one device, so that no program here has it: see the tests of partitions, and of TPUs."""


@pytest.mark.parametrize(
    "name",
    ["pools", "random bits", "sort", "total order", *(pytest.param(name, marks=pytest.mark.slow) for name in PROGRAMS)],
)
def test_the_program_before_any_pass(name: str) -> None:
    """It has operations that XLA:CPU takes apart, and TPUs may not."""
    function, arguments, ulps = PROGRAMS[name]
    program = compiled(function, *arguments)
    before = jax.jit(function, keep_unused=True).lower(*arguments).compiler_ir("hlo")
    serialised = before.as_serialized_hlo_module_proto()  # type: ignore[union-attr]
    assert program.differences(program.translated(serialised), ulps) == []


@pytest.mark.slow
def test_every_meaning_is_run() -> None:
    run: set[str] = set()
    for function, arguments, _ in PROGRAMS.values():
        before = jax.jit(function).lower(*arguments).compiler_ir("hlo")
        assert before is not None
        for serialised in (compiled(function, *arguments).serialised, before.as_serialized_hlo_module_proto()):
            run |= {inst.opcode for _, inst in HloModule(serialised).instructions()}
    parts = {f"{opcode}-{end}" for opcode in NOT_HERE for end in ("start", "done")}
    assert vars(as_jax)["_RULES"].keys() - run == NOT_HERE | parts & vars(as_jax)["_RULES"].keys()


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "a factorisation": (jnp.linalg.cholesky, "custom call 'lapack_spotrf_ffi'"),
    "a triangular solve": (lambda x: lax.linalg.triangular_solve(x, x), "custom call 'lapack_strsm_ffi'"),
    "eigenvalues": (jnp.linalg.eigh, "custom call 'lapack_ssyevd_ffi'"),
    "a callback": (
        lambda x: jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((4, 4), np.float32), x),
        "custom call 'xla_ffi_python_cpu_callback'",
    ),
    "a state of the machine": (
        lambda x: x + lax.rng_uniform(0.0, 1.0, (4, 4)),
        "(opcode 'rng-get-and-update-state'|custom call 'GetRngSeed')",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_meaning_is_refused_by_name(name: str) -> None:
    function, wanted = REFUSED[name]
    program = compiled(function, np.eye(4, dtype=np.float32))
    with pytest.raises(Untranslated, match=r"instruction '[\w.-]+': " + wanted + " has no meaning here") as caught:
        program.translated()
    assert caught.value.instruction in [inst.name for _, inst in HloModule(program.serialised).instructions()]
