"""Every honest rewrite is proved equal, and every planted mathematical fault is found, in bfloat16.

The specimens are in `harness/tests/prove/mathematics/`; `python -m tests.prove.mathematics.tolerance` prints which of
the faults the usual tolerance of bfloat16 lets through.
"""

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from samebits.check.prove_points import prove_points
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.schema.finding import Finding
from samebits.schema.pair import Pair
from tests.prove import mathematics
from tests.prove.mathematics.specimen import Specimen
from tests.support.toys import run

SLOW = ("decoder", "train_step")
"""Whole layers and steps: their proofs take seconds to a minute each."""

QUICK = 2
"""How many faults of a specimen are proved, and of one specimen executed, in every run of the tests."""

LAWS = "the fields do not know every law of the functions in it"


def _params(which: Callable[[Specimen], Any], slow: bool) -> list[Any]:
    return [
        pytest.param(specimen, name, id=f"{specimen.pair.name.removeprefix('mathematics_')}-{name}")
        for specimen in mathematics.ALL
        if any(word in specimen.pair.name for word in SLOW) == slow
        for name in which(specimen)
    ]


def _honest(specimen: Specimen) -> Any:
    return specimen.rewrites


def _faults(specimen: Specimen) -> Any:
    return specimen.faults


def prove(pair: Pair, variant: str, cases: int | None = 1) -> Iterator[Finding]:
    """What is proved of a variant in bfloat16, on the first cases, point by point."""
    chosen = tuple(case.id for case in pair.cases[:cases])
    request = Request(variants=(variant,), cases=chosen, dtypes=("bfloat16",), full=True)
    return prove_points(pair, Locator(name=pair.name), plan(pair, request, 1))


def no_refutation(specimen: Specimen, name: str) -> None:
    """Nothing is refuted, and something is shown; what the fields cannot tell is only for want of a law."""
    found = list(prove(specimen.pair, name))
    assert not [one.proof.refutation for one in found if one.ruling.verdict == "different"]
    undecided = {one.ruling.reason for one in found if one.ruling.verdict == "error"}
    assert undecided <= {LAWS}, undecided
    assert all((one.proof.log2_error or 0) <= -60 for one in found if one.ruling.verdict == "rounding")


def refuted(specimen: Specimen, name: str) -> None:
    """Some leaf of some case is not the same formula, with a witness."""
    for cases in (1, None):
        wrong = next(
            (proof for proof in prove(specimen.faulty, name, cases) if proof.ruling.verdict == "different"), None
        )
        if wrong is not None:
            assert wrong.proof.refutation
            return
    raise AssertionError(f"the fault '{name}' of {specimen.pair.name} is not refuted by proof")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("specimen", "name"), _params(_honest, slow=False))
def test_an_honest_rewrite_is_not_refuted(specimen: Specimen, name: str) -> None:
    no_refutation(specimen, name)


def _first_of_each(faults: list[Any]) -> list[Any]:
    """The first faults of every specimen in the normal run, the others in the slow one."""
    seen: Counter[str] = Counter()
    marked = []
    for fault in faults:
        name = fault.values[0].pair.name
        marked.append(pytest.param(*fault.values, id=fault.id, marks=[pytest.mark.slow] * (seen[name] >= QUICK)))
        seen[name] += 1
    return marked


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("specimen", "name"), _first_of_each(_params(_faults, slow=False)))
def test_a_fault_is_refuted(specimen: Specimen, name: str) -> None:
    refuted(specimen, name)


@pytest.mark.slow
@pytest.mark.parametrize(("specimen", "name"), _params(_honest, slow=True))
def test_an_honest_layer_is_not_refuted(specimen: Specimen, name: str) -> None:
    no_refutation(specimen, name)


@pytest.mark.slow
@pytest.mark.parametrize(("specimen", "name"), _params(_faults, slow=True))
def test_a_fault_in_a_layer_is_refuted(specimen: Specimen, name: str) -> None:
    refuted(specimen, name)


def test_there_are_enough_faults() -> None:
    assert sum(len(specimen.faults) for specimen in mathematics.ALL) >= 45


# The whole ladder: executed and judged, as `samebits check` does.


@functools.cache
def _checked(name: str, faulty: bool, most: int | None, case: int = 0, only: str | None = None) -> list[Finding]:
    specimen = next(one for one in mathematics.ALL if one.pair.name == name)
    pair = specimen.faulty if faulty else specimen.pair
    chosen = list(_faults(specimen) if faulty else _honest(specimen))[:most]
    assert isinstance(pair.variants, Mapping)
    chosen = chosen if only is None else [only]
    variants = {side: function for side, function in pair.variants.items() if side in chosen}
    return run(dataclasses.replace(pair, variants=variants, dtypes=("bfloat16",), cases=pair.cases[case : case + 1]))


def _checks(which: Callable[[Specimen], Any], most: int | None) -> list[Any]:
    """A few of one specimen in every run of the tests, all of all in the slow one: the ladder takes a minute each."""
    chosen = _params(which, slow=False)
    if most is not None:
        chosen = [param for param in chosen if param.values[0].pair.name == "mathematics_rms_norm"][:most]
    # All rewrites of a specimen are one run: on one worker it is made once.
    return [
        pytest.param(
            *p.values, id=p.id, marks=(*p.marks, pytest.mark.xdist_group(f"mathematics-{p.values[0].pair.name}"))
        )
        for p in chosen
    ]


def honest_holds(specimen: Specimen, name: str, most: int | None = None) -> None:
    """A contract may ask more accuracy of a rewrite than it has; but it is the same mathematics."""
    found = [r for r in _checked(specimen.pair.name, False, most) if r.place.variant == name]
    wrong = [r for r in found if r.ruling.verdict not in ("proved", "bitwise", "rounding")]
    assert found
    assert all("loses accuracy" in str(r.ruling.evidence) for r in wrong), [r.ruling.evidence for r in wrong]


def fault_is_different(specimen: Specimen, name: str, most: int | None = None) -> None:
    """At least one leaf is `different` in one of the cases: to clip always is right in the first one."""
    found = [r for r in _checked(specimen.pair.name, True, most) if r.place.variant == name]
    for case in range(1, len(specimen.faulty.cases)):
        if not any(r.ruling.verdict == "different" for r in found):
            found = _checked(specimen.pair.name, True, None, case, name)
    assert any(r.ruling.verdict == "different" for r in found), [
        (r.place.direction, r.place.leaf, r.ruling.verdict) for r in found
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("specimen", "name"), _checks(_honest, QUICK))
def test_an_honest_rewrite_passes_the_ladder(specimen: Specimen, name: str) -> None:
    honest_holds(specimen, name, QUICK)


@pytest.mark.parametrize(("specimen", "name"), _checks(_faults, QUICK))
def test_a_fault_is_different(specimen: Specimen, name: str) -> None:
    fault_is_different(specimen, name, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize(("specimen", "name"), _checks(_honest, None))
def test_every_honest_rewrite_passes_the_ladder(specimen: Specimen, name: str) -> None:
    honest_holds(specimen, name)


@pytest.mark.slow
@pytest.mark.parametrize(("specimen", "name"), _checks(_faults, None))
def test_every_fault_is_different(specimen: Specimen, name: str) -> None:
    fault_is_different(specimen, name)
