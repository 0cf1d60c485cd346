"""The time in which evidence is gathered: what is not reached in it is said, and never called more than it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import samebits
from samebits.check.evidence import EvidenceCollector
from samebits.check.other_inputs import Searches
from samebits.check.outcome import Budget
from samebits.check.point_proofs import PointProofs
from samebits.errors import RequestError
from samebits.host.time_limit import OutOfTime, limited, require_time
from samebits.schema.finding import Finding
from tests.support.invoke import samebits as command

X = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)


def reference(x: jax.Array) -> jax.Array:
    return jnp.square(x + 1)


def expanded(x: jax.Array) -> jax.Array:
    return x * x + 2 * x + 1


def other_from_fifty(x: jax.Array) -> jax.Array:
    return expanded(x) + jnp.where(x > 50, 1, 0)


Method = tuple[type, str]


def out_of_time(monkeypatch: pytest.MonkeyPatch, methods: Sequence[Method]) -> None:
    """Let the time be over in steps of the runner."""

    def over(*args: Any, **more: Any) -> Any:
        raise OutOfTime

    for owner, name in methods:
        monkeypatch.setattr(owner, name, over)


def checked(variant: Callable[..., Any], **more: Any) -> Finding:
    (leaf,) = samebits.check(reference, variant, X, gradients=False, **more).leaves
    return leaf


FORMULAS = PointProofs, "field_identity"
ACCURACY = EvidenceCollector, "measure"
OTHERS = Searches, "counterexample"


def test_enough_time_changes_nothing() -> None:
    usual, budgeted = checked(expanded), checked(expanded, budget=600)
    assert usual.ruling == budgeted.ruling and usual.proof == budgeted.proof


@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")
@pytest.mark.parametrize(
    ("missed", "verdict", "words"),
    [
        ((FORMULAS,), "rounding", "not proved: out of time; not reached within 60 s: formulas"),
        ((OTHERS,), "rounding", "not reached within 60 s: other inputs"),
        ((FORMULAS, OTHERS), "rounding", "not reached within 60 s: formulas, other inputs"),
        ((ACCURACY,), "error", "not reached within 60 s: accuracy"),
        ((FORMULAS, ACCURACY), "error", "not reached within 60 s: formulas, accuracy"),
    ],
)
def test_what_is_not_reached_is_said(
    missed: Sequence[Method], verdict: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out_of_time(monkeypatch, missed)
    leaf = checked(expanded, budget=60)
    assert leaf.ruling.verdict == verdict and words in (leaf.ruling.evidence or "")
    assert leaf.ruling.ok is (verdict == "rounding")
    assert verdict != "error" or "could not tell" in (leaf.ruling.reason or "")


@pytest.mark.filterwarnings("ignore::samebits.OtherInputsWarning")
def test_a_hidden_fault_is_not_called_the_same_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    out_of_time(monkeypatch, [FORMULAS, OTHERS])
    leaf = checked(other_from_fifty, budget=60)
    assert leaf.proof.log2_error is None and "formulas, other inputs" in (leaf.ruling.evidence or "")


def test_formulas_get_a_share_once_for_all_leaves() -> None:
    budget, tried = Budget.from_now(0.2), list[float]()

    def endless() -> None:
        tried.append(time.monotonic())
        while True:
            require_time()

    assert budget.for_leaf().within("formulas", endless, None, share=0.5) is None
    other = budget.for_leaf()
    assert other.within("formulas", endless, "over", share=0.5) == "over" and other.missed is not None
    assert time.monotonic() < budget.end and other.within("accuracy", lambda: 1, None) == 1
    assert len(tried) == 2 and tried[1] - tried[0] < budget.end


def test_an_inner_limit_does_not_outlast_the_outer_one() -> None:
    with limited(time.monotonic() - 1), limited(time.monotonic() + 100), pytest.raises(OutOfTime):
        require_time()
    require_time()


def product(x: jax.Array, w: jax.Array) -> jax.Array:
    return x @ w


def as_einsum(x: jax.Array, w: jax.Array) -> jax.Array:
    return jnp.einsum("rd,df->rf", x, w)


def test_one_compiled_program_ends_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*args: Any, **more: Any) -> Any:
        raise AssertionError("asked for what cannot change the verdict")

    for owner, name in (FORMULAS, ACCURACY):
        monkeypatch.setattr(owner, name, asked)
    compared = samebits.check(product, as_einsum, X, X.T)
    assert compared.verdict == "proved" and not any(leaf.proof.assumptions for leaf in compared.leaves)
    assert samebits.check(reference, expanded, X).verdict == "error"  # other programs ask


@pytest.mark.parametrize("budget", [0, -1, "60s", float("nan"), float("inf")])
def test_a_budget_is_a_number_of_seconds(budget: Any) -> None:
    with pytest.raises(RequestError, match=r"budget=.*; expected a number of seconds above 0, or None"):
        samebits.check(reference, expanded, X, budget=budget)


@pytest.mark.parametrize("wrong", ["0", "soon", "-5s"])
def test_the_option_takes_seconds(wrong: str) -> None:
    function, arg = f"{__name__}:reference", ("--arg", "x=f32[8,64]")
    ended = command("compare", function, f"{__name__}:expanded", *arg, "--forward", "--budget", "600s")
    assert ended.code == 0, ended.err
    ended = command("compare", function, f"{__name__}:expanded", *arg, "--budget", wrong)
    assert ended.code == 2 and "--budget" in ended.err and wrong.rstrip("s") in ended.err
    assert wrong != "soon" or "expected one such as 60 or 60s" in ended.err
