"""The pages of proofs: what is refuted or not proved first, at most 40 lines of a screen and 60 of Markdown."""

from typing import Any

import pytest

from samebits.report.html.sections import section_of
from samebits.report.markdown import LINES as MARKDOWN_LINES
from samebits.report.prove import LEAVES
from samebits.report.prove_model import LEAVES as OUTPUTS
from samebits.report.terminal import LINES, height
from samebits.schema.all_sizes import SizesShown
from samebits.schema.assumption import Assumption
from samebits.schema.finding import Finding
from tests.support.evidence_documents import PROBLEM, proof, proofs, refuted, step_leaf, steps
from tests.support.pages import markdown, screen

MANY_LEAVES = [proof(leaf=f"l{n}", case=f"c{n}") for n in range(50)]
MANY_PAIRS = [proof(pair=f"p{n}") for n in range(60)]
MANY_REFUTED = [refuted(pair=f"p{n}", variant="fast", lines=(), reason=f"{'why ' * 90}{'x' * n}") for n in range(60)]
HINT = proofs().page().hint


@pytest.mark.parametrize("rows", [MANY_LEAVES, MANY_PAIRS, MANY_REFUTED, [*MANY_LEAVES, *MANY_REFUTED]])
@pytest.mark.parametrize("width", [80, 140])
def test_it_fits_on_a_screen(rows: list, width: int) -> None:  # type: ignore[type-arg]
    lines = screen(proofs(*rows, notes=tuple(f"note {n}" for n in range(30))), width=width)
    assert sum(height(line, width) for line in lines) <= LINES
    assert HINT in lines


def test_a_failure_is_explained_with_the_next_command() -> None:
    lines = screen(proofs(*MANY_LEAVES, *MANY_REFUTED, refuted(variant="einsum")))
    assert any(line.startswith("FAILED  ") for line in lines)
    assert lines[-1].startswith("next: samebits prove ")
    assert any(line.startswith("  likely    ") for line in lines)


def test_few_proofs_are_shown_with_their_arguments() -> None:
    lines = screen(proofs(proof()))
    assert any(line.startswith("    assumes    ") for line in lines) and HINT not in lines


def test_verbose_proofs_were_shown_before() -> None:
    (line,) = screen(proofs(*MANY_LEAVES), verbose=True, live=True)
    assert line.startswith("50 leaves: same formulas 50")


def test_what_other_values_could_break_is_counted_first() -> None:
    taken = Assumption("values", "the table is finite", "it holds infinities")
    document = proofs(proof(assumptions=(taken,)), notes=tuple(f"note {n}" for n in range(9)))
    said = "1 of 1 results hold under assumptions that other values could break (values 1)"
    assert any(line.startswith(said) for line in screen(document)) and f"- {said}" in markdown(document)
    assert "and 7 more notes; --json FILE has all" in screen(document)


def of_all_sizes(kept: int | None, **given: Any) -> Finding:
    family = SizesShown(shapes={"x": "float32[rows]"}, kept={} if kept is None else {"heads": kept}, why_kept="range()")
    return proof(method="all sizes", family=family, sizes="all", log2_error=None, **given)


def test_sizes_that_stay_as_declared_are_in_the_title() -> None:
    lines = screen(proofs(of_all_sizes(4), of_all_sizes(None, case="large")))
    assert "  multiply, out: SAME FORMULAS FOR ALL SIZES WITH heads=4: only rounding can differ" in lines
    assert "  multiply, out: SAME FORMULAS FOR ALL SIZES: only rounding can differ" in lines
    assert any("x float32[rows]; heads=4 alone (range()); " in line for line in lines)


def test_counted_proofs_do_not_hide_that_sizes_stay_as_declared() -> None:
    many = [of_all_sizes(n % 3 or None, case=f"c{n}", leaf=f"l{n}") for n in range(90)]
    (counted,) = (line for line in screen(proofs(*many)) if line.startswith("norm: "))
    assert "same formulas for all sizes (some as declared) 60" in counted
    assert "same formulas for all sizes 30" in counted


def test_many_failures_take_sixty_lines_of_markdown_at_most() -> None:
    wrong = [refuted(pair=f"p{n}", variant="fast", lines=(), reason=f"why{'y' * n}") for n in range(80)]
    text = markdown(proofs(*wrong, *(proof(pair=f"q{n}") for n in range(80)), problems=[PROBLEM]))
    assert len(text.splitlines()) <= MARKDOWN_LINES
    assert text.startswith("### samebits prove: failed\n")
    assert "<details><summary>75 more groups</summary>" in text
    assert "problem:" in text
    assert "<script>" not in markdown(proofs(refuted(variant="<script>", witness="<img>", lines=())))


def test_a_row_says_what_was_shown() -> None:
    text = markdown(proofs(proof(), proof(case="large")))
    assert "| norm | multiply | out | same formulas | 2 x small large; float32; data2; " in text
    assert "| rounding 2 | yes | 2^" in text


def test_a_refuted_leaf_is_the_headline() -> None:
    wrong = refuted(variant="einsum", direction="gradient", leaf="x", replay="samebits prove norm --variant einsum")
    section = section_of(proofs(proof(), proof(case="large"), wrong))
    assert section.page.state == "failed"
    assert section.page.headline.startswith(
        "norm/einsum: 1 of 1 leaf: refuted (gradient of x; small; float32; data2); the right elements in the wrong "
        "order, a permutation: optimized_impls/norm.py:4 has `x[::-1]`"
    )
    assert section.page.next == "samebits prove norm --variant einsum"
    assert section.body.index("norm/einsum") < section.body.index("norm/multiply"), "what is refuted comes first"
    assert section.body.count("<details open>") == 1, "and it is unfolded"
    two = section_of(proofs(wrong, refuted(leaf="aux"), proof()))
    assert two.body.count("<details open>") == 1, "of several only the first"
    assert section_of(proofs(proof())).body.count("<details open>") == 0


def test_what_is_not_proved_is_to_be_checked() -> None:
    page = proofs(proof(), proof(leaf="aux", verdict="error", ok=False, reason="sort has no rule")).page()
    assert (page.state, page.next) == ("incomplete", "samebits check norm --variant multiply --case small")
    assert page.headline.startswith("norm/multiply: 1 of 2 leaves: not proved")
    assert page.headline.endswith("sort has no rule")


def test_proofs_that_hold_need_nothing() -> None:
    document = proofs(proof(), proof(verdict="proved", method="labels"))
    page = document.page()
    assert (page.state, page.next, page.failing) == ("passed", None, [])
    assert page.headline == "2 leaves: proved 1, same formulas 1; 1.5 s; every leaf reaches its contract by proof"
    body = section_of(document).body
    assert "a program branches on its shapes" in body and "2^-80" in body


def test_no_proof_is_not_a_pass() -> None:
    assert proofs().page().state == "incomplete"
    broken = proofs(problems=[PROBLEM]).page()
    assert (broken.state, broken.headline) == ("incomplete", "1 problem: broken: its file does not import")
    assert proofs(proof(), interrupted=True).page().state == "incomplete"


def test_many_leaves_of_a_kind_are_counted() -> None:
    many = [proof(case=f"case{number}") for number in range(LEAVES + 5)]
    assert "5 more in the JSON document" in section_of(proofs(*many, refuted(case="last"))).body
    short = section_of(proofs(*many, proof(case="the_bad_case", ok=False, reason="no")))
    assert "<td>the_bad_case</td>" in short.body, "what does not reach its contract is never left out"


def test_one_line_is_one_group() -> None:
    wrong = [refuted(variant=side, leaf=leaf) for side in ("einsum", "fast") for leaf in ("out", "aux")]
    unnamed = refuted(variant="einsum", leaf="late", lines=())
    (group,) = proofs(proof(), *wrong, unnamed).page().failing
    assert group.title == "norm (einsum, fast): 5 of 5 leaves: refuted"
    assert group.likely.startswith(
        "the right elements in the wrong order, a permutation: optimized_impls/norm.py:4 has `x[::-1]`"
    )
    assert group.where.startswith("out, aux, late; small; float32; data2")


def test_what_is_refuted_comes_first() -> None:
    undecided = [proof(leaf=f"l{n}", verdict="error", ok=False, reason=f"sort has no rule at {n}") for n in range(3)]
    first, second = proofs(*undecided, refuted(variant="einsum")).page().failing
    assert first.title == "norm/einsum: 1 of 1 leaf: refuted"
    assert second.title == "norm/multiply: 3 of 3 leaves: not proved"
    assert second.likely == "sort has no rule at 0"


def test_what_proof_cannot_tell_is_to_be_checked() -> None:
    undecided = proof(verdict="error", ok=False, reason="why", replay="samebits prove norm --case small")
    (group,) = proofs(undecided).page().failing
    assert group.next_command == "samebits check norm --case small"
    alone = proof(verdict="error", ok=False, reason="why", replay="samebits prove norm --no-assumptions")
    (group,) = proofs(alone).page().failing
    assert group.next_command == "samebits prove norm --no-assumptions", "a check has no such option"


def test_equal_formulas_are_not_equal_bits() -> None:
    (group,) = proofs(proof(required="bitwise", ok=False)).page().failing
    assert group.title == "norm/multiply: 1 of 1 leaf: not proved"
    assert "does not make the bits equal" in group.likely


REFUTED = [
    step_leaf(config=f"m/c{n}", verdict="different", witness="loss[] is 2.0 in the reference, 3.0 here", replay="again")
    for n in range(60)
]


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
    many = [step_leaf(leaf=f"parameters/{number}") for number in range(OUTPUTS + 2)]
    body = section_of(steps(*many, step_leaf(leaf="the_bad_one", verdict="different", witness="w"))).body
    assert "3 more in the JSON document" in body
    assert "<td>the_bad_one</td>" in body
