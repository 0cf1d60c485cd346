"""`prove` and `check` never contradict each other, and a planted contradiction is found."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import pytest
from jax import lax

from samebits.check.prove_points import prove_points
from samebits.check.run_points import run_points
from samebits.programs.catalogue import Locator, load, names
from samebits.programs.plan import Request, plan
from samebits.programs.program_cache import Programs
from samebits.schema.case import Arg
from samebits.schema.contract import Contract, Exemption
from samebits.schema.domain import Domain
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from samebits.schema.pair import Pair
from samebits.sizes.points import prove_sizes, sized_points
from tests.check import test_prove_points as contract
from tests.support.agreement import contradictions
from tests.support.child import ROOT
from tests.support.findings import finding
from tests.support.toys import double, toy, twice

WHERE: dict[str, Any] = {
    "pair": "toy",
    "variant": "twice",
    "case": "small",
    "dtype": "float32",
    "mesh": "data4",
    "mode": "auto",
    "direction": "forward",
    "leaf": "out",
}


def both(pair: Pair, request: Request, locator: Locator | None = None) -> tuple[list[Finding], list[Finding]]:
    """What `prove` and `check` say of the same points."""
    chosen, locator = plan(pair, request, 8), locator or Locator(name=pair.name)
    programs = Programs(threads=1)
    try:
        results = list(run_points(pair, locator, chosen.points, programs))
    finally:
        programs.close()
    return list(prove_points(pair, locator, chosen)), results


# -- planted contradictions


def proof(verdict: Any, ok: bool, **more: Any) -> Finding:
    return finding(**WHERE, verdict=verdict, ok=ok, required="rounding", **more)


def result(verdict: Any, ok: bool, **more: Any) -> Finding:
    return finding(**{**WHERE, **more}, verdict=verdict, ok=ok, required="rounding")


PLANTED = [
    (proof("proved", True), result("different", False)),
    (proof("proved", True), result("rounding", True)),
    (proof("proved", True), result("unstable", False)),
    (proof("proved", False), result("different", True)),
    (proof("rounding", True), result("different", False, evidence="loses accuracy: 20x")),
    (proof("rounding", False), result("different", False, evidence="not the same mathematics: out[0] is 1.0 and 2.0")),
    (proof("rounding", False), result("different", False, evidence="not rounding: in float64 the sides differ")),
    (proof("proved", False, unkept=("no_negative_zero=x",), reason="holds for: no -0.0 in x"), result("bitwise", True)),
    (proof("different", False, witness="out[0]"), result("bitwise", True)),
    (proof("different", False, witness="out[0]"), result("rounding", True)),
    (proof("different", True, exempt=True, witness="out[0]"), result("bitwise", False)),
    (proof("different", False, witness="out[0]"), result("different", True)),
    (proof("refused", True), result("bitwise", True)),
    (proof("rounding", False), result("refused", True)),
    (proof("proved", True), result("different", False, leaf="out (replica 1 of 4)")),
]

HONEST = [
    (proof("proved", True), result("bitwise", True)),
    (proof("proved", False, unkept=("no_negative_zero=x",)), result("different", False)),
    (proof("rounding", True), result("bitwise", True)),
    (proof("rounding", False), result("different", False, evidence="loses accuracy: 20x")),
    (proof("different", False), result("different", False)),
    (proof("different", True, exempt=True), result("different", True)),
    (proof("error", False), result("different", False)),
    (proof("error", False), result("bitwise", True)),
    (proof("proved", True), result("error", False)),
    (proof("proved", True), result("skipped", False)),
    (proof("refused", True), result("refused", True)),
    (proof("proved", True), result("different", False, leaf="out[1]")),
    (proof("proved", True), result("different", False, mesh="data8")),
]


@pytest.mark.parametrize(("argument", "executed"), PLANTED)
def test_a_planted_contradiction_is_found(argument: Finding, executed: Finding) -> None:
    assert len(contradictions([argument], [executed])) == 1


@pytest.mark.parametrize(("argument", "executed"), HONEST)
def test_what_does_not_contradict_is_not_called_so(argument: Finding, executed: Finding) -> None:
    assert contradictions([argument], [executed]) == []


# -- pairs


def nan_for_infinity(x: Any, *, factor: float = 2.0) -> Any:
    return x * factor + 0 * x


def branch_of_a_cpu(x: Any, *, factor: float = 2.0) -> Any:
    return lax.platform_dependent(x, cpu=lambda x: x * (factor + 1), default=lambda x: x * factor)


def with_a_zero(x: Any, *, factor: float = 2.0) -> Any:
    return double(x, factor=factor) + 0.0


TOYS: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    *contract.LOST,
    *contract.KEPT,
    (double, twice),
    (double, branch_of_a_cpu),
    (double, nan_for_infinity),
    (double, contract.off_by_one),
    (contract.times, contract.in_a_tuple),
    (contract.times, contract.another_dtype),
    (contract.times, contract.another_shape),
    (lambda x, *, factor=2.0: jnp.argmax(x, 1), lambda x, *, factor=2.0: jnp.argmax(factor * x, 1)),
    (lambda x, *, factor=2.0: x * 0, lambda x, *, factor=2.0: 0 * x),
]


SPECIAL = {"x": Arg(shape=("rows", "columns"), spec=("data", "tensor"), special=("inf", "nan", "-0.0", "largest"))}


def test_a_zero_that_xla_does_not_add_is_the_one_disagreement() -> None:
    """As written -0.0 becomes 0.0, which `prove` says and the contract excludes; XLA:CPU leaves the addition out."""
    pair = dataclasses.replace(
        toy(double, other=with_a_zero), contracts=(Contract(lowest="bitwise"),), gradients=False, args=SPECIAL
    )
    arguments, results = both(pair, Request(full=True))
    (conflict,) = contradictions(arguments, results)
    assert "holds for: no -0.0" in conflict and "check says bitwise" in conflict
    stated = Contract(lowest="bitwise", domain=Domain(no_negative_zero=("x", "mul of x")))
    assert contradictions(*both(dataclasses.replace(pair, contracts=(stated,)), Request(full=True))) == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", range(len(TOYS)))
@pytest.mark.parametrize("lowest", ["bitwise", "rounding"])
def test_toys_do_not_contradict(number: int, lowest: Any) -> None:
    reference, variant = TOYS[number]
    reason = "for the sake of the test" if lowest == "rounding" else None
    pair = dataclasses.replace(
        toy(reference, other=variant),
        contracts=(Contract(lowest=lowest, reason=reason),),
        gradients=False,
        args=SPECIAL,
    )
    assert contradictions(*both(pair, Request(full=True))) == []


@pytest.mark.slow
def test_an_exemption_does_not_contradict() -> None:
    known = Exemption(variant="wrong", direction="forward", kind="other", reason="FINDING: one too many")
    pair = dataclasses.replace(toy(wrong=contract.off_by_one), exemptions=(known,))
    arguments, results = both(pair, Request(full=True))
    assert contradictions(arguments, results) == []
    assert [one.ruling.ok for one in arguments] == [one.ruling.ok for one in results]


FEW = {
    "an exemption's inputs leave the domain of a proof": (
        "embedding",
        Request(variants=("gather",), cases=("infinity",), dtypes=("float32",), meshes=("data8",)),
    ),
    "a gather that the partitioner compiles to a sum": (
        "sequence_reorder",
        Request(cases=("tokens_undo",), dtypes=("float32",), meshes=("context2",), directions=("forward",)),
    ),
    "one in axes that are left to the partitioner": (
        "sequence_reorder",
        Request(
            variants=("gather",),
            cases=("cp_off_mesh",),
            dtypes=("bfloat16",),
            meshes=("context4",),
            modes=("explicit",),
            directions=("forward",),
        ),
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", FEW)
def test_a_few_points_of_the_pairs_do_not_contradict(what: str) -> None:
    name, request = FEW[what]
    locator = Locator(name=name)
    assert contradictions(*both(load(locator), request, locator)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", names(ROOT))
def test_no_point_of_the_default_sweep_contradicts(name: str) -> None:
    locator = Locator(name=name)
    assert contradictions(*both(load(locator), Request(), locator)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", names(ROOT))
def test_no_compiled_program_that_differs_is_proved(name: str) -> None:
    """What the CPU's compiler makes of every side on a mesh, proved and executed beside what was written.

    A cast that a compiler adds keeps no payload of a NaN as it is proved, and does as it is executed: that is said.
    """
    counts = {MeshSpec.parse(mesh).devices for mesh in load(Locator(name=name)).meshes} - {1}
    if not counts:
        pytest.skip("its programs are not partitioned")
    locator = Locator(name=name, target=f"cpu:{min(counts)}")
    arguments, results = both(load(locator), Request(), locator)
    assert arguments and results
    assert [each for each in contradictions(arguments, results) if "check says different" in each] == []


def for_all_sizes(name: str, request: Request) -> list[str]:
    """What `prove --all-sizes` and `check` cannot both be right in, over the points that both cover."""
    locator = Locator(name=name)
    pair = load(locator)
    chosen = plan(pair, request, 8)
    points = sized_points(pair, chosen.points)
    programs = Programs(threads=1)
    try:
        results = list(run_points(pair, locator, points, programs))
    finally:
        programs.close()
    arguments = list(prove_sizes(pair, locator, chosen))
    assert arguments and results
    return contradictions(arguments, results)


@pytest.mark.slow
def test_conditions_for_all_sizes_deny_no_other_contract() -> None:
    """With fewer devices a sum needs other cotangents than the mesh of the case does."""
    asked = Request(cases=("state_io_update",), dtypes=("bfloat16",), meshes=("stage4",), directions=("gradient",))
    assert for_all_sizes("stage_rotation", asked) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", names(ROOT))
def test_all_sizes_and_the_default_sweep_agree(name: str) -> None:
    assert for_all_sizes(name, Request()) == []
