"""`prove` reaches a contract only where `check` does: tree, dtypes, platform branch, accuracy, exemptions."""

import dataclasses
import io
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from rich.console import Console

from samebits.check.prove_points import prove_points
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.report.prove import pair_block
from samebits.report.terminal import show_blocks
from samebits.schema.case import Arg, Refusal
from samebits.schema.contract import Contract, Exemption
from samebits.schema.finding import Finding, exit_code
from samebits.schema.pair import Pair
from tests.support.invoke import samebits
from tests.support.toys import of, run, toy

ROUNDING = (Contract(lowest="rounding", reason="for the sake of the test"),)


def proved(pair: Pair, platform: str | None = None, **changes: Any) -> list[Finding]:
    """What is proved of the variants of a pair."""
    pair = dataclasses.replace(pair, **{"contracts": ROUNDING, **changes})
    found = prove_points(pair, Locator(name=pair.name), plan(pair, Request(full=True), 8), platform)
    return [one for one in found if one.place.variant != pair.reference_name]


def times(x: Any, *, factor: float = 2.0) -> Any:
    return {"a": x * factor, "b": (x * factor).sum(0)}


def in_a_tuple(x: Any, *, factor: float = 2.0) -> Any:
    return tuple(times(x, factor=factor).values())


def one_more(x: Any, *, factor: float = 2.0) -> Any:
    return {**times(x, factor=factor), "c": x}


def one_less(x: Any, *, factor: float = 2.0) -> Any:
    return {"a": x * factor}


def another_name(x: Any, *, factor: float = 2.0) -> Any:
    return {"a": x * factor, "sum": (x * factor).sum(0)}


def swapped_names(x: Any, *, factor: float = 2.0) -> Any:
    """As many leaves of the same types: only the structure says that they are not the same."""
    return [x * factor, (x * factor).sum(0)]


def another_dtype(x: Any, *, factor: float = 2.0) -> Any:
    return {"a": x * factor, "b": (x * factor).sum(0).astype(jnp.bfloat16)}


def another_shape(x: Any, *, factor: float = 2.0) -> Any:
    return {"a": (x * factor)[None], "b": (x * factor).sum(0)}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "variant", [in_a_tuple, one_more, one_less, another_name, swapped_names, another_dtype, another_shape]
)
def test_another_tree_is_refuted_in_both_directions(variant: Callable[..., Any]) -> None:
    pair = toy(times, other=variant)
    found = proved(pair)
    for direction in ("forward", "gradient"):
        assert any(one.refutes for one in found if one.place.direction == direction), found
    assert exit_code(found) == 1
    executed = [r for r in run(pair, contracts=ROUNDING) if r.place.variant == "other"]
    assert {r.place.direction for r in executed if r.ruling.verdict == "different"} == {"forward", "gradient"}
    assert not [
        r.ruling.evidence
        for r in executed
        if r.ruling.verdict == "different" and "loses accuracy" in str(r.ruling.evidence)
    ]


def test_a_weak_type_counts() -> None:
    def strong(x: Any, *, factor: float = 2.0) -> Any:
        return x, jnp.asarray(factor, jnp.float32) * jnp.arange(3, dtype=jnp.float32)[1:].sum()

    def weak(x: Any, *, factor: float = 2.0) -> Any:
        return x, jnp.asarray(factor) * 3.0

    found = proved(toy(strong, weak=weak), gradients=False)
    (wrong,) = [one for one in found if one.refutes]
    assert (wrong.place.leaf, wrong.proof.refutation) == ("out[1]", "weak type: reference=False, variant=True")


# -- the branch of the target


def elsewhere(x: Any, *, factor: float = 2.0) -> Any:
    return lax.platform_dependent(x, cpu=lambda x: x * (factor + 1), default=lambda x: x * factor)


def only_there(x: Any, *, factor: float = 2.0) -> Any:
    return lax.platform_dependent(x, tpu=lambda x: x * (factor + 1), cuda=lambda x: x - 1, default=lambda x: x * factor)


def test_the_branch_of_the_target_is_proved() -> None:
    pair = toy(elsewhere=elsewhere, only_there=only_there)
    verdicts = {
        platform: {one.place.variant: one.ruling.verdict for one in proved(pair, platform, gradients=False)}
        for platform in (None, "cpu", "tpu", "gpu")
    }
    here = {"elsewhere": "different", "only_there": "proved"}
    assert verdicts[None] == verdicts["cpu"] == here
    assert verdicts["tpu"] == verdicts["gpu"] == {"elsewhere": "proved", "only_there": "different"}


def test_the_target_of_a_command() -> None:
    assert "does not go with 'model'" in samebits("prove", "model", "--platform", "tpu").lines[0]
    ended = samebits("prove", "rms_norm", "--platform", "abacus")
    assert ended.code == 2 and "'abacus' is not one of 'cpu', 'tpu', 'gpu'" in " ".join(ended.lines), ended


# -- accuracy


def plain_sum(x: Any, *, factor: float = 2.0) -> Any:
    return x.sum(1)


def sum_in_bfloat16(x: Any, *, factor: float = 2.0) -> Any:
    return x.astype(jnp.bfloat16).sum(1).astype(x.dtype)


def sum_of_halves(x: Any, *, factor: float = 2.0) -> Any:
    return x[:, ::2].sum(1) + x[:, 1::2].sum(1)


def variance(x: Any, *, factor: float = 2.0) -> Any:
    x = x + 9
    return ((x - x.mean(1, keepdims=True)) ** 2).mean(1)


def difference_of_squares(x: Any, *, factor: float = 2.0) -> Any:
    x = x + 9
    return (x * x).mean(1) - x.mean(1) ** 2


def in_parts(x: Any, *, factor: float = 2.0) -> Any:
    x = x + 9
    return sum(((part - x.mean(1, keepdims=True)) ** 2).sum(1) for part in jnp.split(x, 2, 1)) / x.shape[1]


def product(x: Any, *, factor: float = 2.0) -> Any:
    return jnp.matmul(x, x.T)


def product_of_rounded(x: Any, *, factor: float = 2.0) -> Any:
    return jnp.matmul(lax.reduce_precision(x, 8, 10), x.T)


def transposed(x: Any, *, factor: float = 2.0) -> Any:
    return jnp.einsum("ab,cb->ac", x, x)


LOST = [(plain_sum, sum_in_bfloat16), (variance, difference_of_squares), (product, product_of_rounded)]
KEPT = [(plain_sum, sum_of_halves), (variance, in_parts), (product, transposed)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("reference", "variant"), LOST)
def test_equal_formulas_that_lose_accuracy_miss_the_contract(
    reference: Callable[..., Any], variant: Callable[..., Any]
) -> None:
    (found,) = proved(toy(reference, other=variant), gradients=False)
    assert (found.ruling.verdict, found.ruling.ok) == ("rounding", False)
    assert found.ruling.reason is not None and found.ruling.reason.startswith("accuracy is not decided by proof: ")
    assert exit_code([found]) == 3
    (executed,) = of(run(toy(reference, other=variant), contracts=ROUNDING, gradients=False), variant="other")
    assert (executed.ruling.verdict, executed.ruling.ok) == ("different", False)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("reference", "variant"), KEPT)
def test_another_order_of_adding_reaches_a_contract(reference: Callable[..., Any], variant: Callable[..., Any]) -> None:
    (found,) = proved(toy(reference, other=variant), gradients=False)
    assert (found.ruling.verdict, found.ruling.ok) == ("rounding", True), found.ruling.reason


def test_special_inputs_that_give_nan_miss_the_contract() -> None:
    """At finite inputs both are x; where x is infinite, one is NaN."""

    def same(x: Any, *, factor: float = 2.0) -> Any:
        return x * factor + 0 * x.sum(1, keepdims=True)

    def less(x: Any, *, factor: float = 2.0) -> Any:
        return x * factor

    args = {"x": Arg(shape=("rows", "columns"), spec=("data", "tensor"), special=("inf",))}
    (found,) = proved(toy(less, same=same), args=args, gradients=False)
    assert not found.ruling.ok, found


# -- exemptions, expected errors, nothing compared


def off_by_one(x: Any, *, factor: float = 2.0) -> Any:
    return x * factor + 1


def test_a_known_difference_is_under_its_exemption() -> None:
    known = Exemption(variant="wrong", direction="forward", kind="other", reason="FINDING: one too many, 128 of 128")
    found = proved(toy(wrong=off_by_one), exemptions=(known,))
    assert [(one.place.direction, one.ruling.verdict, one.ruling.ok, one.ruling.exempt) for one in found] == [
        ("forward", "different", True, True),
        ("gradient", "proved", True, False),
    ]
    assert exit_code(found) == 0
    console = Console(file=io.StringIO(), width=200)
    show_blocks(console, [pair_block("toy", found)])
    assert isinstance(console.file, io.StringIO)
    assert "exemption  different 1: a known difference, as declared: FINDING: one too many" in console.file.getvalue()


def test_an_exemption_of_what_is_proved_is_refuted() -> None:
    stale = Exemption(variant="twice", reason="FINDING: was another product once")
    found = proved(toy(), exemptions=(stale,))
    assert {(one.ruling.verdict, one.ruling.ok) for one in found} == {("proved", False)} and exit_code(found) == 1
    assert found[0].ruling.reason is not None and "change or remove it" in found[0].ruling.reason


def test_an_exemption_that_only_execution_shows_is_not_reached() -> None:
    lossy = Exemption(variant="narrow", reason="FINDING: adds in bfloat16, 2e4 times the error")
    (found,) = proved(toy(plain_sum, narrow=sum_in_bfloat16), exemptions=(lossy,), gradients=False)
    assert (found.ruling.verdict, found.ruling.ok, exit_code([found])) == ("rounding", False, 3)
    assert found.ruling.reason == "whether 'different' comes out, as the exemption expects, only execution shows"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("error", "match", "verdict", "code"),
    [("ValueError", "no such factor", "refused", 0), ("ValueError", "other words", "different", 1)],
)
def test_expected_errors_are_raised(error: str, match: str, verdict: str, code: int) -> None:
    def rejects(x: Any, *, factor: float = 2.0) -> Any:
        raise ValueError(f"no such factor: {factor}")

    refusal = Refusal(error=error, match=match, variants=("rejects",))
    case = dataclasses.replace(toy().cases[0], refuses=(refusal,))
    found = proved(toy(rejects=rejects), cases=(case,))
    assert {one.ruling.verdict for one in found} == {verdict} and exit_code(found) == code


def test_what_must_be_rejected_and_gives_a_result_is_different() -> None:
    refusal = Refusal(error="ValueError", match="no such factor", variants=("twice",))
    case = dataclasses.replace(toy().cases[0], refuses=(refusal,))
    found = proved(toy(), cases=(case,))
    assert {one.ruling.verdict for one in found} == {"different"} and exit_code(found) == 1


@pytest.mark.slow
def test_what_compares_nothing_is_an_error_here_too() -> None:
    def zeros(x: Any, *, factor: float = 2.0) -> Any:
        return {"a": x, "b": x * 0}

    def other_zeros(x: Any, *, factor: float = 2.0) -> Any:
        return {"a": x, "b": 0 * x}

    found = proved(toy(zeros, other=other_zeros), gradients=False)
    assert {one.place.leaf: (one.ruling.verdict, one.ruling.ok) for one in found} == {
        "out['a']": ("proved", True),
        "out['b']": ("error", False),
    }
    stopped = proved(toy(lambda x, *, factor=2.0: jax.lax.stop_gradient(x)))
    assert {(one.ruling.verdict, one.ruling.ok) for one in stopped if one.place.direction == "gradient"} == {
        ("error", False)
    }
