"""Sorts and scatters for all sizes: orders are permutations; the update that is written to a place, or their sum."""

from typing import Any

import jax
import jax.numpy as jnp

from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.moved_faults import KEYED


def test_an_unstable_order_is_not_taken_for_a_stable_one() -> None:
    (proof,) = prove_all_sizes(
        lambda x, keys: x[jnp.argsort(keys, stable=True)], lambda x, keys: x[jnp.argsort(keys, stable=False)], KEYED
    )
    assert proof.verdict == "error"


TABLE = Family(
    symbols={"n": 1, "rows": 1, "m": 1},
    args={"table": Shaped(("rows", "m")), "ids": Shaped(("n",), "int32")},
    differentiable=("table",),
)


def _one_hot(table: Any, ids: Any) -> Any:
    return jax.nn.one_hot(ids, table.shape[0], dtype=table.dtype) @ table


def test_a_sum_of_updates_is_the_same_formula_as_a_product() -> None:
    # A negative id is no row of a one-hot matrix.
    def looked_up(table: Any, ids: Any) -> Any:
        return table.at[ids].get(mode="fill", fill_value=0, wrap_negative_indices=False)

    (proof,) = prove_all_sizes(_one_hot, looked_up, TABLE, "gradient")
    assert proof.verdict == "rounding", proof.reason


def test_a_sum_of_other_updates_is_refuted() -> None:
    def next_rows(table: Any, ids: Any) -> Any:
        return table.at[ids + 1].get(mode="fill", fill_value=0, wrap_negative_indices=False)

    (proof,) = prove_all_sizes(_one_hot, next_rows, TABLE, "gradient")
    assert proof.verdict in ("different", "error"), proof


def test_updates_out_of_range_are_moved_in_mode_clip_alone() -> None:
    family = Family(symbols={"n": 2}, args={"x": Shaped(("n",))})

    def shifted(mode: str) -> Any:
        return lambda x: x.at[jnp.arange(x.shape[0]) + 1].set(x, mode=mode)

    def dropped(x: Any) -> Any:
        return jnp.concatenate([x[:1], x[:-1]])

    assert prove_all_sizes(dropped, shifted("drop"), family)[0].verdict == "proved"
    assert prove_all_sizes(dropped, shifted("clip"), family)[0].verdict != "proved"
