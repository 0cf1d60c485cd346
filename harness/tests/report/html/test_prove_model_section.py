"""The section of proofs of training steps: the step that is not the references' formula first."""

from __future__ import annotations

from samebits.report.html.prove_model_section import LEAVES, prove_model_section
from tests.support.evidence_documents import PROBLEM, step_leaf, steps
from tests.support.hostile import require_escaped


def test_nothing_of_a_document_is_markup() -> None:
    bad = step_leaf(leaf="gradients/w", verdict="different", witness="w[0] is 1 and 2", reason="a sum is missing")
    require_escaped(steps(step_leaf(), bad, step_leaf(config="dense", defect="epsilon"), problems=[PROBLEM]))


def test_a_refuted_output_is_the_headline() -> None:
    bad = step_leaf(config="bad", leaf="gradients/w", verdict="different", witness="w[0] is 1 and 2", replay="again")
    section = prove_model_section(steps(step_leaf(), bad))
    assert section.state == "failed"
    assert section.headline == ("1 of 2 steps not proved; first bad on data2: gradients/w is refuted: w[0] is 1 and 2")
    assert section.next_command == "again"
    assert section.body.index("bad on data2") < section.body.index("ring on data2")


def test_an_undecided_output_is_incomplete() -> None:
    section = prove_model_section(steps(step_leaf(verdict="error", reason="a near tie", replay="")))
    assert (section.state, section.next_command) == ("incomplete", None)
    assert section.headline.endswith("loss is undecided: a near tie")


def test_a_step_that_is_proved_has_passed() -> None:
    section = prove_model_section(steps(step_leaf(), step_leaf(leaf="gradients/w")))
    assert (section.state, section.next_command) == ("passed", None)
    assert section.headline == "2 leaves: the same formula 2; 2.0 s; proved mathematics: 1 of 1 step"


def test_nothing_proved_is_not_a_pass() -> None:
    assert prove_model_section(steps()).state == "incomplete"
    assert prove_model_section(steps(problems=[PROBLEM])).headline == "broken: its file does not import"


def test_many_outputs_of_a_step_are_counted() -> None:
    many = [step_leaf(leaf=f"parameters/{number}") for number in range(LEAVES + 2)]
    section = prove_model_section(steps(*many, step_leaf(leaf="the_bad_one", verdict="different", witness="w")))
    assert "3 more in the JSON document" in section.body
    assert '<td class="mono">the_bad_one</td>' in section.body
