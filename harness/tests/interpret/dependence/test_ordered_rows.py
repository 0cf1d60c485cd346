"""Rows that are sorted and put back: honest expert layers are proved by row, and what mixes their rows is refuted."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array, lax

from optimized_impls import moe as moe_layers
from samebits.interpret.dependence import ordered_rows
from samebits.interpret.dependence.ordered_rows import Decided, Ordered
from samebits.properties.named import batch_rows, independent
from samebits.properties.reading import Reading

ROWS, WIDTH, EXPERTS = 6, 4, 3
RNG = np.random.default_rng(3)
X = RNG.normal(size=(ROWS, WIDTH)).astype(np.float32)
UP: Any = RNG.normal(size=(EXPERTS, WIDTH, 5)).astype(np.float32)
ROUTED: Any = (
    RNG.normal(size=(WIDTH, EXPERTS)).astype(np.float32),
    np.zeros(EXPERTS, np.float32),
    *(RNG.normal(size=(EXPERTS, *shape)).astype(np.float32) for shape in ((WIDTH, 5), (WIDTH, 5), (5, WIDTH))),
)
DOWN: Any = RNG.normal(size=(EXPERTS, 5, WIDTH)).astype(np.float32)

Function = Callable[[Array], Array]


def chosen(x: Array) -> Array:
    return jnp.argmax(x[:, :EXPERTS], -1)


def bincount(keys: Array) -> Array:
    return jnp.bincount(keys, length=EXPERTS).astype(jnp.int32)


def compared(keys: Array) -> Array:
    return (keys[:, None] == jnp.arange(EXPERTS)).sum(0)


def experts(rows: Array, sizes: Array) -> Array:
    return lax.ragged_dot(jax.nn.silu(lax.ragged_dot(rows, UP, sizes)), DOWN, sizes)


def by_sorting(
    keys: Function = chosen,
    work: Callable[[Array, Array], Array] = lambda rows, _: jnp.sin(rows),
    back: Callable[[Array, Array], Array] = lambda rows, order: rows[jnp.argsort(order)],
) -> Function:
    """Sort rows by keys, work on them and their places, and put them back."""

    def layer(x: Array) -> Array:
        order = jnp.argsort(keys(x))
        return back(work(x[order], order), order)

    return layer


def moe(counts: Function = bincount, keys: Function = chosen, sort: Function = jnp.argsort) -> Function:
    """Sort by expert, multiply by group, and put back."""

    def layer(x: Array) -> Array:
        experts_of_rows = keys(x)
        order = sort(experts_of_rows)
        return experts(x[order], counts(experts_of_rows))[jnp.argsort(order)]

    return layer


def two_experts(x: Array) -> Array:
    """Each token goes to two experts, and adds up what they give by its weights."""
    weights, keys = lax.top_k(x[:, :EXPERTS], 2)
    order = jnp.argsort(keys.reshape(-1))
    rows = experts(x[order // 2], bincount(keys.reshape(-1))) * weights.reshape(-1)[order][:, None]
    return jnp.zeros_like(x).at[order // 2].add(rows)


def two_layers(x: Array) -> Array:
    """Layers in a scan, each of which sorts for itself."""
    return lax.scan(lambda rows, _: (rows + moe()(rows), None), x, None, length=2)[0]


def two_orders(x: Array) -> Array:
    """A row and a number that another order puts beside it."""
    order = jnp.argsort(x[:, 0])
    return (x[order] + jnp.sort(x[:, 1])[:, None])[jnp.argsort(order)]


def counts_of_another_choice(x: Array) -> Array:
    """The last rows are counted by other columns than those that they are sorted by."""
    keys, others = chosen(x), jnp.argmax(x[3:, 1:], -1)
    order = jnp.argsort(keys)
    return experts(x[order], bincount(jnp.concatenate([keys[:3], others])))[jnp.argsort(order)]


def counts_beside_the_order(x: Array) -> Array:
    """As many counts as rows, sorted with the places of the rows."""
    keys = chosen(x)
    return lax.sort((jnp.argsort(keys), jnp.bincount(keys, length=ROWS)), num_keys=1)[1].astype(jnp.float32)


def chosen_twice(x: Array) -> Array:
    """As where one function sorts, another counts, and each chooses for itself."""
    return experts(x[jnp.argsort(chosen(x))], bincount(chosen(x)))[jnp.argsort(jnp.argsort(chosen(x)))]


def chosen_otherwise(x: Array) -> Array:
    """The counts are of the worst expert."""
    return experts(x[jnp.argsort(chosen(x))], bincount(chosen(-x)))[jnp.argsort(jnp.argsort(chosen(x)))]


def inverse_by_scatter(rows: Array, order: Array) -> Array:
    return rows[jnp.zeros_like(order).at[order].set(jnp.arange(ROWS))]


HONEST = {
    "argsort of argsort": by_sorting(),
    "keys are floats": by_sorting(lambda x: x[:, 0] ** 2),
    "put back by scatter": by_sorting(back=lambda rows, at: jnp.zeros_like(rows).at[at].set(rows, unique_indices=True)),
    "inverse by scatter": by_sorting(back=inverse_by_scatter),
    "softmax and norms of rows": by_sorting(work=lambda rows, _: jax.nn.softmax(rows, -1) / (rows**2).sum(-1)[:, None]),
    "products of rows": by_sorting(work=lambda rows, _: jnp.einsum("nd,df->fn", rows, UP[0]).T @ DOWN[0]),
    "rows by heads": by_sorting(work=lambda rows, _: jnp.cumsum(rows.reshape(ROWS, 2, 2).swapaxes(0, 1), 2).sum(0)),
    "best of each row": by_sorting(work=lambda rows, _: rows * jnp.argmax(rows, -1)[:, None]),
    "bincount": moe(),
    "one-hot": moe(lambda keys: jax.nn.one_hot(keys, EXPERTS, dtype=jnp.int32).sum(0)),
    "compared": moe(compared),
    "keys in another order": moe(keys=lambda x: (chosen(x) + 1) % EXPERTS),
    "padded rows are in no group": moe(keys=lambda x: jnp.where(jnp.arange(ROWS) < 4, chosen(x), EXPERTS)),
    "counts of all, turned": moe(lambda keys: bincount(jnp.concatenate([keys[1:], keys[:1]]))),
    "segments": moe(lambda keys: jax.ops.segment_sum(jnp.ones_like(keys), keys, EXPERTS)),
    "two experts": two_experts,
    "sparse": lambda x: moe_layers.sparse(x[None], *ROUTED, top_k=2)["out"][0],
    "ring": lambda x: moe_layers.ring(x[None], *ROUTED, top_k=2)["out"][0],
    "two layers": two_layers,
    "chosen twice": chosen_twice,
}

MIXED = {
    "never put back": by_sorting(back=lambda rows, _: rows),
    "best of each row, never put back": by_sorting(back=lambda rows, _: jnp.argmax(rows, -1) * 1.0),
    "put back by the order": by_sorting(back=lambda rows, order: rows[order]),
    "put back by another": by_sorting(back=lambda rows, order: rows[jnp.argsort(order[::-1])]),
    "put back by others": lambda x: x[jnp.argsort(x[:, 0])][jnp.argsort(jnp.argsort(x[:, 1]))],
    "put back by half": by_sorting(back=lambda rows, order: rows[jnp.argsort(order) // 2]),
    "two orders": two_orders,
    "place in the order": by_sorting(work=lambda rows, _: rows * jnp.arange(ROWS)[:, None]),
    "capacity": by_sorting(work=lambda rows, _: jnp.where(jnp.arange(ROWS)[:, None] < 4, rows, 0)),
    "running sum": by_sorting(work=lambda rows, _: jnp.cumsum(rows, 0)),
    "neighbour": by_sorting(work=lambda rows, _: rows + jnp.roll(rows, 1, 0)),
    "shifted by a pad": by_sorting(work=lambda rows, _: jnp.pad(rows, ((1, 0), (0, 0)))[:-1]),
    "flat neighbour": by_sorting(work=lambda rows, _: jnp.roll(rows.reshape(-1), 1).reshape(rows.shape)),
    "mean of all": by_sorting(work=lambda rows, _: rows - rows.mean(0)),
    "transposed product": by_sorting(work=lambda rows, _: rows @ (rows.T @ rows)),
    "pairs share a place": by_sorting(back=lambda rows, order: jnp.zeros_like(rows).at[order // 2].add(rows)),
    "the last of a pair wins": by_sorting(back=lambda rows, at: jnp.zeros_like(rows).at[at - at % 2].set(rows)),
    "a key is before all groups": moe(compared, lambda x: chosen(x) - 1),
    "counts of another choice": counts_of_another_choice,
    "chosen otherwise": chosen_otherwise,
    "counts beside the order": counts_beside_the_order,
    "counts of others": moe(lambda keys: bincount((keys + 1) % EXPERTS)),
    "counts of the first rows": moe(lambda keys: bincount(keys[:-1])),
    "counted for another": moe(lambda keys: bincount(jnp.concatenate([keys[:-1], keys[:1]]))),
    "counted twice": moe(lambda keys: bincount(jnp.concatenate([keys, keys[:1]]))),
    "descending": moe(sort=lambda keys: jnp.argsort(-keys)),
    "not sorted": moe(sort=lambda keys: jnp.arange(ROWS)),
    "sorted by others": moe(sort=lambda keys: jnp.argsort(keys % 2)),
}


@pytest.mark.parametrize("name", HONEST)
def test_rows_that_are_sorted_and_put_back_read_themselves(name: str) -> None:
    decided = batch_rows(HONEST[name], X)
    assert [part.verdict for part in decided.readings] == ["proved", "proved"], decided


def forward_of(name: str) -> Reading:
    """What the interpretation says of a layer, and runs."""
    return batch_rows(MIXED[name], X).readings[0]


@pytest.mark.parametrize("name", MIXED)
def test_rows_that_are_mixed_are_refuted(name: str) -> None:
    """By runs, and the interpretation alone would not prove it."""
    forward = forward_of(name)
    assert forward.verdict == "refuted"
    assert forward.reads is not None and forward.forbidden is not None
    assert (forward.reads & forward.forbidden).any()


WRONG: dict[str, tuple[Any, str, Any, str]] = {
    "any rows are all alike": (ordered_rows, "_is_constant", lambda array, axis: True, "place in the order"),
    "any numbers are each row": (ordered_rows, "_is_each_row", lambda value, rows: True, "put back by half"),
    "any order is the same": (Ordered, "has_order_of", lambda self, other: True, "two orders"),
    "any sizes count the keys": (
        ordered_rows,
        "_by_choice",
        lambda choices, table: Decided(np.unique(choices), table.reshape(EXPERTS, -1)[:, :ROWS]),
        "counted twice",
    ),
}
"""What is put in the place of what, and the layer in which it is seen."""


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_proves_rows_that_are_mixed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, wrong, layer = WRONG[name]
    monkeypatch.setattr(owner, attribute, wrong)
    reads = forward_of(layer).reads
    assert reads is not None and not reads.all(), "the rule that this replaces is not needed"


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_a_dtype_that_does_not_hold_every_count_proves_nothing(dtype: str) -> None:
    """Of 300 rows one expert may have 257, which is 256 in bfloat16, and 1 in int8."""
    layer = moe(lambda keys: jax.nn.one_hot(keys, EXPERTS).sum(0, dtype=dtype).astype(jnp.int32))
    rows = RNG.normal(size=(300, WIDTH)).astype(np.float32)
    assert batch_rows(layer, rows[:100], gradient=False).verdict == "proved"
    assert batch_rows(layer, rows, gradient=False).verdict != "proved"


def test_each_expert_learns_from_any_row() -> None:
    """The gradient of the matrices is a ragged product over the rows, which are in no groups that are known."""

    def gradient(x: Array, cotangent: Array) -> Array:
        keys = chosen(x)
        order = jnp.argsort(keys)
        layer = lambda up: lax.ragged_dot(x[order], up, bincount(keys))[jnp.argsort(order)]  # noqa: E731
        (pulled,) = jax.vjp(layer, UP)[1](cotangent)
        return jnp.asarray(pulled)

    other = RNG.normal(size=(ROWS, 5)).astype(np.float32)
    own = int(chosen(jnp.asarray(X))[5])
    for expert in range(EXPERTS):
        decided = independent(gradient, X, other, of=f"out[{expert}]", on="cotangent[5]")
        assert decided.verdict == ("refuted" if expert == own else "undecided")
