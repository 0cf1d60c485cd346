"""A check of goldens for a pull request: at most 60 lines, what changed first."""

from __future__ import annotations

from dataclasses import replace

from samebits.report.golden_markdown import checked_markdown
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
    assert checked_markdown(replace(checked_goldens("r0"), results=())).startswith("### samebits")
