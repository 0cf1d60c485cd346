"""Grouped matrix products: a loop over experts against `ragged_dot` and the Pallas kernels "megablox".

The kernels are interpreted on a CPU, tile by tile. The proofs cannot interpret them, so nothing is proved of them, and
they have no float64. Their cases therefore use small integers, whose sums are exact, so that results must be equal bit
for bit with any tiles. Random cotangents round: their numbers were measured on CPU (jax 0.10.2, 8 devices) over 24
seeds, as ratios of a side's error against the reference in float64 to the one-device reference's own error, the larger
of maximum and RMS: *noise* is the largest ratio of correct sides, *nearest fault* the smallest ratio of a faulty one.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits import (
    VARIANT,
    Arg,
    Case,
    Claim,
    Contract,
    Documented,
    Domain,
    MeshSpec,
    Normal,
    Pair,
    RealSize,
    Refusal,
    assert_same_bits,
    compile_test,
    compiled_side,
    implementation,
    pair_test,
)

ROWS = ("data", "fsdp")
SIZES: Mapping[str, tuple[int, ...]] = {
    "uneven": (5, 0, 1, 7),  # an empty group, one that two shards have, and three rows beyond the last
    "tiles": (3, 0, 9, 2),
    "tiling": (4, 4, 4, 4),
}
"""The rows of each expert, of 16."""


def _small(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.integers(-3, 4, shape).astype(np.float64)


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    def sizes(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
        return np.array(SIZES.get(case.id, SIZES["uneven"]), np.int32)

    values = _small if case.id in ("tiles", "nine_numbers") else Normal()
    return {
        "rows": Arg(shape=("rows", "width"), spec=(ROWS,), values=values),
        "kernels": Arg(shape=("experts", "width", "out"), spec=(None, None, "tensor"), values=values),
        "sizes": Arg(shape=("experts",), dtype="int32", values=sizes, below="rows+1"),
    }


NINE = (8, 4, 4, 16, 4, 8, 8, 2, 4)
SMALL = {"rows": 16, "width": 6, "experts": 4, "out": 4}
_CONTRACTS = (
    Contract(
        lowest="rounding",
        reason="each element is a float32 sum over the width, and how a processor adds it up differs from kernel to "
        "kernel: the same bits with AVX2, up to 16 ulps apart in 30 of 64 elements with AVX-512 (jax 0.10.2)",
        domain=Domain(finite=("kernels",), also="the rows of the groups are finite"),
        direction="forward",
        dtype="float32",
    ),
    Contract(
        lowest="rounding",
        reason="the gradient of rows is summed over split columns, that of kernels over split rows: the "
        "reference itself moves in 44% of the elements",
        domain=Domain(finite=("kernels",), also="the rows of the groups are finite"),
        direction="gradient",
        dtype="float32",
    ),
)

_MAXTEXT = "MaxText pull request 3922, item 9a"
_COMPILED = (
    RealSize(
        case=Case(
            id="nine_numbers",
            sizes={"rows": 8192, "width": 2048, "experts": 4, "out": 2048},
            statics={"tiling": (512, 512, 512, 256, 512, 512, 512, 256, 512)},
        ),
        layout="fsdp*",
        dtype="bfloat16",
        targets=("v5p:2x2x1", "tpu7x:2x2x1"),
        tune={"tiling": ((128, 128, 128), (256, 256, 256), (512, 512, 512), (2048, 2048, 2048))},
        tune_sizes={"rows": 256, "width": 512, "experts": 4, "out": 512},
        claims=(
            Claim(
                variant="short_tiling", shows=VARIANT.program == compiled_side("ragged_dot").program, source=_MAXTEXT
            ),
            Claim(
                variant="ragged_dot",
                direction="forward",
                shows=VARIANT.collectives == {},
                source="rows that are split over devices need no others for their product",
                finding="FINDING: left to the compiler, ragged_dot gathers all rows on every device: one all-gather of "
                "25.2 MB on v5p and 29.4 MB on tpu7x, 101 MB of temporary memory, and by the compiler's estimate 68.7 "
                "GFLOP per device, 4 times those of megablox on 4 devices and 8 times on 8",
            ),
            Claim(
                variant="megablox",
                direction="forward",
                shows=VARIANT.temp_bytes <= 0.01 * compiled_side("ragged_dot").temp_bytes,
                source="measured: 0.5 MB of 101 on v5p, 0.3 of 101 on tpu7x",
            ),
            Claim(
                variant="megablox",
                direction="forward",
                shows=VARIANT.collectives == {},
                source="the kernels in a shard_map, as a compiler cannot partition them",
            ),
            Claim(
                variant="megablox",
                direction="gradient",
                target="v5p*",
                shows=VARIANT.temp_bytes <= 0.6 * compiled_side("ragged_dot").temp_bytes,
                source="measured: 67.9 MB of 134.7",
            ),
        ),
    ),
)

PAIR = Pair(
    name="grouped_matmul",
    reference="loop",
    variants=("ragged_dot", "short_tiling", "megablox"),
    args=_args,
    cases=(
        Case(
            id="uneven",
            sizes=SMALL,
            meshes=("fsdp2_tensor2",),
            variants=("ragged_dot",),
        ),
        Case(
            id="nine",
            sizes=SMALL,
            statics={"tiling": NINE},
            meshes=("data1",),
            modes=("auto",),
            variants=("ragged_dot", "short_tiling"),
        ),
        Case(
            id="tiling",
            sizes=SMALL,
            statics={"tiling": (8, 8)},
            meshes=("data1",),
            refuses=(Refusal(error="ValueError", match=r"tiling is \(8, 8\); expected 3 numbers .* or 9"),),
        ),
    ),
    dtypes=("float32",),
    meshes=("data1", "fsdp2_tensor2"),
    modes=("auto", "explicit"),
    out_spec={"out": (ROWS, "tensor")},
    compiled=_COMPILED,
    documented=(
        Documented(
            id="3922.9a",
            document="MaxText #3922, item 9a: layers/moe.py",
            says="tiles of three numbers in place of nine change nothing",
            variants=("short_tiling",),
            finding="true of ragged_dot, which reads none of them; a megablox that slices nine raises IndexError "
            "going back",
            tests=(
                "test_three_tile_sizes_are_too_few_for_the_backward",
                "test_tile_sizes_ignored_by_one_backend_change_the_other",
            ),
        ),
        Documented(
            id="3857.megablox",
            document="MaxText #3857: megablox",
            says="grouped kernels over ragged rows are the loop over experts",
            variants=("megablox",),
            saves="temp_bytes",
            directions=("gradient",),  # that of training
            compiled_only=True,
            tests=("test_every_bit_of_small_integers",),
        ),
    ),
    contracts=_CONTRACTS,
    accuracy=2,
)

test_grouped_matmul = pair_test(PAIR)

test_compiled = pytest.mark.slow(compile_test(PAIR))

TILES = dataclasses.replace(
    PAIR,
    documented=(),
    variants=("megablox",),
    cases=(Case(id="tiles", sizes=SMALL, statics={"tiling": (8, 4, 4)}),),
    dtypes=("bfloat16",),
    meshes=("fsdp2_tensor2",),
    compiled=(),
    contracts=(),
)
"""The kernels on a mesh. Interpreted they take a minute to compile, so that the default check has `ragged_dot` alone:
`samebits check suites.test_grouped_matmul:TILES`. What they compute on one device is in the tests below."""

test_grouped_matmul_of_tiles = pytest.mark.slow(pair_test(TILES))

SIDES = pytest.mark.parametrize("side", PAIR.sides)
FEW = settings(max_examples=4, deadline=None, derandomize=True, database=None)
N, WIDTH, OUT, EXPERTS = 20, 5, 3, 4


@functools.cache
def _pulled(side: str, **statics: Any) -> Any:
    import jax

    def run(rows: Any, kernels: Any, sizes: Any, cotangent: Any) -> Any:
        function = functools.partial(implementation(PAIR, side), **statics)
        out, pull = jax.vjp(lambda rows, kernels: function(rows, kernels, sizes), rows, kernels)
        return (out, *pull(cotangent))

    return jax.jit(run)


def _replay(rows: Any, kernels: Any, sizes: Any, cotangent: Any) -> list[Any]:
    """The definition in float64: the product, and the gradients of its product with the cotangent."""
    out, to_rows, to_kernels = np.zeros((len(rows), kernels.shape[2])), np.zeros(rows.shape), np.zeros(kernels.shape)
    start = 0
    for expert, size in enumerate(sizes):
        mine = slice(start, start + size)
        out[mine] = rows[mine] @ kernels[expert]
        to_rows[mine], to_kernels[expert] = cotangent[mine] @ kernels[expert].T, rows[mine].T @ cotangent[mine]
        start += size
    return [out, to_rows, to_kernels]


def _integers(seed: int, sizes: Any) -> list[Any]:
    """Small integers, of which every sum is exact; what is beyond the groups is NaN."""
    rng = np.random.default_rng(seed)
    shapes = ((N, WIDTH), (EXPERTS, WIDTH, OUT), (N, OUT))
    rows, kernels, cotangent = (rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes)
    rows[sum(sizes) :] = cotangent[sum(sizes) :] = np.nan
    return [rows, kernels, np.array(sizes, np.int32), cotangent]


GROUPS = ((6, 0, 1, 8), (N, 0, 0, 0), (0, 0, 0, N), (0, 0, 0, 0), (5, 5, 5, 5), (0, 3, 0, 0))
"""Empty groups, all rows in one, none at all, and rows beyond the last."""


@pytest.mark.sampled(2)
@SIDES
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_every_bit_of_small_integers(side: str, dtype: str) -> None:
    """The result and both gradients; 0 where no group is, whatever is there, and for an expert without rows."""
    import jax.numpy as jnp

    for seed, sizes in enumerate(GROUPS):
        rows, kernels, counts, cotangent = _integers(seed, sizes)
        arrays = (jnp.asarray(rows, dtype), jnp.asarray(kernels, dtype), counts, jnp.asarray(cotangent, dtype))
        found = _pulled(side, tiling=(8, 4, 2))(*arrays)
        for leaf, expected in zip(found, _replay(rows, kernels, counts, cotangent), strict=True):
            assert_same_bits(leaf, expected.astype(dtype))


@pytest.mark.slow
@pytest.mark.parametrize(
    "tiling",
    [
        (8, 8, 16, 16, 4, 8, 4, 2, 3),
        *(pytest.param(tiling, marks=pytest.mark.slow) for tiling in ((16, 2, 2), (128, 128, 128), (4, 3, 1))),
    ],
)
def test_tiles_change_no_bit_of_small_integers(tiling: tuple[int, ...]) -> None:
    """Tiles that do not divide, tiles larger than the arrays, and nine numbers, three for each product."""
    arrays = _integers(7, GROUPS[0])
    for leaf, expected in zip(_pulled("megablox", tiling=tiling)(*arrays), _replay(*arrays), strict=True):
        assert_same_bits(leaf, expected.astype(np.float32))


TILE_SIDES = ((8, 16), (2, 3, 8), (1, 2, 8))
"""Tiles along rows, along the sum and along columns, of arrays of 20, 5 and 3: they divide, do not, and are larger."""


@pytest.mark.slow
@pytest.mark.parametrize("tiling", list(itertools.product(*TILE_SIDES)))
def test_no_tile_of_a_sweep_changes_a_bit_of_small_integers(tiling: tuple[int, ...]) -> None:
    for seed, sizes in enumerate(GROUPS[:2]):
        arrays = _integers(seed, sizes)
        for leaf, expected in zip(_pulled("megablox", tiling=tiling)(*arrays), _replay(*arrays), strict=True):
            assert_same_bits(leaf, expected.astype(np.float32))


@pytest.mark.slow
def test_three_tile_sizes_are_too_few_for_the_backward() -> None:
    """FINDING on MaxText pull request 3922, item 9a, which cuts nine numbers to the forward's three.

    Sliced as nine they leave `[3:6]` empty, the gradient of the rows has no tiles and raises; and `[-3:]` are those of
    the product, silently. The product itself needs no more. `megablox` fills three up to nine instead.
    """
    module: Any = inspect.getmodule(implementation(PAIR, "megablox"))
    tiling = (8, 4, 2)
    assert (tiling[3:6], tiling[-3:]) == ((), tiling)
    rows, kernels, sizes, cotangent = _integers(3, GROUPS[0])
    import jax

    def naive(rows: Any, kernels: Any) -> Any:
        return module._tiled(tiling, rows, kernels, sizes)

    out, pull = jax.vjp(naive, rows, kernels)
    expected = _replay(rows, kernels, sizes, cotangent)
    assert_same_bits(out, expected[0].astype(np.float32))
    with pytest.raises(IndexError, match="tuple index out of range"):
        pull(cotangent)
    filled = _pulled("megablox", tiling=tiling)(rows, kernels, sizes, cotangent)
    for leaf, right in zip(filled, expected, strict=True):
        assert_same_bits(leaf, right.astype(np.float32))


def test_tile_sizes_ignored_by_one_backend_change_the_other() -> None:
    """The tiles of the gradients: `ragged_dot` is one program with and without them, letter by letter.

    As traced: to lower the interpreted kernels takes as long again.
    """
    arrays = _integers(0, GROUPS[0])
    short, long = (8, 4, 2), (8, 4, 2, 16, 2, 4, 8, 2, 2)
    for side, same in (("ragged_dot", True), ("short_tiling", True), ("megablox", False)):
        texts = [str(_pulled(side, tiling=tiling).trace(*arrays).jaxpr) for tiling in (short, long)]
        assert (texts[0] == texts[1]) is same, side


@pytest.mark.sampled(2)
@SIDES
@given(seed=st.integers(0, 1000))
@FEW
def test_rows_of_other_experts_do_not_matter(side: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, kernels, cotangent = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((N, WIDTH), (EXPERTS, WIDTH, OUT), (N, OUT))
    )
    sizes = np.array([4, 7, 0, 6], np.int32)
    changed = kernels.copy()
    changed[[0, 2, 3]] = 9
    first, second = (_pulled(side, tiling=(8, 4, 2))(rows, k, sizes, cotangent) for k in (kernels, changed))
    assert_same_bits(np.asarray(first[0])[4:11], np.asarray(second[0])[4:11])
    assert np.any(np.asarray(first[0])[:4] != np.asarray(second[0])[:4])
    assert_same_bits(first[2], second[2])


def test_a_tpu_gets_the_kernels() -> None:
    """One for the product and one for each gradient; a CPU gets none."""
    rows, kernels, sizes, cotangent = _integers(0, GROUPS[0])
    wide = [np.repeat(np.repeat(x, 64, -1), 64, -2) for x in (rows, kernels, cotangent)]
    traced = _pulled("megablox").trace(wide[0], wide[1], sizes, wide[2])
    found = {name: traced.lower(lowering_platforms=(name,)).as_text() for name in ("cpu", "tpu")}
    assert {name: text.count("tpu_custom_call") for name, text in found.items()} == {"cpu": 0, "tpu": 3}


@SIDES
def test_wrong_arguments_are_refused(side: str) -> None:
    rows, kernels, sizes, _ = _integers(0, GROUPS[0])
    function = implementation(PAIR, side)
    with pytest.raises(ValueError, match=r"rows, kernels and sizes have shapes .*; expected \[n, D\], \[E, D, F\]"):
        function(rows[:, :2], kernels, sizes)
    with pytest.raises(ValueError, match="sizes have dtype float32; expected int32"):
        function(rows, kernels, sizes.astype(np.float32))
    for tiling in ((8, 8), (8, 8, 0)):
        with pytest.raises(ValueError, match=r"expected 3 numbers .* or 9, each at least 1"):
            function(rows, kernels, sizes, tiling=tiling)
