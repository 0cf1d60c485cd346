"""A page as HTML: each block as an element, all of its text escaped."""

from samebits.report.html.sections import Section
from samebits.report.page import Badge, Beside, Chart, CommandLine, Failing, Fold, Line, Lines, Page, Table, ValueList


def test_each_block_is_an_element_and_its_text_is_no_markup() -> None:
    table = Table(
        heads=("<name>", "count"),
        rows=[[Badge(text="bitwise", sign="="), "1"], ["<script>", "2"]],
        caption="Rows",
        bad=[1],
        right=["count"],
        details={1: Fold(title="evidence", blocks=[Lines(lines=[Line("<b>", "bad")])], open=True)},
    )
    chart = Chart(name="bars", label="Bars", draw=lambda: {"mark": "bar"})
    fold = Fold(title="More", blocks=[ValueList(rows=[("case", "small")]), CommandLine(text="samebits list")])
    page = Page(
        command="check",
        state="failed",
        closing="1 fails",
        failing=[Failing(title="norm")],
        blocks=[table, Beside(blocks=[chart]), fold],
    )
    section = Section(page=page)
    assert "<script>" not in section.body and "&lt;script&gt;" in section.body and "<b>" not in section.body
    assert '<tr class="o-fail"><td>&lt;script&gt;</td><td class="number">2</td>' in section.body.replace("\n", "")
    assert '<span class="badge v-bitwise">' in section.body
    assert "<details open><summary>evidence</summary>" in section.body
    assert section.body.count("samebits list") == 1 and "<dt>case</dt><dd>small</dd>" in section.body
    assert section.charts == {"bars": {"mark": "bar"}} and 'data-chart="bars"' in section.body
    assert (section.page.headline, section.page.state, section.title) == ("norm", "failed", "check")
    assert "1 fails" in section.body
