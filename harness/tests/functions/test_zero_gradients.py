"""Gradients that are zero by construction on both sides are left out and named; on one side alone they differ."""

from typing import Any

import jax
import jax.numpy as jnp

import samebits
from tests.functions import specimens as f


def test_what_both_ignore_is_left_out_and_said() -> None:
    compared = samebits.check(lambda x, t: 2 * x, lambda x, t: x + x, f.rows(), jnp.ones(3))
    assert compared.ok
    assert {leaf.place.leaf for leaf in compared.leaves if leaf.place.direction == "gradient"} == {"x"}
    assert any(note.startswith("no gradient with respect to t:") for note in compared.notes)


def test_what_one_side_ignores_is_different() -> None:
    def stopped(x: Any, w: Any) -> Any:
        return x * jax.lax.stop_gradient(w)

    for sides in ((lambda x, w: x * w, stopped), (stopped, lambda x, w: x * w)):
        compared = samebits.check(*sides, f.rows(), f.drawn(9, 4))
        verdicts = {
            leaf.place.leaf: leaf.ruling.verdict for leaf in compared.leaves if leaf.place.direction == "gradient"
        }
        assert verdicts["x"] in ("bitwise", "proved")
        assert verdicts["w"] == "different"


def test_nothing_to_differentiate_at_all() -> None:
    compared = samebits.check(jnp.round, lambda x: jnp.round(x, 0), f.rows())
    assert compared.ok
    assert {leaf.place.direction for leaf in compared.leaves} == {"forward"}
