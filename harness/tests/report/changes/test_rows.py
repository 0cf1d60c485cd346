"""The place of a result in words, and what is collected of a document."""

import pytest

from samebits.report.changes.diff import DocumentRows
from samebits.schema.finding import Place
from tests.support.documents import result


@pytest.mark.parametrize(
    ("place", "side", "what", "where"),
    [
        (
            result().place,
            "norm/multiply",
            "out",
            "case small, bfloat16, mesh data2 (auto)",
        ),
        (Place(pair="p", variant="v", direction="gradient", leaf="x"), "p/v", "gradient of x", ""),
        (Place(pair="p", direction="gradient", leaf="*"), "p", "gradient", ""),
        (
            Place(pair="p", direction="gradient", leaf="copies == 0", target="cpu"),
            "p",
            "gradient copies == 0",
            "cpu",
        ),
        (Place(item="train/context4"), "train/context4", "", ""),
    ],
)
def test_a_place_in_words(place: Place, side: str, what: str, where: str) -> None:
    assert (place.side(), place.what(), place.where()) == (side, what, where)


def test_leaves_share_the_time_of_their_point() -> None:
    rows, point = DocumentRows(), Place(pair="p", leaf="a")
    for leaf, seconds in (("a", 2.0), ("b", 2.0), ("c", None)):
        rows.add_seconds(Place(pair="p", leaf=leaf).whole, seconds)
    assert rows.seconds == {point.whole: 2.0}
