"""Counted loops with a symbol for their number of steps: proved with their gradients, and no wrong one is."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from samebits.sizes.proofs.family import Family, Shaped
from samebits.sizes.proofs.family_proof import prove_all_sizes
from samebits.sizes.proofs.number_forms import with_scans
from samebits.sizes.proofs.tracing import traced
from tests.sizes.proofs.size_faults import Honest

LINE = Family(symbols={"n": 1}, args={"x": Shaped(("n",))})
ROWS = Family(symbols={"n": 1, "m": 1}, args={"x": Shaped(("n", "m"))})
CHUNKS = Family(symbols={"c": 1, "p": 1}, args={"x": Shaped(("c*p",)), "like": Shaped(("c",))})


def _added(x: jax.Array, *, first: int = 0, fewer: int = 0, at: int | None = None, twice: bool = False) -> Any:
    def step(i: Any, total: jax.Array) -> jax.Array:
        row = x[i if at is None else at]
        return total + (2 * row if twice else row)

    return lax.fori_loop(first, x.shape[0] - fewer, step, jnp.zeros_like(x[0]))


def _added_where_wrong_at(size: int) -> Any:
    return lambda x: _added(x, first=int(x.shape[0] == size))


def _backwards(x: jax.Array, *, shift: int = 1, start: Any = jnp.zeros_like) -> Any:
    last = x.shape[0] - shift
    return lax.fori_loop(0, x.shape[0], lambda i, out: out.at[last - i].set(x[i]), start(x))


def _in_chunks(x: jax.Array, like: jax.Array, *, fewer: int = 0, wide: int = 0) -> Any:
    part = x.shape[0] // like.shape[0]

    def step(i: Any, total: jax.Array) -> jax.Array:
        return total + jnp.square(lax.dynamic_slice(x, ((part - wide) * i,), (part,))).sum()

    return lax.fori_loop(0, like.shape[0] - fewer, step, jnp.float32(0)) + 0 * like.sum()


def _nested(x: jax.Array, *, transposed: bool = False) -> Any:
    def row(i: Any, total: jax.Array) -> Any:
        return lax.fori_loop(0, x.shape[1], lambda j, own: own + x[i, i if transposed else j], total)

    return lax.fori_loop(0, x.shape[0], row, jnp.float32(0))


def _decayed(x: jax.Array, *, rate: float = 0.5) -> Any:
    return lax.fori_loop(0, x.shape[0], lambda i, carry: rate * jnp.sin(carry) + x[i], jnp.zeros_like(x[0]))


HONEST = (
    Honest(
        "added",
        lambda x: x.sum(0),
        _added,
        ROWS,
        {
            "begins late": lambda x: _added(x, first=1),
            "ends early": lambda x: _added(x, fewer=1),
            "one row alone": lambda x: _added(x, at=0),
            "twice": lambda x: _added(x, twice=True),
            "wrong at 16": _added_where_wrong_at(16),
        },
    ),
    Honest(
        "backwards",
        lambda x: x[::-1],
        _backwards,
        LINE,
        {"one place off": lambda x: _backwards(x, shift=2), "forwards": lambda x: x},
    ),
    Honest(
        "in chunks",
        lambda x, like: jnp.square(x).sum() + 0 * like.sum(),
        _in_chunks,
        CHUNKS,
        {"without the last": lambda *x: _in_chunks(*x, fewer=1), "chunks overlap": lambda *x: _in_chunks(*x, wide=1)},
    ),
    Honest("nested", lambda x: x.sum(), _nested, ROWS, {"the diagonal": lambda x: _nested(x, transposed=True)}),
    Honest(
        "decayed",
        lambda x: lax.scan(lambda c, row: (0.5 * jnp.sin(c) + row, None), jnp.zeros_like(x[0]), x)[0],
        _decayed,
        ROWS,
        {"another rate": lambda x: _decayed(x, rate=0.25)},
    ),
)
FAULTS = [(honest, name) for honest in HONEST for name in honest.wrong]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
@pytest.mark.parametrize("honest", HONEST, ids=[honest.name for honest in HONEST])
def test_a_loop_of_any_number_of_steps_is_what_it_computes(honest: Honest, direction: str) -> None:
    for proof in prove_all_sizes(honest.reference, honest.variant, honest.family, direction):
        assert proof.verdict in ("proved", "rounding"), proof.reason


@pytest.mark.parametrize(("honest", "name"), FAULTS, ids=[f"{honest.name}: {name}" for honest, name in FAULTS])
def test_every_wrong_loop_is_refuted_at_sizes(honest: Honest, name: str) -> None:
    (proof,) = prove_all_sizes(honest.reference, honest.wrong[name], honest.family)
    assert proof.verdict == "different" and proof.sizes, proof


def _while(x: jax.Array, *, before: int = 0, step: int = 1) -> Any:
    def add(state: Any) -> Any:
        return state[0] + step, state[1] + x[state[0]]

    return lax.while_loop(lambda state: state[0] < x.shape[0] - before, add, (0, jnp.zeros_like(x[0])))[1]


@pytest.mark.slow
def test_a_counted_while_is_followed_forward_alone() -> None:
    (proof,) = prove_all_sizes(lambda x: x.sum(0), _while, ROWS)
    assert proof.verdict == "rounding", proof.reason
    (proof,) = prove_all_sizes(lambda x: x.sum(0), lambda x: _while(x, before=1), ROWS)
    assert proof.verdict == "different", proof
    (proof,) = prove_all_sizes(lambda x: x.sum(0), _while, ROWS, "gradient")
    assert proof.verdict == "error" and "Reverse-mode differentiation does not work" in proof.reason


def _until_large(x: jax.Array) -> Any:
    return lax.while_loop(lambda total: total.sum() < 10, lambda total: total + 1, x)


def _meeting(x: jax.Array) -> Any:
    """The end comes nearer by one with each step."""

    def step(state: Any) -> Any:
        return state[0] + 1, state[1] - 1, state[2] + x[state[0]]

    return lax.while_loop(lambda state: state[0] < state[1], step, (0, x.shape[0], jnp.zeros_like(x[0])))[2]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "loop",
    [_until_large, _meeting, lambda x: _while(x, step=2), lambda x: _while(x, before=3)],
    ids=["until large", "the end moves", "by twos", "less than no step"],
)
def test_what_counts_no_steps_stays_undecided(loop: Any) -> None:
    (proof,) = prove_all_sizes(loop, loop, ROWS)
    assert proof.verdict == "error" and "while" in proof.reason, proof


def test_a_loop_with_enough_steps_may_begin_late() -> None:
    family = Family(symbols={"n": 4, "m": 1}, args=ROWS.args)
    (proof,) = prove_all_sizes(lambda x: x[3:].sum(0), lambda x: _added(x, first=3), family)
    assert proof.verdict == "rounding", proof.reason


def test_a_carry_that_stays_is_what_it_was() -> None:
    def kept(x: jax.Array) -> Any:
        return lax.fori_loop(0, x.shape[0], lambda i, carry: (carry[0], carry[1] + 1), (x, jnp.int32(0)))

    program = traced(kept, LINE).closed
    assert [eqn.primitive.name for eqn in program.jaxpr.eqns if eqn.primitive.name in ("while", "scan")] == ["scan"]
    assert with_scans(program) is program
    proofs = prove_all_sizes(kept, lambda x: (x, jnp.int32(x.shape[0])), LINE)
    assert [proof.verdict for proof in proofs] == ["proved", "proved"], proofs
