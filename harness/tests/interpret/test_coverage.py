"""The page of covered primitives is generated from the code, and has every primitive of a training step."""

from __future__ import annotations

from pathlib import Path

from samebits.interpret.coverage import DOMAINS, markdown, table

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "primitives.md"


def test_the_page_is_what_the_code_says() -> None:
    made = "python -m samebits.interpret.coverage > docs/reference/primitives.md"
    assert PAGE.read_text(encoding="utf-8") == markdown(), f"docs/reference/primitives.md is old: run {made}"


def test_every_primitive_means_something_in_every_domain() -> None:
    known = table()
    assert all(len(cells) == len(DOMAINS) and all(cells) for cells in known.values())
    for name in ("shard_map", "psum", "ragged_all_to_all", "scan", "while", "cond", "custom_vjp_call", "dot_general"):
        assert name in known
    assert "conv_general_dilated" not in known and "pallas_call" not in known
