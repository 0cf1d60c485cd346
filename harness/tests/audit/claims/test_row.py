"""Rows of `samebits audit claims`: verdicts and figures in words; a row that is not as declared fails."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from samebits.audit.claims.row import (
    ClaimEvidence,
    Saving,
    claim_row,
    command_claim_row,
    holds_of,
    ratio_of,
    saved_of,
    values_of,
)
from samebits.errors import DeclarationError
from samebits.host.subprocesses import ProcessResult
from samebits.report.claims import ClaimsDocument, cell, summarise
from samebits.schema.document_claim import Documented
from samebits.schema.finding import Finding
from samebits.schema.program_facts import ClaimResult, CompiledSide, SideBySide
from tests.support.documents import WITNESS
from tests.support.findings import finding

CLAIM = Documented(id="1.2", document="a pull request", says="the same, and smaller", saves="temp_bytes")


def result(verdict: Any = "bitwise", **changes: Any) -> Finding:
    fields: dict[str, Any] = {"pair": "rope", "variant": "fast", "case": "small", "dtype": "float32", "mesh": "data2"}
    fields |= {"mode": "auto", "direction": "forward", "leaf": "out", "required": "bitwise", "ok": True}
    return finding(**{**fields, "verdict": verdict, **changes})


def program(side: str, temp: int | None, **changes: Any) -> CompiledSide:
    counted = dict.fromkeys(("while_loops", "gathers", "scatters", "copies", "sparsecore"), 0)
    empty: dict[str, Any] = {
        name: {} for name in ("collectives", "sparsecore_operations", "custom_calls", "operations")
    }
    none = dict.fromkeys(
        ("loop_turns", "wire_bytes", "peak_bytes", "argument_bytes", "output_bytes", "bytes_accessed", "flops")
    )
    which: dict[str, Any] = {"pair": "rope", "case": "real", "dtype": "float32", "mesh": "data8", "mode": "auto"}
    which |= {"direction": "forward", "target": "cpu", "shapes": (), "options": {}, "compiler": "1", "replay": ""}
    rest = {"optimal_seconds": None, "compile_seconds": 0.1, "cached": False, "program": side, "unordered": side}
    fields: dict[str, Any] = {**counted, **empty, **none, **which, **rest, "side": side, "temp_bytes": temp}
    return CompiledSide(**{**fields, **changes})


def comparison(variant: str = "fast", **changes: Any) -> SideBySide:
    ratios = dict.fromkeys(("temp_ratio", "peak_ratio", "bytes_ratio", "wire_ratio"))
    fields: dict[str, Any] = {"pair": "rope", "variant": variant, "reference": "plain", "case": "real", **ratios}
    fields |= {"dtype": "float32", "mesh": "data8", "direction": "forward", "target": "cpu", "same_program": False}
    fields |= {"same_order": False, "verdict": None, "reason": "", "operations": {}}
    return SideBySide(**{**fields, **changes})


def found(*results: Finding, temp: int | None = 50, **changes: Any) -> ClaimEvidence:
    programs = (program("plain", 100), program("fast", temp))
    return ClaimEvidence(results or (result(),), programs, (comparison(**changes),))


def judged(evidence: ClaimEvidence, claim: Documented = CLAIM) -> Any:
    return claim_row(claim, "rope", ("fast",), evidence, ("samebits check rope",))


def test_the_same_bits_and_half_the_memory() -> None:
    one = judged(found(result("proved"), result()))
    assert (one.values, one.saved, one.holds, one.ok) == ("same bits", "saves", "holds", True)
    (saving,) = one.savings
    assert (saving.reference_value, saving.value, saving.ratio) == (100, 50, 0.5)
    assert one.verdicts == {"proved": 1, "bitwise": 1}


@pytest.mark.parametrize(
    ("verdicts", "values"),
    [
        ("proved bitwise refused", "same bits"),
        ("bitwise skipped", "same bits"),
        ("proved rounding", "same mathematics"),
        ("proved different", "not always the same"),
        ("bitwise unstable", "not always the same"),
        ("different different refused", "not the same"),
        ("proved error", "undecided"),
        ("refused", "undecided"),
        ("skipped", "undecided"),
        ("", "undecided"),
    ],
)
def test_the_lowest_verdict_decides(verdicts: str, values: str) -> None:
    assert values_of(result(verdict) for verdict in verdicts.split()) == values


@pytest.mark.parametrize(
    ("temps", "saved"),
    [
        ((50, 97), "saves"),
        ((50, 99), "saves in part"),
        ((99, 101), "no change"),
        ((99, 103), "costs"),
        ((50, 150), "saves in part"),
        ((50, None), "saves in part"),
        ((None, None), "undecided"),
        ((), "undecided"),
    ],
)
def test_what_figures_come_to(temps: Sequence[int | None], saved: str) -> None:
    """A figure that is not known is never a saving, and two hundredths are none."""
    savings = [
        Saving(
            target="cpu",
            case="real",
            direction="forward",
            variant="fast",
            reference_value=100,
            value=temp,
            ratio=ratio_of(temp, 100),
            same_program=False,
        )
        for temp in temps
    ]
    assert saved_of(savings) == saved


def test_ratios() -> None:
    assert [ratio_of(*pair) for pair in ((1, 2), (0, 0), (1, 0), (None, 1), (1, None))] == [
        0.5,
        1,
        float("inf"),
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("values", "saved", "qualified", "holds"),
    [
        ("same bits", None, False, "holds"),
        ("same bits", "saves", True, "holds in part"),
        ("same mathematics", "saves", False, "holds but for rounding"),
        ("same bits", "saves in part", False, "holds in part"),
        ("same bits", "costs", False, "does not hold"),
        ("same bits", "no change", False, "does not hold"),
        ("not always the same", "saves", False, "holds in part"),
        ("not the same", None, False, "does not hold"),
        ("undecided", "saves", False, "undecided"),
        ("same bits", "undecided", False, "undecided"),
        ("not tested", "saves", False, "holds"),
        ("not tested", "no change", False, "does not hold"),
    ],
)
def test_a_claim_is_no_better_than_its_parts(values: Any, saved: Any, qualified: bool, holds: str) -> None:
    assert holds_of(values, saved, qualified=qualified) == holds


def test_what_is_otherwise_than_declared() -> None:
    """Nothing checked or all skipped, nothing compiled, a failing result or claim of a program, a test that failed."""
    wrong = ClaimResult(shows="gathers == 0", source="us", finding=None, holds=False, ok=False, got="1")
    shown = replace(CLAIM, finding="it gathers", tests=("test_it",))
    for evidence, claim in (
        (ClaimEvidence((), found().programs, found().comparisons), CLAIM),
        (found(result("skipped", reason="too few devices")), CLAIM),
        (ClaimEvidence((result(),)), CLAIM),
        (found(result("different", ok=False)), CLAIM),
        (found(expectations=(wrong,)), CLAIM),
        (found(), shown),
        (replace(found(), tests={"test_it": False}), shown),
    ):
        assert not judged(evidence, claim).ok
    good = replace(found(), tests={"test_it": True})
    assert judged(good, shown).ok and judged(good, shown).holds == "holds in part"


def test_a_known_difference_is_shown_with_its_witness_and_reason() -> None:
    known = result("different", exempt=True, reason="ids below 0 wrap: 3 of 8", witness=WITNESS)
    one = judged(found(result(), known))
    assert (one.holds, one.ok, one.exempt) == ("holds in part", True, 1)
    assert one.findings == (
        "ids below 0 wrap: 3 of 8",
    ) and "fast, small on data2, forward of out: leaf out['rows'], index [1, 2], reference 6.4375" in str(one.witness)


def test_only_the_sides_cases_and_sizes_of_the_claim_count() -> None:
    other = result("different", variant="slow", ok=False)
    apart = result("different", case="large", ok=False)
    claim = replace(CLAIM, variants=("fast",), cases=("small",), real=("real",))
    one = claim_row(claim, "rope", ("fast", "slow"), found(result(), other, apart), ())
    assert one.ok and one.holds == "holds"
    elsewhere = replace(claim, real=("other",))
    assert claim_row(elsewhere, "rope", ("fast",), found(), ()).saved == "undecided"


def test_a_test_that_did_not_run_is_not_one_that_failed() -> None:
    """After Ctrl-C a row is undecided, whereas a failed test makes it differ from its declaration."""
    shown = replace(CLAIM, finding="it gathers", tests=("test_it",))
    document = [judged(replace(found(), tests=tests), shown) for tests in (None, {"test_it": False})]
    assert [(one.holds, one.ok) for one in document] == [("undecided", False), ("holds in part", False)]
    assert [ended([one]).exit_code for one in document] == [3, 1]


def ended(rows: list[Any]) -> ClaimsDocument:
    summary = summarise(rows, 1.0, interrupted=False)
    return ClaimsDocument(
        environment=None, compilers={}, results=tuple(rows), commands=(), problems=(), summary=summary
    )


def test_where_the_compilers_alone_are_asked() -> None:
    """The values stand in another row: a difference that another case of the pair shows is not this claim's."""
    alone = replace(CLAIM, compiled_only=True)
    one = judged(ClaimEvidence((), found().programs, found().comparisons), alone)
    assert (one.values, one.holds, one.ok) == ("not tested", "holds", True)
    assert not judged(ClaimEvidence((result(),)), alone).ok, "nothing was compiled"


def test_a_claim_of_a_program_that_is_not_true_is_a_finding() -> None:
    known = ClaimResult(shows="gathers == 0", source="us", finding="4 gathers on cpu", holds=False, ok=True, got="4")
    assert judged(found(expectations=(known,))).findings == ("gathers == 0 is not true: 4 gathers on cpu",)


@pytest.mark.parametrize(
    ("ended", "holds"),
    [
        (ProcessResult(code=1, out="mlp above 46 140\nmore"), "holds"),
        (ProcessResult(code=0, out="mlp above 46 140"), "does not hold"),
        (ProcessResult(code=1, out="mlp above 23 070"), "does not hold"),
        (ProcessResult(code=2, err="wrong"), "undecided"),
        (None, "undecided"),
    ],
)
def test_a_command_must_end_and_print_as_declared(ended: ProcessResult | None, holds: str) -> None:
    claim = Documented(id="1", document="d", says="s", command=("audit", "advise"), exits=1, prints="above 46 140$")
    one = command_claim_row(claim, "decoder", ended, "samebits audit advise")
    assert (one.holds, one.ok) == (holds, holds == "holds")
    assert one.said == "mlp above 46 140" if holds == "holds" else one.said


def test_a_cell_ranges_from_the_least_to_the_most() -> None:
    def saving(direction: str, ratio: float | None) -> Saving:
        places = {"target": "cpu", "case": "real", "variant": "fast", "reference_value": 1.0, "value": 1.0}
        return Saving(**places, direction=direction, ratio=ratio, same_program=False)  # type: ignore[arg-type]

    savings = [saving("gradient", 1.5), saving("forward", 0.25), saving("gradient", 0.5), saving("forward", None)]
    assert cell(savings) == "0.25x / 0.5-1.5x"
    assert cell([saving("forward", None)]) == "?x" and cell([]) == ""


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": "3922 5"}, "claim '3922 5': expected an id such as 3922.5"),
        ({"says": " "}, "claim '1.2' has an empty says"),
        ({"saves": "temp"}, "saves='temp' is not a figure; expected some of while_loops"),
        ({"finding": "it gathers"}, "claim '1.2' has a finding and no tests"),
        ({"tests": ("test_it",)}, "claim '1.2' has a test and no finding"),
        ({"saves": None, "compiled_only": True}, "asks the compilers alone and says of nothing that it is saved"),
        ({"command": ("audit", "advise")}, "a command and the line that it must print belong together"),
        ({"command": ("audit", "advise"), "prints": "("}, "prints='(' is not a valid regex"),
        ({"variants": "fast"}, "variants is the text 'fast'; expected a tuple"),
    ],
)
def test_wrong_declarations(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message.replace("(", r"\(")):
        replace(CLAIM, **fields)
