"""A check of goldens for a pull request: at most 60 lines, what changed first."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from samebits.report.golden import checked_markdown, show_golden_check
from samebits.report.html.golden_section import golden_section
from samebits.report.markdown_fit import LINES
from samebits.train.golden.check import CheckedGolden
from tests.report.html.run_samples import checked_goldens


def test_many_goldens_take_sixty_lines_at_most() -> None:
    document = checked_goldens("r0", "r1")
    (first, *_) = document.results
    assert isinstance(first, CheckedGolden)
    changed = [
        replace(first, name=f"m/r{n}", status="changed", lane="exact", first_step=n, first_leaf="loss")
        for n in range(1, 80)
    ]
    text = checked_markdown(replace(document, results=(first, *changed)))
    assert len(text.splitlines()) <= LINES
    assert text.startswith("### samebits golden check: failed\n\n1 of 80 goldens hold")
    assert "<details><summary>74 more groups</summary>" in text
    assert "samebits golden check --config m/r1" in text


def test_goldens_that_hold_pass() -> None:
    text = checked_markdown(checked_goldens("r0", "r1"))
    assert text.startswith("### samebits golden check: passed\n")
    assert "Failures" not in text
    assert "not checked" not in text
    assert checked_markdown(replace(checked_goldens("r0"), results=())).startswith("### samebits")


def test_what_was_not_checked_is_said_everywhere() -> None:
    note, file = "matrix half has no goldens here: not checked", io.StringIO()
    document = replace(checked_goldens("r0", "r1"), notes=(note,))
    assert note in checked_markdown(document)
    assert note in golden_section(document).body
    results = [result for result in document.results if isinstance(result, CheckedGolden)]
    show_golden_check(Console(file=file, width=250), results, notes=document.notes)
    assert file.getvalue().splitlines()[-2:] == [note, "2 of 2 goldens hold."]
