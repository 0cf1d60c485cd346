"""The page of goldens: what changed and where, with old and new curves; accepted, listed and missing ones too."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.report.any_document import read_any_document
from samebits.report.document import to_json
from samebits.report.golden import OPEN, GoldenAcceptDocument, GoldenCheckDocument, GoldenListDocument, GoldenRow
from samebits.report.html.charts import svg
from samebits.report.html.sections import section_of
from samebits.report.markdown import LINES
from samebits.schema.result import Problem
from samebits.train.golden.accept import AcceptedGolden, GoldenCandidate, make_golden
from samebits.train.golden.check import CheckedGolden
from tests.report.html.run_samples import SCRIPT, checked_goldens
from tests.support.golden_samples import CONFIG, HERE, allowed, evidence, golden, model, run_record
from tests.support.pages import markdown, screen


def test_a_changed_golden_is_the_headline() -> None:
    document = checked_goldens("m/a", nudge={7: 3})
    section = section_of(document)
    assert section.page.state == "failed"
    assert section.page.headline.startswith("1 of 1 golden: changed; first m/a: loss changed at step 7 by 3 ulps")
    assert section.page.next == "samebits golden show --config m/a"


@pytest.mark.parametrize(
    ("elsewhere", "headline"),
    [
        (False, "1 of 1 goldens hold."),
        (True, "1 of 1 goldens hold, 1 of them only by evidence: the environment is not the recorded one."),
    ],
)
def test_a_golden_that_holds(elsewhere: bool, headline: str) -> None:
    section = section_of(checked_goldens("m/a", elsewhere=elsewhere))
    assert (section.page.state, section.page.headline, section.page.next) == ("passed", headline, None)


def test_curves_and_arrays_of_a_change() -> None:
    section = section_of(checked_goldens("m/a", nudge={7: 3}, scale={1: 1.5, 10: 2}))
    assert re.findall(r'data-chart="([^"]+)"', section.body) == [*section.charts] == ["loss-0", "distance-0", "norm-0"]
    assert "first split of the loss" in svg(section.charts["distance-0"])
    assert "<td>gradient/w</td>" in section.body and "<td>step 1</td>" in section.body
    assert ">recorded<" in svg(section.charts["loss-0"])


def test_of_many_goldens_those_that_changed_are_first_and_open() -> None:
    good, bad = checked_goldens(*(f"m/{number}" for number in range(OPEN + 1))), checked_goldens("m/bad", nudge={7: 3})
    body = section_of(replace(good, results=(*good.results, *bad.results))).body
    blocks = re.findall(r'<details class="block"( open)?>\s*<summary><h3>.*?(m/\w+)</h3>', body, re.DOTALL)
    assert [(bool(opened), name) for opened, name in blocks][:2] == [(True, "m/bad"), (False, "m/0")]


def test_shares_of_bounds_are_drawn_of_several() -> None:
    section = section_of(checked_goldens("m/a", "m/b", elsewhere=True, nudge={7: 3}))
    assert "used" in section.charts and 'data-chart="used"' in section.body


@pytest.mark.parametrize(("status", "state"), [("missing", "failed"), ("damaged", "failed"), ("not run", "incomplete")])
def test_what_was_not_compared_has_no_curves(status: str, state: str) -> None:
    result = CheckedGolden(name="m/a", status=status, message="why")  # type: ignore[arg-type]
    section = section_of(GoldenCheckDocument(environment=HERE, results=(result,)))
    assert (section.page.state, section.charts) == (state, {}) and "why" in section.page.headline


def test_an_accepted_change_shows_old_and_new(tmp_path: Path) -> None:
    run = run_record(nudge={7: 3})
    candidate = GoldenCandidate(matrix="toy", config=CONFIG, run=run, evidence=evidence(run), here=HERE)
    _, accepted = make_golden(model(tmp_path), candidate, allowed(tmp_path), golden())
    section = section_of(GoldenAcceptDocument(environment=HERE, results=(accepted,)))
    assert (section.page.state, section.page.headline) == ("passed", "1 golden: 1 changed")
    assert ">before<" in svg(section.charts["loss-0"]) and ">accepted<" in svg(section.charts["loss-0"])


def test_what_could_not_be_accepted_fails() -> None:
    problem = Problem(pair="m/a", message="the tree is not clean", exit_code=2)
    document = GoldenAcceptDocument(environment=HERE, results=(), problems=(problem,))
    section = section_of(document)
    assert (section.page.state, section.page.headline) == ("failed", "1 problem: m/a: the tree is not clean")


def test_goldens_are_listed() -> None:
    row = GoldenRow.of(golden(), Path("goldens/cpu/toy__one.json"))
    section = section_of(GoldenListDocument(environment=None, results=(row,)))
    assert (section.page.state, section.page.headline) == ("passed", "1 golden")
    assert "<td>toy/one</td>" in section.body and "made by hand" in section.body


@pytest.mark.parametrize("checked", [True, False])
def test_a_document_of_before_opens(checked: bool, tmp_path: Path) -> None:
    """Without curves, which came later."""
    file = tmp_path / "golden.json"
    check = CheckedGolden(name="m/a", status="same", message="same bits", lane="exact", max_ulp=0)
    accept = AcceptedGolden(name="m/a", path="x", change="new", new_loss="0x1p+0")
    text = to_json(
        GoldenCheckDocument(environment=HERE, results=(check,))
        if checked
        else GoldenAcceptDocument(environment=HERE, results=(accept,))
    )
    for key in ('"steps": [],', '"changed": [],', '"changed_count": 0', '"steps": []'):
        text = text.replace(key, "")
    file.write_text(re.sub(r",(\s*})", r"\1", text))
    assert '"steps"' not in file.read_text()
    section = section_of(read_any_document(file))
    assert (section.page.state, section.charts) == ("passed", {}) and "m/a" in section.body


def test_names_and_messages_are_escaped() -> None:
    document = checked_goldens("m/a", nudge={7: 3})
    result = document.results[0]
    assert isinstance(result, CheckedGolden)
    result = replace(result, name=SCRIPT, message=SCRIPT, first_leaf=SCRIPT)
    body = section_of(replace(document, results=(result,))).body
    assert "<script" not in body and "&lt;script&gt;" in body


def test_many_goldens_take_sixty_lines_at_most() -> None:
    document = checked_goldens("r0", "r1")
    (first, *_) = document.results
    assert isinstance(first, CheckedGolden)
    changed = [
        replace(first, name=f"m/r{n}", status="changed", lane="exact", first_step=n, first_leaf="loss")
        for n in range(1, 80)
    ]
    text = markdown(replace(document, results=(first, *changed)))
    assert len(text.splitlines()) <= LINES
    assert text.startswith("### samebits golden check: failed\n\n1 of 80 goldens hold")
    assert "1. **79 of 80 goldens: changed**" in text
    assert "samebits golden check --config m/r1" in text


def test_goldens_that_hold_pass() -> None:
    text = markdown(checked_goldens("r0", "r1"))
    assert text.startswith("### samebits golden check: passed\n")
    assert "Failures" not in text
    assert "not checked" not in text
    assert markdown(replace(checked_goldens("r0"), results=())).startswith("### samebits")


def test_what_was_not_checked_is_said_everywhere() -> None:
    note = "matrix half has no goldens here: not checked"
    document = replace(checked_goldens("r0", "r1"), notes=(note,))
    assert note in markdown(document)
    assert note in section_of(document).body
    assert screen(document)[-2:] == [note, "2 of 2 goldens hold."]
