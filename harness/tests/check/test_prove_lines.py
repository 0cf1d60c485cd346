"""A refuted leaf names the lines that make it differ, without anything being compiled or run."""

import dataclasses
import io
from typing import Any

import pytest

from samebits.check.line_evidence import POINTS
from samebits.check.prove_points import prove_points
from samebits.errors import NotCovered
from samebits.interpret.alignment import align
from samebits.programs.catalogue import Locator
from samebits.programs.plan import Request, plan
from samebits.report.prove import pair_block
from samebits.report.terminal import console, show_blocks
from samebits.schema.finding import Finding
from samebits.schema.pair import Pair
from tests.check.test_line_evidence import gated, halved, plain, same, sigmoid
from tests.support.findings import having
from tests.support.toys import toy


def leaves(x: Any, factor: float) -> tuple[Any, Any, Any]:
    return x * factor, x + factor, x - factor


def _proved(pair: Pair, **where: str) -> list[Finding]:
    arguments = prove_points(pair, Locator(name=pair.name), plan(pair, Request(full=True), devices=8))
    return having(arguments, **where)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("direction", ["forward", "gradient"])
def test_a_refuted_leaf_names_its_line(direction: str) -> None:
    """The gradient of what is wrong forward names the same line; the report shows it."""
    (refuted,) = _proved(toy(plain, halved=halved), variant="halved", direction=direction)
    assert refuted.ruling.verdict == "different"
    (line,) = refuted.named.lines
    assert (line.variant_code, line.reference_code) == ("factor * x", "x * factor * 2")
    text = io.StringIO()
    show_blocks(console(text), [pair_block("toy", [refuted])])
    assert "line" in text.getvalue() and "has `factor * x`, the reference's twin at" in " ".join(
        text.getvalue().split()
    )


def test_a_wrong_rule_is_named_where_only_the_gradient_differs() -> None:
    """The forward outputs are the same formula."""
    (refuted,) = _proved(toy(sigmoid, gated=gated), variant="gated", direction="gradient")
    assert [line.variant_code for line in refuted.named.lines][:1] == ["saved * saved"]


def test_what_is_proved_names_no_line() -> None:
    """Nothing is searched for."""
    for each in _proved(toy(plain, same=same)):
        assert each.ruling.verdict == "rounding" and each.named.lines == () and each.named.why is None


def test_a_failing_search_does_not_lose_the_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict stays, and the reason names the exception."""

    def broken(*args: Any, **more: Any) -> Any:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(align, "align", broken)
    (refuted,) = _proved(toy(plain, halved=halved), variant="halved", direction="forward")
    assert refuted.ruling.verdict == "different" and refuted.named.lines == ()
    assert refuted.named.why == "the search failed (ZeroDivisionError: planted), which is a bug of samebits"


def test_programs_that_are_too_large_are_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every leaf says so, but recording them takes as long each time."""
    recorded: list[None] = []

    def too_large(*args: Any, **more: Any) -> Any:
        recorded.append(None)
        raise NotCovered("planted")

    monkeypatch.setattr(align, "align", too_large)
    three = toy(leaves, halved=lambda x, factor: tuple(each / 2 for each in leaves(x, factor)))
    refuted = _proved(dataclasses.replace(three, meshes=("data1",), gradients=False), variant="halved")
    assert [each.named.why for each in refuted] == ["the programs cannot be aligned: planted"] * 3
    assert len(recorded) == 1


@pytest.mark.slow
def test_lines_are_searched_for_few_points() -> None:
    """As `samebits check` does."""
    pair = toy(plain, halved=halved)
    cases = tuple(
        dataclasses.replace(pair.cases[0], id=f"case{n}", statics={"factor": 2.0 + n}) for n in range(POINTS + 1)
    )
    pair = dataclasses.replace(pair, cases=cases, gradients=False, meshes=("data1",))
    assert [bool(each.named.lines) for each in _proved(pair, variant="halved")] == [True] * POINTS + [False]
