"""Two functions for every size at once: named, proved, refuted at sizes; wrong requests in one line."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.errors import RequestError
from samebits.functions.result import Comparing
from samebits.schema.all_sizes import SizesShown
from suites.test_sequence_reorder import PAIR

X = np.arange(2 * 64 * 3, dtype=np.float32).reshape(2, 64, 3)
SIZES = {"x": "batch, length, _", "length": "4*cp*g", "cp": "2*c"}


def backwards(x: jax.Array, *, cp: int) -> jax.Array:
    rows, length, width = x.shape
    return x.reshape(rows, 2 * cp, -1, width)[:, ::-1].reshape(rows, length, width)


def flipped(x: jax.Array, *, cp: int) -> jax.Array:
    rows, length, width = x.shape
    return jnp.flip(x.reshape(rows, cp, 2, -1, width), (1, 2)).reshape(rows, length, width)


def wrong_at_sixteen(x: jax.Array, *, cp: int) -> jax.Array:
    return x if cp == 16 else flipped(x, cp=cp)


def unrolled(x: jax.Array, *, cp: int) -> jax.Array:
    rows, length, width = x.shape
    blocks = x.reshape(rows, 2 * cp, -1, width)
    return jnp.concatenate([blocks[:, i] for i in range(2 * cp)][::-1], axis=1).reshape(rows, length, width)


def _family(compared: Comparing) -> SizesShown:
    """The sizes of the first leaf."""
    leaf = compared.leaves[0]
    assert leaf.proof.family is not None
    return leaf.proof.family


def test_sizes_of_a_call_are_symbols() -> None:
    compared = samebits.prove(backwards, flipped, X, cp=4, sizes=SIZES)
    assert (compared.verdict, compared.ok) == ("proved", True)
    assert [leaf.place.direction for leaf in compared.leaves] == ["forward", "gradient"]
    family = _family(compared)
    assert family.shapes == {"x": "float32[batch, 8*c*g, 3]"}
    assert (family.statics, family.mesh) == ({"cp": "2*c"}, None)
    assert "8*c*g, 3]; cp=2*c; every number of devices; where" in repr(compared)


def test_a_fault_at_one_size_is_refuted_with_its_sizes() -> None:
    compared = samebits.prove(backwards, wrong_at_sixteen, X, cp=4, sizes=SIZES, gradients=False)
    assert (compared.verdict, compared.ok) == ("different", False)
    assert _family(compared).counterexample["c"] == 8
    assert "c=8" in repr(compared)
    with pytest.raises(AssertionError, match="out"):
        compared.raise_for_status()


@pytest.mark.slow
def test_the_sizes_of_a_refutation_fail_when_run() -> None:
    numbers = _family(samebits.prove(backwards, wrong_at_sixteen, X, cp=4, sizes=SIZES)).counterexample
    shape = (numbers["batch"], 8 * numbers["c"] * numbers["g"], 3)
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    assert samebits.check(backwards, wrong_at_sixteen, x, cp=2 * numbers["c"]).verdict == "different"


@pytest.mark.slow
def test_code_that_needs_a_number_keeps_it() -> None:
    compared = samebits.prove(backwards, unrolled, X, cp=4, sizes=SIZES)
    assert compared.verdict == "proved"
    family = _family(compared)
    assert family.fixed == {"c": 2}
    assert family.shapes == {"x": "float32[batch, 16*g, 3]"}


@pytest.mark.slow
def test_every_dimension_is_a_symbol() -> None:
    compared = samebits.prove(
        lambda x, y: x[::-1] + 0 * y, lambda x, y: jnp.flip(x, 0) + 0 * y, X, X[:, :, :1], sizes="all"
    )
    assert _family(compared).shapes == {"x": "float32[x0, x1, x2]", "y": "float32[x0, x1, 1]"}


@pytest.mark.slow
def test_trees_are_named_by_their_leaves() -> None:
    params = {"w": jnp.ones((3, 5)), "b": jnp.ones(5)}

    def taken(params: Any, x: jax.Array) -> Any:
        return params["w"][::-1], params["b"], x.T

    def moved(params: Any, x: jax.Array) -> Any:
        return jnp.flip(params["w"], 0), params["b"], jnp.swapaxes(x, 0, 1)

    sizes = {"params['w']": "rows, width", "params['b']": "width", "x": "tokens, rows"}
    compared = samebits.prove(taken, moved, params, jnp.ones((7, 3)), sizes=sizes)
    assert compared.verdict == "proved"
    assert _family(compared).shapes["params['b']"] == "float32[width]"


def test_a_pair_is_proved_for_all_sizes_too() -> None:
    request = samebits.Request(
        variants=("structured",), cases=("bshd",), dtypes=("float32",), meshes=("context4",), directions=("forward",)
    )
    compared = samebits.prove(PAIR, request, sizes="all")
    assert (compared.verdict, {leaf.proof.sizes for leaf in compared.leaves}) == ("proved", {"all"})
    unasked = samebits.prove(PAIR, request).leaves
    required = {"auto": "all", "explicit": "these"}  # as the contracts of the pair say
    assert {leaf.place.mode: leaf.proof.sizes for leaf in unasked} == required
    with pytest.raises(RequestError, match=r"samebits\.prove\(PAIR\) takes a pair, and Request"):
        samebits.prove(PAIR, request, sizes=SIZES)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (
            {"length": "4*cp*g"},
            "'length' is not an array (x), an integer argument or a dimension in the shape of an array",
        ),
        ({"x": "batch, length"}, "'x' is 'batch, length', of 2 dimensions, and the argument has the shape (2, 64, 3)"),
        ({"x": "_, 63, _"}, "dimension 1 of x is '63' and 64 in the call"),
        ({"x": "n, n, _"}, "'n' is 2 in dimension 0 of x and 64 in dimension 1 of x"),
        ({"x": "_, cp, _"}, "'cp' is 64 in dimension 1 of x and 4 in the argument cp"),
        ({"x": "_, 7*n, _"}, "'dimension 1 of x' is '7*n', which is never 64"),
        ({"x": "_, n, _", "n": "m/2"}, "'n' is 'm/2', which divides"),
        ({"x": "_, n, _", "cp": "3*m"}, "'cp' is '3*m', which is never 4, its declared size"),
        ({"x": "_, n, _; below n"}, "'x' is '_, n, _; below n', and its elements are of float32; expected integers"),
        ({"x": "_, n, _; equals"}, "after the shape as '; below vocab', or what the elements are as '; equals index1'"),
        ({"x": "_, n, _; n"}, "'x' is '_, n, _; n'; expected a bound after the shape as '; below vocab'"),
        (3, "sizes=3; expected 'all', or a dict such as"),
        ({}, "sizes={}; expected 'all', or a dict such as"),
    ],
)
def test_wrong_sizes_are_rejected_in_one_line(sizes: Any, message: str) -> None:
    with pytest.raises(RequestError) as raised:
        samebits.prove(backwards, flipped, X, cp=4, sizes=sizes)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.slow
def test_integers_of_a_call_have_a_bound() -> None:
    ids, table = np.array([0, 3, 2, 4], np.int32), np.ones((5, 3), np.float32)

    def clipped(table: Any, ids: Any) -> Any:
        return jnp.take(table, ids, axis=0, mode="clip")

    def prove(bound: str) -> Comparing:
        sizes = {"table": "vocab, _", "ids": f"tokens{bound}"}
        return samebits.prove(lambda table, ids: table[ids], clipped, table, ids, sizes=sizes, gradients=False)

    proved = prove("; below vocab")
    assert proved.verdict == "proved"
    assert "every element of ids is in [0, vocab)" in _family(proved).conditions
    unbounded = prove("")
    assert unbounded.verdict == "error"  # it is another row where an id is negative
    assert "sizes={'ids': 'tokens; below n'}" in (unbounded.leaves[0].ruling.reason or "")
    assert prove("; below vocab+1").verdict == "error"
    with pytest.raises(RequestError, match="argument 'ids' is below 'words', which is neither a size"):
        prove("; below words")


def masked(x: Any, positions: Any) -> Any:
    """Each sum is of the rows whose position is not later."""
    return jnp.where(positions[:, :, None] >= positions[:, None, :], x[:, None, :], 0).sum(-1)


@pytest.mark.slow
def test_integers_of_a_call_are_what_is_said_of_them() -> None:
    x, positions = np.arange(8, dtype=np.float32).reshape(2, 4), np.tile(np.arange(4, dtype=np.int32), (2, 1))

    def prove(variant: Any, said: str, given: Any = positions) -> Comparing:
        sizes = {"x": "rows, length", "positions": f"rows, length{said}"}
        return samebits.prove(masked, variant, x, given, sizes=sizes, gradients=False)

    def summed(x: Any, positions: Any) -> Any:
        return jnp.cumsum(x, axis=1)

    proved = prove(summed, "; equals index1")
    assert proved.verdict == "rounding" and proved.leaves[0].proof.sizes == "all"
    assert "positions[index0, index1] is index1" in _family(proved).conditions
    assert prove(summed, "").verdict == "different", "positions may be any"
    backwards = prove(
        lambda x, _: jnp.cumsum(x[:, ::-1], axis=1)[:, ::-1], "; equals length - 1 - index1", positions[:, ::-1]
    )
    assert backwards.verdict == "rounding" and backwards.leaves[0].proof.sizes == "all"
    for said, given in (("; equals length - 1 - index1", positions[:, ::-1]), ("; equals 0", 0 * positions)):
        assert prove(summed, said, given).verdict == "different"
    later = prove(lambda x, p: jnp.cumsum(x, axis=1) - x[:, :1] * (x.shape[1] > 20), "; equals index1")
    assert later.verdict == "different" and _family(later).counterexample["length"] > 20
    with pytest.raises(
        RequestError, match=r"argument 'positions': its element \[0, 0\] is 3; expected 0, as equals='index1'"
    ):
        prove(summed, "; equals index1", positions[:, ::-1])
    with pytest.raises(RequestError, match="expected 0, as equals='index1' says"):  # whatever would be shown
        prove(lambda x, p: x, "; equals index1", positions[:, ::-1])


def test_what_is_run_has_no_symbols() -> None:
    with pytest.raises(RequestError, match=r"sizes= is of samebits\.prove"):
        samebits.check(backwards, flipped, X, cp=4, sizes="all")
