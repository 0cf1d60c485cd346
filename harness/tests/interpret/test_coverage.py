"""The page of covered primitives is generated from the code, and has every primitive of a training step."""

from pathlib import Path

import jax
import pytest

from tests.interpret.sweep import share
from tests.interpret.sweep.share import DOMAINS, markdown, table

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "primitives.md"


def test_the_table_is_what_the_code_says() -> None:
    assert PAGE.read_text(encoding="utf-8").startswith(markdown()), f"{PAGE.name} is old: run {share.MADE}"


@pytest.mark.slow
def test_the_share_is_what_the_sweep_finds() -> None:
    """Every program of the sweep is traced. Where a rule is new the table is old too, and one command makes both."""
    text = PAGE.read_text(encoding="utf-8")
    if f"## The share of jax {jax.__version__}\n" not in text:
        pytest.skip(f"the page is of another version of jax than {jax.__version__}")
    assert text == share.page(), f"{PAGE.name} is old: run {share.MADE}"


def test_every_primitive_has_a_cell_in_every_domain() -> None:
    known = table()
    assert all(len(cells) == len(DOMAINS) and all(cells) for cells in known.values())
    for name in ("shard_map", "psum", "ragged_all_to_all", "scan", "while", "cond", "custom_vjp_call", "dot_general"):
        assert name in known
    assert "pure_callback" not in known and "ffi_call" not in known


def test_the_share_counts_what_is_not_covered() -> None:
    found = {"sin": ["a"], "ffi_call": ["b"], "igamma": ["b", "c"], "and": ["c"]}
    assert share.covered(found, "field") == {"sin", "igamma", "and"}
    assert share.covered(found, "rounding") == {"sin", "and"}
    text = share.sections(found)
    assert "| that the sweep produces, of 3 programs | 4 | 3 (75 %) | 3 (75 %) | 2 (50 %) |" in text
    assert "\n- `ffi_call`: b\n" in text
