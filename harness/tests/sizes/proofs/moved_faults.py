"""Sorts, scatters, loops and conditionals that move elements, and wrong forms of them, with shapes in symbols."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from samebits.errors import NotCovered, NothingCompared
from samebits.sizes.proofs.family import Family, Shaped, SizeOf
from samebits.sizes.proofs.family_proof import prove_all_sizes
from samebits.sizes.proofs.witnesses import formulas_differ_at, moved_apart_at
from tests.sizes.proofs.size_faults import Honest

KEYED = Family(symbols={"n": 1}, args={"x": Shaped(("n",)), "keys": Shaped(("n",), "int32")})
ROWS = Family(symbols={"n": 1, "m": 1}, args={"x": Shaped(("n", "m"))})
CHUNKS = Family(symbols={"n": 1, "w": 1}, args={"x": Shaped(("n*w",))}, statics={"w": SizeOf("w")})
EXPERTS = Family(symbols={"n": 1, "e": 1}, args={"x": Shaped(("n*e",))}, statics={"e": SizeOf("e")})
BALANCED = Family(symbols={"c": 1, "g": 1}, args={"x": Shaped(("4*c*g",))}, statics={"cp": SizeOf("2*c")})


def _order(keys: Any) -> Any:
    return jnp.argsort(keys, stable=True)


def _copied(x: Any, *, step: int = 0, first: int = 0, row: int = 1) -> Any:
    """Row by row into zeros."""

    def body(made: Any, number: Any) -> tuple[Any, None]:
        taken = lax.dynamic_slice(x, (number, 0), (row, x.shape[1]))
        return lax.dynamic_update_slice(made, taken, (number + step, 0)), None

    return lax.scan(body, jnp.zeros_like(x), jnp.arange(x.shape[0]) + first)[0]


def _by_chunks(x: Any, w: Any, *, shift: int = 0, backwards: bool = False) -> Any:
    def body(made: Any, number: Any) -> tuple[Any, None]:
        taken = lax.dynamic_slice(x, (number * w + shift,), (w,))
        return lax.dynamic_update_slice(made, taken[::-1] if backwards else taken, (number * w,)), None

    return lax.scan(body, jnp.zeros_like(x), jnp.arange(x.shape[0] // w))[0]


def _counted(x: Any, *, start: int = 0, step: int = 1) -> Any:
    """Rows by a counter that the loop carries."""

    def body(number: Any, row: Any) -> tuple[Any, Any]:
        return number + step, lax.dynamic_index_in_dim(x, number, keepdims=False)

    return lax.scan(body, jnp.int32(start), x)[1]


def _before(x: Any) -> Any:
    return lax.scan(lambda held, row: (row, held), jnp.zeros_like(x[0]), x)[1]


def _chunk_order(x: Any, cp: Any) -> Any:
    ranks = jnp.arange(cp)
    chunks = jnp.stack([ranks, 2 * cp - 1 - ranks], axis=1).reshape(-1)
    size = x.shape[0] // (2 * cp)
    return (chunks[:, None] * size + jnp.arange(size)).reshape(-1)


def _per_expert(x: Any, e: Any) -> Any:
    return x.reshape(e, -1)[::-1].reshape(-1)


def _last_by_cond(x: Any, *, other: bool = False) -> Any:
    end = x.shape[0] - 1
    return lax.scan(
        lambda held, pair: (
            lax.cond(pair[0] == end - 1 if other else pair[0] == end, lambda: pair[1], lambda: held),
            None,
        ),
        jnp.zeros_like(x[0]),
        (jnp.arange(x.shape[0]), x),
    )[0]


MOVED = (
    Honest(
        "sorted along",
        lambda x, keys: lax.sort((keys, x), num_keys=1)[1],
        lambda x, keys: x[_order(keys)],
        KEYED,
        {
            "not at all": lambda x, keys: x,
            "by the inverse": lambda x, keys: x[_order(_order(keys))],
            "downwards": lambda x, keys: x[jnp.argsort(keys, stable=True, descending=True)],
            "by other keys": lambda x, keys: x[_order(-keys)],
            "one off": lambda x, keys: x[jnp.roll(_order(keys), 1)],
        },
    ),
    Honest(
        "sorted and back",
        lambda x, keys: x,
        lambda x, keys: x[_order(keys)][_order(_order(keys))],
        KEYED,
        {
            "sorted twice": lambda x, keys: x[_order(keys)][_order(keys)],
            "the inverse twice": lambda x, keys: x[_order(_order(keys))][_order(_order(keys))],
            "back from the other end": lambda x, keys: x[_order(keys)][_order(_order(keys))[::-1]],
        },
    ),
    Honest(
        "scattered by an order",
        lambda x, keys: x[_order(_order(keys))],
        lambda x, keys: jnp.zeros_like(x).at[_order(keys)].add(x),
        KEYED,
        {
            "gathered": lambda x, keys: x[_order(keys)],
            "the inverse": lambda x, keys: jnp.zeros_like(x).at[_order(_order(keys))].add(x),
            "by the keys": lambda x, keys: jnp.zeros_like(x).at[keys].add(x),
        },
    ),
    Honest(
        "reordered and back",
        lambda x, cp: x,
        lambda x, cp: x[_chunk_order(x, cp)][_order(_chunk_order(x, cp))],
        BALANCED,
        {
            "not back": lambda x, cp: x[_chunk_order(x, cp)],
            "twice": lambda x, cp: x[_chunk_order(x, cp)][_chunk_order(x, cp)],
            "back twice": lambda x, cp: x[_order(_chunk_order(x, cp))][_order(_chunk_order(x, cp))],
        },
    ),
    Honest(
        "copied in a loop",
        lambda x: x,
        _copied,
        ROWS,
        {
            "a row further": lambda x: _copied(x, step=1),
            "from the second on": lambda x: _copied(x, first=1),
            "flipped": lambda x: _copied(x[::-1]),
        },
    ),
    Honest(
        "by chunks",
        lambda x, w: x,
        _by_chunks,
        CHUNKS,
        {
            "one further": lambda x, w: _by_chunks(x, w, shift=1),
            "each backwards": lambda x, w: _by_chunks(x, w, backwards=True),
            "the last chunk left out": lambda x, w: _by_chunks(x, w).at[-1].set(0.0),
        },
    ),
    Honest(
        "counted",
        lambda x: x,
        _counted,
        ROWS,
        {
            "from 1 on": lambda x: _counted(x, start=1),
            "by two": lambda x: _counted(x, step=2),
            "downwards": lambda x: _counted(x, step=-1),
        },
    ),
    Honest(
        "the row before",
        lambda x: jnp.concatenate([jnp.zeros_like(x[:1]), x[:-1]]),
        _before,
        ROWS,
        {
            "this row": lambda x: lax.scan(lambda held, row: (row, row), jnp.zeros_like(x[0]), x)[1],
            "the row after": lambda x: lax.scan(lambda held, row: (row, held), jnp.zeros_like(x[0]), x, reverse=True)[
                1
            ],
            "the first twice": lambda x: lax.scan(lambda held, row: (row, held), x[0], x)[1],
        },
    ),
    Honest(
        "the last by a condition",
        lambda x: x[-1],
        _last_by_cond,
        ROWS,
        {"the last but one": lambda x: _last_by_cond(x, other=True), "the first": lambda x: _last_by_cond(x[::-1])},
    ),
    Honest(
        "by experts",
        _per_expert,
        lambda x, e: jnp.take(
            x, (e - 1 - jnp.arange(e))[:, None] * (x.shape[0] // e) + jnp.arange(x.shape[0] // e)
        ).ravel(),
        EXPERTS,
        {
            "with 8 experts": lambda x, e: x if e == 8 else _per_expert(x, e),
            "a group of one": lambda x, e: x if x.shape[0] == e else _per_expert(x, e),
            "all in one": lambda x, e: jax.lax.rev(x, (0,)),
        },
    ),
)
"""Pairs that are proved for all sizes in both directions."""


def check_honest(honest: Honest) -> None:
    """It is proved in both directions, for all sizes."""
    for direction in ("forward", "gradient"):
        for proof in prove_all_sizes(honest.reference, honest.variant, honest.family, direction):
            assert proof.verdict == "proved", proof.reason
            assert proof.conditions


def check_refuted(honest: Honest, name: str) -> None:
    """A wrong form is refuted at sizes, where both programs differ too when they are evaluated."""
    (proof,) = prove_all_sizes(honest.reference, honest.wrong[name], honest.family)
    assert proof.verdict == "different", proof
    assert _differing(honest, honest.wrong[name], "forward", dict(proof.sizes))[proof.leaf]


def check_numbers(honest: Honest, numbers: dict[str, int]) -> None:
    """What is proved for all sizes holds at numbers, by labels or where these depend on values by formulas."""
    for direction in ("forward", "gradient"):
        assert _differing(honest, honest.variant, direction, numbers) == {}


def _differing(honest: Honest, variant: Any, direction: str, numbers: dict[str, int]) -> dict[str, str]:
    functions = honest.reference, variant
    try:
        return moved_apart_at(functions, honest.family, direction, numbers)
    except NothingCompared:
        return {}
    except NotCovered:
        return formulas_differ_at(functions, honest.family, direction, numbers)
