"""sequence_reorder: chunks of a sequence moved into load-balanced order and back, without a gather."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits import (
    REFERENCE,
    VARIANT,
    Arg,
    AxisSize,
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
    compiled_side,
    implementation,
    pair_test,
)

BALANCE: Mapping[str, Any] = {"cp": AxisSize(axis="context"), "to_contiguous": False}
UNDO: Mapping[str, Any] = {"cp": AxisSize(axis="context"), "to_contiguous": True}
AXIS_1: Mapping[str, Any] = {"axis": 1, **BALANCE}
ALONG_BATCH = ("data2_context4",)
ONE_AXIS = ("context1", "context2", "context3", "context4", "context8")
WIDE = ("context16", "context128")
# The `bshd` cases run on every mesh, in both directions; the other layouts on some, even and odd.
ON_2_3_BATCH = ("context2", "context3", *ALONG_BATCH)
ON_4_BATCH = ("context4", *ALONG_BATCH)

ONE_NAN = ("-0.0", "nan", "inf", "-inf", "subnormal", "largest")
ALL_SPECIAL = (*ONE_NAN, "nan_payload")
# XLA:CPU sends bfloat16 between devices as float32 (jax 0.10.2 selects and concatenates it so too), and the rounding
# back resets the payload of a NaN: there is no bit for bit to promise, so bfloat16 carries one NaN.
WITH_PAYLOADS = ("float32", "int32")
# FINDING: the instruction of AVX512_BF16 that rounds float32 to bfloat16 gives 0 for a subnormal number, and XLA:CPU of
# jax 0.12.0.1 (not 0.10.2) sends these gathered and transposed elements through it: 64 of 128 came back as 0.
FLUSHED = {"layers": tuple(name for name in ONE_NAN if name != "subnormal")}


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    """`x`, its dimensions in the order of `case.sizes`; `group`, `half_group` or `seq` is the sequence."""
    declared = case.statics["cp"]
    cp = mesh.size(declared.axis) if isinstance(declared, AxisSize) else declared
    tokens = {"group": 2 * cp, "half_group": cp, "seq": 1}
    return {
        "x": Arg(
            shape=tuple(size * tokens.get(name, 1) for name, size in case.sizes.items()),
            spec=tuple("context" if name in tokens else "data" if name == "batch" else None for name in case.sizes),
            special=FLUSHED.get(case.id, ALL_SPECIAL if case.dtypes == WITH_PAYLOADS else ONE_NAN),
        )
    }


def _out_spec(case: Case, mesh: MeshSpec) -> Mapping[str, Any]:
    return {"out": _args(case, mesh)["x"].spec}


_MAXTEXT = "MaxText pull request 4275"

_COMPILED = (
    RealSize(
        # The queries of one layer: 128 Ki tokens of 128 heads.
        case=Case(id="layer_128k", sizes={"batch": 1, "seq": 1 << 17, "heads": 128, "dim": 128}, statics=AXIS_1),
        layout="context*",
        dtype="bfloat16",
        targets=("tpu7x:4x4x4",),
        claims=(
            Claim(variant="gather", target="tpu", shows=VARIANT.while_loops >= 1, source=_MAXTEXT),
            Claim(target="tpu", shows=VARIANT.while_loops == 0, source=_MAXTEXT),
            Claim(target="tpu7x:4x4x4", shows=VARIANT.temp_bytes <= 0.02 * REFERENCE.temp_bytes, source=_MAXTEXT),
            Claim(
                variant="permute",
                shows=VARIANT.collectives == {"collective-permute": 2},
                source="even and odd chunks each go to a permutation of the devices; no exchange sends less",
            ),
            Claim(
                variant="permute",
                shows=VARIANT.wire_bytes <= 0.5 * compiled_side("structured").wire_bytes,
                source="as above",
            ),
            # How the two halves are best put together depends on the compiler: 16.9 MB and 50.4 MB were measured.
            *(
                Claim(
                    variant="permute",
                    target="tpu7x:4x4x4",
                    versions=version,
                    shows=VARIANT.temp_bytes <= most,
                    source="measured",
                )
                for version, most in (("0.0.42.*", 17e6), ("0.0.50.*", 51e6))
            ),
        ),
    ),
)

PAIR = Pair(
    name="sequence_reorder",
    reference="gather",
    variants=("structured", "permute"),
    args=_args,
    out_spec=_out_spec,
    cases=(
        Case(
            id="tokens",
            sizes={"group": 3},
            statics={"axis": 0, **BALANCE},
            dtypes=("float32", "int32"),
            meshes=("context1", "context4", *WIDE),
        ),
        Case(
            id="tokens_undo",
            sizes={"group": 1},
            statics={"axis": -1, **UNDO},
            dtypes=("float32", "bfloat16"),
            meshes=("context2", "context3", "context8", *WIDE),
        ),
        Case(
            id="batch_seq",
            sizes={"batch": 2, "group": 3},
            statics={"axis": -1, **BALANCE},
            dtypes=("bfloat16", "int32"),
            meshes=ON_2_3_BATCH,
        ),
        Case(id="bshd", sizes={"batch": 2, "group": 2, "heads": 2, "dim": 3}, statics={"axis": 1, **BALANCE}),
        Case(
            id="bshd_undo",
            sizes={"batch": 2, "group": 2, "heads": 2, "dim": 3},
            statics={"axis": -3, **UNDO},
            meshes=("context1", "context3", "context4", "context8", *ALONG_BATCH),
        ),
        Case(
            id="sbhd",
            sizes={"group": 2, "batch": 2, "heads": 2, "dim": 3},
            statics={"axis": 0, **UNDO},
            dtypes=("bfloat16", "int32"),
            meshes=ON_2_3_BATCH,
        ),
        Case(
            id="layers",
            sizes={"layer": 2, "batch": 2, "heads": 2, "group": 1, "dim": 2},
            statics={"axis": -2, **BALANCE},
            dtypes=("float32", "bfloat16"),
            meshes=ON_4_BATCH,
        ),
        Case(
            id="payloads",
            sizes={"batch": 2, "group": 3, "dim": 2},
            statics={"axis": -2, **BALANCE},
            dtypes=WITH_PAYLOADS,
            meshes=("context3", "context4"),
        ),
        Case(
            # The chunks need not lie one pair to a device; only the exchange between devices insists on it.
            id="cp_off_mesh",
            sizes={"batch": 2, "group": 4},
            statics={"axis": 1, "cp": 3, "to_contiguous": True},
            meshes=("context2", "context4"),
            refuses=(Refusal(error="ValueError", match="cp is 3 .* 'context' has size", variants=("permute",)),),
        ),
        Case(
            id="indivisible",
            sizes={"batch": 2, "half_group": 3},
            statics={"axis": 1, **BALANCE},
            meshes=("context1", "context4"),
            refuses=(Refusal(error="ValueError", match="expected a multiple of 2 \\* cp"),),
        ),
    ),
    dtypes=("float32", "bfloat16", "int32"),
    meshes=ONE_AXIS + ALONG_BATCH,
    modes=("auto", "explicit"),
    wide_meshes=WIDE,
    compiled=_COMPILED,
    documented=(
        Documented(
            id="4275.1",
            document="MaxText #4275: utils/max_utils.py",
            says="split, flip and stack give every bit of the gather, forward and back, without its loops and with "
            "less memory",
            variants=("structured",),
            saves="temp_bytes",
            real=("layer_128k",),
            directions=("gradient",),  # that of training
        ),
    ),
    contracts=(
        Contract(lowest="proved"),
        # For every length and every number of devices, so that no sweep has to reach the size at which code is wrong.
        Contract(variant="structured", case="bshd*", dtype="float32", mode="auto", lowest="proved", sizes="all"),
        Contract(
            direction="gradient",
            lowest="proved",
            domain=Domain(
                no_negative_zero=("cotangents",), no_subnormal=("cotangents",), no_signalling_nan=("cotangents",)
            ),
            reason="the reference's gradient is a scatter-add into zeros, and 0.0 + -0.0 is 0.0",
        ),
        Contract(
            variant="gather",
            direction="forward",
            dtype="*float*",
            lowest="rounding",
            reason="split over devices, a gather is compiled to a sum over devices of which all but one give 0: "
            "-0.0 comes back as 0.0 and subnormals as 0 (every one of them on 2 to 8 devices, jax 0.10.2 and 0.12.0.1)",
        ),
    ),
    accuracy=2,
)

test_sequence_reorder = pair_test(PAIR)
test_compiled = pytest.mark.slow(compile_test(PAIR))

SMALL = settings(max_examples=6, deadline=None, derandomize=True, database=None)


@st.composite
def _sequences(draw: st.DrawFn) -> tuple[tuple[int, ...], int, int]:
    """A shape, its sequence axis (negative ones too) and the number of ranks."""
    cp = draw(st.integers(1, 7))
    others = draw(st.lists(st.integers(1, 3), max_size=3))
    axis = draw(st.integers(0, len(others)))
    shape = (*others[:axis], 2 * cp * draw(st.integers(1, 3)), *others[axis:])
    return shape, axis - len(shape) if draw(st.booleans()) else axis, cp


def _labels(shape: tuple[int, ...]) -> Any:
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


def _reorder(side: str, **statics: Any) -> Callable[[Any], Any]:
    import jax

    reorder: Callable[[Any], Any] = jax.jit(functools.partial(implementation(PAIR, side), **statics))
    return reorder


def _both(side: str, **statics: Any) -> Callable[[Any], Any]:
    """Balanced and undone, in one program: compiling takes most of an example's time."""
    import jax

    balance, undo = (
        functools.partial(implementation(PAIR, side), to_contiguous=to_contiguous, **statics)
        for to_contiguous in (False, True)
    )
    return jax.jit(lambda x: (balance(x), undo(x)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("side", PAIR.sides)
@given(_sequences())
@SMALL
def test_moves_whole_chunks_and_loses_none(side: str, sequence: tuple[tuple[int, ...], int, int]) -> None:
    """Both directions are permutations, and the balanced one is that of the definition."""
    shape, axis, cp = sequence
    x = _labels(shape)
    chunks = np.split(x, 2 * cp, axis)
    balanced = np.concatenate([chunks[c] for rank in range(cp) for c in (rank, 2 * cp - 1 - rank)], axis)
    found, undone = _both(side, cp=cp, axis=axis)(x)
    assert_same_bits(found, balanced)
    assert_same_bits(np.sort(np.asarray(undone), axis=None), np.sort(x, axis=None))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("side", PAIR.sides)
@given(_sequences())
@SMALL
def test_undo_after_balance_is_identity(side: str, sequence: tuple[tuple[int, ...], int, int]) -> None:
    """One direction takes back the other, whichever comes first."""
    shape, axis, cp = sequence
    both = _both(side, cp=cp, axis=axis)
    x = _labels(shape)
    balanced, undone = both(x)
    assert_same_bits(both(balanced)[1], x)
    assert_same_bits(both(undone)[0], x)


TABLES = (
    (1, 4, [0, 1, 2, 3], [0, 1, 2, 3]),
    (2, 8, [0, 1, 6, 7, 2, 3, 4, 5], [0, 1, 4, 5, 6, 7, 2, 3]),
    (3, 6, [0, 5, 1, 4, 2, 3], [0, 2, 4, 5, 3, 1]),
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("side", PAIR.sides)
@pytest.mark.parametrize(("cp", "tokens", "balanced", "undone"), TABLES)
def test_printed_table(side: str, cp: int, tokens: int, balanced: list[int], undone: list[int]) -> None:
    """Small sequences written out by hand."""
    assert [x.tolist() for x in _both(side, cp=cp, axis=0)(_labels((tokens,)))] == [balanced, undone]


@pytest.mark.parametrize("side", PAIR.sides)
@pytest.mark.parametrize(
    ("change", "message"), (({"cp": 0}, "cp is 0"), ({"axis": 2}, "axis is 2"), ({"axis": -3}, "axis is -3"))
)
def test_refuses(side: str, change: Mapping[str, int], message: str) -> None:
    """A number of ranks below 1 and an axis out of range are refused, with what was got."""
    with pytest.raises(ValueError, match=message):
        _reorder(side, **{"cp": 2, "axis": 1, "to_contiguous": False, **change})(_labels((2, 8)))


@pytest.mark.parametrize("variant", PAIR.variant_names)
@pytest.mark.parametrize("to_contiguous", (False, True))
def test_gradient_keeps_every_bit_of_the_cotangent(variant: str, to_contiguous: bool) -> None:
    """The gradient is the other direction and adds nothing: -0.0, subnormals and NaN payloads come through."""
    import jax

    cotangent = np.random.default_rng(0).integers(0, 1 << 32, (3, 12), dtype=np.uint32).view(np.float32)
    cotangent[:, 5] = np.array([0x80000000, 0x00000001, 0xFFC00001], np.uint32).view(np.float32)
    statics = {"cp": 3, "axis": 1}
    forward = _reorder(variant, to_contiguous=to_contiguous, **statics)
    pulled = jax.jit(lambda x, cotangent: jax.vjp(forward, x)[1](cotangent)[0])(
        np.zeros((3, 12), np.float32), cotangent
    )
    back = _reorder(variant, to_contiguous=not to_contiguous, **statics)(cotangent)
    assert np.asarray(pulled).tobytes() == np.asarray(back).tobytes()


def _compiled(side: str, gradient: bool, to_contiguous: bool) -> Counter[str]:
    """How often each opcode stands in the program compiled for eight devices; an asynchronous pair counts once."""
    import jax

    if len(jax.devices()) < 8:
        pytest.skip("the program is compiled for 8 devices")
    mesh = MeshSpec.parse("context8").build("auto")
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "context"))
    x = jax.ShapeDtypeStruct((2, 48), np.float32, sharding=split)
    forward = _reorder(side, cp=8, axis=1, to_contiguous=to_contiguous)

    def pull(x: Any, cotangent: Any) -> Any:
        return jax.vjp(forward, x)[1](cotangent)[0]

    with jax.set_mesh(mesh):
        lowered = jax.jit(pull).lower(x, x) if gradient else jax.jit(forward).lower(x)
    text = lowered.compile().as_text() or ""
    return Counter(re.findall(r" ([a-z][a-z0-9-]*?)(?:-start)?\(", text))


@pytest.mark.parametrize("gradient", (False, True))
@pytest.mark.parametrize("to_contiguous", (False, True))
def test_permute_sends_two_half_shards(gradient: bool, to_contiguous: bool) -> None:
    """Two permutations between devices and no other communication, forward and gradient."""
    found = _compiled("permute", gradient, to_contiguous)
    assert found["collective-permute"] == 2
    assert not found.keys() & {"all-gather", "all-to-all", "all-reduce", "gather"}


@pytest.mark.parametrize("gradient", (False, True))
@pytest.mark.parametrize("to_contiguous", (False, True))
def test_structured_looks_nothing_up(gradient: bool, to_contiguous: bool) -> None:
    """No gather and no scatter is left, forward or gradient."""
    found = _compiled("structured", gradient, to_contiguous)
    assert found["parameter"] and not found.keys() & {"gather", "scatter", "while"}


def test_partitioned_gather_adds_zero() -> None:
    """A finding about the reference: split over devices, its gather is a masked sum, which takes the sign of -0.0."""
    assert _compiled("gather", False, False)["all-reduce"] == 1
