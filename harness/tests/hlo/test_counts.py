"""Counts of loops, collectives and bytes, on programs where they are known by construction."""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from samebits.hlo.counts import count, group_size, sent_bytes
from tests.hlo.programs import CPU, TPU7X, V5E, Array, compiled, counts, every, mapped, module, needs_libtpu

TARGETS = (CPU, pytest.param(V5E, marks=needs_libtpu), pytest.param(TPU7X, marks=needs_libtpu))
SIZES = {CPU: 8, V5E: 4, TPU7X: 8}

X = Array((64, 128), spec=("context",))
WHOLE = 64 * 128 * 4
ROWS = Array((8, 128))


# --- loops -----------------------------------------------------------------------------------------------------------


def turned(x: Any, length: int = 7) -> Any:
    return lax.scan(lambda c, _: (jnp.sin(c), None), x, None, length=length)[0]


def nested(x: Any) -> Any:
    return lax.scan(lambda c, _: (turned(jnp.cos(c), 5), None), x, None, length=3)[0]


def counted(x: Any) -> Any:
    return lax.fori_loop(2, 9, lambda i, c: jnp.sin(c) * i, x)


def by_twos(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 9, lambda c: (c[0] + 2, jnp.sin(c[1])), (1, x))[1]


def open_ended(x: Any) -> Any:
    return lax.while_loop(lambda c: jnp.sum(c) < 10, lambda c: jnp.sin(c) + 1, x)


def open_ended_inside(x: Any) -> Any:
    return lax.scan(lambda c, _: (open_ended(c), None), x, None, length=3)[0]


LOOPS: dict[str, tuple[Callable[..., Any], int, int | None]] = {
    "none": (jnp.sin, 0, 0),
    "scan of 7": (turned, 1, 7),
    "fori_loop from 2 to 9": (counted, 1, 7),
    "from 1 to 9 by twos": (by_twos, 1, 4),
    "scan of 5 in a scan of 3": (nested, 2, 3 + 3 * 5),
    "unknown length": (open_ended, 1, None),
    "unknown length in a scan": (open_ended_inside, 2, None),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_their_trip_counts(name: str, target: str) -> None:
    function, loops, trips = LOOPS[name]
    found = counts(function, ROWS, target=target)
    assert (found.opcodes.get("while", 0), found.loop_turns) == (loops, trips)


# --- collectives -----------------------------------------------------------------------------------------------------


def step(x: Any, size: int) -> Any:
    return jnp.sin(lax.ppermute(x, "context", [(i, (i + 1) % size) for i in range(size)]))


@functools.cache
def chain(length: int, size: int) -> Callable[..., Any]:
    def body(x: Any) -> Any:
        for _ in range(length):
            x = step(x, size)
        return x

    return mapped(body, P("context"), P("context"))


@functools.cache
def permuted(*pairs: tuple[int, int]) -> Callable[..., Any]:
    return mapped(lambda x: lax.ppermute(x, "context", pairs), P("context"), P("context"))


@functools.cache
def in_a_scan(size: int) -> Callable[..., Any]:
    def body(x: Any) -> Any:
        return lax.scan(lambda c, _: (step(c, size), None), x, None, length=7)[0]

    return mapped(body, P("context"), P("context"))


def _until_large(x: Any) -> Any:
    return lax.while_loop(lambda c: lax.psum(jnp.max(c), "context") < 10, lambda c: step(c, 8) + 1, x)


gathered = mapped(lambda x: lax.all_gather(x, "context", tiled=True) * 1.0, P("context"), P("context"))
summed = mapped(lambda x: lax.psum(x, "context"), P("context"), P())
scattered = mapped(lambda x: lax.psum_scatter(x, "context", tiled=True), P(), P("context"))
exchanged = mapped(lambda x: lax.all_to_all(x, "context", 1, 0, tiled=True), P("context"), P(None, "context"))
until_large = mapped(_until_large, P("context"), P("context"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("length", range(1, 5))
def test_each_permute_of_a_chain_counts_once(length: int, target: str) -> None:
    size = SIZES[target]
    found = counts(chain(length, size), X, target=target)
    assert found.collectives == {"collective-permute": length}
    assert found.wire_bytes == length * WHOLE // size


# What b bytes on each of n devices send.
SENT: dict[str, tuple[Callable[..., Any], Array, str, Callable[[int, int], int]]] = {
    "all_gather": (gathered, X, "all-gather", lambda b, n: b * (n - 1)),
    "psum": (summed, X, "all-reduce", lambda b, n: 2 * b * (n - 1) // n),
    "psum_scatter": (scattered, X._replace(spec=()), "reduce-scatter", lambda b, n: b * n * (n - 1) // n),
    "all_to_all": (exchanged, X, "all-to-all", lambda b, n: b * (n - 1) // n),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SENT)
def test_one_collective_and_its_bytes(name: str, target: str) -> None:
    function, argument, opcode, sends = SENT[name]
    found = counts(function, argument, target=target)
    size = SIZES[target]
    if (name, target) == ("psum_scatter", TPU7X):  # so small an array is summed whole there, and cut
        opcode, sends = "all-reduce", lambda b, n: 2 * b * n * (n - 1) // n
    assert found.collectives == {opcode: 1}
    assert found.wire_bytes == sends(WHOLE // size, size)


@pytest.mark.parametrize("target", TARGETS)
def test_a_permute_in_a_scan_counts_once_and_sends_each_turn(target: str) -> None:
    size = SIZES[target]
    found = counts(in_a_scan(size), X, target=target)
    assert found.collectives == {"collective-permute": 1}
    assert found.wire_bytes == 7 * WHOLE // size


def test_what_a_loop_of_unknown_length_sends_is_unknown() -> None:
    found = counts(until_large, X)
    assert found.collectives == {"all-reduce": 1, "collective-permute": 1}
    assert (found.loop_turns, found.wire_bytes) == (None, None)


@pytest.mark.parametrize("target", TARGETS)
def test_a_permute_that_moves_nothing_sends_nothing(target: str) -> None:
    found = counts(permuted(*((i, i) for i in range(SIZES[target]))), X, target=target)
    assert found.collectives == {"collective-permute": 1}
    assert found.wire_bytes == 0


def test_a_permute_that_moves_one_block_sends_it() -> None:
    assert counts(permuted((0, 0), (1, 2)), X).wire_bytes == WHOLE // 8


def test_a_sum_over_one_of_two_axes_is_a_group_of_that_axis() -> None:
    x = Array((64, 128), spec=("fsdp", "tensor"))
    body = mapped(lambda x: lax.psum(x, "fsdp"), P("fsdp", "tensor"), P(None, "tensor"))
    found = module(body, x, layout="fsdp*_tensor2")
    assert [group_size(one) for one in every(found, "all-reduce")] == [4]
    assert count(found).wire_bytes == 2 * (WHOLE // 8) * 3 // 4


@needs_libtpu
def test_groups_that_a_transposed_mesh_makes_are_read() -> None:
    """The first axis of two: XLA writes such groups as an iota of devices that is transposed."""
    weights = Array((256, 512), "bfloat16", spec=("fsdp", "tensor"))
    gathered = mapped(lambda w: lax.all_gather(w, "fsdp", tiled=True) * 1, P("fsdp", "tensor"), P(None, "tensor"))
    found = module(gathered, weights, target=V5E, layout="fsdp2_tensor2")
    gathers = every(found, "all-gather") + every(found, "all-gather-start")
    assert [group_size(one) for one in gathers] == [2]
    assert count(found).wire_bytes == 256 * 512 * 2 // 4


def test_an_unreadable_group_makes_the_bytes_unknown() -> None:
    found = compiled(summed, X)
    where, inst = next((where, inst) for where, inst in found.instructions() if inst.opcode == "all-reduce")
    assert sent_bytes(where, inst, "all-reduce") == 2 * (WHOLE // 8) * 7 // 8
    for field in ("replica_groups", "devices", "iota_groups", "mesh_groups"):
        inst.ClearField(field)
    assert sent_bytes(where, inst, "all-reduce") is None
    assert count(found).wire_bytes is None


@needs_libtpu
def test_an_asynchronous_pair_counts_once() -> None:
    found = module(chain(1, 8), X, target=TPU7X)
    assert len(every(found, "collective-permute-start")) == len(every(found, "collective-permute-done")) == 1
    assert count(found).collectives == {"collective-permute": 1}
    assert "collective-permute-done" not in count(found).opcodes
    called = module(gathered, X, target=TPU7X)
    assert every(called, "async-start") and every(called, "async-done")
    assert count(called).collectives == {"all-gather": 1}
    assert not {"async-start", "async-done", "async"} & count(called).opcodes.keys()


# --- gathers, scatters, the SparseCore -------------------------------------------------------------------------------

ROW_NUMBERS = Array((5,), "int32")


def taken(x: Any, i: Any) -> Any:
    return x[i]


def added(x: Any, i: Any, v: Any) -> Any:
    return x.at[i].add(v)


@pytest.mark.parametrize("target", TARGETS)
def test_look_ups_and_updates_by_an_array(target: str) -> None:
    found = counts(taken, ROWS, ROW_NUMBERS, target=target)
    assert (found.opcodes["gather"], found.opcodes.get("scatter", 0)) == (1, 0)
    found = counts(added, ROWS, ROW_NUMBERS, Array((5, 128)), target=target)
    # libtpu 0.0.50 reads the rows before it writes them: a gather beside the scatter.
    assert found.opcodes["scatter"] == 1
    assert found.opcodes.get("gather", 0) <= (0 if target.startswith("cpu") else 1)


def test_a_slice_of_fixed_place_is_no_gather() -> None:
    assert "gather" not in counts(lambda x: x[2:5], ROWS).opcodes


def product(x: Any, w: Any) -> Any:
    return x @ w


SPLIT = Array((512, 512), "bfloat16", ("fsdp",))
OFF = (("xla_tpu_enable_sparse_core_collective_offload_all_gather", "false"),)


@needs_libtpu
@pytest.mark.parametrize(
    ("target", "options", "sparse"),
    [(TPU7X, (), {"all-gather": 1}), (TPU7X, OFF, {}), (V5E, (), {})],
    ids=["tpu7x", "tpu7x, switched off", "v5e has none"],
)
def test_gathered_weights_go_through_the_sparsecore(
    target: str, options: tuple[tuple[str, str], ...], sparse: dict[str, int]
) -> None:
    found = counts(product, SPLIT, SPLIT, target=target, layout="fsdp*", options=options)
    assert found.sparsecore == sparse
    assert found.collectives == {"all-gather": 1}
    assert found.wire_bytes == 512 * 512 * 2 * (SIZES[target] - 1) // SIZES[target]


def test_work_inside_fusions_is_counted_and_plumbing_is_not() -> None:
    found = counts(lambda x: (jnp.sin(x) * 2 + 1, x), ROWS)
    assert {found.opcodes[name] for name in ("sine", "multiply", "add")} == {1}
    assert not {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"} & found.opcodes.keys()
