"""Verdicts where both sides differ at other integers than those of the case."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from samebits.check.prove_points import prove_points
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.report.words import other_input_notes
from samebits.schema.case import Arg
from samebits.schema.finding import Finding
from samebits.schema.pair import Pair
from samebits.schema.values import Given, Integers
from tests.support.documents import document
from tests.support.toys import of, run, toy


def _rolled(x: Any, step: Any, *, factor: float) -> Any:
    return jnp.where(step % 10 == 0, jnp.roll(x, 1, 0), x)


def _as_it_is(x: Any, step: Any, *, factor: float) -> Any:
    return x


def _by_branch(x: Any, step: Any, *, factor: float) -> Any:
    return jax.lax.cond(step % 10 == 0, lambda x: jnp.concatenate([x[-1:], x[:-1]]), lambda x: x, x)


def _pair(values: Any = None, **sides: Any) -> Pair:
    pair = toy(_rolled, **sides)
    assert not callable(pair.args)
    step = Arg(shape=(), dtype="int32", values=Integers(high=1000) if values is None else values)
    return replace(pair, args={**pair.args, "step": step}, meshes=("none",), gradients=False)


def test_what_moves_at_another_step_is_different() -> None:
    pair = _pair(as_it_is=_as_it_is, by_branch=_by_branch)
    proofs = list(prove_points(pair, Locator(name="toy"), plan(pair, Request(full=True), 8)))
    results: list[Any] = [run(pair), proofs]
    for rows in results:
        (wrong,), (honest,) = ([row for row in rows if row.place.variant == side] for side in pair.variants)
        assert (wrong.place.variant, wrong.ruling.verdict, wrong.ruling.ok) == ("as_it_is", "different", False)
        words = wrong.ruling.evidence if wrong.tool == "check" else wrong.proof.refutation
        assert words is not None and words.startswith("not the same at other inputs: out[0, 0] is ")
        assert words.endswith("here, in float64, with 'step' = 0")
        assert (honest.place.variant, honest.ruling.verdict, honest.ruling.ok) == ("by_branch", "proved", True)


def test_a_proof_by_labels_says_for_which_values_it_is() -> None:
    (honest,) = of(run(_pair(by_branch=_by_branch)), variant="by_branch")
    assert [assumption.text for assumption in honest.proof.assumptions] == ["these values of step"]


@pytest.mark.parametrize("step", [777])
def test_of_a_given_step_the_others_are_a_note(step: int) -> None:
    (given,) = of(run(_pair(Given(array=np.int32(step)), as_it_is=_as_it_is)), variant="as_it_is")
    assert given.ruling.ok and given.ruling.evidence is not None
    assert "not so at other inputs: out[0, 0] is " in given.ruling.evidence
    note, remedy = other_input_notes(document(given).results)
    assert "exactly=" in remedy
    assert note.startswith("toy/as_it_is: forward, out: the same only at inputs like those tried: out[0, 0] is ")


@pytest.mark.parametrize("gradients", [False, True])
def test_witness_extent_and_line_are_of_the_input_that_shows_it(gradients: bool) -> None:
    pair = replace(
        _pair(cosines=lambda x, step, *, factor: jnp.where(step == 0, jnp.cos(x), x)),
        reference=lambda x, step, *, factor: jnp.where(step == 0, jnp.sin(x), x),
        gradients=gradients,
    )
    proofs = list(prove_points(pair, Locator(name="toy"), plan(pair, Request(full=True), 8)))
    rows: list[Finding] = [
        *of(run(pair), variant="cosines"),
        *(proof for proof in proofs if proof.place.variant == "cosines"),
    ]
    for row in rows:
        assert row.ruling.verdict == "different"
        (line,) = row.named.lines
        assert "jnp.cos(x)" in str(line) and "jnp.sin(x)" in str(line)
        if row.tool == "check":
            seen = row.comparison
            assert seen.witness is not None and seen.witness.input == "'step' = 0" and seen.kind == "other"
            assert seen.mismatches == seen.elements and seen.picture is not None


def test_a_proof_says_where_it_does_not_hold() -> None:
    pair = _pair(Given(array=np.int32(777)), as_it_is=_as_it_is)
    (proof,) = (
        p
        for p in prove_points(pair, Locator(name="toy"), plan(pair, Request(full=True), 8))
        if p.place.variant != pair.reference_name
    )
    (note,) = (assumption.counterexample for assumption in proof.proof.assumptions if assumption.counterexample)
    assert note.endswith("with 'step' = 0")
