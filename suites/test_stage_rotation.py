"""stage_rotation: activations moved between pipeline stages, by permutes or by slices."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits import (
    REFERENCE,
    VARIANT,
    Arg,
    Case,
    Claim,
    Contract,
    Documented,
    Domain,
    MeshSpec,
    Pair,
    RealSize,
    Refusal,
    assert_same_bits,
    compile_test,
    implementation,
    pair_test,
)

OPERATIONS = ("rotate_right", "rotate_left", "shift_right", "shift_left", "state_io_update")
SPLIT = ("stage2", "stage4", "stage8", "stage4_data2")

ONE_NAN = ("-0.0", "nan", "inf", "-inf", "subnormal", "largest")
ALL_SPECIAL = (*ONE_NAN, "nan_payload")
# XLA:CPU sends bfloat16 between devices as float32, and the rounding back resets the payload of a NaN: there is no
# bit for bit to promise, so bfloat16 carries one NaN.
WITH_PAYLOADS = ("float32", "int32")


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    """`state`, with `case.sizes['rows']` rows on every stage, and `output` where the operation has one."""
    arg = Arg(
        shape=(case.sizes["rows"] * mesh.size("stage"), "microbatch", "sequence", "embed"),
        spec=("stage", "data"),
        special=ALL_SPECIAL if case.dtypes == WITH_PAYLOADS else ONE_NAN,
    )
    has_output = case.statics["operation"] == "state_io_update"
    return {"state": arg, "output": arg} if has_output else {"state": arg}


def _case(name: str, operation: str, *, rows: int = 1, **rest: Any) -> Case:
    sizes = {"rows": rows, "microbatch": 2, "sequence": 3, "embed": 2}
    # A single row has nowhere to go: there is nothing to compare on one stage with one row.
    meshes = SPLIT if rows == 1 else None
    return Case(id=name, sizes=sizes, statics={"operation": operation}, **{"meshes": meshes, **rest})


def _pipeline(rotate: Any) -> Any:
    """The setting that the memory claim is made for: a scanned pipeline whose stages are recomputed going back."""

    def run(state: Any, weights: Any, *, operation: str) -> Any:
        import jax

        @jax.checkpoint
        def stages(state: Any) -> Any:
            return jax.numpy.tanh(jax.numpy.einsum("smte,sef->smtf", state, weights))

        def step(state: Any, _: None) -> tuple[Any, None]:
            return rotate(state=stages(state), operation=operation), None

        return jax.lax.scan(step, state, None, length=11)[0]

    return run


_COMPILED = (
    RealSize(
        case=Case(
            id="pipeline_scan",
            sizes={"stages": 4, "microbatch": 4, "sequence": 4096, "embed": 4096},
            statics={"operation": "rotate_right"},
        ),
        args={
            "state": Arg(shape=("stages", "microbatch", "sequence", "embed"), spec=("stage", "data")),
            "weights": Arg(shape=("stages", "embed", "embed"), spec=("stage",)),
        },
        within=_pipeline,
        layout="stage4_data*",
        dtype="bfloat16",
        targets=("v5p:2x2x1", "tpu7x:2x2x1"),
        claims=(
            Claim(
                shows=VARIANT.temp_bytes < 0.9 * REFERENCE.temp_bytes,
                source="MaxText's pipeline: slices save 10 to 15 GB of temporary memory",
                finding="seen by its authors on AMD GPUs; on TPU the slices become the same messages, and save nothing",
            ),
        ),
    ),
)

PAIR = Pair(
    name="stage_rotation",
    reference="ppermute",
    variants=("slice_concatenate",),
    args=_args,
    out_spec={"out": ("stage", "data")},
    cases=(
        *(_case(operation, operation) for operation in OPERATIONS),
        _case("rotate_right_rows2", "rotate_right", rows=2, meshes=("stage1", "stage2", "stage4")),
        _case("shift_left_rows2", "shift_left", rows=2, meshes=("stage1", "stage8", "stage4_data2")),
        _case("state_io_update_rows3", "state_io_update", rows=3, meshes=("stage1", "stage2", "stage4_data2")),
        _case("payloads", "rotate_left", rows=2, dtypes=WITH_PAYLOADS, meshes=("stage1", "stage4")),
        _case(
            "unknown",
            "rotate_up",
            rows=2,
            meshes=("stage1", "stage4"),
            refuses=(Refusal(error="ValueError", match="operation is 'rotate_up'"),),
        ),
    ),
    dtypes=("float32", "bfloat16", "int32"),
    meshes=("stage1", *SPLIT),
    modes=("auto", "explicit"),
    compiled=_COMPILED,
    documented=(
        Documented(
            id="3922.10a",
            document="MaxText #3922, item 10a: layers/pipeline.py",
            # The memory is shown inside a scan, by `scanned_stack`.
            says="slices and concatenation rotate the stages as ppermute does",
            variants=("slice_concatenate",),
        ),
    ),
    contracts=(
        Contract(lowest="proved"),
        *(
            Contract(
                direction="gradient",
                case=case,
                lowest="proved",
                domain=Domain(
                    no_negative_zero=("cotangents",), no_subnormal=("cotangents",), no_signalling_nan=("cotangents",)
                ),
                reason="the gradient of two slices is a sum of two padded arrays: 0.0 + -0.0 is 0.0",
            )
            for case in ("rotate_*", "payloads")
        ),
    ),
)

test_stage_rotation = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))

SMALL = settings(max_examples=6, deadline=None, derandomize=True, database=None)


@functools.cache
def _program(side: str, operation: str) -> Any:
    import jax

    return jax.jit(functools.partial(implementation(PAIR, side), operation=operation))


def _run(side: str, operation: str, state: Any, output: Any = None) -> Any:
    return np.asarray(_program(side, operation)(state, output))


def _replay(operation: str, state: Any, output: Any) -> Any:
    """The definition, one row after the other."""
    last = len(state) - 1
    moved = np.zeros_like(state)
    for row in range(len(state)):
        source = row - 1 if operation.endswith("right") else row + 1
        if operation.startswith("rotate"):
            moved[row] = state[source % len(state)]
        elif 0 <= source <= last:
            moved[row] = state[source]
    if operation == "state_io_update":
        moved[last] = output[last]
    return moved


def _inputs(operation: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
    state = np.arange(1, 1 + int(np.prod(shape)), dtype=np.float32).reshape(shape)
    return state, -state if operation == "state_io_update" else None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("side", PAIR.sides)
@pytest.mark.parametrize("operation", OPERATIONS)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3))
@SMALL
def test_rows_move_as_replayed(side: str, operation: str, shape: list[int]) -> None:
    """Every operation on one device, any number of rows and dimensions."""
    state, output = _inputs(operation, tuple(shape))
    assert_same_bits(_run(side, operation, state, output), _replay(operation, state, output))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("side", PAIR.sides)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("rows", (1, 3))
def test_rows_move_between_devices_as_replayed(side: str, operation: str, rows: int) -> None:
    """Rows move by one, not the blocks that devices hold, and what is dropped is gone: its NaN leaks nowhere."""
    import jax

    if len(jax.devices()) < 4:
        pytest.skip("four stages need 4 devices")
    mesh = MeshSpec.parse("stage4").build("auto")
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("stage"))
    state, output = _inputs(operation, (4 * rows, 2))
    dropped = {"shift_right": -1, "shift_left": 0, "state_io_update": 0}.get(operation)
    if dropped is not None:
        state[dropped] = np.nan
    if output is not None:
        output[:-1] = np.nan
    with jax.set_mesh(mesh):
        placed = jax.device_put(state, split), None if output is None else jax.device_put(output, split)
        moved = _run(side, operation, *placed)
    expected = _replay(operation, state, output)
    assert not np.isnan(expected).any()
    assert_same_bits(moved, expected)


@pytest.mark.parametrize("side", PAIR.sides)
@pytest.mark.parametrize(("operation", "vacated"), (("shift_right", 0), ("shift_left", -1), ("state_io_update", -1)))
def test_cotangent_of_the_vacated_row_does_not_leak(side: str, operation: str, vacated: int) -> None:
    """A NaN in the cotangent of a row that `state` does not feed reaches no gradient of `state`."""
    import jax

    state, output = _inputs(operation, (4, 2))
    function = implementation(PAIR, side)
    cotangent = np.ones((4, 2), np.float32)
    cotangent[vacated] = np.nan

    @jax.jit  # one program, and not one for each operation
    def pull(state: Any, cotangent: Any) -> Any:
        return jax.vjp(lambda state: function(state, output, operation=operation), state)[1](cotangent)[0]

    gradient = np.asarray(pull(state, cotangent))
    expected = np.ones((4, 2), np.float32)
    expected[-1 if vacated == 0 else 0] = 0
    assert_same_bits(gradient, expected)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("side", PAIR.sides)
@pytest.mark.parametrize("first", ("rotate_left", "rotate_right"))
@given(st.integers(1, 6), st.integers(1, 3))
@SMALL
def test_rotations_undo_each_other(side: str, first: str, rows: int, width: int) -> None:
    """Left after right, and right after left, give the same rows back."""
    state, _ = _inputs(first, (rows, width))
    second = "rotate_right" if first == "rotate_left" else "rotate_left"
    assert_same_bits(_run(side, second, _run(side, first, state)), state)


def test_slices_lose_the_sign_of_a_zero_cotangent() -> None:
    """A finding about the rewrite: messages hand a cotangent of -0.0 back, the sum behind two slices does not."""
    import jax

    cotangent = np.full((4, 2), -0.0, np.float32)
    signs = {}
    for side in PAIR.sides:
        function = implementation(PAIR, side)

        def call(state: Any, function: Any = function) -> Any:
            return function(state, operation="rotate_right")

        signs[side] = bool(np.signbit(jax.vjp(call, np.ones((4, 2), np.float32))[1](cotangent)[0]).all())
    assert signs == {"ppermute": True, "slice_concatenate": False}


@pytest.mark.parametrize("side", PAIR.sides)
@pytest.mark.parametrize(
    ("operation", "output", "message"),
    (
        ("rotate_up", None, "operation is 'rotate_up'"),
        ("rotate_left", (2, 2), "rotate_left with output"),
        ("state_io_update", None, "state_io_update without output"),
        ("state_io_update", (2, 3), "expected float32\\[2, 2\\]"),
    ),
)
def test_refuses(side: str, operation: str, output: tuple[int, ...] | None, message: str) -> None:
    """An unknown operation, and an output that is missing, unused or of another shape."""
    with pytest.raises(ValueError, match=message):
        _run(side, operation, np.ones((2, 2), np.float32), None if output is None else np.ones(output, np.float32))
