"""The end of `samebits golden check`: at most 40 lines however many goldens changed, those alike together."""

import io
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from samebits.report.golden import GoldenCheckDocument, GoldenListDocument, GoldenRow, checked_row, golden_blocks
from samebits.report.terminal import LINES, height, show_blocks
from samebits.train.distance import FAR
from samebits.train.golden.check import CheckedGolden
from tests.support import pages
from tests.support.golden_samples import HERE
from tests.support.golden_samples import golden as sample


def golden(name: str, step: int | None = 3, status: str = "changed") -> CheckedGolden:
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


def screen(results: Sequence[CheckedGolden], *, verbose: bool = False) -> list[str]:
    return pages.screen(checked(*results), width=250, verbose=verbose)


def checked(*results: CheckedGolden) -> GoldenCheckDocument:
    return GoldenCheckDocument(environment=HERE, results=results)


def test_it_fits_on_a_screen() -> None:
    for results in (
        [golden(f"r{n}", n) for n in range(60)],
        [golden(f"r{n}", status="inside") for n in range(60)],
        [golden(f"r{n}", None, "not run") for n in range(60)],
    ):
        lines = screen(results)
        assert sum(height(line, 250) for line in lines) <= LINES
        assert "--verbose prints every golden" in lines
        assert len(screen(results, verbose=True)) > LINES


def test_what_does_not_hold_is_shown_before_what_holds() -> None:
    """Of a group the first is explained, and all others have their message in the whole report."""
    results = [*(golden(f"g{n}", status="same") for n in range(60)), golden("a"), golden("b")]
    lines, every = screen(results), screen(results, verbose=True)
    assert [line.split()[0] for line in lines if line.startswith("  m/")] == ["m/a", "m/b"]
    assert [line.split()[0] for line in every if line.startswith("  m/")][:3] == ["m/a", "m/b", "m/g0"]
    assert "m/b: loss changed at step 3" in every and "m/a: loss changed at step 3" not in every
    assert "  example   m/a: loss changed at step 3" in every


def test_goldens_that_change_at_one_place_are_one_group() -> None:
    groups = (
        checked(golden("a"), golden("b"), golden("c", 5), golden("d", None, "missing"), golden("e", status="same"))
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
    assert screen([golden("a"), golden("b", status="same")])[-1] == "next: samebits golden check --config m/a"
    assert screen([golden("b", status="same")])[-1] == "1 of 1 goldens hold."


def test_the_next_command_is_another_one() -> None:
    """A single golden was asked for by this very command."""
    for status, command in (
        ("changed", "samebits golden show --config m/a"),
        ("missing", "samebits golden accept --config m/a --reason '...'"),
        ("not run", None),
        ("damaged", None),
        ("unused", None),
    ):
        (group,) = checked(golden("a", None, status)).page().failing
        assert group.next_command == command, status
        among = checked(golden("a", None, status), golden("b", status="same")).page().failing
        again = status in ("changed", "not run")
        assert among[0].next_command == ("samebits golden check --config m/a" if again else command), status


@pytest.mark.parametrize("width", [40, 70, 90, 120, 160, 250])
def test_numbers_are_whole_in_a_narrow_terminal(width: int) -> None:
    row = replace(GoldenRow.of(sample(), Path("goldens/cpu/toy__one.json")), reason="because " * 30, drift=-1.25e-7)
    changed = replace(golden("pipeline_sharding/zero1_pp_explicit"), relative=1.234e-5, bound=5, ulps=123456789)
    changed = replace(changed, first_step=17, first_leaf="gradient/layers/attention_norm")
    listed = GoldenListDocument(environment=None, results=(row,))
    file = io.StringIO()
    to = Console(file=file, width=width, force_terminal=True, color_system=None)
    show_blocks(to, golden_blocks(sample(), Path("f")))
    for text, numbers in (
        (
            "\n".join(pages.screen(listed, width=width)),
            (repr(row.last_loss), "9 ulps", "-1.2e-07", "1 environment", "cccccccc"),
        ),
        (
            "\n".join(pages.screen(checked(changed), width=width)),
            ("123456789", "1.2e-05", "5", "step 17", changed.name),
        ),
        (file.getvalue(), [step.loss_hex for step in sample().steps]),
    ):
        assert "…" not in "".join(line for line in text.splitlines() if "FAILED" not in line)
        for number in numbers:
            assert number in text, (width, number)


def test_names_are_whole_beside_a_long_reason() -> None:
    """In a narrow terminal too: names that are cut look alike."""
    rows = [GoldenRow.of(sample(), Path("goldens/cpu/toy__one.json"))]
    names = [f"pipeline_sharding/zero1_pp_explicit_{number}" for number in range(3)]
    listed = tuple(replace(row, name=name, reason="because " * 60) for row in rows for name in names)
    text = "\n".join(pages.screen(GoldenListDocument(environment=None, results=listed), width=70))
    assert all(name in text for name in names)


def test_a_number_that_is_not_finite_is_no_distance() -> None:
    broken = replace(golden("nan"), ulps=FAR, relative=math.inf, bound=4)
    assert checked_row(broken)[-4:-1] == ["not finite", "not finite", "4"]
