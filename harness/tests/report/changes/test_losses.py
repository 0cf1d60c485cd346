"""Runs of two `train` documents: a loss beyond what rounding alone explains is worse, one within it is listed."""

from dataclasses import replace
from typing import Any

import pytest

from samebits.report.changes.diff import compare_documents, document_rows, not_judged
from samebits.report.changes.diff_document import diff_outcomes
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.train import EnvelopeRecord, TrainDocument
from samebits.train.compare import Pairing
from samebits.train.record import LeafRecord, RunRecord, StepRecord
from tests.support.blank import blank
from tests.support.documents import ENVIRONMENT
from tests.support.pages import markdown, screen

NOISE = blank(EnvelopeRecord, config="one", loss_noise=(1, 2), loss_bound=(4, 5))
ULP = 2.0**-23


def trained(*losses: float, **more: Any) -> TrainDocument:
    """A document of one run, which agrees with another."""
    steps = tuple(
        blank(StepRecord, step=number, loss=loss, loss_hex=loss.hex()) for number, loss in enumerate(losses, 1)
    )
    run = blank(RunRecord, config="one", digest=more.pop("digest", "d"), steps=steps)
    both = blank(Pairing, a="one", b="two", expected="bitwise", verdict="bitwise", ok=True)
    given: dict[str, Any] = {"environment": ENVIRONMENT, "envelope": NOISE, **more}
    return blank(TrainDocument, matrix="toy", results=(run,), comparisons=(both,), **given)


@pytest.mark.parametrize(
    ("loss", "excuse", "code"),
    [(1.5, None, 0), (1.5 + 3 * ULP, "by rounding", 0), (1.5 + 9 * ULP, "", 1), (1.25, "", 1)],
)
def test_a_loss_is_judged_as_beside_another_document(loss: float, excuse: str | None, code: int) -> None:
    found = compare_documents(trained(2.0, 1.5), trained(2.0, loss))
    losses = [row.excuse for row in found.results if row.change == "loss moved"]
    assert losses == ([] if excuse is None else [excuse])
    assert (found.exit_code, found.summary.failed) == (code, code)
    assert markdown(found).startswith(f"### samebits diff: {'worse' if code else 'held'}\n")
    statuses = [row.status for row in diff_outcomes(found, DeclarationLines({})).rows]
    assert statuses == ([] if excuse is None else ["failed" if code else "passed"])
    assert found.page().state == ("failed" if code else "passed")


def test_the_losses_and_the_size_are_said() -> None:
    text = screen(compare_documents(trained(2.0, 1.5), trained(2.0, 1.25)))
    assert "FAILED  loss moved: toy/one: 1.5 -> 1.25 at step 2 (up to 2097152 ulp)" in text
    assert "  example   first at step 2, loss: 2097152 ulp, and rounding alone explains 5" in text
    close = screen(compare_documents(trained(2.0, 1.5), trained(2.0, 1.5 + ULP)))
    assert "  loss moved, by rounding  toy/one: 1.5 -> 1.50000012 at step 2 (up to 1 ulp)" in close


def test_a_gradient_that_is_lost_is_a_worse_run() -> None:
    """With the same losses, where the new document bounds the norms; one of before says nothing of them."""
    norms = {"gradient": (1e-7, 1e-7), "parameter": (1e-9, 1e-9)}
    for noise, fails in ((norms, [True]), ({}, [])):
        envelope = replace(NOISE, norm_noise=noise)
        documents = []
        for size in (1.0, 0.0):
            document = trained(2.0, 1.5, envelope=envelope)
            leaves = {
                "gradient/w": LeafRecord(digest=str(size), l1=size, l2=size),
                "gradient/v": LeafRecord(digest="d", l1=2, l2=2),
            }
            last = replace(document.results[0].steps[1], digests=leaves)
            lost = replace(document.results[0], steps=(document.results[0].steps[0], last))
            documents.append(replace(document, results=(lost,)))
        found = compare_documents(*documents)
        assert [row.fails for row in found.results if row.change == "loss moved"] == fails
        assert not fails or found.results[0].reason == "first at step 2, gradient/w: 4.5e-01 of 1.5e-05"


def test_another_environment_explains_a_loss() -> None:
    newer = replace(ENVIRONMENT, versions={**ENVIRONMENT.versions, "jax": "0.12.0"})
    found = compare_documents(trained(2.0, 1.5), trained(2.0, 1.25, environment=newer))
    assert found.exit_code == 0 and "loss moved, in another environment" in markdown(found)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (trained(2.0, 1.25, digest="e"), "has 2 steps of configuration d; here it has 2 of e"),
        (trained(2.0), "has 2 steps of configuration d; here it has 1 of d"),
        (
            trained(2.0, 1.25, envelope=None),
            "the new document has no envelope that says how far rounding alone moves it",
        ),
    ],
)
def test_what_is_not_judged_is_said(new: TrainDocument, why: str) -> None:
    old = trained(2.0, 1.5)
    line = f"losses of run 'one' are not compared: {why}"
    assert compare_documents(old, new).notes == (line,)
    assert [*not_judged(document_rows(old), document_rows(new))] == [line]
