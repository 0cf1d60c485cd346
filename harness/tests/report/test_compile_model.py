"""The page of training steps: memory beside the published figures, and what could not be compiled."""

from samebits.report.html.charts import svg
from samebits.report.html.sections import section_of
from samebits.schema.result import Problem
from tests.report.html.run_samples import SCRIPT, steps_document
from tests.support.pages import markdown, screen


def test_every_step_has_its_bars_and_its_row() -> None:
    document = steps_document("fsdp", "fsdp_optimized")
    section = section_of(document)
    assert (section.page.state, section.title) == ("passed", "compile model llama")
    picture = svg(section.charts["steps"])
    for text in ("1 fsdp", "2 fsdp_optimized", "8.00 GB", "16.0 GB", "published peak", "18.0 GB"):
        assert text in picture, text
    row = "| fsdp_optimized | fsdp8 | auto | 0 | 7026 | 16000 | 2.000x | 18000 | 2.000x | 0.889x | 0 | 0 |  |"
    assert row in markdown(document)


def test_no_digit_is_cut_off_on_a_narrow_screen() -> None:
    lines = screen(steps_document("fsdp_optimized"), width=80)
    assert "  fsdp_optimized" in lines and any("peak MB 8000" in line for line in lines)
    assert not any("…" in line for line in lines)


def test_what_could_not_be_compiled_is_the_headline() -> None:
    problem = Problem(pair="fsdp", message="out of memory", exit_code=3)
    section = section_of(steps_document("other", problems=(problem,)))
    assert (section.page.state, section.page.headline) == ("incomplete", "1 problem: fsdp: out of memory")


def test_a_document_without_steps_has_a_page() -> None:
    section = section_of(steps_document())
    assert (section.page.state, section.charts) == ("incomplete", {})


def test_names_are_escaped() -> None:
    assert "<script" not in section_of(steps_document(SCRIPT, notes=(SCRIPT,), about=SCRIPT)).body
