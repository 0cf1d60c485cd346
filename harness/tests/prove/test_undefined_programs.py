"""Programs that jax rejects, or whose own promises do not hold, are not proved; nor do they end in exceptions."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec, reshard
from jax.sharding import PartitionSpec as P

import samebits
from samebits import Arg, Case, Integers, Normal, Uniform
from samebits.prove.partitioned_gather import HeldInput, _gathered
from samebits.prove.problem import input_of
from samebits.schema.finding import Finding
from samebits.schema.values import Given

X = jax.ShapeDtypeStruct((8,), jnp.float32)
IDS = np.array([2, 0, 3, 0], np.int32)


def _sent(pairs: Callable[[int], list[tuple[int, int]]]) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        def local(part: Any) -> Any:
            return jax.lax.ppermute(part, "a", pairs(jax.lax.axis_size("a")))

        return jax.shard_map(local, in_specs=P("a"), out_specs=P("a"))(x)

    return function


def _ring(x: Any) -> Any:
    return jnp.roll(x, 2)


def _open(x: Any) -> Any:
    return jnp.concatenate([jnp.zeros_like(x[:2]), x[:-2]])


def _proved(reference: Any, variant: Any, *args: Any, mesh: str | None = None) -> tuple[str, str]:
    leaf = samebits.prove(reference, variant, *args, mesh=mesh, gradients=False).leaves[
        -1
    ]  # the reference is before it
    return leaf.ruling.verdict, str(leaf.ruling.reason)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("pairs", "why"),
    [
        (lambda n: [(i, i + 1) for i in range(n)], "device 4 of 4 does not exist"),
        (lambda n: [(0, i) for i in range(n)], "a source or a destination is there twice"),
        (lambda n: [(i, 0) for i in range(n)], "a source or a destination is there twice"),
    ],
)
def test_a_permutation_that_jax_rejects_is_not_proved(pairs: Any, why: str) -> None:
    verdict, reason = _proved(_open, _sent(pairs), X, mesh="a4")
    assert verdict == "error"
    assert why in reason


@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")  # the shift of 2 is that of four devices alone
def test_permutations_that_jax_takes_are_proved() -> None:
    assert _proved(_ring, _sent(lambda n: [(i, (i + 1) % n) for i in range(n)]), X, mesh="a4")[0] == "proved"
    assert _proved(_open, _sent(lambda n: [(i, i + 1) for i in range(n - 1)]), X, mesh="a4")[0] == "proved"


def _summed(x: Any, ids: Any, **promises: Any) -> Any:
    return jax.ops.segment_sum(x, ids, num_segments=4, **promises)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("promise", "why", "kept"),
    [
        ("indices_are_sorted", "indices are not in order although they are promised to be sorted", [0, 0, 2, 3]),
        ("unique_indices", "indices are equal although they are promised to be distinct", [2, 0, 3, 1]),
    ],
)
def test_a_promise_of_indices_that_does_not_hold(promise: str, why: str, kept: list[int]) -> None:
    def promising(x: Any, ids: Any) -> Any:
        return _summed(x, ids, **{promise: True})

    shape = X.update(shape=(4,))
    leaf = samebits.prove(_summed, promising, shape, IDS, gradients=False).leaves[-1]
    assert leaf.ruling.verdict == "different"
    assert str(leaf.proof.refutation).startswith(f"undefined: {why} (")
    assert "test_undefined_programs.py:" in str(leaf.proof.refutation)
    verdict, reason = _proved(promising, lambda x, ids: promising(1 * x, ids), shape, IDS)
    assert verdict == "error"  # undefined on both sides
    assert why in reason
    assert _proved(_summed, promising, X.update(shape=(4,)), np.array(kept, np.int32))[0] in ("rounding", "proved")


def test_equal_bits_of_a_broken_promise_are_different() -> None:
    def promising(x: Any, ids: Any) -> Any:
        return _summed(x, ids, unique_indices=True)

    x = np.arange(1.0, 5.0, dtype=np.float32)
    compared = samebits.check(_summed, promising, x, IDS).leaves
    leaves = {leaf.place.direction: leaf for leaf in compared if isinstance(leaf, Finding)}
    assert leaves["forward"].ruling.verdict == "different"
    assert "undefined: indices are equal although" in str(leaves["forward"].ruling.evidence)
    assert leaves["gradient"].ruling.verdict == "proved"  # it gathers, and promises nothing
    both = samebits.check(promising, lambda x, ids: promising(1 * x, ids), x, IDS, gradients=False)
    assert both.verdict in ("bitwise", "proved")  # the reference is undefined too
    kept = samebits.check(_summed, promising, x, np.arange(4, dtype=np.int32), gradients=False)
    assert kept.verdict in ("rounding", "bitwise", "proved")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("promise", ["indices_are_sorted", "unique_indices"])
def test_a_promise_is_a_condition_for_all_sizes(promise: str) -> None:
    def promising(x: Any, ids: Any) -> Any:
        return _summed(x, ids, **{promise: True})

    words = "are sorted, as it promises" if promise == "indices_are_sorted" else "are distinct, as it promises"
    for function, expected in ((promising, True), (_summed, False)):
        compared = samebits.prove(
            lambda x, ids: _summed(x, ids) * 1.0,
            function,
            X.update(shape=(4,)),
            IDS,
            sizes={"x": "n", "ids": "n"},
            gradients=False,
        )
        family = compared.leaves[0].proof.family
        assert family is not None
        assert any(words in condition for condition in family.conditions) == expected


def test_windows_of_which_there_are_none() -> None:
    def windows(x: Any) -> Any:
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, (2,), (1,), "VALID")

    pair = samebits.prove(lambda x: x[1:] + x[:-1], windows, X.update(shape=(1,)), gradients=False)
    assert "cannot reshape" not in str(pair.leaves[0].ruling.reason)


def test_a_case_that_is_not_there_is_not_selected() -> None:
    verdict, reason = _proved(
        lambda x, i: jnp.where(i == 0, x, 2 * x),
        lambda x, i: jax.lax.select_n(i, x, 2 * x),
        X.update(shape=(4,)),
        np.array([0, 1, 2, 0], np.int32),
    )
    assert verdict == "error"
    assert "selects case 2 of 2, which is not defined" in reason


# --- what a declaration says of the numbers of an argument -----------------------------------------------------------

CASE = Case(id="small", sizes={"experts": 4})
FLOATS = np.random.default_rng(1).standard_normal(8).astype(np.float32)
ONES = np.ones(8, np.float32)
INTEGERS = np.arange(8, dtype=np.int32)

ARGUMENTS: dict[str, tuple[Arg, Any, str, tuple[int, int] | None]] = {
    "floats": (Arg(shape=(8,)), FLOATS, "all", None),
    "floats of a distribution": (Arg(shape=(8,), values=Normal(scale=0.02)), FLOATS, "stated", None),
    "floats of a range": (Arg(shape=(8,), values=Uniform()), FLOATS, "stated", None),
    "floats that are made": (Arg(shape=(8,), values=lambda rng, shape: FLOATS), FLOATS, "stated", None),
    "floats that are given": (Arg(shape=(8,), values=Given(array=FLOATS)), FLOATS, "given", None),
    "ones that are given": (Arg(shape=(8,), values=Given(array=ONES)), ONES, "stated", None),
    "integers": (Arg(shape=(8,), dtype="int32"), INTEGERS, "all", (-(2**31), 2**31 - 1)),
    "integers of a range": (Arg(shape=(8,), values=Integers(low=2, high=9, also=(-1,))), INTEGERS, "all", (-1, 8)),
    "integers below": (Arg(shape=(8,), dtype="int32", below="experts"), INTEGERS, "all", (0, 3)),
    "integers without a choice": (Arg(shape=(8,), dtype="int32", equals="index0"), INTEGERS, "stated", None),
    "given integers": (Arg(shape=(8,), dtype="int32", values=Given(array=INTEGERS)), INTEGERS, "given", None),
    "all there are": (
        Arg(shape=(8,), dtype="int32", values=Given(array=INTEGERS, exactly=True)),
        INTEGERS,
        "stated",
        None,
    ),
    "given words of a key": (
        Arg(shape=(2,), dtype="uint32", values=Given(array=INTEGERS[:2])),
        np.zeros(2, np.uint32),
        "stated",
        None,
    ),
    "a given integer": (Arg(shape=(), dtype="int32", values=Given(array=INTEGERS)), np.int32(5), "given", None),
    "booleans": (Arg(shape=(8,), dtype="bool"), INTEGERS > 3, "all", (0, 1)),
    "keys": (Arg(shape=(), dtype="key<fry>"), np.zeros(2, np.uint32), "stated", None),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_what_is_stated_of_an_argument(name: str) -> None:
    arg, array, magnitudes, integers = ARGUMENTS[name]
    argument = input_of("x", arg, np.asarray(array), CASE)
    assert argument.magnitudes == magnitudes
    if integers is not None:
        assert argument.integers == integers


# --- inputs that are gathered along a dimension that the mesh splits, so that a gather may be compiled to a sum ------

ORDER = np.array([2, 0, 3, 1])


def left_to_the_compiler(x: Any) -> Any:
    return jax.sharding.auto_axes(lambda x: x[:, ORDER], out_sharding=jax.typeof(x).sharding)(x)


def replicated_first(x: Any) -> Any:
    return reshard(x, PartitionSpec(None, None))[:, ORDER]


def split_first(x: Any) -> Any:
    moved = reshard(x, PartitionSpec(None, "context"))
    return jax.sharding.auto_axes(lambda x: x[:, ORDER], out_sharding=jax.typeof(moved).sharding)(moved)


def reduced_first(x: Any) -> Any:
    moved = reshard(x, PartitionSpec(None, None, reduced={"context"}))
    return jax.sharding.auto_axes(lambda x: x[:, ORDER], out_sharding=PartitionSpec(None, None))(moved)


@pytest.mark.parametrize(
    ("function", "spec", "gathered"),
    [
        (left_to_the_compiler, (None, "context"), ["x"]),
        (left_to_the_compiler, ("context", None), []),
        (replicated_first, (None, "context"), []),
        (split_first, (None, None), ["x"]),
        (reduced_first, (None, None), []),
    ],
)
def test_a_layout_that_is_chosen_on_the_way_counts(function: Any, spec: tuple[Any, ...], gathered: list[str]) -> None:
    mesh = jax.make_mesh((4,), ("context",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        kind = jax.ShapeDtypeStruct((4, 8), np.float32, sharding=NamedSharding(mesh, PartitionSpec(*spec)))
        jaxpr = jax.make_jaxpr(function)(kind).jaxpr
    held = HeldInput("x", tuple(name is not None for name in spec), is_float=True)
    assert _gathered(jaxpr, {jaxpr.invars[0]: held}) == gathered
