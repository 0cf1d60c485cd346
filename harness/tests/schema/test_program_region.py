"""The first row of a region that differs: what both sides have, in place or moved, is none."""

from typing import Any

from samebits.schema.program_facts import ProgramRegion, RegionLine


def region(*kinds: Any) -> ProgramRegion:
    return ProgramRegion(
        levels=(), lines=tuple(RegionLine(kind=kind, note=str(place)) for place, kind in enumerate(kinds)), more=0
    )


def test_the_first_row_that_differs() -> None:
    for kind in ("changed", "reference", "variant"):
        first = region("same", "moved", kind, "changed").first
        assert first is not None and (first.kind, first.note) == (kind, "2")


def test_rows_of_both_sides_do_not_differ() -> None:
    assert region("same", "moved").first is None
