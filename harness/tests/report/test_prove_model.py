"""The page of proofs of training steps: what is refuted first, at most 60 lines of Markdown and 40 of a screen."""

from samebits.report.html.sections import section_of
from samebits.report.markdown import LINES as MARKDOWN_LINES
from samebits.report.prove_model import LEAVES
from samebits.report.terminal import LINES
from tests.support.evidence_documents import PROBLEM, step_leaf, steps
from tests.support.hostile import require_escaped
from tests.support.pages import markdown, screen

REFUTED = [
    step_leaf(config=f"m/c{n}", verdict="different", witness="loss[] is 2.0 in the reference, 3.0 here", replay="again")
    for n in range(60)
]


def test_nothing_of_a_document_is_markup() -> None:
    bad = step_leaf(leaf="gradients/w", verdict="different", witness="w[0] is 1 and 2", reason="a sum is missing")
    require_escaped(steps(step_leaf(), bad, step_leaf(config="dense", defect="epsilon"), problems=[PROBLEM]))


def test_many_steps_take_sixty_lines_at_most() -> None:
    text = markdown(steps(*REFUTED, step_leaf()))
    assert len(text.splitlines()) <= MARKDOWN_LINES
    assert text.startswith("### samebits prove model: refuted\n")
    assert "1. **toy/moe=ring: 60 of 61 outputs: refuted**" in text


def test_steps_with_one_leaf_are_one_group() -> None:
    undecided = step_leaf(config="m/d", verdict="error", reason="no rule")
    first, second = steps(undecided, *REFUTED).page().failing
    assert first.title.endswith("60 of 61 outputs: refuted") and second.title.endswith("1 of 61 outputs: not proved")
    assert first.next_command == "again"


def test_the_screen_holds_them() -> None:
    lines = screen(steps(*REFUTED, problems=[PROBLEM]), width=250)
    assert len(lines) <= LINES and lines[-1] == "next: again"
    assert "broken: its file does not import" in lines
    whole = screen(steps(*REFUTED), width=250, verbose=True)
    assert "m/c59, mesh data2 (auto), loss: loss[] is 2.0 in the reference, 3.0 here" in whole


def test_a_refuted_output_is_the_headline() -> None:
    bad = step_leaf(config="bad", leaf="gradients/w", verdict="different", witness="w[0] is 1 and 2", replay="again")
    page = steps(step_leaf(), bad).page()
    assert page.state == "failed"
    assert page.headline.startswith("toy/moe=ring: 1 of 2 outputs: refuted; first bad, mesh data2 (auto), gradients")
    assert page.next == "again"
    body = section_of(steps(step_leaf(), bad)).body
    assert body.index("bad on data2") < body.index("ring on data2")


def test_an_undecided_output_is_incomplete() -> None:
    page = steps(step_leaf(verdict="error", reason="a near tie", replay="")).page()
    assert (page.state, page.next) == ("incomplete", None)
    assert page.headline.endswith(
        "1 of 1 output: not proved; first ring, mesh data2 (auto), loss: a near tie; neither shown nor refuted"
    )


def test_a_step_that_is_proved_has_passed() -> None:
    page = steps(step_leaf(), step_leaf(leaf="gradients/w")).page()
    assert (page.state, page.word, page.next) == ("passed", "proved", None)
    assert page.headline == "2 leaves: the same formula 2; 2.0 s; proved mathematics: 1 of 1 step"


def test_nothing_proved_is_not_a_pass() -> None:
    assert steps().page().state == "incomplete"
    assert steps(problems=[PROBLEM]).page().headline == "1 problem: broken: its file does not import"


def test_many_outputs_of_a_step_are_counted() -> None:
    many = [step_leaf(leaf=f"parameters/{number}") for number in range(LEAVES + 2)]
    body = section_of(steps(*many, step_leaf(leaf="the_bad_one", verdict="different", witness="w"))).body
    assert "3 more in the JSON document" in body
    assert "<td>the_bad_one</td>" in body
