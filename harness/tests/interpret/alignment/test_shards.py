"""How whole arrays lie on devices, and the values of devices that are repaired by them."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from samebits.interpret.alignment import repairs
from samebits.interpret.alignment.align import Alignment, align
from samebits.interpret.alignment.naming import MOST
from samebits.interpret.alignment.repairs import is_partial, layouts, summands
from samebits.interpret.devices import PerDevice
from samebits.interpret.problem import Input, Question

GRID = (2, 4)


@pytest.fixture(autouse=True)
def _enough_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is named must not depend on how busy the machine is."""
    monkeypatch.setattr(repairs, "SECONDS", 120.0)


X = np.random.default_rng(5).normal(size=(8, 4)).astype(np.float32)
W = np.random.default_rng(6).normal(size=(4, 4)).astype(np.float32)


def cuts(whole: tuple[int, ...], local: tuple[int, ...]) -> list[tuple[list[Any], tuple[int, ...]]]:
    return [(index.tolist(), unused) for index, unused in layouts(whole, local, GRID)]


def test_blocks_lie_over_axes_of_the_mesh() -> None:
    assert cuts((8,), (2,)) == [([[0, 1], [2, 3], [4, 5], [6, 7]] * 2, (0,))]
    assert cuts((4,), (2,)) == [([[0, 1]] * 4 + [[2, 3]] * 4, (1,))]
    both = cuts((8,), (1,))
    assert ([[number] for number in range(8)], ()) in both
    assert ([[number] for number in (0, 2, 4, 6, 1, 3, 5, 7)], ()) in both
    assert cuts((3,), (3,)) == [([[0, 1, 2]] * 8, (0, 1))]
    assert cuts((), ()) == [([0] * 8, (0, 1))]


def test_windows_overlap_evenly() -> None:
    """Each part has two elements of the one before it."""
    assert ([[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9]] * 2, (0,)) in cuts((10,), (4,))


@pytest.mark.parametrize(("whole", "local"), [((7,), (1,)), ((2,), (4,)), ((2, 3), (3,))])
def test_shapes_that_do_not_fit_have_no_layout(whole: tuple[int, ...], local: tuple[int, ...]) -> None:
    assert cuts(whole, local) == []


def test_parts_of_a_sum_add_up_over_axes() -> None:
    parts = np.random.default_rng(0).normal(size=(2, 4, 3))
    whole = np.broadcast_to(parts.sum(1, keepdims=True), parts.shape)
    value, wanted = (PerDevice(tuple(array.reshape(8, 3))) for array in (parts, whole))
    assert is_partial(value, wanted, GRID)
    assert not is_partial(wanted, wanted, GRID) and not is_partial(parts[0], wanted, GRID)
    assert [having.tolist() for having in summands((1,), GRID)] == [[True, False, False, False] * 2]


def aligned(body: Callable[..., Any], plain: Callable[..., Any], taken: Any, returned: Any) -> Alignment:
    mesh = jax.make_mesh(GRID, ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    sharded = jax.shard_map(body, mesh=mesh, in_specs=taken, out_specs=returned, check_vma=False)
    first, second = (jax.make_jaxpr(side)(X, W) for side in (plain, sharded))
    return align(Question(first, second, [Input("x", X), Input("w", W)], ["out"]))


def plain(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def unreduced(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w)


def other_rows(x: Any, w: Any) -> Any:
    w = w[::-1]
    return jnp.tanh(x @ w)


def flipped_part(x: Any, w: Any) -> Any:
    part = x @ w
    part = part[::-1]
    return jnp.tanh(lax.psum(part, "b"))


SPLIT: Any = (P("a", "b"), P("b"))


def test_a_part_of_a_sum_is_named_as_one() -> None:
    named = aligned(unreduced, plain, SPLIT, P("a")).lines(0)
    first, *_ = named
    assert len(named) <= MOST
    assert (first.change, first.primitive, first.variant_code) == ("partial", "dot_general", "x @ w")
    assert "each device has a part of this sum, which is not added up over the devices" in str(first)


@pytest.mark.parametrize(
    ("body", "taken", "code"), [(other_rows, (P("a"), P()), "w[::-1]"), (flipped_part, SPLIT, "part[::-1]")]
)
def test_what_devices_have_is_repaired_by_shards(body: Callable[..., Any], taken: Any, code: str) -> None:
    """The earliest wrong value of the devices is named, not what is made of it: a whole one, or parts of a sum."""
    assert aligned(body, plain, taken, P("a")).lines(0)[0].variant_code == code


def test_right_values_of_devices_are_not_named() -> None:
    found = aligned(lambda x, w: jnp.tanh(lax.psum(x @ w, "b")), plain, SPLIT, P("a"))
    assert found.lines(0) == () and not found.differs(0)
