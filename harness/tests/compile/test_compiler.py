"""`compile_for` on a whole train step, and sides with one program that return other trees, dtypes or weak types."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import samebits
from samebits import Facts, compile_for, target_mesh
from samebits.compile.compiler import OutputTypes
from samebits.errors import CouldNotRun
from tests.hlo.programs import CPU, TPU7X, V5E, needs_libtpu

TARGETS = [pytest.param(CPU), pytest.param(TPU7X, marks=needs_libtpu)]
WIDTH = 1024
HUGE = 1 << 18
"""Layers: their weights and momenta are 1.6 TB."""


def loss(weights: Any, x: Any) -> Any:
    def layer(h: Any, w: Any) -> tuple[Any, None]:
        return jnp.tanh(h @ w), None

    return jnp.mean(jax.lax.scan(layer, x, weights)[0].astype(jnp.float32) ** 2)


def step(state: tuple[Any, Any], x: Any) -> tuple[tuple[Any, Any], Any]:
    weights, momentum = state
    value, gradient = jax.value_and_grad(loss)(weights, x)
    momentum = 0.9 * momentum + gradient.astype(momentum.dtype)
    return (weights - (0.1 * momentum).astype(weights.dtype), momentum), value


def facts(
    target: str,
    *,
    layers: int = 2,
    batch: int = 1024,
    donate: bool = True,
    out: PartitionSpec | None = None,
    function: Callable[..., Any] = step,
) -> Facts:
    """The facts of a step with its weights and its batch split over all devices."""
    mesh = target_mesh(target, "fsdp*")
    split, rows, whole = (
        NamedSharding(mesh, PartitionSpec(*spec)) for spec in ((None, "fsdp", None), ("fsdp", None), ())
    )
    shape = (layers, WIDTH, WIDTH)
    state = (
        jax.ShapeDtypeStruct(shape, "bfloat16", sharding=split),
        jax.ShapeDtypeStruct(shape, "float32", sharding=split),
    )
    kept = split if out is None else NamedSharding(mesh, out)
    jitted = jax.jit(function, donate_argnums=(0,) if donate else (), out_shardings=((kept, kept), whole))
    x = jax.ShapeDtypeStruct((batch, WIDTH), "bfloat16", sharding=rows)
    return compile_for(jitted, state, x, mesh=mesh, target=target, label="the step")


STATE = WIDTH * WIDTH * (2 + 4)
"""Bytes of one layer: its weights and its momenta."""
ROWS = 1024 * WIDTH * 2 // 8
"""Bytes of a device's share of the batch."""


@pytest.fixture(autouse=True)
def _no_array_is_made() -> Any:
    before = {id(array) for array in jax.live_arrays()}
    yield
    assert {id(array) for array in jax.live_arrays()} <= before


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", TARGETS)
def test_a_step_has_the_collectives_of_fsdp(target: str) -> None:
    """Weights are gathered in the loop forward and in the loop backward, and gradients are summed."""
    found = facts(target)
    assert (found.while_loops, found.loop_turns) == (2, 4)
    assert found.collectives["all-gather"] == 2
    summed = {name: number for name, number in found.collectives.items() if name != "all-gather"}
    # XLA:CPU sums whole gradients; the TPU's compiler leaves each device its part, and sums only the loss.
    assert summed == ({"all-reduce": 2} if target == CPU else {"all-reduce": 1, "reduce-scatter": 1})
    assert found.sparsecore == (0 if target == CPU else 3)
    weights = WIDTH * WIDTH * 2
    assert found.wire_bytes is not None and found.wire_bytes >= 2 * 2 * weights * 7 // 8, "two gathers a layer"
    assert found.argument_bytes == 2 * STATE // 8 + ROWS
    assert found.output_bytes is not None and 0 <= found.output_bytes - 2 * STATE // 8 < 4096, "the state, and a loss"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", TARGETS)
def test_donation_is_kept(target: str) -> None:
    donated, copied = facts(target), facts(target, donate=False)
    assert donated.peak_bytes is not None and copied.peak_bytes is not None
    # A donated state is written over: the new one needs no memory of its own.
    assert copied.peak_bytes - donated.peak_bytes > 0.9 * 2 * STATE // 8
    assert copied.collectives == donated.collectives and copied.program != donated.program


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", TARGETS)
def test_output_shardings_are_kept(target: str) -> None:
    split, whole = facts(target, donate=False), facts(target, donate=False, out=PartitionSpec())
    assert split.output_bytes is not None and whole.output_bytes is not None
    assert whole.output_bytes == pytest.approx(8 * split.output_bytes, rel=0.01)
    assert (whole.wire_bytes or 0) > (split.wire_bytes or 0), "who wants it whole sends more"


def test_the_same_step_is_the_same_program() -> None:
    def faster(state: tuple[Any, Any], x: Any) -> Any:
        (weights, momentum), value = step(state, x)
        return (weights, 1.0009765625 * momentum), value

    first, again, other = facts(CPU), facts(CPU), facts(CPU, function=faster)
    assert first.program == again.program != other.program
    assert first.collectives == other.collectives


@pytest.mark.slow
@pytest.mark.parametrize("target", [CPU, pytest.param("tpu7x:2x2x4", marks=needs_libtpu)])
def test_a_step_of_more_than_a_terabyte(target: str) -> None:
    """Shapes far larger than this machine: 1.6 TB of weights and momenta; the TPUs' have half of it and room left."""
    devices, layers = (8, HUGE) if target == CPU else (32, HUGE // 2)
    found = facts(target, layers=layers, batch=512)
    assert found.argument_bytes == layers * STATE // devices + 512 * WIDTH * 2 // devices
    assert found.argument_bytes * devices > 0.8e12
    assert found.loop_turns == 2 * layers
    assert found.wire_bytes is not None and found.wire_bytes > layers * WIDTH * WIDTH, (
        "the trip count of a loop is counted"
    )


@needs_libtpu
def test_a_step_too_large_for_the_slice_says_by_how_much() -> None:
    with pytest.raises(CouldNotRun, match=r"RESOURCE_EXHAUSTED: .*Ran out of memory on HBM") as caught:
        facts(V5E, layers=HUGE)
    assert str(caught.value).startswith("the step raised ") and "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


BLOCK = jax.ShapeDtypeStruct((8, 128), jnp.float32)


class Rope(NamedTuple):
    cos: Any
    sin: Any


class Swapped(NamedTuple):
    sin: Any
    cos: Any


def tables(x: Any) -> Any:
    return Rope(jnp.cos(x), jnp.sin(x))


def swapped(x: Any) -> Any:
    return Swapped(jnp.cos(x), jnp.sin(x))


def with_none(x: Any) -> Any:
    return {"a": jnp.cos(x), "b": jnp.sin(x), "c": None}


def strong(x: Any) -> Any:
    return x * 2.0, jnp.float32(2.0)


def weak(x: Any) -> Any:
    return x * 2.0, 2.0


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("reference", "variant", "words"),
    [
        (tables, swapped, "the same program, but another output tree: "),
        (tables, with_none, "the same program, but another output tree: "),
        (strong, weak, "the same program, but another output weak type: out[1] weak_type=False -> True"),
    ],
)
def test_one_program_with_other_outputs(
    reference: Callable[[Any], Any], variant: Callable[[Any], Any], words: str
) -> None:
    compared = samebits.compare_programs(reference, variant, BLOCK, target="cpu:1", gradients=False)
    (leaf,) = compared.leaves
    assert leaf.same_order and leaf.verdict is None and leaf.reason.startswith(words)
    assert compared.verdict is None
    same = samebits.compare_programs(reference, lambda x: reference(x), BLOCK, target="cpu:1", gradients=False)
    assert same.verdict == "proved"


def test_dtypes_that_no_program_shows() -> None:
    def types(function: Callable[[Any], Any]) -> OutputTypes:
        return OutputTypes.of(jax.jit(function).trace(jax.ShapeDtypeStruct((2,), jnp.uint32)))

    words, key = types(lambda x: x), types(jax.random.wrap_key_data)
    assert words.difference(key) == "another output dtype: out uint32 -> key<fry>"
    assert key.difference(key) is None
