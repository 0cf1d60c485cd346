"""The counts over results and the exit code that they give."""

import pytest

from samebits.schema.finding import Finding, exit_code, summarise
from samebits.schema.result import VERDICTS, Problem
from tests.support.documents import different, result

HELD = result()
SKIPPED = result(verdict="skipped", ok=False)
ERROR = result(verdict="error", ok=False)
WRONG = Problem(pair="norm", message="no suite")
FAILED_TO_RUN = Problem(pair="norm", message="no compiler", exit_code=3)


@pytest.mark.parametrize(
    ("results", "problems", "code"),
    [
        ([HELD], [], 0),
        ([HELD, SKIPPED], [], 0),
        ([HELD, different()], [], 1),
        ([ERROR, different()], [WRONG], 1),
        ([HELD], [WRONG], 2),
        ([HELD, ERROR], [], 3),
        ([HELD], [FAILED_TO_RUN], 3),
        ([SKIPPED], [], 3),
        ([], [], 3),
    ],
)
def test_exit_codes(results: list[Finding], problems: list[Problem], code: int) -> None:
    assert exit_code(results, problems) == code


def test_skips_and_interrupts_can_be_made_to_count() -> None:
    assert exit_code([HELD, SKIPPED], no_skips=True) == 3
    assert exit_code([HELD], no_skips=True) == 0
    assert exit_code([HELD], interrupted=True) == 3


def test_every_result_is_counted_once() -> None:
    exempt = result(verdict="different", exempt=True)
    summary = summarise([HELD, SKIPPED, different(), exempt], selected=2, product=8, seconds=1.23456)
    assert (summary.cases, summary.ok, summary.failed, summary.skipped, summary.exempt) == (4, 2, 1, 1, 1)
    assert summary.verdicts == {"bitwise": 1, "different": 2, "skipped": 1}
    assert (summary.selected, summary.product, summary.seconds) == (2, 8, 1.235)
    assert list(summary.verdicts) == [verdict for verdict in VERDICTS if verdict in summary.verdicts]
