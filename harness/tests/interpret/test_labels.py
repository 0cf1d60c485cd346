"""Labels of elements compared with executed bits, NaN payloads and signs of zero included; what must be rejected."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from samebits.interpret import data_movement, labels
from samebits.interpret.equation import Type
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import LabelDomain, Labelled, LabelTable
from tests.interpret.executed import outcomes
from tests.interpret.programs import MOVING, Array, Op, Program, Skip, Tape, few, resized

SPECIAL = np.array([0x80000000, 0x7FC00001, 0xFFC01234, 0x7F800000, 0x7FC00002, 0, 0xFF800000], np.uint32)
"""-0.0, NaNs with payloads, infinities, 0.0: bits that only moving keeps."""


def distinct(shape: tuple[int, ...]) -> Any:
    """Floats of which no two have the same bits, the special ones among them."""
    plain = np.arange(0.5, int(np.prod(shape)), dtype=np.float32).view(np.uint32)
    return np.concatenate([SPECIAL, plain])[: plain.size].view(np.float32).reshape(shape)


def inputs() -> list[Any]:
    x, y = distinct((2, 3, 2)), (np.arange(6, dtype=np.float32) + 100).reshape(2, 3)
    return [x, y, np.arange(-3, 3, dtype=np.int32).reshape(3, 2), np.array([True, False, False])]


def bits(array: Any) -> Any:
    return np.array(array).view(f"u{array.dtype.itemsize}") if array.dtype != bool else array


def named(program: Callable[..., Any], args: list[Any]) -> tuple[LabelDomain, list[Any], list[Any]]:
    """The labels of the outputs of a program, and their types."""
    domain = LabelDomain()
    traced = jax.make_jaxpr(program)(*args)
    codes = Interpreter(domain)(traced, *(domain.input("xyzw"[n], Type(a.shape, a.dtype)) for n, a in enumerate(args)))
    return domain, codes, [Type(aval.shape, np.dtype(aval.dtype)) for aval in traced.out_avals]


def predicted(domain: LabelDomain, value: Any, kind: Type, args: list[Any]) -> Any:
    """The bits that labels say an output has."""
    if not isinstance(value, Labelled):
        return bits(np.asarray(value, kind.dtype))
    found = np.empty(kind.shape, kind.dtype)
    for place, code in np.ndenumerate(value.codes):
        origin = domain.table.element(int(code))
        if origin is None:
            found[place] = domain.table.constant(int(code) // 8)
        else:
            found[place] = args["xyzw".index(origin[0].name)][origin[1]]
    return bits(found)


def moves_as_labelled(program: Callable[..., Any], args: list[Any]) -> bool:
    domain, found, kinds = named(program, args)
    expected = [predicted(domain, value, kind, args) for value, kind in zip(found, kinds, strict=True)]
    return any(
        all(np.array_equal(one, bits(out)) for one, out in zip(expected, outputs, strict=True))
        for outputs in outcomes(jax.jit(program).lower(*args), *args)
    )


@few(16)
@given(tape=st.binary(min_size=90, max_size=90))
def test_labels_are_the_executed_movement(tape: bytes) -> None:
    program, args = Program(tape, MOVING), inputs()
    assert moves_as_labelled(program, args)
    _, found, _ = named(program, args)
    assert all(np.all(value.codes % 8 == 0) for value in found if isinstance(value, Labelled))


def on_devices(x: Any) -> Any:
    """Every collective that only moves, and rows that are sent to no device."""

    def body(x: Any) -> Any:
        y = lax.ppermute(x, ("a", "b"), [(k, (k + 3) % 8) for k in range(7)])
        y = lax.all_to_all(jnp.tile(y, (1, 4)), "b", 1, 0, tiled=True)
        return lax.all_gather(y, "a", axis=1, tiled=True)[:, ::-1]

    mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    return [jax.shard_map(body, mesh=mesh, in_specs=P(("b", "a")), out_specs=P(("a", "b")))(x)]


def test_labels_follow_collectives() -> None:
    assert moves_as_labelled(on_devices, [distinct((16, 3))])


# -- adding zeros, multiplying by one


def _hidden(pick: Tape, x: Array, signs: Sequence[float] = (0.0, -0.0)) -> Array:
    """Zeros of one sign that the compiler cannot see, so that it does not leave out their addition."""
    found: Array = lax.optimization_barrier(jnp.full(x.shape, pick.of(signs), x.dtype))
    return found


def _add(pick: Tape, x: Array, others: list[Array]) -> Array:
    zeros = _hidden(pick, x)
    return x + zeros if pick(2) else zeros + x


def _scatter_add(pick: Tape, x: Array, others: list[Array]) -> Array:
    if not x.ndim:
        raise Skip
    places = np.array(pick.order(x.shape[0] + 2)[: x.shape[0]])  # some rows stay zero
    base = _hidden(pick, resized(x, (x.shape[0] + 2, *x.shape[1:])))
    return base.at[places].add(x, unique_indices=bool(pick(2)))


def _sum(pick: Tape, x: Array, others: list[Array]) -> Array:
    # With a 0.0 among them: whether a sum of -0.0 alone starts from 0.0 depends on the compiler.
    return jnp.sum(jnp.stack([x, _hidden(pick, x), _hidden(pick, x, (0.0,))]), 0)


ADDING: dict[str, Op] = {
    **{name: MOVING[name] for name in ("concatenate", "reshape", "rev", "slice", "stack", "transpose", "gather")},
    "add": Op("f", _add),
    "mul": Op("f", lambda pick, x, others: x * lax.optimization_barrier(jnp.ones_like(x))),
    "reduce_sum": Op("f", _sum),
    "scatter-add": Op("f", _scatter_add),
}


def zeros_as_labelled(program: Callable[..., Any], shape: tuple[int, ...]) -> bool:
    """Of -0.0 everywhere, those elements come out as 0.0 to which the labels say that a zero was added."""
    args = [np.full(shape, -0.0, np.float32)]
    _, found, _ = named(program, args)

    def agree(value: Any, out: Any) -> bool:
        if not isinstance(value, Labelled):
            return True
        of_x, added = value.codes >= 0, value.codes % 2 == 1
        return np.array_equal(added[of_x], bits(out)[of_x] == 0)

    executed = outcomes(jax.jit(program).lower(*args), *args)
    return any(all(map(agree, found, outputs)) for outputs in executed)


@few(12)
@given(tape=st.binary(min_size=40, max_size=40))
def test_a_zero_is_said_to_be_added_where_it_changes_minus_zero(tape: bytes) -> None:
    assert zeros_as_labelled(Program(tape, ADDING), (3, 2))


# -- faults of the labels themselves


def test_a_fault_of_the_labels_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = Program(bytes([0] * 8), {"rev": Op("f", lambda pick, x, others: lax.rev(x, (0, 1)))})
    added = Program(bytes([0] * 4), {"scatter-add": ADDING["scatter-add"]})
    args = inputs()[:1]
    assert moves_as_labelled(turn, args) and zeros_as_labelled(added, (3, 2))
    with monkeypatch.context() as patch:
        patch.setitem(data_movement.MOVES, "rev", data_movement._one(lambda step, ids: ids))
        assert not moves_as_labelled(turn, args)
    with monkeypatch.context() as patch:
        patch.setattr(labels, "ZERO_ADDED", 0)
        assert not zeros_as_labelled(added, (3, 2))
    with monkeypatch.context() as patch:
        patch.setattr(
            LabelDomain, "take", lambda self, values, index, kind: TAKE(self, values, np.roll(index, 1), kind)
        )
        assert not moves_as_labelled(turn, args)


TAKE = LabelDomain.take


def test_constants_are_told_apart_by_their_bits_and_keep_them() -> None:
    """Of a table of as many constants as elements too, such as an arange of a hundred thousand."""
    table, kind = LabelTable(), Type((3, 7), np.dtype(np.float32))
    one = np.resize(np.concatenate([SPECIAL, SPECIAL[:3]]), 21).reshape(3, 7).view(np.float32)
    codes = table.codes(one, kind)
    assert len(np.unique(codes)) == len(SPECIAL)
    assert [table.constant(int(label)).view(np.uint32) for label in table.labels(codes).flat] == [
        *one.view(np.uint32).flat
    ]
    assert np.array_equal(table.codes(one.T, Type((7, 3), kind.dtype)), codes.T), "equal constants, equal labels"
    places = np.random.default_rng(0).permutation(100_000).astype(np.int32)
    labels = table.labels(table.codes(places, Type(places.shape, places.dtype)))
    assert not set(labels.tolist()) & set(table.labels(codes).ravel().tolist()), "another dtype has labels of its own"
    assert len(set(labels.tolist())) == places.size
    assert all(
        table.constant(label) == place for label, place in zip(labels[::999].tolist(), places[::999], strict=True)
    )
