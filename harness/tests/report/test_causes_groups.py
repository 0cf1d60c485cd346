"""Which failing results are one group: what joins them, and what keeps them apart."""

from typing import Any

import pytest

from samebits.report.causes import error_text, group_failures, kinds_of, without_numbers
from samebits.schema.difference import Difference
from samebits.schema.finding import Finding
from samebits.schema.line_difference import LineDifference
from tests.support.documents import different, result

LINE = LineDifference(change="other", variant="norm.py:8", reference="plain.py:3", primitive="add")
MOVED = LineDifference(change="moved", variant="norm.py:8", reference="plain.py:3", primitive="reverse")


def error(reason: str, **more: Any) -> Finding:
    return result(verdict="error", ok=False, leaf="*", reason=reason, **more)


def sizes(*results: Finding) -> list[int]:
    return sorted(len(group) for group in group_failures(results, {"norm": "einsum"}).values())


def test_one_line_is_one_group_also_for_two_variants() -> None:
    assert sizes(different(lines=(LINE,)), different(lines=(LINE,), variant="slice", direction="gradient")) == [2]
    other = LineDifference(change="other", variant="norm.py:9", reference="plain.py:3")
    assert sizes(different(lines=(LINE,)), different(lines=(other,))) == [1, 1]


def test_results_without_a_line_join_the_one_that_explains_them() -> None:
    assert sizes(different(lines=(LINE,)), different(mesh="data4")) == [2]
    assert sizes(different(lines=(LINE,)), different(variant="slice")) == [1, 1]
    second = LineDifference(change="other", variant="norm.py:9")
    # Of two lines of one side none is the cause of a third case; of a case that both have not either.
    assert sizes(different(lines=(LINE,)), different(lines=(second,), case="b"), different(case="c")) == [1, 1, 1]
    assert sizes(different(lines=(LINE,)), different(lines=(second,), case="b"), different(case="b")) == [1, 2]


def test_a_line_of_several_pairs_is_one_group() -> None:
    assert sizes(different(lines=(LINE,)), different(lines=(LINE,), pair="moe")) == [2]


def test_a_leaf_without_its_proof_joins_the_leaves_of_its_point() -> None:
    short = result(verdict="bitwise", ok=False, required="proved", leaf="sizes")
    assert sizes(different(lines=(LINE,)), short) == [2]
    assert sizes(different(lines=(LINE,), mesh="data8"), short) == [1, 1]


def test_special_values_join_only_a_line_that_moves_elements() -> None:
    zero = different(kind="sign of zero", mesh="data4")
    assert sizes(different(lines=(LINE,)), zero) == [1, 1]
    assert sizes(different(lines=(MOVED,)), zero) == [2]


def test_errors_are_one_group_by_their_text_without_numbers() -> None:
    at = "norm: 'multiply', case 'small', bfloat16, forward, mesh 'data2' (auto): raised ValueError: "
    other = at.replace("small", "large").replace("data2", "data8")
    first, second = error(f"{at}shape (4, 8) of 32"), error(f"{other}shape (16, 8, 2) of 256", case="large")
    assert error_text(first) == "ValueError: shape (4, 8) of 32"
    assert sizes(first, second) == [2]
    assert sizes(first, error(f"{at}no kernel")) == [1, 1]
    assert sizes(
        first, error("RESOURCE_EXHAUSTED: out of memory"), error("RESOURCE_EXHAUSTED: out of memory", pair="b")
    )


def test_lost_processes_are_one_group_by_signal() -> None:
    segv = [error(f"its process ended while compiling '{name}': SIGSEGV; it was at a.py:{3}") for name in ("a", "b")]
    killed = error("its process ended while running 'a': SIGKILL")
    assert sizes(*segv, killed) == [1, 2]


def test_the_mesh_is_a_group_of_reference_and_variants() -> None:
    own = different(variant="einsum")
    assert sizes(own, different()) == [2]
    assert sizes(own, different(mesh="data4")) == [1, 1]  # there the reference does not fail


def test_what_is_worse_or_located_is_not_the_meshs() -> None:
    rounds = {"verdict": "rounding", "required": "bitwise"}
    own = different(variant="einsum", **rounds)
    assert sizes(own, different(**rounds)) == [2]
    assert sizes(own, different()) == [1, 1]
    assert sizes(own, different(**rounds, lines=(LINE,))) == [1, 1]
    refuted = different(evidence="not the same mathematics: out[] is 2 in the reference, 3 here, in float64")
    assert sizes(different(variant="einsum"), refuted) == [1, 1]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("shape (2, 16, 2, 3) is 0x7f", "shape (#) is #"),
        ("float32 at norm.py:48", "float32 at norm.py:#"),
        ("off by -1.5e-07", "off by #"),
        ("partial(<f at 0x7fd333a81580>, 4, False)", "partial(<f at #>, #)"),
    ],
)
def test_numbers_are_removed(text: str, shown: str) -> None:
    assert without_numbers(text) == shown


def test_the_kinds_of_a_document_without_classes() -> None:
    assert kinds_of(different()) == {"rounding"}
    assert kinds_of(different(differences=(Difference(kind="other", elements=1),))) == {"other"}
    assert kinds_of(error("x")) == frozenset()
