"""The microbatch of every pipeline stage in an iteration: a gather per stage, one moving slice, or selections.

The numbers below were measured on CPU (jax 0.10.2, 8 devices) over 40 seeds at the shapes of the cases.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits import (
    Arg,
    Case,
    Contract,
    Documented,
    Domain,
    MeshSpec,
    Pair,
    assert_same_bits,
    implementation,
    pair_test,
)

BATCH = ("data", "fsdp")
_FINITE = Domain(finite=("cotangents",), no_negative_zero=("cotangents",), no_subnormal=("cotangents",))
ITERATIONS = {"filling": 2, "steady": 6, "draining": 23, "delayed": 9, "below_zero": -5}


def _args(case: Case, mesh: MeshSpec) -> Mapping[str, Arg]:
    iteration = ITERATIONS[case.id]
    return {
        "inputs": Arg(
            shape=("microbatches", "batch", "seq"),
            spec=(None, BATCH),
            special=("-0.0", "nan", "inf", "-inf", "subnormal", "largest"),
        ),
        "iteration": Arg(shape=(), dtype="int32", values=lambda rng, shape: np.full(shape, iteration)),
    }


def _case(name: str, microbatches: int, dtypes: tuple[str, ...], mesh: str, delay: int = 1) -> Case:
    sizes = {"microbatches": microbatches, "batch": 4, "seq": 5}
    statics = {"stages": 4, "delay": delay}
    return Case(id=name, sizes=sizes, statics=statics, dtypes=dtypes, meshes=(mesh,))


_CONTRACTS = (
    Contract(lowest="proved"),
    # Of these sizes and iterations. With fewer microbatches than stages three cotangents may have one sum, in another
    # order: at microbatches=2 and iteration=1, (1, 1e8, -1e8, 3) is 3 in the reference and 0 in the window. So a proof
    # for all sizes is one of the formulas alone.
    Contract(direction="gradient", lowest="proved", domain=_FINITE),
    # Two stages that wait for microbatch 0 have one sum; a selection of one stage adds zeros.
    Contract(direction="gradient", case="filling", domain=_FINITE),
    Contract(direction="gradient", variant="one_hot", domain=_FINITE),
    Contract(
        direction="gradient",
        case="below_zero",
        lowest="rounding",
        reason="four stages wait for microbatch 0, and their cotangents are added up in another order: the "
        "reference itself moves in 10 of 100 elements where stage splits them, window in 15",
        domain=_FINITE,
    ),
)

PAIR = Pair(
    name="microbatch_select",
    reference="vmap_index",
    variants=("window", "one_hot"),
    args=_args,
    cases=(
        # An index that is less than the number of stages, one in the middle, one that has gone round, stages that do
        # not neighbour, and one that is out of range at the other end.
        _case("filling", 4, ("float32",), "stage4_data2"),
        _case("steady", 8, ("bfloat16",), "stage2_fsdp2"),
        _case("draining", 4, ("int32",), "stage4_data2"),
        _case("delayed", 8, ("float32",), "stage4_data2", delay=2),
        _case("below_zero", 5, ("float32",), "stage2_fsdp2"),
    ),
    dtypes=("float32", "bfloat16", "int32"),
    meshes=("stage4_data2", "stage2_fsdp2"),
    modes=("auto", "explicit"),
    out_spec={"out": ("stage", BATCH)},
    documented=(
        Documented(
            id="3922.10e",
            document="MaxText #3922, item 10e: layers/pipeline.py",
            says="dynamic_slice_in_dim reads the microbatch that an indexed gather reads",
            variants=("window",),
        ),
    ),
    contracts=_CONTRACTS,
    accuracy=2,
)

test_microbatch_select = pair_test(PAIR)

SIDES = pytest.mark.parametrize("side", PAIR.sides)
SMALL_RUNS = settings(max_examples=12, deadline=None, derandomize=True, database=None)


@functools.cache
def _select(side: str, stages: int, delay: int = 1) -> Any:
    import jax

    return jax.jit(functools.partial(implementation(PAIR, side), stages=stages, delay=delay))


@functools.cache
def _pull(side: str, stages: int, delay: int) -> Any:
    import jax

    select = functools.partial(implementation(PAIR, side), stages=stages, delay=delay)

    def pull(inputs: Any, iteration: Any, cotangent: Any) -> Any:
        return jax.vjp(lambda inputs: select(inputs, iteration), inputs)[1](cotangent)[0]

    return jax.jit(pull)


def _wanted(iteration: int, microbatches: int, stages: int, delay: int) -> list[int]:
    return [max(iteration - delay * stage, 0) % microbatches for stage in range(stages)]


SHAPES = st.sampled_from([(1, 1, 1), (1, 3, 1), (4, 4, 1), (5, 3, 2), (3, 5, 1), (2, 4, 3)])


@SIDES
@given(shape=SHAPES, iteration=st.integers(-4, 60) | st.sampled_from([-(2**31), 2**31 - 1]))
@SMALL_RUNS
def test_every_stage_has_its_microbatch(side: str, shape: tuple[int, int, int], iteration: int) -> None:
    """Before it has begun the first, in every repeat, and in any number of iterations of draining."""
    microbatches, stages, delay = shape
    inputs = np.arange(microbatches * 2, dtype=np.int32).reshape(microbatches, 2)
    found = _select(side, stages, delay)(inputs, np.int32(iteration))
    assert_same_bits(found, inputs[_wanted(iteration, microbatches, stages, delay)])


@pytest.mark.sampled(1)
@SIDES
@given(shape=SHAPES, iteration=st.integers(-4, 60))
@SMALL_RUNS
def test_every_stage_pulls_back_once(side: str, shape: tuple[int, int, int], iteration: int) -> None:
    """Powers of two, whose sums are exact: a microbatch gets the cotangents of all its stages."""
    microbatches, stages, delay = shape
    cotangent = 2.0 ** np.arange(stages * 2, dtype=np.float32).reshape(stages, 2)
    expected = np.zeros((microbatches, 2), np.float32)
    for stage, microbatch in enumerate(_wanted(iteration, microbatches, stages, delay)):
        expected[microbatch] += cotangent[stage]
    zeros = np.zeros((microbatches, 2), np.float32)
    assert_same_bits(_pull(side, stages, delay)(zeros, np.int32(iteration), cotangent), expected)


@SIDES
def test_a_microbatch_passes_all_stages_one_after_the_other(side: str) -> None:
    """Three microbatches, two stages, two repeats: written out by hand."""
    rows = [_select(side, 2)(np.array([10, 20, 30]), np.int32(t)).tolist() for t in range(7)]
    assert rows == [[10, 10], [20, 10], [30, 20], [10, 30], [20, 10], [30, 20], [10, 30]]


@SIDES
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint32"])
def test_iterations_of_other_integers_mean_the_same(side: str, kind: str) -> None:
    found = _select(side, 4, 2)(np.arange(5), np.array(3, kind))
    assert_same_bits(found, np.array([3, 1, 0, 0], np.int32))


@SIDES
def test_every_bit_is_handed_on(side: str) -> None:
    """No product with zeros and no sum: NaN payloads, -0.0 and subnormals of one microbatch reach no other's stage."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, (4, 6), dtype=np.uint32)
    bits[1] = (0x80000000, 1, 0xFFC00001, 0x7F800000, 0x7F800001, 0xFF800000)
    found = _select(side, 3)(bits.view(np.float32), np.int32(2))
    assert np.asarray(found).tobytes() == bits[[2, 1, 0]].tobytes()


@pytest.mark.parametrize(("side", "gathers"), [("vmap_index", True), ("window", False), ("one_hot", False)])
def test_only_the_reference_looks_up(side: str, gathers: bool) -> None:
    import jax

    program = str(jax.make_jaxpr(_select(side, 3))(np.ones((4, 2), np.float32), np.int32(1)))
    assert ("gather" in program) == gathers


@SIDES
def test_wrong_arguments_are_refused(side: str) -> None:
    inputs, iteration = np.ones((4, 2), np.float32), np.int32(1)
    with pytest.raises(ValueError, match="stages is 0 and delay is 1; expected at least 1"):
        _select(side, 0)(inputs, iteration)
    with pytest.raises(ValueError, match="stages is 2 and delay is 0; expected at least 1"):
        _select(side, 2, 0)(inputs, iteration)
    for wrong in (np.float32(1), inputs[:0]):
        with pytest.raises(ValueError, match=r"inputs have shape .*; expected \[microbatches, ...\] with a microbatch"):
            _select(side, 2)(wrong, iteration)
    for no_count in (np.float32(1), np.arange(2)):
        with pytest.raises(ValueError, match=r"iteration is .*; expected one integer"):
            _select(side, 2)(inputs, no_count)
