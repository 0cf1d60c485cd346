"""A matrix of what is read: cells are where they were, and say by which equation they are read."""

import re

from samebits.report.html.read_matrix import matrix_markup
from samebits.schema.picture import ReadMatrix


def test_cells_have_their_place_and_their_words() -> None:
    svg = matrix_markup(ReadMatrix(cells="o1 x2 .1\n.3 o1", place="add(a, b) at <leak>.py:3"), "reads")
    cells = re.findall(
        r'<rect x="(\d+)" y="(\d+)" width="(\d+)" height="64" fill="(#\w+)"/><text y="144">(.*?)</text>', svg
    )
    assert cells == [
        ("0", "0", "64", "#1565c0", "output group 0 reads input group 0"),
        (
            "64",
            "0",
            "128",
            "#c62828",
            "output group 0 reads input groups 1 to 2, which it must not, by add(a, b) at &lt;leak&gt;.py:3",
        ),
        ("192", "64", "64", "#1565c0", "output group 1 reads input group 3"),
    ]
    assert svg.count('<g tabindex="0">') == 3
