"""The section of training steps: memory beside the published figures, and what could not be compiled."""

from __future__ import annotations

from samebits.report.html.charts import svg
from samebits.report.html.compile_model_section import compile_model_section
from samebits.report.html.sections import section_of
from samebits.schema.result import Problem
from tests.report.html.run_samples import SCRIPT, steps_document


def test_every_step_has_its_bars_and_its_row() -> None:
    section = section_of(steps_document("fsdp", "fsdp_optimized"))
    assert (section.state, section.title) == ("passed", "compile model llama")
    picture = svg(section.charts["steps"])
    for text in ("1 fsdp", "2 fsdp_optimized", "8.00 GB", "16.0 GB", "published peak", "18.0 GB"):
        assert text in picture, text
    assert "<td>fsdp_optimized</td>" in section.body and "Published figures: a paper" in section.body


def test_what_could_not_be_compiled_is_the_headline() -> None:
    problem = Problem(pair="fsdp", message="out of memory", exit_code=3)
    section = compile_model_section(steps_document("other", problems=(problem,)))
    assert (section.state, section.headline) == ("incomplete", "1 problem: fsdp: out of memory")


def test_a_document_without_steps_has_a_page() -> None:
    section = compile_model_section(steps_document())
    assert (section.state, section.charts) == ("incomplete", {})


def test_names_are_escaped() -> None:
    assert "<script" not in compile_model_section(steps_document(SCRIPT, notes=(SCRIPT,), about=SCRIPT)).body
