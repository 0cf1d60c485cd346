"""The ladder of verdicts on small pairs: what is proved, what falls to a lower rung, and what fails every rung."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.check.prove_points import prove_points
from samebits.engine.work import from_text, to_text
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.report.check import read_document
from samebits.schema.case import Arg
from samebits.schema.contract import Contract
from samebits.schema.domain import Domain
from samebits.schema.finding import Finding, exit_code
from samebits.schema.pair import Pair
from samebits.schema.point import Effort
from samebits.schema.values import Integers
from tests.support.foreign import SUM, SUM_BACKWARDS, write_pair
from tests.support.invoke import samebits
from tests.support.toys import alone, run, toy


def test_what_is_proved_runs_on_one_input_as_a_cross_check() -> None:
    """The proof holds for every input; of the records the special one runs, with the random cotangent."""
    special = {"x": Arg(shape=("rows", "columns"), spec=("data",), special=("-0.0", "largest"))}
    for changes in ({}, {"args": special}):
        results = run(toy(), Request(variants=("twice",), full=True), **changes)
        assert {(r.ruling.verdict, r.comparison.elements) for r in results} == {("proved", 128)}


def test_a_result_is_what_a_worker_process_sends() -> None:
    """It comes as JSON; a witness with a tuple would not be the one with a list."""
    results = run(toy(thirds=lambda x, *, factor=2.0: x * (factor * (1 + 1e-6))))
    assert any(result.comparison.witness for result in results)
    assert [from_text(to_text(result), Finding) for result in results] == results


@pytest.mark.slow
def test_a_result_says_whether_a_contract_covers_it() -> None:
    """Both in `check` and in `prove`, since a default contract follows the verdict."""
    pair = replace(toy(), contracts=(Contract(direction="forward"),))
    proofs = list(prove_points(pair, Locator(name="toy"), plan(pair, Request(), 8)))
    for rows in (run(pair), proofs):
        assert {(row.place.direction, row.ruling.undeclared) for row in rows} == {
            ("forward", False),
            ("gradient", True),
        }


def test_a_promise_must_be_in_the_contract() -> None:
    """A gradient that adds zeros is proved for cotangents without -0.0, and only where the contract says so."""

    def rolled(x: Any, *, factor: float = 2.0) -> Any:
        return jnp.concatenate([x[1:], x[:1]])

    def taken(x: Any, *, factor: float = 2.0) -> Any:
        return x[(np.arange(len(x)) + 1) % len(x)]

    pair = toy(rolled, taken=taken)
    (silent,) = run(pair, alone("taken", "gradient"))
    assert silent.ruling.verdict == "bitwise"
    assert (
        silent.ruling.evidence is not None
        and "no -0.0, subnormal number or signalling NaN in the cotangent of out" in silent.ruling.evidence
    )
    said = Contract(
        direction="gradient",
        lowest="proved",
        domain=Domain(
            no_negative_zero=("cotangents",), no_subnormal=("cotangents",), no_signalling_nan=("cotangents",)
        ),
    )
    (proved,) = run(pair, alone("taken", "gradient"), contracts=(said,))
    assert (proved.ruling.verdict, proved.ruling.ok) == ("proved", True)
    assert (
        proved.ruling.evidence is not None
        and "domain: no -0.0, subnormal number or signalling NaN in the cotangent" in proved.ruling.evidence
    )


def test_a_sum_in_another_order_is_rounding_with_its_probability() -> None:
    """The formulas are the same; the numbers of the evidence are in the result."""

    def plain(x: Any, *, factor: float = 2.0) -> Any:
        return x.sum(1) * factor

    def halves(x: Any, *, factor: float = 2.0) -> Any:
        return (x[:, ::2].sum(1) + x[:, 1::2].sum(1)) * factor

    rounding = Contract(lowest="rounding", reason="another order of adding")
    (found,) = run(toy(plain, halves=halves), alone("halves"), contracts=(rounding,))
    assert found.ruling.verdict == "rounding", found
    assert found.proof.log2_error is not None and found.proof.log2_error <= -60
    assert found.accuracy.bound is not None and 0 < found.accuracy.bound < 1e-4
    assert found.accuracy.bound_used is not None and 0 < found.accuracy.bound_used <= 1
    assert found.ruling.evidence is not None and found.ruling.evidence.startswith(
        "the same formulas (error probability 2^-"
    )


def test_a_zero_of_the_other_sign_is_named_as_that() -> None:
    """It is accepted as rounding is, although no distance and no error shows it."""

    def zeros(x: Any, *, factor: float = 2.0) -> Any:
        return jnp.where(x > 0, x * factor, 0.0)

    def signed(x: Any, *, factor: float = 2.0) -> Any:
        return jnp.where(x > 0, x * factor, x * 0.0)

    rounding = Contract(lowest="rounding", reason="a product with zero")
    (leaf,) = run(toy(zeros, signed=signed), alone("signed"), contracts=(rounding,))
    assert leaf.ruling.verdict == "rounding" and leaf.ruling.evidence is not None
    assert leaf.ruling.evidence.startswith("differs in the sign of zero alone; the same formulas")


def test_a_sum_in_bfloat16_is_named_as_the_loss_of_accuracy() -> None:
    """The same formula as far as real numbers go, and yet not rounding: the sum is kept in bfloat16."""

    def plain(x: Any, *, factor: float = 2.0) -> Any:
        return x.sum(1) * factor

    def narrow(x: Any, *, factor: float = 2.0) -> Any:
        return x.astype(jnp.bfloat16).sum(1).astype(x.dtype) * factor

    rounding = Contract(lowest="rounding", reason="another order of adding")
    (found,) = run(toy(plain, narrow=narrow), alone("narrow"), contracts=(rounding,))
    assert (found.ruling.verdict, found.ruling.ok) == ("different", False)
    assert found.ruling.evidence is not None
    assert found.ruling.evidence.startswith("loses accuracy: ")
    assert "bfloat16" in found.ruling.evidence.partition("most is lost by ")[2]
    assert "test_verdict.py:" in found.ruling.evidence


@pytest.mark.parametrize("epsilon", [1e-5, 1.01e-6])
def test_an_epsilon_that_bfloat16_hides_is_still_different(epsilon: float) -> None:
    """RMSNorm's usual fault, with bfloat16 inputs: most bits are equal, and the formulas are not."""

    def norm(x: Any, epsilon: float) -> Any:
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + epsilon)).astype(x.dtype)

    def plain(x: Any, *, factor: float = 2.0) -> Any:
        return norm(x, 1e-6)

    def wrong(x: Any, *, factor: float = 2.0) -> Any:
        return norm(x, epsilon)

    rounding = Contract(lowest="rounding", reason="for the sake of the test")
    found = run(toy(plain, wrong=wrong), alone("wrong", "gradient"), contracts=(rounding,), dtypes=("bfloat16",))
    assert [r.ruling.verdict for r in found] == ["different"], found
    assert found[0].ruling.evidence is not None and found[0].ruling.evidence.startswith("not the same mathematics")


def test_other_operations_with_the_same_result_are_not_refuted() -> None:
    """Labels know an operation by its name alone: x - 1 and x + (-1) are left to the fields."""

    def minus(x: Any, *, factor: float = 2.0) -> Any:
        return x - 1

    def plus(x: Any, *, factor: float = 2.0) -> Any:
        return x + (-1.0)

    pair = toy(minus, plus=plus)
    (found,) = run(pair, alone("plus"))
    assert found.ruling.verdict == "bitwise"
    assert found.ruling.evidence is not None and found.ruling.evidence.startswith("the same formulas")
    proved = list(prove_points(pair, Locator(name="toy"), plan(pair, Request(directions=("forward",)), 8)))
    assert {(one.place.variant, one.ruling.verdict) for one in proved} == {("minus", "proved"), ("plus", "rounding")}


# --- `check --no-assumptions`: verdicts that rest on assumptions fall back to what execution alone shows -------------

NONE = Effort(assuming=False)
CONTRACT = 'contracts=(Contract(lowest="rounding", reason="summed backwards: 3 ulps", error_ratio=8.0),),'


def total(x: Any, *, factor: float = 2.0) -> Any:
    return x * x.sum(1, keepdims=True)


def backwards(x: Any, *, factor: float = 2.0) -> Any:
    found = 0.0
    for column in range(x.shape[1] - 1, -1, -1):
        found = found + x[:, column : column + 1]
    return x * found


def taken(x: Any, rows: Any, *, factor: float = 2.0) -> Any:
    return x[rows]


def chosen(x: Any, rows: Any, *, factor: float = 2.0) -> Any:
    return jnp.take(x, rows, axis=0, mode="clip")


ROUNDS = toy(total, other=backwards)
ROUTED = toy(taken, other=chosen)
ROWS = {
    "x": Arg(shape=("rows", "columns"), spec=(None, "data")),
    "rows": Arg(shape=("rows",), values=Integers(high=8), dtype="int32"),
}
ROUNDING = (Contract(lowest="rounding", reason="sums in another order", error_ratio=8.0),)


def variants(pair: Pair, **changes: Any) -> list[Finding]:
    return run(pair, alone("other"), **changes)


def test_rounding_by_proof_is_undecided_without_its_assumptions() -> None:
    (usual,) = variants(ROUNDS, contracts=ROUNDING)
    assert (usual.ruling.verdict, usual.ruling.ok) == ("rounding", True)
    assert "; assumes range)" in str(usual.ruling.evidence)
    (strict,) = variants(ROUNDS, contracts=ROUNDING, effort=NONE)
    assert (strict.ruling.verdict, strict.ruling.ok) == ("error", False)
    assert str(strict.ruling.reason).startswith("could not tell without assumptions (range): the same formulas")
    assert strict.replay.endswith(" --no-assumptions")
    assert (exit_code([usual]), exit_code([strict])) == (0, 3)


def test_a_proof_for_one_routing_falls_to_bits() -> None:
    strictest = {"args": ROWS, "contracts": (Contract(lowest="proved"),), "meshes": ("data2",)}
    (usual,) = variants(ROUTED, **strictest)
    assert (usual.ruling.verdict, usual.ruling.ok) == ("proved", True), usual
    (strict,) = variants(ROUTED, **strictest, effort=NONE)
    assert (strict.ruling.verdict, strict.ruling.ok) == ("bitwise", False)
    assert str(strict.ruling.evidence).startswith("proved only under assumptions (values): both sides only move data")


def test_bits_that_were_seen_and_proofs_for_all_inputs_stay() -> None:
    for effort in (Effort(), NONE):
        (seen,) = variants(toy(total, other=lambda x, *, factor=2.0: total(x)), contracts=ROUNDING, effort=effort)
        assert (seen.ruling.verdict, seen.ruling.ok) == ("bitwise", True)
        moved = toy(lambda x, *, factor=2.0: x[::-1], other=lambda x, *, factor=2.0: x[::-1, :])
        (proof,) = variants(moved, contracts=(Contract(lowest="proved"),), effort=effort)
        assert (proof.ruling.verdict, proof.ruling.ok) == ("proved", True)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("words", "code"), [((), 0), (("--no-assumptions",), 3)], ids=["usual", "no assumptions"])
def test_the_command_ends_with_could_not_tell(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    write_pair(tmp_path, "rounds", reference=SUM, optimized=SUM_BACKWARDS, extra=CONTRACT)
    file = tmp_path / "r.json"
    asked = ("--root", tmp_path, "--variant", "fast", "--direction", "forward")
    ended = samebits("check", "rounds", *asked, "--json", file, *words)
    assert ended.code == code, ended
    said = " ".join(f"{one.ruling.reason} {one.ruling.evidence}" for one in read_document(file).results)
    assert ("could not tell without assumptions (" in said) == bool(words) and "assumes " in said
