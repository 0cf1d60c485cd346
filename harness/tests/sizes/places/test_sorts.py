"""Sorts for all sizes: orders are permutations, and the order of an order is its inverse."""

import jax.numpy as jnp

from samebits.sizes.proofs.family_proof import prove_all_sizes
from tests.sizes.proofs.moved_faults import KEYED


def test_an_unstable_order_is_not_taken_for_a_stable_one() -> None:
    (proof,) = prove_all_sizes(
        lambda x, keys: x[jnp.argsort(keys, stable=True)], lambda x, keys: x[jnp.argsort(keys, stable=False)], KEYED
    )
    assert proof.verdict == "error"
