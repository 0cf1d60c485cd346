"""`samebits compile --run` and `samebits prove --compiled`: programs of all partitions beside what was written."""

import json
from pathlib import Path

import pytest

from samebits.compile.blame import EVALUATED, IN_PASSES
from samebits.compile.request import of_programs
from samebits.programs.plan import Request
from tests.support.invoke import samebits

REPOSITORY = Path(__file__).parents[3]
CPU = ("--target", "cpu:8", "--root", str(REPOSITORY))
PROGRAM = "structured_tokens_undo_float32_context8_auto_forward"

pytestmark = pytest.mark.usefixtures("own_cache")


def test_a_program_runs_and_is_proved(tmp_path: Path) -> None:
    document = tmp_path / "run.json"
    ran = samebits("compile", "sequence_reorder", "--run", *CPU, "--case", PROGRAM, "--json", document, "--in-process")
    assert ran.code == 0, ran
    (row,) = json.loads(document.read_text())["results"]
    assert (row["place"]["variant"], row["place"]["case"]) == ("cpu_8", PROGRAM)
    assert row["ruling"]["verdict"] in ("proved", "bitwise")
    assert row["replay"].startswith(f"samebits compile sequence_reorder --run --target cpu:8 --case {PROGRAM}")
    assert EVALUATED in ran.out.replace("\n", " ")
    proved = samebits("prove", "sequence_reorder", "--compiled", *CPU, "--case", PROGRAM, "--in-process")
    assert "cpu_8, out: PROVED" in proved.out or "cpu_8, out: same formulas" in proved.out, proved


def test_products_are_taken_in_passes_on_request(tmp_path: Path) -> None:
    words = ("--products", "bf16", "--json", tmp_path / "run.json", "--in-process")
    ran = samebits("compile", "sequence_reorder", "--run", *CPU, "--case", PROGRAM, *words)
    (row,) = json.loads((tmp_path / "run.json").read_text())["results"]
    assert ran.code == 0 and row["replay"].endswith(f"--case {PROGRAM} --products bf16"), row
    assert IN_PASSES in ran.out.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--compiled",), "--compiled and --target go together: --compiled --target v5p:2x2x1"),
        (("--target", "cpu:8"), "--compiled and --target go together: --compiled --target v5p:2x2x1"),
        (
            ("--compiled", "--target", "cpu:8", "--all-sizes"),
            "--compiled is of declared pairs at their sizes: leave out two functions, model, --all-sizes",
        ),
        (("--compiled", "--target", "h100"), "target 'h100' is malformed"),
    ],
)
def test_wrong_requests_get_one_line(words: tuple[str, ...], line: str) -> None:
    ended = samebits("prove", "sequence_reorder", "--root", str(REPOSITORY), *words)
    assert ended.code == 2 and len(ended.lines) == 1, ended
    assert ended.lines[0].startswith(f"samebits: {line}")


def test_a_case_of_the_pair_selects_its_programs() -> None:
    chosen = of_programs(Request(cases=("tokens",), variants=("structured",)), "v5p:2x2x1")
    assert chosen == Request(cases=("structured_tokens_*_*_*_*",), variants=("v5p_2x2x1",))
    assert of_programs(Request(cases=(PROGRAM,)), "cpu:8").cases == (PROGRAM,)
    assert of_programs(Request(), "cpu:8").cases == ("*_*_*_*_*_*",)
