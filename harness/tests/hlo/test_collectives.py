"""Collectives, written and put in by the partitioner, on eight CPU devices in two orders."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.hlo.execution import compiled
from tests.hlo.test_operations import floats, whole

AB = P("a", "b")
AXES: tuple[Any, ...] = ("a", "b", ("a", "b"), ("b", "a"))
ORDERS = {"in order": range(8), "permuted": (3, 1, 4, 0, 7, 2, 6, 5)}
Function = Callable[..., Any]


def mesh(order: str, shape: tuple[int, ...] = (2, 4)) -> Mesh:
    devices = np.array(jax.devices())[[*ORDERS[order]]].reshape(shape)
    return Mesh(devices, ("a", "b", "c")[: len(shape)])


def reductions(axis: Any) -> Function:
    return lambda x: [
        lax.psum(x, axis), lax.pmax(x, axis), lax.pmin(x, axis), lax.psum(x.astype(jnp.float32), axis),
        *lax.psum((x[:2], x.astype(jnp.float32) * 2), axis), x + lax.axis_index(axis),
    ]  # fmt: skip


def gathers(axis: Any) -> Function:
    return lambda x: [
        *(jnp.sum(lax.all_gather(x, axis, axis=at) * 3, at) for at in (0, 1, 2)),
        *(lax.all_gather(x, axis, axis=at, tiled=True) for at in (0, 1)),
    ]


def exchanges(axis: Any) -> Function:
    def all_to_all(x: Any, split: int, joined: int) -> Any:
        return lax.all_to_all(x, axis, split, joined, tiled=True)

    return lambda x: [
        *(lax.psum_scatter(x, axis, scatter_dimension=at, tiled=True) for at in (0, 1)),
        all_to_all(x, 0, 1), all_to_all(x, 1, 0), all_to_all(x.astype(jnp.bfloat16), 1, 1),
    ]  # fmt: skip


def permutations(x: Any) -> list[Any]:
    return [
        lax.ppermute(x, "b", [(i, (i + 1) % 4) for i in range(4)]), lax.ppermute(x, "b", [(0, 1), (3, 0)]),
        lax.ppermute(x.astype(jnp.float32), "a", [(1, 0)]), lax.ppermute(x, ("a", "b"), [(0, 7), (3, 2), (7, 0)]),
    ]  # fmt: skip


def groups(x: Any) -> list[Any]:
    pairs = [[3, 0], [1, 2]]
    return [
        lax.psum(x, "b", axis_index_groups=pairs), lax.all_gather(x, "b", axis_index_groups=pairs, tiled=True),
        lax.all_to_all(x, "b", 0, 0, axis_index_groups=pairs, tiled=True),
    ]  # fmt: skip


def in_control_flow(x: Any) -> list[Any]:
    a, b = lax.axis_index("a"), lax.axis_index("b")
    return [
        lax.scan(lambda c, v: (lax.pmax(c, "b") + v, lax.ppermute(c, "a", [(0, 1)])), x[0], x)[1],
        lax.cond(a == 1, lambda: lax.psum(x, "b"), lambda: x * 2),
        lax.while_loop(lambda c: c[0] < b * 2, lambda c: (c[0] + 1, c[1] * 2), (0, x))[1],
        lax.switch(b, [lambda: x, lambda: x + 1, lambda: x * 2]),
    ]


WRITTEN: dict[str, Function] = {
    **{f"reductions over {axis}": reductions(axis) for axis in AXES},
    **{f"gathers over {axis}": gathers(axis) for axis in AXES},
    **{f"exchanges over {axis}": exchanges(axis) for axis in AXES},
    "permutations": permutations,
    "groups of an axis": groups,
    "control flow": in_control_flow,
    "a gradient": jax.grad(lambda x: jnp.sum(lax.psum(x * x.astype(jnp.float32), "b")), allow_int=True),
}


def agrees(function: Function, arguments: Sequence[Any], specs: Sequence[Any], on: Mesh, ulps: int = 0) -> None:
    program = compiled(function, *arguments, specs=specs, mesh=on)
    assert program.differences(program.translated(), ulps) == []


@pytest.mark.parametrize("order", [pytest.param("in order", marks=pytest.mark.slow), "permuted"])
@pytest.mark.parametrize("name", WRITTEN)
def test_written_collectives(name: str, order: str) -> None:
    on, argument = mesh(order), whole(32, 64) if "exchange" in name else whole(8, 16)
    argument = argument.astype("float32") if name == "a gradient" else argument
    agrees(jax.shard_map(WRITTEN[name], mesh=on, in_specs=AB, out_specs=AB, check_vma=False), [argument], [AB], on)


def test_groups_over_two_axes_of_three() -> None:
    on, spec = mesh("permuted", (2, 2, 2)), P(("a", "b"), "c")

    def body(x: Any) -> list[Any]:
        return [
            lax.psum(x, ("a", "c")), lax.all_gather(x, ("c", "a"), tiled=True),
            lax.psum_scatter(x, ("b", "c"), tiled=True), lax.all_to_all(x, ("a", "c"), 0, 1, tiled=True),
        ]  # fmt: skip

    agrees(jax.shard_map(body, mesh=on, in_specs=spec, out_specs=spec, check_vma=False), [whole(16, 16)], [spec], on)


class Placed(NamedTuple):
    """A function that the partitioner cuts, with its arguments, how they lie, and how its outputs shall."""

    function: Function
    arguments: Sequence[Any]
    specs: Sequence[Any]
    outputs: Sequence[Any] | None = None
    ulps: int = 0


def shifted(x: Any) -> list[Any]:
    return [
        jnp.sum(x), x[:5], x[3:], jnp.roll(x, 3, 0), jnp.pad(x, ((1, 2), (3, 0))), x[::-1], jnp.concatenate([x, x[:3]]),
        x.reshape(-1), x.reshape(16, 8), x + jnp.arange(8)[:, None], jnp.triu(x),
    ]  # fmt: skip


def combined(x: Any) -> list[Any]:
    return [
        x.sum(0), x.max(1), x.argmax(0), jnp.argmax(x), jnp.sort(x, 0), jnp.cumsum(x, 0), jnp.any(x > 5),
        lax.top_k(x, 2), lax.scan(lambda c, v: (c * 2 + v, c - v), x[0], x),
    ]  # fmt: skip


def indexed(x: Any, i: Any, many: Any, u: Any) -> list[Any]:
    return [
        lax.dynamic_slice(x, (i, i), (3, 5)), lax.dynamic_update_slice(x, u, (i, i)), x[i], x[:, i], x[many],
        x[:, many], jnp.take(x, many, axis=0, mode="fill"), x.at[many].add(u[0, 0]), x.at[:, many].max(u[0, 1]),
        lax.dynamic_slice(x, (i, i), (8, 4)),
    ]  # fmt: skip


def trained(w: Any, v: Any, x: Any) -> Any:
    return jax.grad(lambda p: jnp.sum(jnp.maximum(x @ p[0], 0) @ p[1] * 2))((w, v))


PLACED: dict[str, Placed] = {
    "a product": Placed(lambda x, y: x @ y, [floats(8, 16), floats(16, 8)], [AB, P("b")]),
    "a summed product": Placed(
        lambda x, y: [x @ y], [floats(8, 16), floats(16, 8)], [P(None, ("a", "b")), P(("a", "b"))], [P("a")]
    ),
    "moved": Placed(
        lambda x: [x + 1, x * 2, x.T, x - 1],
        [whole(8, 16)], [AB], [P("b", "a"), P(None, ("a", "b")), AB, P(("b", "a"))],
    ),
    "shifted": Placed(shifted, [whole(8, 16)], [P("b", "a")]),
    "combined": Placed(combined, [whole(8, 16)], [AB]),
    "indexed": Placed(
        indexed, [whole(8, 8), np.int32(3), np.array([0, 7, 3, -1]), whole(3, 5)], [AB, P(), P("b"), P()]
    ),
    "a training step": Placed(trained, [floats(8, 16), floats(16, 8), floats(4, 8)], [P(None, "b"), P("b"), P("a")]),
    "random bits": Placed(lambda k: [jax.random.bits(k, (8, 16))], [np.array([1, 2], np.uint32)], [P()], [AB]),
    "a convolution": Placed(
        lambda x, k: lax.conv_general_dilated(x, k, (1, 1), "SAME"),
        [floats(4, 2, 8, 8), floats(2, 2, 3, 3)], [P("a", None, "b"), P()],
    ),
    "a sum of exponentials": Placed(lambda x: jax.nn.softmax(x, axis=0), [floats(8, 16)], [AB], ulps=8),
}  # fmt: skip


@pytest.mark.parametrize("order", [pytest.param("permuted", marks=pytest.mark.slow), "in order"])
@pytest.mark.parametrize("name", PLACED)
def test_what_the_partitioner_puts_in(name: str, order: str) -> None:
    function, arguments, specs, outputs, ulps = PLACED[name]
    on = mesh(order)

    def placed(*arrays: Any) -> Any:
        results = function(*arrays)
        if outputs is None:
            return results
        return [lax.with_sharding_constraint(x, NamedSharding(on, s)) for x, s in zip(results, outputs, strict=True)]

    agrees(placed, arguments, specs, on, ulps)
