"""Compiled programs that are wrong at some values of an index argument, or at one element of many."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.check.index_values import _borders
from samebits.check.rounding import COMPILER
from samebits.programs.inputs import dtype_of
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from tests.support.toys import run

MOVED = "as written both sides only move data"


def _slice(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_slice_in_dim(x, start, 6, 1)


def _slice_again(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_slice(x, (0, start), (x.shape[0], 6))


def _update(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_update_slice(x, x[:, :3], (0, start))


def _row(x: Any, start: Any) -> Any:
    return x[start] * 2.0


def _row_taken(x: Any, start: Any) -> Any:
    return 2.0 * jnp.take(x, start, 0, mode="clip")


def _set(x: Any, start: Any) -> Any:
    return x.at[start].set(1.0)


def _computed(x: Any, start: Any) -> Any:
    return jnp.tanh(_slice(x, start)).sum(0)


def _set_by_update(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_update_slice(x, x[:1] * 0 + 1, (start, 0))


def _update_again(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_update_slice_in_dim(x, x[:, :3], start, 1)


def _computed_again(x: Any, start: Any) -> Any:
    return jnp.tanh(_slice_again(x, start)).sum(0)


def _block(x: Any, start: Any, row: Any) -> Any:
    return jax.lax.dynamic_slice(x, (row, start), (2, 6))


def _block_again(x: Any, start: Any, row: Any) -> Any:
    return jax.lax.dynamic_slice_in_dim(jax.lax.dynamic_slice_in_dim(x, row, 2, 0), start, 6, 1)


def _slice_rows(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_slice_in_dim(x, start, 3, 0)


def _slice_rows_again(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_slice(x, (start, 0), (3, x.shape[1]))


def _offset(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_slice_in_dim(x, start["first"][0] // 1000 + 1, 3, 0)


def _offset_again(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_slice(x, (start["first"][0] // 1000 + 1, 0), (3, x.shape[1]))


def _second(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_slice_in_dim(x, start[1], 3, 0)


def _second_again(x: Any, start: Any) -> Any:
    return jax.lax.dynamic_slice(x, (start[1], 0), (3, x.shape[1]))


def _pair(reference: Any, variant: Any, mesh: str, values: Any, dtype: str = "float32") -> samebits.Pair:
    return samebits.Pair(
        name="sliced",
        reference=reference,
        variants={"again": variant},
        args={
            "x": samebits.Arg(shape=(8, 8), spec=("data",)),
            "start": samebits.Arg(shape=(), dtype="int32", values=values),
        },
        cases=(samebits.Case(id="small"),),
        dtypes=(dtype,),
        meshes=(mesh,),
        modes=("auto",),
    )


def _wrong_at(monkeypatch: pytest.MonkeyPatch, number: int, side: str, change: Callable[[Any], Any]) -> None:
    """Plant a compiler whose programs of one side are wrong where an integer argument is at least a number."""
    _wrong_where(monkeypatch, side, lambda start: int(start) >= number, change)


def _wrong_where(
    monkeypatch: pytest.MonkeyPatch,
    side: str,
    where: Callable[[Any], bool],
    change: Callable[[Any], Any] = lambda array: np.roll(array, 1, -1),
) -> None:
    """Plant a compiler whose programs of one side are wrong where all integer arguments are in a range."""
    from samebits.check import execution

    honest = execution.run_program

    def planted(program: Any, call: tuple[Any, ...]) -> Any:
        outputs = honest(program, call)
        starts = [np.asarray(leaf) for leaf in jax.tree.leaves(call) if leaf.dtype.kind == "i"]
        if side not in program.label or not all(map(where, starts)):
            return outputs
        return jax.tree.map(lambda leaf: jax.device_put(change(np.asarray(leaf)), leaf.sharding), outputs)

    monkeypatch.setattr(execution, "run_program", planted)


def _rolled(array: Any) -> Any:
    return np.roll(array, 1, -1)


def _one(array: Any) -> Any:
    array = array.copy()
    array.reshape(-1)[-1] += 1
    return array


PLANTED = [
    pytest.param(_slice, _slice_again, "none", _rolled, id="slice"),
    pytest.param(_slice, _slice_again, "data2", _rolled, id="slice on a mesh"),
    pytest.param(_slice, _slice_again, "data4", _one, id="one element", marks=pytest.mark.slow),
    pytest.param(_update, _update_again, "data2", _rolled, id="update", marks=pytest.mark.slow),
    pytest.param(_row, _row_taken, "data2", _rolled, id="row", marks=pytest.mark.slow),
    pytest.param(_set, _set_by_update, "none", _one, id="set", marks=pytest.mark.slow),
    pytest.param(_computed, _computed_again, "none", _one, id="computed"),
    pytest.param(_computed, _computed_again, "data4", _rolled, id="computed on a mesh", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("side", ["again", "reference"])
@pytest.mark.parametrize(("reference", "variant", "mesh", "change"), PLANTED)
def test_a_program_wrong_at_one_value(
    reference: Any, variant: Any, mesh: str, change: Any, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = reference.__name__ if side == "reference" else side
    _wrong_at(monkeypatch, 7, f"'{side}'", change)
    pair = _pair(reference, variant, mesh, samebits.Integers(high=8))
    results = [result for result in run(pair) if not result.ruling.ok]
    assert {(result.place.variant, result.place.direction) for result in results} >= {
        ("again", "forward"),
        ("again", "gradient"),
    }
    for result in results:
        assert (
            result.ruling.verdict == "different"
            and result.ruling.evidence is not None
            and result.comparison.witness is not None
        )
        assert (
            result.ruling.evidence.startswith(f"{COMPILER} with 'start' = 7: ")
            and "as written, and" in result.ruling.evidence
        )
        assert result.comparison.witness.input == "ordinary, with 'start' = 7" and result.comparison.mismatches


@pytest.mark.parametrize(("reference", "variant", "mesh", "change"), PLANTED[:3])
def test_a_right_program_stays_as_it_is(reference: Any, variant: Any, mesh: str, change: Any) -> None:
    results = run(_pair(reference, variant, mesh, samebits.Integers(high=8)))
    assert results and all(result.ruling.ok and COMPILER not in str(result.ruling.evidence) for result in results)


def test_a_given_start_within_its_axis_and_beyond(monkeypatch: pytest.MonkeyPatch) -> None:
    x, start = np.arange(64, dtype=np.float32).reshape(8, 8), np.int32(1)
    _wrong_at(monkeypatch, 8, "'slice_again'", _rolled)
    with pytest.warns(samebits.OtherInputsWarning, match=f"{COMPILER} with 'start' = 8"):
        samebits.assert_same(_slice, _slice_again, x, start, gradients=False)
    _wrong_at(monkeypatch, 7, "'slice_again'", _rolled)
    with pytest.raises(AssertionError, match=f"{COMPILER} with 'start' = 7: out"):
        samebits.assert_same(_slice, _slice_again, x, start, gradients=False)


def _flipped(x: Any) -> Any:
    return x[::-1]


def _gathered(x: Any) -> Any:
    return x[jnp.arange(x.shape[0])[::-1]]


def _doubled(x: Any) -> Any:
    return x + x


def _twice(x: Any) -> Any:
    return 2 * x


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("reference", "variant", "words"), [(_flipped, _gathered, MOVED), (_doubled, _twice, "times")])
def test_one_element_of_many_is_no_rounding(
    reference: Any, variant: Any, words: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(0).standard_normal(32769).astype(dtype_of(dtype))
    _wrong_at(monkeypatch, 0, f"'{variant.__name__.strip('_')}'", _one)
    (result,) = samebits.check(reference, variant, x, gradients=False, name="many").leaves
    assert isinstance(result, Finding) and result.comparison.witness is not None and result.ruling.evidence is not None
    assert result.ruling.verdict == "different" and not result.ruling.ok and result.comparison.witness.index == (32768,)
    assert (
        result.ruling.evidence.startswith(COMPILER)
        and words in result.ruling.evidence
        and "accuracy" not in result.ruling.evidence
    )


def _nested(x: Any, i: Any, j: Any) -> Any:
    return jax.lax.dynamic_slice(jax.lax.dynamic_slice(x, (i,), (4,)), (j,), (1,))


def test_slices_of_a_slice_as_this_compiler_has_them() -> None:
    """A bug of the simplifier (jax-ml/jax#40849): where this jax has it, it is found at starts that are given none."""
    x = np.arange(10, dtype=np.float32)
    is_wrong = float(jax.jit(_nested)(x, 7, 0)[0]) != 6
    results = samebits.check(_nested, lambda x, i, j: _nested(x, i, j), x, np.int32(1), np.int32(0)).leaves
    forward = next(result for result in results if result.place.direction == "forward")
    assert isinstance(forward, Finding) and forward.ruling.ok is not is_wrong
    assert not is_wrong or f"{COMPILER} with 'i' = 7: out[0] is 6 as written, and 7" in str(forward.ruling.evidence)


def _rows(x: Any, i: Any, j: Any, k: Any) -> Any:
    return jnp.stack([x[i], x[j], x[k]])


def _rows_taken(x: Any, i: Any, j: Any, k: Any) -> Any:
    return x[jnp.stack([i, j, k])]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_that_add_at_equal_indices_are_computed(dtype: str) -> None:
    """Data that only moves at the indices of the case: where all are equal, three cotangents are added and rounded."""
    x = np.random.default_rng(0).standard_normal((8, 64)).astype(dtype_of(dtype))
    results = samebits.check(_rows, _rows_taken, x, *map(np.int32, (1, 4, 6))).leaves
    assert all(isinstance(result, Finding) and COMPILER not in str(result.ruling.evidence) for result in results)
    index = samebits.Arg(shape=(), dtype="int32", values=samebits.Integers(high=8))
    pair = _pair(_rows, _rows_taken, "none", samebits.Integers(high=8), dtype)
    pair = replace(pair, args={"x": samebits.Arg(shape=(8, 64)), "i": index, "j": index, "k": index})
    assert all(COMPILER not in str(result.ruling.evidence) for result in run(pair))


def test_a_program_wrong_where_all_indices_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    _wrong_at(monkeypatch, 7, "'again'", _rolled)
    index = samebits.Arg(shape=(), dtype="int32", values=samebits.Integers(high=8))
    pair = _pair(_block, _block_again, "none", samebits.Integers(high=8))
    pair = replace(pair, args={"x": samebits.Arg(shape=(8, 8)), "start": index, "row": index})
    results = [result for result in run(pair) if result.place.variant == "again"]
    assert results and all(f"{COMPILER} with '" in str(result.ruling.evidence) for result in results)
    assert all("' = 7 and '" in str(result.ruling.evidence) for result in results)


GIVEN = [
    pytest.param(_slice_rows, _slice_rows_again, np.int32(1), lambda start: start == 12, id="third border"),
    pytest.param(
        _offset, _offset_again, {"first": (np.int32(1000),)}, lambda start: start // 1000 == 11, id="computed"
    ),
    pytest.param(_second, _second_again, np.array([1, 2, 4], np.int32), lambda starts: starts[1] >= 12, id="several"),
]


@pytest.mark.parametrize(("reference", "variant", "start", "wrong"), GIVEN)
def test_a_program_wrong_at_a_border_of_a_shard(
    reference: Any, variant: Any, start: Any, wrong: Callable[[Any], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starts that are given: of a scalar, of one in a tree from which the start is computed, and of an array."""
    x, call = np.arange(64, dtype=np.float32).reshape(16, 4), {"mesh": "data4", "gradients": False}
    assert samebits.check(reference, variant, x, start, **call).verdict == "proved"
    _wrong_where(monkeypatch, f"'{variant.__name__.strip('_')}'", wrong)
    compared = samebits.check(reference, variant, x, start, **call)
    assert compared.verdict == "different" and f"{COMPILER} with 'start" in str(compared), compared
    assert "on data4" in str(compared)


def test_borders_of_the_shards_of_an_axis() -> None:
    assert _borders(16, MeshSpec.parse("data4")) == [4, 8, 12]
    assert _borders(16, MeshSpec.parse("data2_model4")) == [2, 4, 6, 8, 10, 12, 14]
    assert _borders(10, MeshSpec.parse("data4")) == [3, 6, 9]
    assert _borders(16, MeshSpec.parse("none")) == []
    many = _borders(4096, MeshSpec.parse("data64"))
    assert many[:2] == [64, 128] and many[-1] == 4032 and len(many) == 16
