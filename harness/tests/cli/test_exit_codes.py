"""The exit codes of a check: a tree with one pair for each outcome, run as a whole and pair by pair."""

import sys
from pathlib import Path

import pytest

from samebits.report.check import Document, read_document
from samebits.schema.finding import exit_code
from tests.support.foreign import AXES, FORWARD, PLANTED, write_pair, write_tree
from tests.support.invoke import Ended, samebits, samebits_process

EXIT_CODES = {
    "good": 0,
    "known": 0,
    "loose": 0,
    "rounds": 0,
    "planted": 1,
    "stale": 1,
    "lonely": 2,
    "no_case": 2,
    "signature": 2,
    "unimportable": 2,
    "unmatched": 2,
    "raising": 3,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended, Document]:
    root = write_tree(tmp_path_factory.mktemp("tree"))
    file = root / "r.json"
    ended = samebits("check", "--root", root, "--json", file)
    return root, ended, read_document(file)


def test_every_wrong_pair_gets_one_line(whole: tuple[Path, Ended, Document]) -> None:
    root, ended, _ = whole
    suites, optimized = root / "suites", root / "optimized_impls"
    assert sorted(ended.lines) == [
        f"samebits: pair 'lonely' lacks a twin: write {optimized / 'lonely.py'}",
        "samebits: pair 'no_case': its declaration yields no case; "
        "loosen the filters, or the cases' dtypes, meshes and variants",
        "samebits: pair 'signature': 'fast' takes (x, scale) and is called with x: 'scale' is missing; declare it "
        "in args or statics, or give it a default (case 'small')",
        f"samebits: pair 'unimportable': {suites / 'test_unimportable.py'} does not import: ModuleNotFoundError: "
        f"No module named 'nothing_of_this_name' ({suites / 'test_unimportable.py'}:1); install it for "
        f"{sys.executable}, or add its folder to PYTHONPATH",
        "samebits: pair 'unmatched': exemption (variant=fast, leaf=out[[]3]) matches no result; remove it",
    ]


def test_a_difference_is_the_gravest_news(whole: tuple[Path, Ended, Document]) -> None:
    assert whole[1].code == 1


def test_the_other_pairs_are_reported(whole: tuple[Path, Ended, Document]) -> None:
    document = whole[2]
    by_pair = {pair: [r for r in document.results if r.place.pair == pair] for pair in EXIT_CODES}
    assert {pair for pair, results in by_pair.items() if not results} == {
        "lonely",
        "no_case",
        "signature",
        "unimportable",
    }
    assert all(result.ruling.ok for pair in ("good", "known", "loose", "rounds") for result in by_pair[pair])
    assert {problem.pair for problem in document.problems} == {
        "lonely",
        "no_case",
        "signature",
        "unimportable",
        "unmatched",
    }


def test_a_variant_that_raises_while_tracing_is_an_error(whole: tuple[Path, Ended, Document]) -> None:
    root, _, document = whole
    results = [result for result in document.results if result.place.pair == "raising"]
    assert {(result.place.variant, result.ruling.verdict) for result in results} == {
        ("plain", "proved"),
        ("fast", "error"),
    }
    reason = next(result.ruling.reason for result in results if not result.ruling.ok)
    assert reason is not None
    assert reason.endswith(f"raised RuntimeError: no kernel for this shape ({root / 'optimized_impls/raising.py'}:2)")


def test_an_exemption_that_no_longer_differs_fails(whole: tuple[Path, Ended, Document]) -> None:
    results = [r for r in whole[2].results if r.place.pair == "stale" and r.place.variant == "fast"]
    assert {(r.ruling.verdict, r.ruling.ok) for r in results} == {("bitwise", False)}
    assert results[0].ruling.reason == (
        "the exemption expects 'different' and 'bitwise' came out; change or remove it: "
        "one element is 1.5 times too large"
    )


def test_a_contract_that_can_be_tightened_is_a_note(whole: tuple[Path, Ended, Document]) -> None:
    note = (
        "loose: the contract (every result) accepts rounding, and all 2 results that it covers are bitwise or better, "
        "on every machine; it can be tightened to 'bitwise'"
    )
    assert [text for text in whole[2].summary.notes if "tightened" in text] == [note]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("pair", EXIT_CODES)
def test_exit_code_of_one_pair(whole: tuple[Path, Ended, Document], pair: str) -> None:
    assert samebits("check", pair, "--root", whole[0]).code == EXIT_CODES[pair]


def test_others_are_reported_beside_one_that_cannot_run(whole: tuple[Path, Ended, Document]) -> None:
    ended = samebits("check", "good", "raising", "--root", whole[0])
    assert ended.code == 3 and "results of 2 pairs" in ended.out and "error 1" in ended.out, ended.out


def test_an_exemption_is_not_unmatched_because_of_a_filter(
    whole: tuple[Path, Ended, Document],
) -> None:
    ended = samebits("check", "unmatched", "--root", whole[0], "--direction", "forward")
    assert (ended.code, ended.err) == (0, "")


def test_skips_are_counted_and_fail_only_when_asked(tmp_path: Path) -> None:
    write_pair(tmp_path, "large", axes=AXES.replace('"data2"', '"data1", "data2"'), extra=FORWARD)
    file = tmp_path / "r.json"
    few = ("--devices", "1", "--in-process")
    ended = samebits_process("check", "--root", tmp_path, *few, "--no-skips", "--json", file)
    assert (ended.code, ended.err) == (3, "")
    assert "large: 2 results on mesh data2 skipped: mesh 'data2' needs 2 devices and 1 are there" in ended.out
    assert "--no-skips: the 2 skipped results fail this run" in ended.out
    document = read_document(file)
    assert document.summary.skipped == document.summary.ok == 2
    assert exit_code(document.results) == 0
    assert exit_code([result for result in document.results if result.ruling.verdict == "skipped"]) == 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ["import nothing_of_this_name", "def fast(x:", "raise SystemExit(0)", "slow = 1"])
def test_an_implementation_that_does_not_import_costs_its_pair(text: str, tmp_path: Path) -> None:
    """The difference of another pair is the graver news, and its row is in the document."""
    write_pair(tmp_path, "planted", axes=AXES, optimized=PLANTED)
    write_pair(tmp_path, "broken", axes=AXES, optimized=text)
    file = tmp_path / "r.json"
    ended = samebits("check", "--root", tmp_path, "--json", file)
    assert (ended.code, len(ended.lines)) == (1, 1), ended.err
    document = read_document(file)
    assert {result.place.pair for result in document.results} == {"planted"}
    assert [problem.pair for problem in document.problems] == ["broken"]
