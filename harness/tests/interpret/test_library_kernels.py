"""Public kernels are their plain forms, and each planted fault is seen: the table of `make kernels`, row by row."""

import json

import pytest

from samebits.host.loading import load_file
from tests.interpret.library_kernels.kernel import LibraryKernel, source
from tests.interpret.library_kernels.kernels import KERNELS, UNDECIDED
from tests.support.invoke import REPOSITORY

QUICK = [kernel for kernel in KERNELS if kernel.quick]
REST = [kernel for kernel in KERNELS if not kernel.quick]
pytestmark = pytest.mark.filterwarnings(
    "ignore::samebits.OtherInputsWarning",
    "ignore:.*pallas.ops:DeprecationWarning",
    "ignore:.*tokamax:DeprecationWarning",
)


def holds(kernel: LibraryKernel) -> None:
    shown = kernel.proof()
    assert shown.ok and shown.verdict in ("proved", "rounding"), shown
    directions = {leaf.place.direction for leaf in shown.leaves}
    assert directions == ({"forward", "gradient"} if kernel.gradients else {"forward"})
    for fault in kernel.faults:
        shown = kernel.proof(fault)
        assert not shown.ok and shown.verdict in ("different", "error"), (fault, shown)


@pytest.mark.parametrize("kernel", QUICK, ids=str)
def test_a_quick_kernel_is_its_plain_form_and_no_fault_is(kernel: LibraryKernel) -> None:
    holds(kernel)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", REST, ids=str)
def test_a_kernel_is_its_plain_form_and_no_fault_is(kernel: LibraryKernel) -> None:
    holds(kernel)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", UNDECIDED, ids=str)
def test_what_is_undecided_has_a_reason(kernel: LibraryKernel) -> None:
    shown = kernel.proof()
    assert shown.verdict == "error" and not shown.ok
    assert any(leaf.ruling.reason for leaf in shown.leaves)


def test_the_table_has_enough_kernels_and_faults() -> None:
    assert len({kernel.module for kernel in KERNELS}) >= 12 and len(KERNELS) >= 25
    assert all(len(kernel.faults) >= 3 for kernel in KERNELS)
    assert len({str(kernel) for kernel in (*KERNELS, *UNDECIDED)}) == len(KERNELS) + len(UNDECIDED)


def test_a_fault_that_changes_no_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no text 'no such text'"):
        source("tpu.matmul", "no such text", "")


def test_the_page_counts_what_was_refuted() -> None:
    """An invented row, of which one fault was not seen."""
    maker = load_file(REPOSITORY / "docs" / "make_kernels.py")
    row = {"of": ["k", "m", "p", "float32"], "forward": "rounding, 2^-70", "gradient": "", "ok": True, "seconds": 1.5}
    row |= {"faults": {"seen": "different", "missed": "rounding"}, "environment": "jax 1", "date": "2026-01-02"}
    page = maker.page({"k, float32": row}, {"u": "no rule"})
    assert "1 of 1 rows are proved, and 1 of 2 faults refuted. jax 1. 2026-01-02." in page
    assert "| k | m | p | float32 | rounding, 2^-70 | - | 1 of 2 | 1.5 |" in page
    assert "| u | no rule |" in page and "| k | float32 | missed | rounding |" in page


def test_the_written_page_holds_the_whole_table() -> None:
    maker = load_file(REPOSITORY / "docs" / "make_kernels.py")
    seen = json.loads(maker.SEEN.read_text(encoding="utf-8"))
    assert list(seen["rows"]) == [str(kernel) for kernel in KERNELS]
    assert list(seen["undecided"]) == [str(kernel) for kernel in UNDECIDED]
    assert all(list(seen["rows"][str(kernel)]["faults"]) == list(kernel.faults) for kernel in KERNELS)
    assert all(each["ok"] and "rounding" not in each["faults"].values() for each in seen["rows"].values())
    assert maker.page(**{"rows": seen["rows"], "left": seen["undecided"]}) == maker.PAGE.read_text(encoding="utf-8")
