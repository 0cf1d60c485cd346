"""The sharding of a block's activations: resharded on entry and on exit, against a simpler sharding that is retained.

The values are the same bits, forward and gradient. What differs is where they lie: `LAYOUTS` declares it, measured on
CPU (jax 0.10.2, 8 devices), and a test holds the compiled programs against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from samebits import (
    Arg,
    Case,
    Contract,
    Documented,
    Domain,
    MeshSpec,
    Pair,
    RealSize,
    assert_same_bits,
    compile_test,
    implementation,
    pair_test,
)

SIZES = {"batch": 8, "seq": 4, "embed": 4}
SMALL = {"batch": 8, "seq": 2, "embed": 2}
FINITE = Domain(finite=("*", "cotangents"))
SYMBOLS = {"batch": "2*fsdp*rows"}
"""Each of the two halves is split over `fsdp`."""
SPECS: dict[str, tuple[str | None, ...]] = {
    "plain": ("fsdp", None, None),
    "sequence": ("fsdp", "context", None),
    "embedding": ("fsdp", "context", "tensor"),
}
LAYOUTS: dict[str, dict[str, tuple[int, int, int]]] = {
    "plain": dict.fromkeys(("in_and_out", "simplified", "simplified_back"), (2, 4, 4)),
    "sequence": dict.fromkeys(("in_and_out", "simplified", "simplified_back"), (2, 2, 4)),
    # FINDING: an input that is split over its last dimension comes back whole there without the way back.
    "embedding": {"in_and_out": (4, 2, 2), "simplified": (4, 2, 4), "simplified_back": (4, 2, 2)},
}
"""The shape of one device's piece of the result, of an array of 8 x 4 x 4, by case and side."""
GATHERS = {
    "plain": {"in_and_out": 0, "simplified": 0, "simplified_back": 0},
    # FINDING: on a mesh with a context axis the original spec gathers the sequence on the way in; the simpler does not.
    "sequence": {"in_and_out": 1, "simplified": 0, "simplified_back": 0},
    "embedding": {"in_and_out": 2, "simplified": 1, "simplified_back": 1},
}
"""The all-gathers of the compiled programs."""


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    return {
        "x": Arg(shape=("batch", "seq", "embed"), spec=SPECS[case.id]),
        "scale": Arg(shape=("embed",)),
    }


PAIR = Pair(
    name="activation_layout",
    reference="in_and_out",
    variants=("simplified", "simplified_back"),
    args=_args,
    cases=(
        Case(id="plain", sizes=SMALL, symbols=SYMBOLS, meshes=("data1_fsdp4",), dtypes=("bfloat16",)),
        Case(id="sequence", sizes=SIZES, symbols=SYMBOLS, meshes=("fsdp4_context2",), dtypes=("float32",)),
        Case(id="embedding", sizes=SMALL, symbols=SYMBOLS, meshes=("fsdp2_tensor2_context2",), dtypes=("bfloat16",)),
    ),
    dtypes=("float32", "bfloat16"),
    meshes=("data1_fsdp4", "fsdp4_context2", "fsdp2_tensor2_context2"),
    # Only where the layout is part of a type can it be captured, and gone back to.
    compiled=(
        RealSize(
            case=Case(id="sequence_4k", sizes={"batch": 32, "seq": 4096, "embed": 2048}),
            args={
                "x": Arg(shape=("batch", "seq", "embed"), spec=SPECS["sequence"]),
                "scale": Arg(shape=("embed",)),
            },
            layout="fsdp*_context2",
            dtype="bfloat16",
            targets=("cpu", "v5p:2x2x1", "tpu7x:2x2x1"),
            mode="explicit",
        ),
    ),
    documented=(
        Documented(
            id="3922.11",
            document="MaxText #3922, item 11: models/deepseek.py",
            says="a simplified spec is the reshard in and out, without two temporaries of the size of the activations",
            variants=("simplified",),
            saves="temp_bytes",
            directions=("gradient",),  # that of training
            finding="the result comes back whole where the input was split over its last dimension; with a context "
            "axis the original gathers the sequence, the simpler spec does not",
            tests=("test_the_result_lies_and_is_gathered_as_declared",),
        ),
    ),
    modes=("explicit",),
    contracts=(
        Contract(
            lowest="rounding",
            reason="silu and products that feed sums: pieces of another shape may be vectorised and contracted "
            "otherwise; no bit differs here where nothing more is said below",
            domain=FINITE,
        ),
        *(
            Contract(
                case="sequence",
                direction="gradient",
                leaf=leaf,
                lowest="rounding",
                reason=reason,
                domain=FINITE,
            )
            for leaf, reason in (
                (
                    "x",
                    "pieces of another shape are multiplied and added in other fused steps: 109 of 384 elements "
                    "differ, for the reference on this mesh too",
                ),
                (
                    "scale",
                    "a sum over rows and positions, in parts where both are split (the reference's is split over rows "
                    "alone, and moves in 6 of 12 elements): 8 of 12 differ",
                ),
            )
        ),
    ),
    accuracy=2,
)

test_activation_layout = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))

SIDES = pytest.mark.parametrize("side", PAIR.sides)


def _placed(name: str) -> tuple[Any, Any]:
    """The mesh of a case with explicit axes, and an array on it."""
    import jax
    from jax.sharding import AxisType

    axes = MeshSpec.parse(PAIR.case(name).meshes[0]).axes  # type: ignore[index]
    names, sizes = tuple(axis for axis, _ in axes), tuple(size for _, size in axes)
    mesh = jax.make_mesh(sizes, names, axis_types=(AxisType.Explicit,) * len(names))
    x = np.random.default_rng(0).standard_normal((8, 4, 4)).astype(np.float32)
    return mesh, jax.device_put(x, jax.NamedSharding(mesh, jax.P(*SPECS[name])))


@pytest.mark.sampled(3)
@pytest.mark.cpu_only
@SIDES
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_result_lies_and_is_gathered_as_declared(side: str, name: str) -> None:
    import jax

    mesh, x = _placed(name)
    with jax.set_mesh(mesh):
        layer = jax.jit(implementation(PAIR, side))
        scale = np.ones(4, np.float32)
        assert layer(x, scale).sharding.shard_shape(x.shape) == LAYOUTS[name][side]
        program = str(layer.lower(x, scale).compile().as_text())
        assert program.count("all-gather(") == GATHERS[name][side]


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("helper", "wrong"),
    [("SEQUENCE", "nowhere"), ("BATCH", ("data",)), ("BATCH", ("fsdp", "context"))],
)
def test_a_wrong_layout_is_found_though_the_values_are_right(
    monkeypatch: pytest.MonkeyPatch, helper: str, wrong: Any
) -> None:
    import jax

    implemented = implementation(PAIR, "simplified")
    mesh, x = _placed("embedding")
    with jax.set_mesh(mesh):
        scale = np.ones(4, np.float32)
        right = np.asarray(jax.jit(implemented)(x, scale))
        monkeypatch.setitem(implemented.__globals__, helper, wrong)
        if wrong == ("fsdp", "context"):
            monkeypatch.setitem(implemented.__globals__, "SEQUENCE", "nowhere")
        found = jax.jit(lambda x, scale: implemented(x, scale))(x, scale)
    assert_same_bits(found, right)
    assert found.sharding.shard_shape(found.shape) != LAYOUTS["embedding"]["simplified"]


@SIDES
def test_the_block_replayed_row_by_row_in_float64(side: str) -> None:
    """Largest error relative to the largest element: noise 1.3e-7 (24 seeds), bound 3e-7, halves exchanged 0.99."""
    import jax

    rng = np.random.default_rng(0)
    x, scale = rng.standard_normal((6, 2, 3)).astype(np.float32), rng.standard_normal(3).astype(np.float32)
    found = np.asarray(jax.jit(implementation(PAIR, side))(x, scale), np.float64)
    expected = x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64) * scale))
    assert np.abs(found - expected).max() < 3e-7 * np.abs(expected).max()


@SIDES
def test_wrong_arguments_are_refused(side: str) -> None:
    import jax

    x, scale = np.ones((4, 2, 3), np.float32), np.ones(3, np.float32)
    for wrong in ((x[:3], scale), (x, scale[:2]), (x[0], scale)):
        with pytest.raises(ValueError, match=r"x and scale have shapes .*; expected \[2 \* n, seq, embed\]"):
            jax.jit(implementation(PAIR, side))(*wrong)
