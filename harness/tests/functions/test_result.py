"""What a comparison shows: its verdict, a table for a terminal and for a notebook, and the failure's text."""

from typing import Any

import numpy as np
import pytest

import samebits
from samebits.errors import CouldNotRun
from samebits.functions.result import Comparing
from samebits.numerics.bits import Comparison, compare
from samebits.schema.finding import Finding
from samebits.schema.result import Problem
from tests.functions import specimens as f
from tests.support.documents import toy_result
from tests.support.findings import changed

LEAF = toy_result(
    variant="v",
    case="call",
    direction="forward",
    leaf="out",
    verdict="bitwise",
    required="bitwise",
    ok=True,
    evidence="equal <bits>",
    replay="again",
)


def _comparing(*leaves: Finding, **more: Any) -> Comparing:
    return Comparing(name="p", reference="r", leaves=leaves, **more)


@pytest.mark.parametrize(
    ("verdicts", "whole"),
    [
        (("proved", "bitwise"), "bitwise"),
        (("proved", "rounding", "bitwise"), "rounding"),
        (("error", "rounding"), "error"),
        (("error", "different"), "different"),
        (("skipped", "proved"), "skipped"),
        ((), "error"),
    ],
)
def test_the_gravest_verdict_speaks_for_the_whole(verdicts: tuple[Any, ...], whole: str) -> None:
    assert _comparing(*(changed(LEAF, verdict=verdict) for verdict in verdicts)).verdict == whole


def test_nothing_compared_is_not_ok() -> None:
    assert not _comparing().ok
    with pytest.raises(CouldNotRun, match="0 of 0 leaves"):
        _comparing().raise_for_status()


def test_a_problem_of_the_declaration_is_not_ok() -> None:
    compared = _comparing(LEAF, problems=(Problem(pair="p", message="the contract is wrong"),))
    with pytest.raises(CouldNotRun, match="the contract is wrong"):
        compared.raise_for_status()


def test_a_difference_is_an_assertion_error_and_an_error_is_not() -> None:
    with pytest.raises(AssertionError, match="verdict   different, required bitwise"):
        _comparing(LEAF, changed(LEAF, verdict="different", ok=False)).raise_for_status()
    with pytest.raises(CouldNotRun, match="reason    it raised"):
        _comparing(LEAF, changed(LEAF, verdict="error", ok=False, reason="it raised")).raise_for_status()
    _comparing(LEAF).raise_for_status()


def test_a_reference_skipped_on_the_mesh_leaves_its_variants() -> None:
    """As one that has no form for explicit axes; where nothing else ran, nothing was compared."""
    skipped = changed(LEAF, variant="r", leaf="*", verdict="skipped", ok=False, reason="no form")
    compared = _comparing(skipped, LEAF)
    assert compared.ok and compared.verdict == "bitwise"
    compared.raise_for_status()
    different = _comparing(skipped, changed(LEAF, verdict="different", ok=False))
    with pytest.raises(AssertionError, match="1 of 2 leaves do not hold"):
        different.raise_for_status()
    for alone in (_comparing(skipped), _comparing(LEAF, changed(skipped, variant="v"))):
        assert not alone.ok and alone.verdict == "skipped"
        with pytest.raises(CouldNotRun, match="no form"):
            alone.raise_for_status()


def test_a_notebook_shows_a_table_with_escaped_words() -> None:
    html = _comparing(LEAF)._repr_html_()
    assert "equal &lt;bits&gt;" in html
    assert html.count("<tr>") == 2


def test_a_notebook_shows_witness_and_replay_of_what_fails() -> None:
    html = _comparing(LEAF, changed(LEAF, verdict="different", ok=False))._repr_html_()
    assert "<details" in html and "required bitwise" in html
    assert "<details" not in _comparing(LEAF)._repr_html_()


def test_a_terminal_shows_a_line_per_leaf() -> None:
    shown = repr(_comparing(LEAF, changed(LEAF, leaf="out['long']", variant="r"), notes=("mind this",)))
    assert shown.splitlines() == [
        "p: bitwise (0 s)",
        "  forward  out                                  bitwise  equal <bits>",
        "  forward  out['long'] (reference on the mesh)  bitwise  equal <bits>",
        "note: mind this",
    ]


@pytest.mark.slow
def test_a_proof_shows_its_witness() -> None:
    compared = samebits.prove(f.softmax, f.wrong_axis, f.rows())
    assert compared.verdict == "different"
    with pytest.raises(AssertionError, match=r"by fields; out\[\d, \d\] is "):
        compared.raise_for_status()


def test_a_comparison_shows_itself() -> None:
    (same,) = compare(reference=np.arange(3), optimized=np.arange(3))
    assert isinstance(same, Comparison)
    assert "all 3 elements have the same bits" in str(same._repr_html_())
