"""RMSNorm: the last product as an einsum, as a multiply, and as a multiply with the einsum's gradient.

The numbers below were measured on CPU (jax 0.10.2 and 0.12.0, 8 devices): 20 seeds, shapes 8x16x32, 16x64x32 and
8x4x256, errors against the same reference run in float64. A fault that is not rounding at all (an epsilon of 1e-5 for
1e-6) is rejected by the other half of `rounding`, the float64 identity: it differs there by 4e-6, against a limit of
1e-12.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from samebits import (
    REFERENCE,
    VARIANT,
    Arg,
    Case,
    Claim,
    Contract,
    Documented,
    MeshSpec,
    Normal,
    Pair,
    RealSize,
    assert_same_bits,
    compile_test,
    implementation,
    pair_test,
)

SMALL = {"batch": 8, "seq": 16, "embed": 32}
HEADS = {"batch": 8, "seq": 8, "heads": 4, "width": 16}
BATCH = ("data", "fsdp")
_MAXTEXT = "MaxText pull request 3922"
MIXED = "data2_context2_tensor2"


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    """The arrays of a case; `largest` is out of the domain: its square is infinite, and so is a row's gradient or not.

    Which of the two depends on the order of the sum, so on the mesh (3478 of 24576 elements are NaN on one side only).
    So are infinities and NaN: the forms give them different signs (heads: 0x7fc00000 for 0xffc00000 in 5 of 8192).
    """
    special = ("-0.0", "subnormal")
    if case.id == "heads":
        x = Arg(shape=("batch", "seq", "heads", "width"), spec=(BATCH, "context", "tensor"), special=special)
        return {"x": x, "scale": Arg(shape=("width",), special=special)}
    # Rows of about epsilon's size make epsilon matter in bfloat16 too; ordinary rows hide it.
    values = Normal(scale=1e-3) if case.id == "faint" else Normal()
    x = Arg(shape=("batch", "seq", "embed"), spec=(BATCH, "context", "tensor"), values=values, special=special)
    scale = Arg(
        shape=("embed",),
        dtype="float32" if case.id == "float32_scale" else None,
        spec=() if case.id == "qwen" else ("tensor",),
        values=Normal(scale=0.2) if case.id == "qwen" else Normal(),
        special=special,
    )
    return {"x": x, "scale": scale}


def _rounds(reason: str, *, error_ratio: float | None = None, **where: Any) -> Contract:
    return Contract(lowest="rounding", error_ratio=error_ratio, reason=reason, **where)


_ROUNDING = (
    _rounds(
        "a mesh sums a row's squares in another order: in parts where tensor splits the row, with other "
        "vector code where fewer rows are left per device. The reference itself moves so, by up to 5 ulps in "
        "1542 of 4096 elements",
        direction="forward",
    ),
    _rounds(
        "a mesh moves the squares of bfloat16 rows too, but the result rounds it away: no bit of 5 million "
        "elements differs here",
        direction="forward",
        dtype="bfloat16",
    ),
    _rounds(
        "a mesh sums the scale's gradient, and the squares under both gradients, in parts. The reference "
        "itself moves so, in 30 of 32 elements of float32 and 24 of 32 of bfloat16",
        direction="gradient",
    ),
    _rounds(
        "FINDING: as on every mesh, but the error is that of bfloat16 and the leaf is float32, so no half ulp of the "
        "result hides it: 2.5 times the error",
        error_ratio=5.0,
        direction="gradient",
        case="float32_scale",
        leaf="scale",
    ),
    _rounds(
        "on one device nothing is summed in another order here, and no bit differs but where more is said "
        "below; another processor may contract or vectorise the sides apart",
        mesh="data1",
    ),
    Contract(mesh="data1", variant="einsum", mode="auto"),
    Contract(mesh="data1", variant="einsum", direction="forward"),
)
"""What a mesh may do to every side; on one device the reference is one program, but where axes are explicit."""

_MULTIPLY = (
    _rounds(
        "a sum over rows instead of a matrix product: 31 of 32 elements differ on one device",
        variant="multiply",
        dtype="float32",
        direction="gradient",
        leaf="scale",
    ),
    _rounds(
        "the compiler keeps the product with the cotangent in float32 where the einsum's is rounded: 1392 of "
        "4096 elements differ, most of them for the better",
        variant="multiply",
        dtype="bfloat16",
        direction="gradient",
        leaf="x",
    ),
    _rounds(
        "FINDING: the sum over rows is rounded to bfloat16 at every step, the einsum's product once: prefer "
        "multiply_accurate. 6 times the error over 128 rows, 11 over 1024, and no half ulp of a float32 scale hides it",
        error_ratio=32.0,
        variant="multiply",
        dtype="bfloat16",
        direction="gradient",
        leaf="scale",
    ),
)
"""What the change to a product costs."""

_ACCURATE = tuple(
    _rounds(
        "the scale's gradient is summed in float32 and rounded once: 24 of 32 elements differ, most of them "
        "nearer to float64 than the reference's (median 0.52)",
        variant="multiply_accurate",
        dtype="bfloat16",
        direction="gradient",
        mesh=mesh,
        leaf=leaf,
    )
    for mesh, leaf in (("*", "scale"), ("*[2-8]", "x"))
)
"""The gradient that the change need not cost: the usual bound of 2 on every mesh."""

_COMPILED = tuple(
    RealSize(
        case=Case(id=f"rows_4096_{dtype}", sizes={"batch": 8, "seq": 4096, "embed": 4096}),
        layout="fsdp*",
        dtype=dtype,
        targets=("tpu7x:2x2x1",),
        claims=(
            Claim(target="tpu", direction="forward", shows=VARIANT.program == REFERENCE.program, source="measured"),
            Claim(
                variant="multiply", shows=VARIANT.bytes_accessed <= 1.001 * REFERENCE.bytes_accessed, source=_MAXTEXT
            ),
        ),
    )
    for dtype in ("bfloat16", "float32")
)

PAIR = Pair(
    name="rms_norm",
    reference="einsum",
    variants=("multiply", "multiply_accurate"),
    args=_args,
    cases=(
        # These three run on every mesh; the others add one thing each, on the meshes where it can matter.
        Case(id="default", sizes=SMALL),
        Case(id="faint", sizes=SMALL, meshes=("data1", MIXED)),
        Case(
            id="qwen",
            sizes=SMALL,
            statics={"epsilon": 1e-2, "scale_offset": 1.0},
            meshes=("data1", "fsdp4_tensor2"),
        ),
        Case(id="tall", sizes={"batch": 16, "seq": 64, "embed": 32}, meshes=("data1", "data8")),
        Case(id="heads", sizes=HEADS, statics={"epsilon": 1e-5}, meshes=("data1", "fsdp4_tensor2")),
        Case(
            # In bfloat16 an offset this small is lost on a scale of about 1, and not on a smaller one.
            id="float32_scale",
            sizes=SMALL,
            statics={"scale_offset": 0.001},
            meshes=("data1", MIXED),
            dtypes=("bfloat16",),
        ),
    ),
    dtypes=("bfloat16", "float32"),
    meshes=("data1", "data8", "fsdp4_tensor2", MIXED),
    modes=("auto", "explicit"),
    out_spec=lambda case, mesh: {"out": (BATCH, "context", "tensor")},
    compiled=_COMPILED,
    documented=(
        Documented(
            id="3922.5",
            document="MaxText #3922, item 5: layers/normalizations.py",
            says="a multiply is the einsum of RMSNorm, with no larger buffers",
            variants=("multiply",),
            saves="temp_bytes",
            real=("rows_4096_bfloat16",),
            directions=("gradient",),  # that of training
        ),
    ),
    contracts=(*_ROUNDING, *_MULTIPLY, *_ACCURATE),
    accuracy=2,
)

test_rms_norm = pair_test(PAIR)
test_compiled = pytest.mark.sampled(2)(compile_test(PAIR))

SIDES = pytest.mark.parametrize("side", PAIR.sides)


def _rows(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


@functools.cache
def _forward(side: str, **statics: float) -> Any:
    import jax

    return jax.jit(functools.partial(implementation(PAIR, side), **statics))


@functools.cache
def _pull(side: str, **statics: float) -> Any:
    import jax

    function = functools.partial(implementation(PAIR, side), **statics)
    return jax.jit(lambda x, scale, cotangent: jax.vjp(function, x, scale)[1](cotangent))


def _run(side: str, x: Any, scale: Any, dtype: str = "float32", **statics: float) -> Any:
    """A side's output, its dtype kept, as float64 numbers."""
    out = _forward(side, **statics)(*_as(dtype, x, scale))
    assert out.dtype == dtype
    return np.asarray(out, np.float64)


def _as(dtype: str, *arrays: Any) -> list[Any]:
    """Rounded by numpy: for jax that is a program per shape."""
    return [np.asarray(array, dtype) for array in arrays]


def _gradients(
    side: str, x: Any, scale: Any, cotangent: Any, dtype: str = "float32", **statics: float
) -> tuple[Any, Any]:
    """The pull-back of a cotangent to x and to the scale, as float64 numbers."""
    to_x, to_scale = _pull(side, **statics)(*_as(dtype, x, scale, cotangent))
    assert to_x.dtype == to_scale.dtype == dtype
    return np.asarray(to_x, np.float64), np.asarray(to_scale, np.float64)


@SIDES
def test_each_row_has_a_root_mean_square_of_one(side: str) -> None:
    """Noise 1e-7; a mean over n - 1 gives 1.6e-2, the epsilon 1e-8."""
    out = _run(side, 7 * _rows(4, 6, 32), np.ones(32))
    assert np.abs(np.sqrt(np.mean(out**2, axis=-1)) - 1).max() < 1e-6


@SIDES
def test_the_definition_replayed_in_float64(side: str) -> None:
    """Noise 2e-7, nearest fault 4e-2 (epsilon left out)."""
    x, scale = _rows(4, 6, 32).astype(np.float32), _rows(32, seed=1).astype(np.float32)
    length = np.sqrt(np.mean(x.astype(np.float64) ** 2, axis=-1, keepdims=True) + 0.1)
    expected = x / length * (scale.astype(np.float64) + 0.5)
    got = _run(side, x, scale, epsilon=0.1, scale_offset=0.5)
    assert np.abs(got - expected).max() / np.abs(expected).max() < 1e-6


@pytest.mark.sampled(3)
@SIDES
@pytest.mark.parametrize("dtype", PAIR.dtypes)
@pytest.mark.parametrize("power", [-20, 20])
def test_a_power_of_two_on_the_rows_changes_no_bit(side: str, dtype: str, power: int) -> None:
    x, scale = _rows(4, 6, 32), _rows(32, seed=1)
    assert_same_bits(_run(side, x * 2.0**power, scale, dtype, epsilon=0.0), _run(side, x, scale, dtype, epsilon=0.0))


@pytest.mark.sampled(2)
@SIDES
@pytest.mark.parametrize("dtype", PAIR.dtypes)
def test_an_offset_of_one_is_a_scale_larger_by_one_in_the_dtype(side: str, dtype: str) -> None:
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float32
    x, scale = _rows(4, 6, 32), (0.2 * _rows(32, seed=1)).astype(kind)
    shifted = _run(side, x, scale, dtype, scale_offset=1.0)
    assert_same_bits(shifted, _run(side, x, scale + kind(1), dtype))
    assert not np.array_equal(shifted, _run(side, x, scale, dtype))


@SIDES
def test_a_small_offset_on_a_scale_is_lost_in_bfloat16_only(side: str) -> None:
    """In bfloat16 1 + 0.001 is 1, on every side; float32 keeps it."""
    x, ones = _rows(4, 6, 32), np.ones(32)
    for dtype, lost in (("bfloat16", True), ("float32", False)):
        same = np.array_equal(_run(side, x, ones, dtype, scale_offset=0.001), _run(side, x, ones, dtype))
        assert same is lost, dtype


@SIDES
def test_the_gradient_is_orthogonal_to_its_row(side: str) -> None:
    """Without epsilon a row's length does not matter, so the gradient has no part along it. Noise 1e-7 of the terms."""
    x, scale, cotangent = _rows(4, 6, 32), _rows(32, seed=1), _rows(4, 6, 32, seed=2)
    to_x, _ = _gradients(side, x, scale, cotangent, epsilon=0.0)
    terms = to_x * x.astype(np.float32)
    assert np.abs(terms.sum(-1) / np.abs(terms).sum(-1)).max() < 1e-6
    assert np.abs(terms).sum(-1).min() > 1e-3


@pytest.mark.sampled(2)
@SIDES
@pytest.mark.parametrize("dtype", PAIR.dtypes)
def test_twice_the_cotangent_gives_twice_the_gradient(side: str, dtype: str) -> None:
    x, scale, cotangent = _rows(4, 6, 32), _rows(32, seed=1), _rows(4, 6, 32, seed=2)
    once = _gradients(side, x, scale, cotangent, dtype)
    twice = _gradients(side, x, scale, 2 * cotangent, dtype)
    for single, double in zip(once, twice, strict=True):
        assert_same_bits(2 * single, double)
        assert np.abs(single).max() > 0


@pytest.mark.parametrize(
    ("side", "dtype", "limit"),
    [
        *((side, "float32", 1e-5) for side in PAIR.sides),
        ("einsum", "bfloat16", 5e-3),
        ("multiply_accurate", "bfloat16", 5e-3),
    ],
)
def test_the_gradient_of_the_scale_replayed_row_by_row(side: str, dtype: str, limit: float) -> None:
    """Relative to the largest. Noise 1e-7 and 2e-3, nearest fault 3e-2 (multiply in bfloat16 over these 1024 rows)."""
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float32
    x, scale, cotangent = _rows(1024, 32).astype(kind), _rows(32, seed=1), _rows(1024, 32, seed=2).astype(kind)
    _, to_scale = _gradients(side, x, scale, cotangent, dtype)
    expected = np.zeros(32)
    for row, pulled in zip(x.astype(np.float64), cotangent.astype(np.float64), strict=True):
        normalised = row / np.sqrt(np.mean(row**2) + 1e-6)
        expected += normalised.astype(kind).astype(np.float64) * pulled
    assert np.abs(to_scale - expected).max() / np.abs(expected).max() < limit


@SIDES
def test_a_row_of_zeros_stays_zero_with_a_finite_gradient(side: str) -> None:
    x, scale, cotangent = np.zeros((4, 6, 32)), _rows(32), _rows(4, 6, 32)
    assert not _run(side, x, scale).any()
    to_x, to_scale = _gradients(side, x, scale, cotangent)
    assert np.isfinite(to_x).all() and not to_scale.any()


@SIDES
@pytest.mark.parametrize("epsilon", [-1e-6, float("nan"), float("inf")])
def test_a_wrong_epsilon_is_refused(side: str, epsilon: float) -> None:
    with pytest.raises(ValueError, match=r"epsilon is .*; expected a finite number of at least 0"):
        _run(side, _rows(2, 3, 32), np.ones(32), epsilon=epsilon)


@SIDES
@pytest.mark.parametrize("shape", [(31,), (1,), (3, 32), ()])
def test_a_scale_of_another_width_is_refused(side: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"scale has shape .*; expected \(32,\)"):
        _run(side, _rows(2, 3, 32), np.ones(shape))
