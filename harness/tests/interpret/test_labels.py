"""Labels of elements compared with executed bits, NaN payloads and signs of zero included; what must be rejected."""

import re
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

from samebits.errors import NotCovered, NothingCompared
from samebits.interpret import data_movement, labels
from samebits.interpret.equation import Type
from samebits.interpret.interpreter import Interpreter
from samebits.interpret.labels import LabelDomain, LabelIdentity, Labelled, LabelTable, movement
from samebits.schema.domain import RequiredFact
from tests.interpret.executed import asked, outcomes, run
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
            LabelDomain,
            "moved",
            lambda self, values, move, kind: MOVED(
                self, values, lambda arrays, several=(): np.roll(move(arrays), 1), kind
            ),
        )
        assert not moves_as_labelled(turn, args)


MOVED = LabelDomain.moved


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


# --- proofs by labels: what they prove, under which promises, what they reject, and the witness of every fault -------


def _bits(array: Any) -> Any:
    return np.array(array).view(np.uint32)


def words(question: Any) -> tuple[str, ...]:
    """What must hold of the inputs for a proof."""
    (found,) = movement(question).values()
    assert found.equal
    assert {promise.subject for promise in found.promises} <= {"x"}
    return tuple(promise.fact for promise in found.promises)


V = np.arange(1, 7, dtype=np.float32)
ORDER = np.array([2, 0, 5, 1, 4, 3])
HOT = np.eye(6, dtype=np.float32)[ORDER]


ZERO_ADDED = ("no_negative_zero", "no_subnormal", "no_signalling_nan")
TOUCHED = ("no_nan", "no_subnormal")


def test_each_promise_is_named() -> None:
    def moved(x: Any) -> Any:
        return x[ORDER]

    assert words(asked(moved, lambda x: jnp.take(x, ORDER, unique_indices=True), V)) == ()
    assert words(asked(moved, lambda x: jnp.zeros(6).at[np.argsort(ORDER)].add(x), V)) == ZERO_ADDED
    assert words(asked(moved, lambda x: HOT @ x, V)) == ("finite", *ZERO_ADDED[:2])
    assert words(asked(moved, lambda x: (x * 1.0)[ORDER], V)) == TOUCHED
    narrow = V.astype(jnp.bfloat16)
    assert words(asked(moved, lambda x: x.astype(np.float32)[ORDER].astype(x.dtype), narrow)) == TOUCHED
    assert words(asked(moved, lambda x: (x + -0.0)[ORDER], V)) == TOUCHED
    assert words(asked(moved, lambda x: (x * 1.0 + 0.0)[ORDER], V)) == (*ZERO_ADDED, "no_nan")
    added = movement(asked(lambda x: -x, lambda x: -x + 0.0, V))["out"]
    assert added.equal
    assert {RequiredFact("no_negative_zero", subject) for subject in ("x", "neg of x")} <= set(added.promises)


def test_only_index_operands_are_part_of_the_proof() -> None:
    def gather(x: Any, n: Any) -> Any:
        return x[n]

    def scatter(x: Any, n: Any) -> Any:
        return jnp.zeros(6).at[np.argsort(ORDER)].set(x)

    assert words(asked(gather, scatter, V, ORDER, index_operands=(1,))) == ()
    assert not movement(asked(gather, scatter, V, ORDER[::-1].copy(), index_operands=(1,)))["out"].equal
    with pytest.raises(NotCovered, match=r"lt\(int32.*has no rule in the domain 'labels'"):
        movement(asked(gather, scatter, V, ORDER))


# -- one operation on moved elements


def same(first: Callable[..., Any], second: Callable[..., Any], *args: Any) -> bool:
    return movement(asked(first, second, *args))["out"].equal


def test_an_operation_is_equal_to_itself_alone() -> None:
    assert same(lambda x, y: 3 * x, lambda x, y: x * 3, V, V)
    assert same(lambda x, y: (x + y)[::-1], lambda x, y: x[::-1] + y[::-1], V, V)
    for other in (lambda x, y: x * 2, lambda x, y: y * 3, lambda x, y: x + 3, lambda x, y: 3 - x, lambda x, y: x / 3):
        with pytest.raises(NotCovered, match="computed by different operations"):
            same(lambda x, y: x * 3, other, V, V)
    with pytest.raises(NotCovered, match="computed by different operations"):
        same(lambda x, y: x - y, lambda x, y: y - x, V, V)


@pytest.mark.parametrize(
    "twice", [lambda x: x * 3 * 2, lambda x: x * 3 + x, lambda x: -jnp.maximum(x, 2), lambda x: x.sum()]
)
def test_more_than_one_operation_is_refused(twice: Any) -> None:
    with pytest.raises(NotCovered, match=r"test_labels\.py:\d+ is arithmetic on input elements"):
        movement(asked(twice, twice, V))


def test_nothing_moved_is_no_proof() -> None:
    with pytest.raises(NothingCompared):
        movement(asked(lambda x: jnp.ones(3), lambda x: jnp.ones(3), V))


REJECTED: dict[str, Callable[[Any], Any]] = {
    "an index repeated in a scatter-add": lambda x: jnp.zeros(6).at[np.array([0, 1, 1, 2, 3, 4])].add(x),
    "an index repeated in a scatter": lambda x: jnp.zeros(6).at[np.array([0, 1, 1, 2, 3, 4])].set(x),
    "a cast that rounds": lambda x: x.astype(jnp.bfloat16).astype(jnp.float32),
    "a cast to integers": lambda x: x.astype(np.int32),
    "a row of two ones": lambda x: (HOT + HOT[::-1]) @ x,
    "a row of zeros": lambda x: (HOT * np.arange(6)[:, None].clip(0, 1)) @ x,
    "an infinite constant times zero": lambda x: HOT @ jnp.concatenate([x[:5], jnp.array([jnp.inf])]),
    "a product that may overflow times zero": lambda x: HOT @ (x * 3),
    "a comparison": lambda x: jnp.where(x > 2, x, 0),
}


@pytest.mark.parametrize("what", REJECTED)
def test_what_is_no_movement_is_refused(what: str) -> None:
    with pytest.raises(NotCovered, match=r"test_labels\.py:\d+"):
        movement(asked(lambda x: x, REJECTED[what], V))


# -- what was once wrongly proved


def test_a_sort_that_is_not_stable_has_no_order_of_ties() -> None:
    def by(*keys: Any, stable: bool = False) -> Callable[..., Any]:
        given = [jnp.array(key) for key in keys]
        return lambda x: lax.sort((*given, x), num_keys=len(given), is_stable=stable)[-1]

    tied, apart = [2, 0, 2, 1, 4, 3], [2, 0, 5, 1, 4, 3]
    with pytest.raises(NotCovered, match="is not stable, and keys are equal"):
        movement(asked(by(tied), by(tied, stable=True), V))
    with pytest.raises(NotCovered, match="is not stable, and keys are equal"):
        movement(asked(by(tied, [0, 1, 0, 0, 0, 0]), by(tied, stable=True), V))
    for keys in ((apart,), (tied, apart), (tied, [0, 1, 1, 0, 0, 0])):
        assert words(asked(by(*keys), by(*keys, stable=True), V)) == ()
    alone = lax.sort(jnp.array(tied), is_stable=False)
    assert words(asked(lambda x: x[lax.sort(jnp.array(tied), is_stable=False)], lambda x: x[alone], V)) == ()


def test_two_nans_do_not_commute() -> None:
    """Of two NaNs the first operand's payload remains, so x + y and y + x are not the same bits."""
    nans = [np.array([bit], np.uint32).view(np.float32) for bit in (0x7FC00001, 0x7FC00002)]
    first, second = (lambda x, y: x + y), (lambda x, y: y + x)
    if _bits(run(first, *nans)) != _bits(run(second, *nans)):
        with pytest.raises(NotCovered, match="computed by different operations"):
            same(first, second, V, V)


def test_a_sum_starts_from_zero() -> None:
    """Of -0.0 and a constant -0.0 it makes 0.0."""
    minus = -jnp.zeros(6)
    assert words(asked(lambda x: x, lambda x: jnp.stack([x, minus]).sum(0), V)) == ZERO_ADDED


def test_elements_multiplied_by_zero_must_be_finite_too() -> None:
    def picked(x: Any, y: Any) -> Any:
        return jnp.eye(3, 6) @ jnp.concatenate([x[:3], y[:3]])

    with pytest.raises(NotCovered, match="dot_general"):
        movement(asked(lambda x, y: x[:3], picked, V, V))


# -- faults of programs: not equal, and the witness names the element


@few(12)
@given(tape=st.binary(min_size=60, max_size=60), places=st.tuples(st.integers(0, 999), st.integers(0, 999)))
def test_two_exchanged_elements_are_told_apart(tape: bytes, places: tuple[int, int]) -> None:
    """After any movement: the witness is the first place where the executed bits differ."""
    program, args = Program(tape, MOVING, outputs=1), [(np.arange(12, dtype=np.float32) + 101).reshape(2, 3, 2)]

    def exchanged(x: Any) -> Any:
        out = program(x)[0]
        order = np.arange(out.size)
        one, other = (place % out.size for place in places)
        order[[one, other]] = order[[other, one]]
        return out.reshape(-1)[order].reshape(out.shape)

    def plain(x: Any) -> Any:
        return program(x)[0]

    try:
        (found,) = movement(asked(plain, exchanged, *args)).values()
    except NothingCompared:  # constants alone
        return
    lowered = jax.jit(lambda x: (plain(x), exchanged(x))).lower(*args)
    assert any(told_apart(found, *both) for both in outcomes(lowered, *args)), found


def told_apart(found: LabelIdentity, one: Any, other: Any) -> bool:
    """Whether what labels say of two outputs is what their executed bits say."""
    differs = _bits(one) != _bits(other)
    if not differs.any():
        return found.equal
    at = np.unravel_index(np.argmax(differs), differs.shape)
    witness = "" if found.equal else found.witness or ""
    place = f"out[{', '.join(str(int(i)) for i in at)}] is "
    return witness.startswith(place) and element(one[at]) in witness and element(other[at]) in witness


def element(value: Any) -> str:
    """Where a number is in the input; else it is a constant."""
    if not 101 <= value <= 112:
        return "the constant"
    return f"x[{', '.join(str(int(i)) for i in np.unravel_index(int(value) - 101, (2, 3, 2)))}]"


def _one_off(x: Any) -> Any:
    return x[np.array([2, 0, 5, 1, 4, 4])]


FAULTS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], str]] = {
    "one index off": (lambda x: x[ORDER], _one_off, r"out\[5\] is x\[3\] in the reference and x\[4\] in the variant"),
    "a slice off by one": (lambda x: x[1:4], lambda x: x[2:5], r"out\[0\] is x\[1\] in .* and x\[2\] in"),
    "transposed": (
        lambda x: x.reshape(2, 3).T,
        lambda x: x.reshape(3, 2),
        r"out\[0, 1\] is x\[3\] in the reference and x\[1\] in",
    ),
    "another pad": (
        lambda x: lax.pad(x, np.float32(0.0), [(0, 2, 0)]),
        lambda x: lax.pad(x, np.float32(-0.0), [(0, 2, 0)]),
        r"out\[6\] is the constant 0\.0 in the reference and the constant -0\.0 in",
    ),
    "a constant for an element": (lambda x: x, lambda x: x.at[3].set(7), r"out\[3\] is x\[3\] .* the constant 7\.0 in"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_witness_of_a_fault_names_the_element(fault: str) -> None:
    reference, variant, witness = FAULTS[fault]
    found = movement(asked(reference, variant, V))["out"]
    assert not found.equal and not found.promises
    assert found.witness is not None and re.search(witness, found.witness), found.witness


def test_another_shape_or_dtype_is_no_equal_output() -> None:
    narrow = V.astype(jnp.bfloat16)
    question = asked(lambda x: (x, x, x), lambda x: (x, x.reshape(2, 3), x.astype(np.float32)), narrow)
    witnesses = [found.witness for found in movement(question).values()]
    shape, dtype = "bfloat16[6] and bfloat16[2, 3]", "bfloat16[6] and float32[6]"
    assert witnesses == [None, f"out1: {shape}", f"out2: {dtype}"]
