"""One result in depth, as the browser shows it: values, heat map, distances, accuracy, source, inputs, sharding."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from samebits.programs.placement import parts
from samebits.report.check import CaseInputs, Document, PairHead
from samebits.report.html import sections as page_module
from samebits.report.html.sections import html_page, section_of, static
from samebits.schema.difference import Witness
from samebits.schema.finding import Finding
from samebits.schema.meshes import MeshSpec
from samebits.schema.picture import HeatMap, Picture, Window
from tests.report.html.browser.conftest import Opener
from tests.report.html.browser.samples import sample
from tests.support.documents import different, document
from tests.support.findings import changed

if TYPE_CHECKING:
    from playwright.sync_api import Locator

HEAT = HeatMap(
    edges={"0": "0 2 4", "2": "0 5 10"},
    counts="0*5\n0*5\n0 0 7 0*2\n0*4 3",
)
WINDOW = Window(
    input="special",
    elements="[2, 1, 3:6]",
    reference="1.5 nan 0",
    optimized="1.75 2 -0",
    reference_hex="0x3fc0 0x7fc0 0x0000",
    optimized_hex="0x3fe0 0x4000 0x8000",
    ideal="1.6 nan 0",
)


def drawn(**changes: Any) -> Finding:
    """A result that differs, with its picture."""
    ulps = {"0": 1, "2^0": 4, "2^10": 3, "2^30": 1, "none": 1}
    picture = Picture(heat=HEAT, ulps=ulps, inputs={"ordinary": 0, "special": 10}, window=WINDOW)
    witness = Witness(
        leaf="out",
        index=(2, 1, 4),
        reference="nan",
        optimized="2",
        reference_hex="0x7fc0",
        optimized_hex="0x4000",
        kind="NaN vs number",
        input="special",
    )
    return different(**{"mismatches": 10, "picture": picture, "witness": witness, **changes})


def shown(opened: Opener, of: Document, **window: Any) -> Locator:
    """The first result of a document, unfolded with all that is in it."""
    page = opened(html_page([section_of(of)], "results"), **window).page
    page.locator("details.row > summary").first.click()
    row = page.locator("details.row").first
    row.locator(".parts").wait_for()
    row.evaluate("row => row.querySelectorAll('details').forEach((each) => { each.open = true; })")
    return row


def cells(row: Locator) -> list[str]:
    """What the heat map says of each of its parts."""
    texts: list[str] = row.locator("svg.heat rect.some title, svg.heat rect.none title").all_text_contents()
    return texts


def test_the_heat_map_has_counts_and_borders(opened: Opener) -> None:
    row = shown(opened, document(drawn()))
    said = cells(row)
    assert len(said) == 20
    assert said[12] == "axis 0: 2, axis 2: 4 to 5: 7 differ"
    assert said[19] == "axis 0: 3, axis 2: 8 to 9: 3 differ"
    assert sum(": 0 differ" in text for text in said) == 18
    borders = row.locator("svg.heat line.border").evaluate_all(
        "lines => lines.map((line) => ['x1', 'x2', 'y1', 'y2'].map((name) => Number(line.getAttribute(name))))"
    )
    frame = row.locator("svg.heat rect.frame").evaluate(
        "frame => ['x', 'y', 'width', 'height'].map((name) => Number(frame.getAttribute(name)))"
    )
    (upright, level) = borders
    assert upright[0] == upright[1] == frame[0] + frame[2] / 2
    assert level[2] == level[3] == frame[1] + frame[3] / 2
    words = row.locator("svg.heat").get_attribute("aria-label")
    lie = "They lie in axis 0 from 2 to 3 of 0 to 3, axis 2 from 4 to 9 of 0 to 9."
    assert words == f"10 differing elements in 2 of 20 parts. {lie}"
    assert "axis 0 at 2; axis 2 at 5" in row.locator(".where").inner_text()


def test_values_are_beside_each_other(opened: Opener) -> None:
    row = shown(opened, document(drawn()))
    tables = [table.inner_text().split() for table in row.locator(".values tbody").all()]
    assert tables == [
        ["1.5", "0x3fc0", "nan", "0x7fc0", "(the", "witness)", "0", "0x0000"],
        ["1.75", "0x3fe0", "2", "0x4000", "(the", "witness)", "-0", "0x8000"],
        ["0.25", "no", "number", "(the", "witness)", "other", "sign"],
        ["1.6", "nan", "(the", "witness)", "0"],
    ]
    assert row.locator(".values thead").first.inner_text().split() == ["3", "4", "5"]


def test_distances_are_bars_with_numbers(opened: Opener) -> None:
    rows = shown(opened, document(drawn())).locator(".bars tbody tr")
    assert [text.split("\t")[:2] for text in rows.all_inner_texts()] == [
        ["0: zeros of other sign", "1"],
        ["1 ulp", "4"],
        ["1,024 to 2,047", "3"],
        ["from 2^30", "1"],
        ["no distance: infinite or NaN", "1"],
    ]
    widths = rows.locator(".bar").evaluate_all("bars => bars.map((bar) => bar.style.width)")
    assert widths == ["25%", "100%", "75%", "25%", "25%"]


def test_accuracy_has_the_interval_and_the_bound(opened: Opener) -> None:
    measured = {"error_reference": 1e-3, "error_optimized": 3e-3, "error_ratio": 3.0, "error_ratio_low": 2.5}
    more = {"error_ratio_high": 4.0, "draws": 4, "bound": 0.01, "bound_used": 0.25}
    row = shown(opened, document(drawn(**measured, **more)))
    text = row.locator(".accuracy").inner_text()
    assert "The variant's error is 3 times the reference's (2.5 to 4 over 4 draws)." in text
    assert "25 % of what rounding explains is used" in text
    assert row.locator(".used span").evaluate("bar => bar.style.width") == "25%"


def head(**facts: Any) -> PairHead:
    """The head of the pair of the results."""
    usual: dict[str, Any] = {
        "pair": "norm",
        "reference": "einsum",
        "variants": ("multiply",),
        "selected": 1,
        "product": 1,
    }
    return PairHead(**{**usual, **facts})


SHARDED = {
    "rows": ("data2_tensor4", ("data", None), (8, 12)),
    "columns": ("data2_tensor4", (None, "tensor"), (8, 12)),
    "both": ("tensor2_data4", ("data", "tensor"), (8, 6)),
    "two axes on one dimension": ("data2_tensor4", (("tensor", "data"),), (16, 3)),
    "copies": ("data4", (), (5,)),
    "scalar": ("data4", (), ()),
}


def table_of(opened: Opener, name: str) -> tuple[list[list[str]], dict[str, str]]:
    """The devices of a sharded output as the page shows them, and by device what it holds."""
    mesh, spec, shape = SHARDED[name]
    built = MeshSpec.parse(mesh).build("auto")
    placed = jax.device_put(np.zeros(shape, np.float32), NamedSharding(built, PartitionSpec(*spec)))
    array = f"float32[{','.join(map(str, shape))}]"
    result = drawn(
        mesh=mesh,
        leaf="out",
        array=array,
        layout={"out": str(tuple(placed.sharding.spec)), "x": "(None,)"},
        picture=None,
    )
    sizes = dict(MeshSpec.parse(mesh).axes)
    inputs = CaseInputs(case="small", meshes=(mesh,), arguments={"x": "int32[7] normal"})
    of = replace(document(result), pairs=(head(meshes={mesh: sizes}, inputs=(inputs,)),))
    row = shown(opened, of)
    rows = row.get_by_role("region", name="Elements that each device holds").locator("tbody tr").all_inner_texts()
    held = {
        str(device): f"[{', '.join(f'{start}:{end}' for start, end in part)}]"
        for part, devices in parts(placed.sharding, shape).items()
        for device in devices
    }
    return [text.split("\t") for text in rows], held


@pytest.mark.parametrize("name", SHARDED)
def test_parts_are_those_that_jax_gives_to_devices(name: str, opened: Opener) -> None:
    rows, held = table_of(opened, name)
    assert {row[0]: row[2] for row in rows} == held
    assert {row[3] for row in rows} == {"[0:7]"}


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("both", "rest % size", "(rest + 1) % size"),
        ("two axes on one dimension", "part * mesh[name] + at[name]", "part + at[name] * count"),
    ],
    ids=["place on the mesh", "order of axes"],
)
def test_a_wrong_part_is_seen(
    name: str, right: str, wrong: str, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert right in static("result_sharding.js")
    monkeypatch.setattr(page_module, "static", lambda file: static(file).replace(right, wrong))
    rows, held = table_of(opened, name)
    assert {row[0]: row[2] for row in rows} != held


def test_the_order_of_devices_is_the_meshs(opened: Opener) -> None:
    result = drawn(mesh="data2", leaf="out", array="float32[4]", layout={"out": "('data',)"}, device_order=(5, 3))
    of = replace(document(result), pairs=(head(meshes={"data2": {"data": 2}}),))
    rows = shown(opened, of).get_by_role("region", name="Elements that each device holds").locator("tbody tr")
    assert [text.split("\t") for text in rows.all_inner_texts()] == [["5", "data 0", "[0:2]"], ["3", "data 1", "[2:4]"]]


def _raw(field: str, text: str) -> Callable[[Finding], Finding]:
    """A result whose picture has another text in one place."""

    def planted(result: Finding) -> Finding:
        assert result.comparison.picture is not None and result.comparison.picture.window is not None
        picture = result.comparison.picture
        if field == "counts":
            return changed(result, picture=replace(picture, heat=replace(HEAT, counts=text)))
        if field == "elements":
            return changed(result, picture=replace(picture, window=replace(WINDOW, elements=text)))
        return changed(result, layout={"out": text}, array=text, leaf="out")

    return planted


@pytest.mark.sampled(3)
@pytest.mark.parametrize("field", ["counts", "elements", "layout"])
@pytest.mark.parametrize("text", ["", "((", "x*y <b>", "split by the compiler"])
def test_a_text_of_another_form_is_shown_as_text(field: str, text: str, opened: Opener) -> None:
    row = shown(opened, document(_raw(field, text)(drawn())))
    assert row.locator(".parts").inner_text().startswith("Values around the witness")
    assert row.locator("b", has_text=re.compile("^x")).count() == 0
    assert text in (row.text_content() or "")


def test_a_document_of_a_check_is_shown_in_full(opened: Opener) -> None:
    """What samebits wrote itself, source and inputs with it."""
    row = shown(opened, sample("check_pictures"))  # type: ignore[arg-type]
    titles = row.locator("h4").all_inner_texts()
    assert titles == ["Values around the witness", "Where it differs", "How far apart", "Accuracy", "Source", "Inputs",
                      "Sharding", "Environment"]  # fmt: skip
    assert (
        "y = jnp.where((rows >= 4) & (rows < 6), y * 1.25, y)" in row.locator(".listing .named").all_inner_texts()[-1]
    )
    assert "integers from 0 to 63" in row.get_by_role("region", name="Arguments of case small").inner_text()
    assert row.locator(".replay code").inner_text().startswith("samebits check toy --variant off_in_one_part")


def test_an_older_document_has_its_witness(opened: Opener) -> None:
    row = shown(opened, sample("check_different"))  # type: ignore[arg-type]
    assert "0x" in row.locator(".parts").inner_text()
    assert row.locator("svg.heat").count() == 0


def test_an_unfolded_result_fits_and_is_accessible(opened: Opener) -> None:
    report = opened(html_page([section_of(sample("check_pictures"))], "results"))
    for _ in range(2):  # the parts of a result are made when it is unfolded
        report.unfold(rows=6)
        report.page.locator(".result .parts").nth(3).wait_for()
    assert report.grave_violations() == []
    report.page.emulate_media(color_scheme="dark")
    assert report.grave_violations("color-contrast") == [], "the themes differ in colours only"
    for width in (375, 1280, 1920):
        report.page.set_viewport_size({"width": width, "height": 900})
        assert report.width_beyond_window() <= 0, width
