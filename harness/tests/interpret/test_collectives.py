"""Collectives inside `shard_map`: executed on eight CPU devices, and interpreted without any."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from samebits.errors import NotCovered
from samebits.interpret import devices, shard_map
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.oracle import Oracle
from tests.interpret.executed import agree, check, missing, outcomes

Function = Callable[..., Any]

X = np.random.default_rng(1).normal(size=(8, 8, 3))
SIZES = {"a": 2, "b": 4}


def mesh(shape: Sequence[int] = (2, 4), names: Sequence[str] = ("a", "b"), kind: Any = AxisType.Auto) -> Any:
    return jax.make_mesh(tuple(shape), tuple(names), axis_types=(kind,) * len(shape))


def mapped(body: Function, names: Any = ("a", "b"), where: Any = None) -> Function:
    """Each device gets one row, [1, 8, 3]; what it returns is put together along the first axis."""
    return jax.shard_map(body, mesh=where or mesh(), in_specs=P(names), out_specs=P(names))


def everything(x: Any, axes: Any, turns: Sequence[int] = (0, 1, 2)) -> list[Any]:
    """Every collective over some axes, each result with a first axis of one; `turns`: where all_to_all stacks."""
    count = int(np.prod([SIZES[name] for name in (axes if isinstance(axes, tuple) else (axes,))]))
    y = x[0]  # [8, 3]
    still = lax.stop_gradient(y)  # pmax and pmin have no derivative
    found = [lax.psum(y, axes), lax.pmax(still, axes), lax.pmin(still, axes), lax.pmean(y, axes), lax.psum(2, axes) * y]
    found += [lax.all_gather(y, axes, axis=axis, tiled=tiled) for axis in (0, 1) for tiled in (False, True)]
    found += [lax.all_gather(y[:, 0], axes, axis=1)]
    wide = jnp.concatenate([y * (1 + k) for k in range(count)], 1)  # [8, 3 count]
    for split, concat in ((0, 0), (0, 1), (1, 0), (1, 1)):
        found.append(lax.all_to_all(wide, axes, split, concat, tiled=True))
    stacked = jnp.stack([y * (1 + k) for k in range(count)], 1)  # [8, count, 3]
    found += [lax.all_to_all(stacked, axes, 1, concat) for concat in turns]
    found += [lax.psum_scatter(wide, axes, scatter_dimension=1, tiled=True)]
    found += [lax.psum_scatter(stacked, axes, scatter_dimension=1)]
    found += [y + lax.axis_index(axes), lax.psum_scatter(jnp.arange(2 * count), axes, tiled=True) * y[:2, 0]]
    names = [name for name in SIZES if name in axes]  # in the order of the mesh
    ring = [(k, (k + 1) % count) for k in range(count)]
    for pairs in (ring, ring[:-1], [(0, count - 1)], [(k, count - 1 - k) for k in range(count)]):
        found.append(lax.ppermute(y, tuple(names), pairs))
    return [one[None] for one in found]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("axes", ["a", "b", ("a", "b"), ("b", "a")])
def test_every_collective_is_what_the_devices_compute(axes: Any) -> None:
    check(mapped(partial(everything, axes=axes)), X)


@pytest.mark.slow
@pytest.mark.parametrize("axes", ["b", ("b", "a")])
def test_the_gradient_through_every_collective(axes: Any) -> None:
    # Only one way to turn an all_to_all: jax derives the others wrong.
    every = partial(everything, axes=axes, turns=(1,))

    def loss(x: Any) -> Any:
        return sum(jnp.sum(jnp.sin(out) * (k + 1)) for k, out in enumerate(mapped(every)(x)))

    check(jax.grad(loss), X)


def test_arguments_and_outputs_are_cut_by_their_specs() -> None:
    """Split over two axes of one dimension in both orders, over two dimensions, over one, and over none."""
    specs = (P(("a", "b")), P(("b", "a")), P("b", "a"), P(None, "b"), P())
    outs = (P(("b", "a")), P(("a", "b")), P("b", "a"), P(None, "b"), P())

    def body(*parts: Any) -> Any:
        return tuple(part * 2 for part in parts)

    check(jax.shard_map(body, mesh=mesh(), in_specs=specs, out_specs=outs), *[X[:, :, :2]] * 5)


def within(x: Any) -> Any:
    """The second axis inside the first; both are manual within, and only the first around."""

    def inner(y: Any) -> Any:
        both = lax.psum(jnp.sum(y), ("a", "b")) + lax.axis_index("a") * 10 + lax.axis_index("b")
        return lax.ppermute(y, "b", [(0, 1), (1, 3)]) + lax.all_gather(y, "a").sum(0) + both

    def outer(x: Any) -> Any:
        x = x + lax.psum(x, "a")
        nested = jax.shard_map(inner, in_specs=P(None, "b"), out_specs=P(None, "b"), axis_names={"b"})
        return nested(x * 2) + lax.axis_index("a")

    return jax.shard_map(outer, mesh=mesh(), in_specs=P("a"), out_specs=P("a"), axis_names={"a"})(x)


def test_nested_and_partly_manual() -> None:
    check(within, X)
    check(jax.grad(lambda x: jnp.sum(jnp.sin(within(x)))), X)


def test_three_axes_one_of_size_one() -> None:
    names = ("c", "a", "b")
    where = mesh((1, 2, 4), names)

    def body(x: Any) -> Any:
        y = lax.psum(x, ("b", "c")) + lax.all_gather(x, ("c", "b")).sum(0) + lax.axis_index("c")
        return y + lax.ppermute(x, ("c", "a"), [(0, 1), (1, 0)])

    check(mapped(body, names, where), X)


def on_a_mesh(x: Any) -> Any:
    """Primitives that speak of placement only."""
    y = mapped(lambda x: lax.pcast(lax.psum(x, "a"), "a", to="varying") + x)(x)
    return jax.lax.with_sharding_constraint(y, NamedSharding(mesh(), P("a")))


def test_every_collective_is_met() -> None:
    met = check(on_a_mesh, X)
    for program in (mapped(partial(everything, axes=("a", "b"))), invariant, mapped(lambda x: lax.psum(x, "a") + x)):
        met |= check(program, X)
    with jax.set_mesh(mesh(kind=AxisType.Explicit)):
        met |= check(lambda x: jax.sharding.reshard(jax.sharding.reshard(x, P("a")), P(None, "b")) * 2, X)
    still = {"pvary", "reshard", "sharding_constraint"}
    assert missing({*shard_map.COLLECTIVES, *still}, met) == ["pbroadcast", "ragged_all_to_all"]  # not on XLA:CPU


def invariant(x: Any) -> Any:
    def sums(x: Any) -> Any:
        return lax.psum(x, "a") + lax.pmax(x, "b")

    def whole(x: Any) -> Any:
        return lax.all_gather(x, "b", to="invarying", tiled=True)

    unchecked = jax.shard_map(sums, mesh=mesh(), in_specs=P("a"), out_specs=P("a"), check_vma=False)
    return unchecked(x), jax.shard_map(whole, mesh=mesh(), in_specs=P("b"), out_specs=P())(x)


def test_ppermute_over_axes_in_another_order_is_refused() -> None:
    """Versions of jax disagree on what it does: some go by the mesh, some by the names."""
    program = jax.make_jaxpr(mapped(lambda x: lax.ppermute(x, ("b", "a"), [(0, 1)]), where=ABSTRACT))(X)
    with pytest.raises(NotCovered, match="order of the mesh"):
        Interpreter(Oracle())(program, X)


# -- without devices

ABSTRACT = AbstractMesh((2, 4), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
FOUR = AbstractMesh((4,), ("d",), axis_types=(AxisType.Auto,))


def test_a_broadcast_from_one_device() -> None:
    program = jax.make_jaxpr(mapped(lambda x: lax.pbroadcast(x, "b", 2), where=ABSTRACT))(X)
    (found,) = Interpreter(Oracle())(program, X)
    assert agree(found, np.repeat(X.reshape(2, 4, 8, 3)[:, 2:3], 4, 1).reshape(X.shape))


def test_a_mesh_of_128_devices_needs_none_of_them() -> None:
    wide = AbstractMesh((128,), ("d",), axis_types=(AxisType.Auto,))
    x = np.random.default_rng(0).normal(size=(128, 128, 2))

    def body(x: Any) -> Any:
        y = lax.ppermute(x, "d", [(k, (k + 5) % 128) for k in range(128)])
        return lax.all_to_all(y, "d", 1, 1, tiled=True) + lax.psum(x, "d")

    (found,) = Interpreter(Oracle())(jax.make_jaxpr(mapped(body, "d", wide))(x), x)
    assert agree(found, np.roll(x, 5, 0).swapaxes(0, 1) + x.sum(0))


def test_an_output_that_only_claims_to_be_replicated_is_refused() -> None:
    body = jax.shard_map(lambda x: x, mesh=FOUR, in_specs=P("d"), out_specs=P(), check_vma=False)
    program = jax.make_jaxpr(body)(X)
    with pytest.raises(NotCovered, match=r"shard_map\(.*differs between devices"):
        Interpreter(Oracle())(program, X)
    (found,) = Interpreter(Oracle())(program, np.tile(X[:2], (4, 1, 1)))
    assert agree(found, X[:2])


def exchange(x: Any, out: Any, *tables: Any) -> Any:
    return lax.ragged_all_to_all(x[0], out[0], *(table[0] for table in tables), axis_name="d")[None]


def tables(seed: int) -> list[Any]:
    """Offsets, sizes, offsets at the receiver, received sizes; with gaps and empty pieces, in any order of the rows."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(0, 3, (4, 4))
    order = rng.permutation(4)
    starts, places = np.zeros_like(sizes), np.zeros_like(sizes)
    starts[:, order] = np.cumsum(sizes[:, order], 1) - sizes[:, order] + rng.integers(0, 2)
    places[order] = np.cumsum(sizes[order], 0) - sizes[order] + rng.integers(0, 2)
    return [table.astype(np.int32) for table in (starts, sizes, places, sizes.T)]


def ragged(*changed: Any) -> Any:
    rows, out = np.random.default_rng(7).normal(size=(2, 4, 10, 2))
    program = jax.make_jaxpr(mapped(exchange, "d", FOUR))(rows, out, *changed)
    return rows, out, Interpreter(Oracle())(program, rows, out, *changed)[0]


@pytest.mark.parametrize("seed", range(8))
def test_a_ragged_exchange_is_what_its_definition_says(seed: int) -> None:
    starts, sizes, places, received = tables(seed)
    rows, expected, found = ragged(starts, sizes, places, received)
    for sender in range(4):
        for receiver in range(4):
            start, size, place = (int(table[sender, receiver]) for table in (starts, sizes, places))
            expected[receiver, place : place + size] = rows[sender, start : start + size]
    assert agree(found, expected)


@pytest.mark.parametrize(
    ("table", "at", "value"),
    [(0, (1, 2), 9), (0, (1, 2), -1), (1, (1, 2), 1), (2, (1, 2), 9), (2, (1, 2), -1), (2, (1, 2), 0), (3, (2, 1), 1)],
)
def test_an_undefined_ragged_exchange_is_refused(table: int, at: tuple[int, int], value: int) -> None:
    """Rows outside of the operand or the output, sizes that the receiver does not expect, rows written twice."""
    sizes = np.full((4, 4), 2, np.int32)
    ends = np.array([0, 2, 4, 6], np.int32)
    honest = [np.tile(ends, (4, 1)), sizes, np.tile(ends[:, None], (1, 4)), sizes]
    ragged(*honest)
    changed = [one.copy() for one in honest]
    changed[table][at] = value
    with pytest.raises(NotCovered, match="outside of what the primitive defines"):
        ragged(*changed)


# -- planted faults


@functools.cache
def executed() -> tuple[Any, tuple[Any, ...]]:
    """A program of every collective and of specs in both orders, with what the devices compute."""

    def program(x: Any) -> Any:
        both = mapped(lambda x: x * (1 + lax.axis_index("b")), ("b", "a"))(x)
        return both, mapped(partial(everything, axes=("a", "b")))(x), mapped(partial(everything, axes="b"))(x)

    with jax.enable_x64(True):
        traced = jax.jit(program).trace(X)
        outputs = next(out for out in outcomes(traced.lower(), X) if holds(traced.jaxpr, out))
        return traced.jaxpr, tuple(outputs)


def holds(program: Any, outputs: Sequence[Any]) -> bool:
    return all(agree(one, other) for one, other in zip(Interpreter(Oracle())(program, X), outputs, strict=True))


def turned(interpreter: Any, step: Any, values: Any, axes: Any) -> Any:
    perm = tuple((to, origin) for origin, to in step.params["perm"])
    return shard_map._ppermute(
        interpreter, dataclasses.replace(step, params={**step.params, "perm": perm}), values, axes
    )


def exchanged(interpreter: Any, step: Any, values: Any, axes: Any) -> Any:
    right = ALL_TO_ALL(interpreter, step, values, axes)
    return [devices.PerDevice(right[0].values[::-1])]


def numbered(interpreter: Any, step: Any, values: Any, axes: Any) -> Any:
    return [devices.PerDevice(tuple(np.asarray(d, np.int32) for d in range(axes.devices)))]


def by_size(self: devices.Axes, step: Any, names: Any) -> list[list[int]]:
    return [group[::-1] for group in GROUPS(self, step, names)]


def across(spec: Any, kind: Any, added: devices.Axes) -> Any:
    turned_spec = [entry[::-1] if isinstance(entry, tuple) else entry for entry in spec]
    return PIECES(turned_spec, kind, added)


GROUPS, PIECES = devices.Axes.groups, shard_map._pieces
ALL_TO_ALL = shard_map.COLLECTIVES["all_to_all"]


@pytest.mark.parametrize("word", ["unreduced", "reduced"])
def test_specs_of_summands_are_refused_by_name(word: str) -> None:
    """Devices that hold summands of an array, or copies whose gradients are summands, are not pieces of it."""
    where = AbstractMesh((2, 2), ("a", "b"), axis_types=(AxisType.Explicit,) * 2)
    into = P("a", None, **{word: {"b"}})
    body, out = ((lambda x: lax.psum(x, "b")), P("a", None)) if word == "unreduced" else ((lambda x: x), into)
    x = jax.ShapeDtypeStruct((4, 4), np.float32, sharding=NamedSharding(where, into))
    with jax.sharding.use_abstract_mesh(where):
        program = jax.jit(jax.shard_map(body, mesh=where, in_specs=into, out_specs=out)).trace(x).jaxpr
    with pytest.raises(NotCovered, match=rf"a spec with {word}=\{{'b'\}} is not covered"):
        Interpreter(Oracle())(program, np.ones((4, 4)))


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "ppermute the other way": lambda patch: patch.setitem(shard_map.COLLECTIVES, "ppermute", turned),
    "all_to_all to the wrong devices": lambda patch: patch.setitem(shard_map.COLLECTIVES, "all_to_all", exchanged),
    "a sum over no axis": lambda patch: patch.setitem(
        shard_map.COLLECTIVES, "psum_invariant", lambda *call: list(call[2])
    ),
    "a maximum for a minimum": lambda patch: patch.setitem(
        shard_map.COLLECTIVES, "pmin", shard_map.COLLECTIVES["pmax"]
    ),
    "axis_index over all axes": lambda patch: patch.setitem(shard_map.COLLECTIVES, "axis_index", numbered),
    "groups backwards": lambda patch: patch.setattr(devices.Axes, "groups", by_size),
    "specs read from the right": lambda patch: patch.setattr(shard_map, "_pieces", across),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_collective_is_noticed(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert holds(*executed())
    FAULTS[fault](monkeypatch)
    assert not holds(*executed())
