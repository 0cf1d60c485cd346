"""The audit of contracts: `bitwise` may be required only of bits that do not depend on the machine."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from samebits.check.contract_audit import machine_dependent
from samebits.schema.case import Arg
from samebits.schema.contract import Contract
from samebits.schema.finding import Finding, exit_code
from samebits.schema.pair import Pair
from tests.support.toys import run, toy

Side = Callable[..., Any]


def exponential(x: Any) -> Any:
    return jnp.exp(x)


ROUNDS: dict[str, tuple[Side, str]] = {
    "a sum of floats": (lambda x: x.sum(1), "reduce_sum"),
    "an exponential": (exponential, "exp"),
    "a product and a sum, which may be contracted": (lambda x: x * x + x, "add"),
    "a quotient, which may be multiplied by a rounded reciprocal": (lambda x: jnp.where(x > 0, x / 3, x), "div"),
}
EXACT: dict[str, Side] = {
    "one product": lambda x: x * x,
    "one sum": lambda x: x + 0.3,
    "rows of a one-hot matrix": lambda x: np.eye(8, dtype=x.dtype)[::-1] @ x,
    "a count": lambda x: (x > 0).sum(1),
}


def pair(function: Side, values: Any = None, **changes: Any) -> Pair:
    """A pair whose two sides are the same, on a mesh where they are not one program; bits are promised."""

    def plain(x: Any, *, factor: float = 2.0) -> Any:
        return function(x)

    def again(x: Any, *, factor: float = 2.0) -> Any:
        return function(x)

    arg = Arg(shape=("rows", "columns"), spec=("data",), **({} if values is None else {"values": values}))
    return dataclasses.replace(
        toy(plain, again=again),
        **{"args": {"x": arg}, "gradients": False, "meshes": ("data2",), "contracts": (Contract(),), **changes},
    )


def audited(declared: Pair) -> tuple[list[Finding], list[str]]:
    """The results, and what the audit says."""
    results = run(declared)
    assert {one.ruling.verdict for one in results} <= {"bitwise", "proved", "rounding"}
    return results, [problem.message for problem in machine_dependent(declared, results)]


@pytest.mark.parametrize("what", ROUNDS)
def test_bits_that_depend_on_the_machine_must_not_be_promised(what: str) -> None:
    function, operation = ROUNDS[what]
    results, said = audited(pair(function))
    assert "bitwise" in {one.ruling.verdict for one in results}, "nothing is planted: the sides have other bits here"
    assert len(said) == 1 and f" {operation}(" in said[0]


@pytest.mark.parametrize("what", EXACT)
def test_bits_that_no_machine_can_have_otherwise(what: str) -> None:
    results, said = audited(pair(EXACT[what]))
    assert said == []
    assert all(one.ruling.ok for one in results)


def test_sums_of_small_integers_are_exact() -> None:
    def total(x: Any) -> Any:
        return x.sum(1)

    results, said = audited(pair(total, values=lambda rng, shape: rng.integers(-8, 9, shape).astype(float)))
    assert said == []
    exact = "the same bits on every machine: sums and products that are exact in any order"
    assert all(exact in str(one.ruling.evidence) for one in results), results
    assert audited(pair(total, values=lambda rng, shape: rng.integers(-(2**24), 2**24, shape).astype(float)))[1]


def test_a_chain_in_bfloat16_depends_on_the_machine() -> None:
    chain, one = (pair(f, dtypes=("bfloat16",)) for f in (lambda x: x * x * x, lambda x: x * x))
    assert audited(chain)[1] and not audited(one)[1]


def test_the_message_names_the_leaf_and_both_ways_out() -> None:
    """It is a problem of the declaration: exit code 2, though every result holds here."""
    declared = pair(lambda x: x.sum(1), contracts=(Contract(leaf="out"),))
    results = run(declared)
    (problem,) = machine_dependent(declared, results)
    assert problem.message.startswith(
        "pair 'toy': the contract (leaf=out) requires 'bitwise' of 'out' (plain, case small, float32, data2, forward) "
        "and of 1 more, equal here, which another machine may have otherwise: reduce_sum(float32[8, 16]) at "
    )
    assert problem.message.endswith(
        "lower it to 'rounding' with this reason (`samebits accept --verdicts` keeps what was seen here), or change "
        "the sides so that they can be proved"
    )
    assert exit_code(results, [problem]) == 2 and exit_code(results) == 0


def test_a_lower_contract_promises_no_bits() -> None:
    rounding = Contract(lowest="rounding", reason="sums in another order")
    assert audited(pair(lambda x: x.sum(1), contracts=(rounding,)))[1] == []
    results, said = audited(pair(lambda x: x.sum(1), meshes=("data1",)))
    assert {one.ruling.verdict for one in results} == {"proved"} and said == []
