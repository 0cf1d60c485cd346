"""Every honest rewrite is proved equal, and every planted mathematical fault is found, in bfloat16."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
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
"""How many faults of a specimen are proved, and of RMSNorm executed, in every run of the tests."""

LAWS = "the fields do not know every law of the functions in it"

RMS_NORM = "mathematics_rms_norm"


def _params(faulty: bool) -> list[Any]:
    """Every rewrite or fault of every specimen; slow are those of whole layers, and faults beyond the first."""
    params = []
    for specimen in mathematics.ALL:
        whole = any(word in specimen.pair.name for word in SLOW)
        for number, name in enumerate(specimen.faults if faulty else specimen.rewrites):
            marks = [pytest.mark.slow] if whole or (faulty and number >= QUICK) else []
            params.append(pytest.param(specimen, name, id=_id(specimen, name), marks=marks))
    return params


def _id(specimen: Specimen, name: str) -> str:
    return f"{specimen.pair.name.removeprefix('mathematics_')}-{name}"


def prove(pair: Pair, variant: str, cases: int | None = 1) -> Iterator[Finding]:
    """What is proved of a variant in bfloat16, on the first cases, point by point."""
    chosen = tuple(case.id for case in pair.cases[:cases])
    request = Request(variants=(variant,), cases=chosen, dtypes=("bfloat16",), full=True)
    return prove_points(pair, Locator(name=pair.name), plan(pair, request, 1))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("specimen", "name"), _params(faulty=False))
def test_an_honest_rewrite_is_not_refuted(specimen: Specimen, name: str) -> None:
    """Nothing is refuted, and something is shown; what the fields cannot tell is only for want of a law."""
    found = list(prove(specimen.pair, name))
    assert not [one.proof.refutation for one in found if one.ruling.verdict == "different"]
    undecided = {one.ruling.reason for one in found if one.ruling.verdict == "error"}
    assert undecided <= {LAWS}, undecided
    assert all((one.proof.log2_error or 0) <= -60 for one in found if one.ruling.verdict == "rounding")


@pytest.mark.sampled(9)
@pytest.mark.parametrize(("specimen", "name"), _params(faulty=True))
def test_a_fault_is_refuted(specimen: Specimen, name: str) -> None:
    """Some leaf of some case is not the same formula, with a witness."""
    for cases in (1, None):
        proofs = prove(specimen.faulty, name, cases)
        wrong = next((proof for proof in proofs if proof.ruling.verdict == "different"), None)
        if wrong is not None:
            assert wrong.proof.refutation
            return
    raise AssertionError(f"the fault '{name}' of {specimen.pair.name} is not refuted by proof")


def test_there_are_enough_faults() -> None:
    assert sum(len(specimen.faults) for specimen in mathematics.ALL) >= 45


# The whole ladder: executed and judged, as `samebits check` does.


@functools.cache
def _checked(name: str, faulty: bool, chosen: tuple[str, ...], case: int = 0) -> list[Finding]:
    specimen = next(one for one in mathematics.ALL if one.pair.name == name)
    pair = specimen.faulty if faulty else specimen.pair
    assert isinstance(pair.variants, Mapping)
    variants = {side: function for side, function in pair.variants.items() if side in chosen}
    return run(dataclasses.replace(pair, variants=variants, dtypes=("bfloat16",), cases=pair.cases[case : case + 1]))


def _checks(faulty: bool) -> list[Any]:
    """What is executed; all but two faults of RMSNorm in the slow tests, since the ladder takes a minute each.

    All rewrites of a specimen are one run: on one worker it is made once.
    """
    params = []
    for specimen in mathematics.ALL:
        if any(word in specimen.pair.name for word in SLOW):
            continue
        names = tuple(specimen.faults if faulty else specimen.rewrites)
        for number, name in enumerate(names):
            quick = faulty and specimen.pair.name == RMS_NORM and number < QUICK
            marks = [] if quick else [pytest.mark.slow]
            marks.append(pytest.mark.xdist_group(f"mathematics-{specimen.pair.name}"))
            together = names[:QUICK] if quick else names
            params.append(pytest.param(specimen, name, together, id=_id(specimen, name), marks=marks))
    return params


@pytest.mark.parametrize(("specimen", "name", "together"), _checks(faulty=False))
def test_an_honest_rewrite_passes_the_ladder(specimen: Specimen, name: str, together: tuple[str, ...]) -> None:
    """A contract may ask more accuracy of a rewrite than it has; but it is the same mathematics."""
    found = [r for r in _checked(specimen.pair.name, False, together) if r.place.variant == name]
    wrong = [r for r in found if r.ruling.verdict not in ("proved", "bitwise", "rounding")]
    assert found
    assert all("loses accuracy" in str(r.ruling.evidence) for r in wrong), [r.ruling.evidence for r in wrong]


@pytest.mark.parametrize(("specimen", "name", "together"), _checks(faulty=True))
def test_a_fault_is_different(specimen: Specimen, name: str, together: tuple[str, ...]) -> None:
    """At least one leaf is `different` in one of the cases: to clip always is right in the first one."""
    found = [r for r in _checked(specimen.pair.name, True, together) if r.place.variant == name]
    for case in range(1, len(specimen.faulty.cases)):
        if not any(r.ruling.verdict == "different" for r in found):
            found = _checked(specimen.pair.name, True, (name,), case)
    assert any(r.ruling.verdict == "different" for r in found), [
        (r.place.direction, r.place.leaf, r.ruling.verdict) for r in found
    ]
