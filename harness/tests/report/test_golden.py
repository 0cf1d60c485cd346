"""The page of goldens: what changed and where, with curves of both runs; a screen of 40 lines, those alike together."""

import io
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from samebits.report.any_document import read_any_document
from samebits.report.document import to_json
from samebits.report.golden import (
    OPEN,
    STEP_HEADS,
    GoldenAcceptDocument,
    GoldenCheckDocument,
    GoldenListDocument,
    GoldenRow,
    bound_rows,
    checked_row,
    distance_rows,
    golden_blocks,
    step_table,
    used_rows,
    value_rows,
)
from samebits.report.html.charts import svg
from samebits.report.html.sections import section_of
from samebits.report.markdown import LINES as MARKDOWN_LINES
from samebits.report.terminal import LINES, height, show_blocks
from samebits.schema.result import Problem
from samebits.train.distance import FAR
from samebits.train.golden.accept import AcceptedGolden, GoldenCandidate, make_golden
from samebits.train.golden.check import CheckedGolden, check_golden
from tests.report.html.run_samples import checked_goldens
from tests.support import pages
from tests.support.golden_samples import (
    CONFIG,
    ELSEWHERE,
    HERE,
    LOSS_BOUND,
    allowed,
    evidence,
    golden,
    model,
    run_record,
)
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


def test_many_goldens_take_sixty_lines_at_most() -> None:
    document = checked_goldens("r0", "r1")
    (first, *_) = document.results
    assert isinstance(first, CheckedGolden)
    changed = [
        replace(first, name=f"m/r{n}", status="changed", lane="exact", first_step=n, first_leaf="loss")
        for n in range(1, 80)
    ]
    text = markdown(replace(document, results=(first, *changed)))
    assert len(text.splitlines()) <= MARKDOWN_LINES
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


def outcome(name: str, step: int | None = 3, status: str = "changed") -> CheckedGolden:
    held = status in ("same", "inside")
    return CheckedGolden(
        name=f"m/{name}",
        status=status,  # type: ignore[arg-type]
        lane="evidence" if status in ("inside", "changed") else None,
        message=f"loss changed at step {step}" if not held else "within the evidence, another environment",
        first_step=None if held else step,
        first_leaf=None if held else "loss",
        ulps=None if held else 20,
    )


def lines_of(results: Sequence[CheckedGolden], *, verbose: bool = False) -> list[str]:
    return pages.screen(checked(*results), width=250, verbose=verbose)


def checked(*results: CheckedGolden) -> GoldenCheckDocument:
    return GoldenCheckDocument(environment=HERE, results=results)


def test_it_fits_on_a_screen() -> None:
    for results in (
        [outcome(f"r{n}", n) for n in range(60)],
        [outcome(f"r{n}", status="inside") for n in range(60)],
        [outcome(f"r{n}", None, "not run") for n in range(60)],
    ):
        lines = lines_of(results)
        assert sum(height(line, 250) for line in lines) <= LINES
        assert "--verbose prints every golden" in lines
        assert len(lines_of(results, verbose=True)) > LINES


def test_what_does_not_hold_is_shown_before_what_holds() -> None:
    """Of a group the first is explained, and all others have their message in the whole report."""
    results = [*(outcome(f"g{n}", status="same") for n in range(60)), outcome("a"), outcome("b")]
    lines, every = lines_of(results), lines_of(results, verbose=True)
    assert [line.split()[0] for line in lines if line.startswith("  m/")] == ["m/a", "m/b"]
    assert [line.split()[0] for line in every if line.startswith("  m/")][:3] == ["m/a", "m/b", "m/g0"]
    assert "m/b: loss changed at step 3" in every and "m/a: loss changed at step 3" not in every
    assert "  example   m/a: loss changed at step 3" in every


def test_goldens_that_change_at_one_place_are_one_group() -> None:
    groups = (
        checked(
            outcome("a"),
            outcome("b"),
            outcome("c", 5),
            outcome("d", None, "missing"),
            outcome("e", status="same"),
        )
        .page()
        .failing
    )
    assert [group.title for group in groups] == [
        "3 of 5 goldens: changed",
        "1 of 5 goldens: missing",
    ]
    assert groups[0].where == "m/a, m/b, m/c"
    assert groups[0].next_command == "samebits golden check --config m/a"


def test_the_last_line_is_the_next_command() -> None:
    assert lines_of([outcome("a"), outcome("b", status="same")])[-1] == "next: samebits golden check --config m/a"
    assert lines_of([outcome("b", status="same")])[-1] == "1 of 1 goldens hold."


def test_the_next_command_is_another_one() -> None:
    """A single golden was asked for by this very command."""
    for status, command in (
        ("changed", "samebits golden show --config m/a"),
        ("missing", "samebits golden accept --config m/a --reason '...'"),
        ("not run", None),
        ("damaged", None),
        ("unused", None),
    ):
        (group,) = checked(outcome("a", None, status)).page().failing
        assert group.next_command == command, status
        among = checked(outcome("a", None, status), outcome("b", status="same")).page().failing
        again = status in ("changed", "not run")
        assert among[0].next_command == ("samebits golden check --config m/a" if again else command), status


@pytest.mark.parametrize("width", [40, 70, 90, 120, 160, 250])
def test_numbers_are_whole_in_a_narrow_terminal(width: int) -> None:
    row = replace(GoldenRow.of(golden(), Path("goldens/cpu/toy__one.json")), reason="because " * 30, drift=-1.25e-7)
    changed = replace(outcome("pipeline_sharding/zero1_pp_explicit"), relative=1.234e-5, bound=5, ulps=123456789)
    changed = replace(changed, first_step=17, first_leaf="gradient/layers/attention_norm")
    listed = GoldenListDocument(environment=None, results=(row,))
    file = io.StringIO()
    to = Console(file=file, width=width, force_terminal=True, color_system=None)
    show_blocks(to, golden_blocks(golden(), Path("f")))
    for text, numbers in (
        (
            "\n".join(pages.screen(listed, width=width)),
            (repr(row.last_loss), "9 ulps", "-1.2e-07", "1 environment", "cccccccc"),
        ),
        (
            "\n".join(pages.screen(checked(changed), width=width)),
            ("123456789", "1.2e-05", "5", "step 17", changed.name),
        ),
        (file.getvalue(), [step.loss_hex for step in golden().steps]),
    ):
        assert "…" not in "".join(line for line in text.splitlines() if "FAILED" not in line)
        for number in numbers:
            assert number in text, (width, number)


def test_names_are_whole_beside_a_long_reason() -> None:
    """In a narrow terminal too: names that are cut look alike."""
    rows = [GoldenRow.of(golden(), Path("goldens/cpu/toy__one.json"))]
    names = [f"pipeline_sharding/zero1_pp_explicit_{number}" for number in range(3)]
    listed = tuple(replace(row, name=name, reason="because " * 60) for row in rows for name in names)
    text = "\n".join(pages.screen(GoldenListDocument(environment=None, results=listed), width=70))
    assert all(name in text for name in names)


def test_a_number_that_is_not_finite_is_no_distance() -> None:
    broken = replace(outcome("nan"), ulps=FAR, relative=math.inf, bound=4)
    assert checked_row(broken)[-4:-1] == ["not finite", "not finite", "4"]


NAMES = ("recorded", "today")
MOVED = check_golden(golden(), run_record(nudge={5: 3}), ELSEWHERE)


def test_both_runs_are_at_every_step() -> None:
    rows = value_rows(MOVED.steps, NAMES)
    assert len(rows) == 40 and {row["run"] for row in rows} == set(NAMES)
    differing = {row["step"] for row in rows if row["run"] == "today"} & {
        step.step for step in MOVED.steps if step.loss != step.recorded_loss
    }
    assert differing == {5}


def test_the_first_step_with_another_loss_is_marked() -> None:
    rows = distance_rows(MOVED.steps, NAMES)
    assert [(row["step"], row["ulps"]) for row in rows if row["ulps"]] == [(5, 3)]
    assert [row["step"] for row in rows if row["first"]] == [5]


def test_bounds_are_there_where_bits_may_differ() -> None:
    assert {row["bound"] for row in bound_rows(MOVED.steps)} == {LOSS_BOUND}
    assert bound_rows(check_golden(golden(), run_record(nudge={5: 3}), HERE).steps) == []


def test_the_share_of_the_bound() -> None:
    (row,) = used_rows([MOVED])
    assert (row["used"], row["leaf"], row["verdict"]) == (3 / LOSS_BOUND, "loss, step 5", "rounding")
    assert used_rows([check_golden(golden(), run_record(), HERE)]) == []


def test_the_table_tells_neighbouring_numbers_apart() -> None:
    table = step_table(MOVED.steps)
    assert all(len(row) == len(STEP_HEADS) for row in table)
    assert [row[0] for row in table if row[1] != row[2]] == ["5"] and table[4][3] == "3"


def test_a_number_that_is_none_is_said() -> None:
    checked = check_golden(golden(), run_record(loss={2: math.nan}), HERE)
    assert step_table(checked.steps)[1][2:4] == ["none, or not finite", "not comparable"]
    run = run_record()
    short = check_golden(golden(), replace(run, steps=run.steps[:-1]), HERE)
    assert step_table(short.steps)[-1][2:4] == ["none, or not finite", "not comparable"]
