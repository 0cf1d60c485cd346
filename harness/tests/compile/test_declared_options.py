"""Compiler options that a declaration gives to one side: accepted with their effect, or rejected as declared."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.invoke import Ended
from tests.support.real_tree import compiled, where, write_real_pair

UNFUSED = 'options={"again": {"xla_disable_hlo_passes": "fusion"}},'
UNKNOWN = 'options={"again": {"xla_such_an_option": "1"}},'
TAKEN = 'options={"again": {"xla_allow_excess_precision": "False"}},'

pytestmark = pytest.mark.usefixtures("own_cache")


def run(
    tmp_path: Path, real: str, match: str | None = None, claim: str = "VARIANT.while_loops == 0"
) -> tuple[Ended, Any]:
    refuses = (
        "" if match is None else f', refuses=(Refusal(error="RequestError", match="{match}", variants=("again",)),)'
    )
    write_real_pair(
        tmp_path, claims=[f'variant="again", shows={claim}'], variants=("turned", "again"), case=refuses, real=real
    )
    return compiled(tmp_path, "--direction", "forward")


@pytest.mark.slow
def test_an_option_belongs_to_its_side_and_its_effect_is_shown(tmp_path: Path) -> None:
    ended, document = run(tmp_path, UNFUSED)
    assert (ended.code, ended.err) == (0, ""), ended
    given = {"xla_disable_hlo_passes": "fusion"}
    expected = [("gather", {}), ("turned", {}), ("again", {}), ("again", given)]
    assert [(one["side"], one["options"]) for one in document["results"]] == expected
    (effect,) = document["options"]
    assert (effect["side"], effect["changed"]) == ("again", True)
    assert "again: xla_disable_hlo_passes=fusion: another program:" in ended.out


@pytest.mark.slow
def test_a_claim_is_about_the_program_with_the_option(tmp_path: Path) -> None:
    """`again` is the reference's program without the option; with it no longer."""
    ended, _ = run(tmp_path, UNFUSED, claim="VARIANT.program == REFERENCE.program")
    assert ended.code == 1 and "FAILS: again: same program as reference (got another program" in ended.out
    ended, _ = run(tmp_path / "without", "", claim="VARIANT.program == REFERENCE.program")
    assert ended.code == 0, ended


def test_a_refusal_that_is_declared(tmp_path: Path) -> None:
    ended, document = run(tmp_path, UNKNOWN, "No such compile option")
    assert (ended.code, ended.err) == (0, ""), ended
    (one,) = where(document["comparisons"], variant="again")
    assert one["verdict"] == "refused" and "xla_such_an_option" in one["reason"]
    assert "again: refused by the compiler:" in ended.out, ended.out
    assert "holds: again: refused: No such compile option" in ended.out
    assert [one["side"] for one in document["results"]] == ["gather", "turned", "again"], "the plain program stays"


def test_another_refusal_than_declared_fails(tmp_path: Path) -> None:
    ended, document = run(tmp_path, UNKNOWN, "out of memory")
    assert ended.code == 1 and "FAILS: again: refused: out of memory (got cpu:8 rejects" in ended.out
    assert where(document["comparisons"], variant="again")[0]["verdict"] is None


def test_an_option_that_is_taken_though_declared_refused_fails(tmp_path: Path) -> None:
    ended, _ = run(tmp_path, TAKEN, "No such compile option")
    assert (
        ended.code == 1 and "FAILS: again: refused: No such compile option (got it compiled; declared)" in ended.out
    ), ended.out


def test_a_refusal_that_is_not_declared_is_a_wrong_request(tmp_path: Path) -> None:
    ended, _ = run(tmp_path, UNKNOWN)
    assert ended.code == 2 and "No such compile option: 'xla_such_an_option'" in ended.err


@pytest.mark.parametrize(
    ("real", "message"),
    [
        (UNFUSED.replace("again", "agian"), "side 'agian' is unknown; expected some of gather, turned, again"),
        ('options={"again": {"xla_allow_excess_precision": False}},', "options of 'again' are"),
        ('options={"again": {}},', "options of 'again' are {}; expected {'name': 'value'}, both in quotes"),
    ],
)
def test_wrong_options_of_a_declaration(tmp_path: Path, real: str, message: str) -> None:
    ended, _ = run(tmp_path, real)
    assert ended.code == 2 and message in ended.err and ended.err.count("\n") == 1
