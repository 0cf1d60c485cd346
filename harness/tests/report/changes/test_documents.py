"""The document of each command as rows: which result, what was found, whether it holds; and losses of two trainings."""

from dataclasses import replace
from typing import Any

import pytest

from samebits.audit.claims.row import ClaimRow
from samebits.audit.defaults import Agreement, Disagreement
from samebits.audit.faults.fault import FaultRow
from samebits.audit.guide.advice import Advice
from samebits.bisect.search.trials import SearchFinding
from samebits.errors import CouldNotRun, RequestError
from samebits.report.advise import AdviseDocument
from samebits.report.bisect import BisectDocument
from samebits.report.changes.diff import compare_documents, document_rows, not_judged
from samebits.report.changes.diff_document import diff_outcomes
from samebits.report.claims import ClaimsDocument
from samebits.report.compile import CompileDocument
from samebits.report.compile_model import CompiledStep, StepsDocument
from samebits.report.declaration_lines import DeclarationLines
from samebits.report.defaults import DefaultsDocument
from samebits.report.faults import FaultTable
from samebits.report.findings import JUDGING, what_was_found
from samebits.report.golden import GoldenCheckDocument
from samebits.report.list import Listing
from samebits.report.prove import ProofDocument
from samebits.report.prove_model import StepDocument
from samebits.report.train import EnvelopeRecord, TrainDocument
from samebits.report.tune import TuneDocument
from samebits.schema.program_facts import ClaimResult, CompiledSide, Facts, SideBySide
from samebits.schema.tuning import TuningBest, TuningTrial
from samebits.train.compare import Pairing
from samebits.train.golden.check import CheckedGolden
from samebits.train.prove_request import StepLeaf
from samebits.train.record import LeafRecord, RunRecord, StepRecord
from tests.support.blank import blank
from tests.support.documents import ENVIRONMENT, different, document, result
from tests.support.findings import finding
from tests.support.pages import markdown, screen

PLACE = {"pair": "norm", "case": "small", "dtype": "float32", "mesh": "data2", "direction": "forward"}


def compiled(*, holds: bool, program: str, temp: int) -> CompileDocument:
    claim = blank(ClaimResult, shows="temp_bytes <= 2", holds=holds, ok=holds, got=f"{temp}")
    side = blank(CompiledSide, **PLACE, side="fast", target="cpu", program=program, temp_bytes=temp, replay="run")
    both = blank(SideBySide, **PLACE, variant="fast", target="cpu", expectations=(claim,), same_program=holds)
    return blank(CompileDocument, results=(side,), comparisons=(both,))


def trained(verdict: Any, *, ok: bool, seconds: float) -> TrainDocument:
    run = blank(RunRecord, config="a", compile_seconds=seconds)
    both = blank(Pairing, a="a", b="b", expected="bitwise", verdict=verdict, ok=ok, first_step=3, first_leaf="loss")
    return blank(TrainDocument, matrix="hybrid", results=(run,), comparisons=(both,))


def tuned(best: str, *, equal: bool) -> TuneDocument:
    trial = blank(TuningTrial, pair="norm", side="fast", argument="tile", value="8", verdict="bitwise", equal=equal)
    chosen = blank(TuningBest, pair="norm", side="fast", argument="tile", value=best)
    return blank(TuneDocument, trials=(trial,), best=(chosen,))


def proved(verdict: Any, *, ok: bool) -> ProofDocument:
    where = {**PLACE, "variant": "fast", "mode": "auto", "leaf": "out", "required": "proved"}
    proof = finding("prove", **where, verdict=verdict, ok=ok, witness=None if ok else "out[0]")
    return blank(ProofDocument, results=(proof,))


CASES: dict[str, tuple[Any, Any, tuple[str, str, str]]] = {
    "check": (document(result()), document(different(leaf="out")), ("norm/multiply", "bitwise", "different")),
    "prove": (proved("proved", ok=True), proved("different", ok=False), ("norm/fast", "proved", "different")),
    "prove model": (
        blank(StepDocument, model="toy", results=(blank(StepLeaf, config="c", leaf="loss", verdict="rounding"),)),
        blank(StepDocument, model="toy", results=(blank(StepLeaf, config="c", leaf="loss", verdict="different"),)),
        ("toy/c", "rounding", "different"),
    ),
    "compile": (
        compiled(holds=True, program="aa", temp=1),
        compiled(holds=False, program="bb", temp=4),
        ("norm/fast", "holds", "does not hold"),
    ),
    "tune": (tuned("8", equal=True), tuned("8", equal=False), ("norm/fast", "bitwise", "bitwise")),
    "train": (
        trained("bitwise", ok=True, seconds=1.0),
        trained("different", ok=False, seconds=9.0),
        ("hybrid/b against a", "bitwise", "different"),
    ),
    "golden check": (
        blank(GoldenCheckDocument, results=(blank(CheckedGolden, name="m/r", status="same"),)),
        blank(GoldenCheckDocument, results=(blank(CheckedGolden, name="m/r", status="changed"),)),
        ("m/r", "same", "changed"),
    ),
    "claims": (
        blank(ClaimsDocument, results=(blank(ClaimRow, id="4a", subject="norm", holds="holds", ok=True),)),
        blank(ClaimsDocument, results=(blank(ClaimRow, id="4a", subject="norm", holds="does not hold", ok=False),)),
        ("norm/4a", "holds", "does not hold"),
    ),
    "faults": (
        FaultTable(results=(blank(FaultRow, pair="norm", side="fast", fault="f", caught=True, honest=True),)),
        FaultTable(results=(blank(FaultRow, pair="norm", side="fast", fault="f", caught=False, honest=True),)),
        ("norm/fast/f", "caught", "not caught"),
    ),
    "bisect": (
        blank(BisectDocument, finding=SearchFinding(what="pairs", found=False, sentence="nothing fails")),
        blank(
            BisectDocument,
            finding=SearchFinding(what="pairs", found=True, sentence="norm", culprits=(("norm", "rope"),)),
        ),
        ("pairs", "no cause", "norm + rope"),
    ),
    "defaults": (
        DefaultsDocument(first="a", second="b", results=blank(Agreement)),
        DefaultsDocument(
            first="a",
            second="b",
            results=blank(Agreement, disagreements=(blank(Disagreement, key="lr", kind="value"),)),
        ),
        ("a and b", "agree", "disagree"),
    ),
    "advise": (
        blank(AdviseDocument, model="m", results=(blank(Advice, axis="fsdp", verdict="compute-bound"),)),
        blank(AdviseDocument, model="m", results=(blank(Advice, axis="fsdp", verdict="memory-bound"),)),
        ("m/fsdp", "compute-bound", "memory-bound"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("command", [name for name in JUDGING if name != "compile model"])
def test_what_fails_now_is_a_new_failure(command: str) -> None:
    old, new, (side, before, after) = CASES[command]
    assert new.command == command
    found = compare_documents(old, new)
    worse = [row for row in found.results if row.fails]
    assert (worse[0].place.side(), worse[0].before, worse[0].after) == (side, before, after)
    assert not any(row.fails for row in compare_documents(new, old).results)
    assert compare_documents(old, old).results == ()


def test_figures_and_programs_of_a_compilation() -> None:
    old, new, _ = CASES["compile"]
    found = compare_documents(old, new)
    rows = {row.change: row for row in found.results}
    assert [*rows] == ["new failure", "fell", "other bits", "larger"]
    assert (rows["larger"].figure, rows["larger"].before, rows["larger"].after) == ("temp_bytes", 1.0, 4.0)
    assert (rows["other bits"].before, rows["other bits"].after) == ("aa", "bb")


def test_the_step_of_a_model_has_figures() -> None:
    steps = [
        blank(StepsDocument, results=(blank(CompiledStep, config="c", facts=blank(Facts, peak_bytes=size)),))
        for size in (100, 200)
    ]
    (figure,) = compare_documents(*steps).results
    assert (figure.place.item, figure.figure, figure.after) == ("c", "peak_bytes", 200.0)


def test_a_run_that_took_longer_is_slower() -> None:
    old, new, _ = CASES["train"]
    slower = compare_documents(old, new).results[-1]
    assert (slower.change, slower.place.item, slower.before, slower.after) == ("slower", "a", 1.0, 9.0)


def test_a_failure_says_what_was_found() -> None:
    rows = document_rows(document(different(reason="agreed"), result(verdict="rounding", reason="agreed")))
    reasons = [what_was_found(row) for row in rows.findings.values()]
    assert reasons == ["out['rows'][1, 2]: reference=6.4375 (0x40ce), multiply=6.375 (0x40cc)", "agreed"]


def test_a_command_without_verdicts() -> None:
    with pytest.raises(RequestError, match="documents of `samebits list` have no verdicts to compare; expected one of"):
        document_rows(Listing(results=(), problems=()))


def test_two_searches_have_nothing_in_common() -> None:
    """Of other configurations: a cause of one says nothing about the other."""
    cause = SearchFinding(what="steps", found=True, sentence="step 3", culprits=(("step 3",),))
    first, second = (blank(BisectDocument, asked=f"--config {name}", finding=cause) for name in ("moe", "dense"))
    with pytest.raises(CouldNotRun, match="they have none in common"):
        compare_documents(first, second)
    (change,) = compare_documents(first, first).results
    assert (change.change, change.place.item) == ("still fails", "steps --config moe")


NOISE = blank(EnvelopeRecord, config="one", loss_noise=(1, 2), loss_bound=(4, 5))
ULP = 2.0**-23


def losses_of(*losses: float, **more: Any) -> TrainDocument:
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
    found = compare_documents(losses_of(2.0, 1.5), losses_of(2.0, loss))
    losses = [row.excuse for row in found.results if row.change == "loss moved"]
    assert losses == ([] if excuse is None else [excuse])
    assert (found.exit_code, found.summary.failed) == (code, code)
    assert markdown(found).startswith(f"### samebits diff: {'worse' if code else 'held'}\n")
    statuses = [row.status for row in diff_outcomes(found, DeclarationLines({})).rows]
    assert statuses == ([] if excuse is None else ["failed" if code else "passed"])
    assert found.page().state == ("failed" if code else "passed")


def test_the_losses_and_the_size_are_said() -> None:
    text = screen(compare_documents(losses_of(2.0, 1.5), losses_of(2.0, 1.25)))
    assert "FAILED  loss moved: toy/one: 1.5 -> 1.25 at step 2 (up to 2097152 ulp)" in text
    assert "  example   first at step 2, loss: 2097152 ulp, and rounding alone explains 5" in text
    close = screen(compare_documents(losses_of(2.0, 1.5), losses_of(2.0, 1.5 + ULP)))
    assert "  loss moved, by rounding  toy/one: 1.5 -> 1.50000012 at step 2 (up to 1 ulp)" in close


def test_a_gradient_that_is_lost_is_a_worse_run() -> None:
    """With the same losses, where the new document bounds the norms; one of before says nothing of them."""
    norms = {"gradient": (1e-7, 1e-7), "parameter": (1e-9, 1e-9)}
    for noise, fails in ((norms, [True]), ({}, [])):
        envelope = replace(NOISE, norm_noise=noise)
        documents = []
        for size in (1.0, 0.0):
            document = losses_of(2.0, 1.5, envelope=envelope)
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
    found = compare_documents(losses_of(2.0, 1.5), losses_of(2.0, 1.25, environment=newer))
    assert found.exit_code == 0 and "loss moved, in another environment" in markdown(found)


@pytest.mark.parametrize(
    ("new", "why"),
    [
        (losses_of(2.0, 1.25, digest="e"), "has 2 steps of configuration d; here it has 2 of e"),
        (losses_of(2.0), "has 2 steps of configuration d; here it has 1 of d"),
        (
            losses_of(2.0, 1.25, envelope=None),
            "the new document has no envelope that says how far rounding alone moves it",
        ),
    ],
)
def test_what_is_not_judged_is_said(new: TrainDocument, why: str) -> None:
    old = losses_of(2.0, 1.5)
    line = f"losses of run 'one' are not compared: {why}"
    assert compare_documents(old, new).notes == (line,)
    assert [*not_judged(document_rows(old), document_rows(new))] == [line]
