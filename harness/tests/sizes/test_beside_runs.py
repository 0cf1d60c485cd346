"""Proofs for all sizes beside executed points: contracts that require them, and the executions that they save."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import samebits
from samebits import Arg, Case, Contract, Domain, Pair
from samebits.check.cross_checks import CrossChecks
from samebits.check.run_points import run_points
from samebits.interpret.labels import LabelIdentity
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.prove.prover import Prover
from samebits.schema.finding import Finding
from samebits.schema.point import Effort, Point
from samebits.sizes.beside_runs import PairSizeProofs

ALL = Contract(lowest="proved", sizes="all", mode="auto", domain=Domain(no_negative_zero=("the cotangent of out",)))
SPARING = Effort(sparing=True, all_sizes=True)
FEW: dict[str, Any] = {"dtypes": ("float32",), "meshes": ("data2",)}


def plain(x: jax.Array) -> jax.Array:
    return x[::-1]


def taken(x: jax.Array) -> jax.Array:
    return jnp.take(x, x.shape[0] - 1 - jnp.arange(x.shape[0]), axis=0)


def turned(x: jax.Array) -> jax.Array:
    return jnp.flip(x.T, 1).T


def wrong_at_forty(x: jax.Array) -> jax.Array:
    return x if x.shape[0] == 40 else x[::-1]


def unrolled(x: jax.Array) -> jax.Array:
    return jnp.stack([x[i] for i in range(x.shape[0])][::-1])


def _pair(*sides: Any, **more: Any) -> Pair:
    declared = {
        "name": "flip",
        "reference": plain,
        "variants": {side.__name__: side for side in sides},
        "args": {"x": Arg(shape=("rows", 3), spec=("data",))},
        "cases": (Case(id="small", sizes={"rows": 8}), Case(id="large", sizes={"rows": 16})),
        "dtypes": ("float32", "bfloat16"),
        "meshes": ("data2", "data4", "data8"),
        "gradients": False,
    }
    return Pair(**{**declared, **more})


def _results(pair: Pair, effort: Effort) -> list[Finding]:
    points = plan(pair, Request(), len(jax.devices())).points
    return list(run_points(pair, Locator(name=pair.name), points, Programs(), effort))


def _of(results: list[Finding], variant: str) -> list[Finding]:
    return [result for result in results if result.place.variant == variant]


@pytest.mark.slow
def test_what_is_proved_says_for_which_sizes() -> None:
    results = _results(_pair(taken), Effort())
    assert {(result.ruling.verdict, result.proof.sizes, result.proof.family) for result in results} == {
        ("proved", "these", None)
    }


@pytest.mark.slow
def test_all_sizes_are_asked_for_by_the_effort() -> None:
    results = _results(_pair(taken), Effort(all_sizes=True))
    family = {
        (r.proof.sizes, None if r.proof.family is None else tuple(r.proof.family.shapes.items()))
        for r in _of(results, "taken")
    }
    assert family == {("all", (("x", "float32[rows, 3]"),)), ("all", (("x", "bfloat16[rows, 3]"),))}
    assert {result.proof.sizes for result in _of(results, "plain")} == {"these"}


@pytest.mark.slow
def test_one_execution_suffices_where_all_sizes_are_proved() -> None:
    pair = _pair(turned)
    results = _of(_results(pair, SPARING), "turned")
    executed = [result for result in results if not result.proof.alone]
    assert len(executed) == 1
    assert len(_of([r for r in _results(pair, Effort(sparing=True)) if not r.proof.alone], "turned")) > 1
    assert "not executed here, but at 1 other point" in str(next(r for r in results if r.proof.alone).ruling.evidence)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("side", [wrong_at_forty, unrolled])
def test_what_is_not_proved_for_all_sizes_is_executed_as_ever(side: Any) -> None:
    # The one is refuted at another size, the other keeps the number of the case.
    pair = _pair(side, dtypes=("float32",))
    as_ever = [result.proof.alone for result in _of(_results(pair, Effort(sparing=True)), side.__name__)]
    assert set(as_ever) == {True, False}
    now = _of(_results(pair, SPARING), side.__name__)
    assert [result.proof.alone for result in now] == as_ever
    assert {result.proof.sizes for result in now} == {"these"}


def test_the_points_executed_in_any_case_are_one_of_each_side() -> None:
    checks = CrossChecks(_pair(taken, unrolled, gradients=True), 8)
    sides = [(point.variant, point.direction) for point in checks.single]
    assert len(sides) == len(set(sides)) == 6
    assert checks.single < checks.points


@pytest.mark.slow
def test_a_contract_may_require_all_sizes() -> None:
    results = _results(_pair(taken, contracts=(ALL,)), Effort())
    assert all(result.ruling.ok for result in results)
    assert {result.proof.sizes for result in _of(results, "taken")} == {"all"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("side", "why"),
    [
        (wrong_at_forty, "at rows=40: out[0, 0] is x[39, 0] in the reference and x[0, 0] in the variant"),
        (unrolled, "it cannot be traced with symbols for sizes"),
    ],
)
def test_a_contract_for_all_sizes_fails_where_only_these_are(side: Any, why: str) -> None:
    results = _of(_results(_pair(side, contracts=(ALL,), **FEW), Effort()), side.__name__)
    assert {(result.ruling.verdict, result.ruling.ok, result.proof.sizes) for result in results} == {
        ("proved", False, "these")
    }
    begin = "it is shown for the sizes of the case alone, and the contract requires all sizes: "
    assert all(str(result.ruling.reason).startswith(begin) for result in results)
    assert all(why in str(result.ruling.reason) for result in results)


@pytest.mark.slow
def test_a_domain_that_all_sizes_need_must_be_stated() -> None:
    silent = replace(ALL, domain=None)
    pair = _pair(taken, gradients=True, contracts=(silent,), cases=(Case(id="small", sizes={"rows": 8}),))
    failing = [result for result in _results(pair, Effort()) if not result.ruling.ok]
    assert {(result.place.variant, result.place.direction) for result in failing} == {("taken", "gradient")}


def test_prove_holds_a_contract_for_all_sizes_as_check_does() -> None:
    compared = samebits.prove(_pair(turned, wrong_at_forty, contracts=(ALL,), **FEW))
    seen = {(leaf.place.variant, leaf.ruling.ok, leaf.proof.sizes) for leaf in compared.leaves}
    assert {row for row in seen if row[0] != "plain"} == {("turned", True, "all"), ("wrong_at_forty", False, "these")}
    wrong = next(leaf for leaf in compared.leaves if leaf.place.variant == "wrong_at_forty")
    assert "the contract requires all sizes: at rows=40" in str(wrong.ruling.reason)


def test_a_denial_at_its_own_sizes_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = {"out": LabelIdentity(False, 1, witness="out[0] is another one")}
    monkeypatch.setattr(Prover, "movement", lambda self, question: denied)
    (result, *_) = _of(_results(_pair(taken, **FEW), Effort(all_sizes=True, selftest=False)), "taken")
    assert result.ruling.verdict == "error"
    assert "proved for all sizes, and at its own it is different; please report it" in str(result.ruling.reason)


def test_the_reference_and_explicit_mode_are_not_asked() -> None:
    proofs = PairSizeProofs(_pair(taken, modes=("auto", "explicit")), every=True)
    point = Point(variant="taken", case="small", dtype="float32", mesh="data2", mode="auto", direction="forward")
    assert proofs.of(point) is not None
    assert proofs.of(replace(point, variant="plain")) is None
    assert proofs.of(replace(point, mode="explicit")) is None
