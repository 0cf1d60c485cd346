"""`samebits.check` and `samebits.prove` are functions, although rooms of the package have their names."""

import importlib

import pytest

import samebits
from tests.support.child import run_python


def test_a_room_does_not_take_the_name_of_a_function() -> None:
    importlib.import_module("samebits.check.judge")
    importlib.import_module("samebits.prove.prover")
    assert samebits.check.__module__ == samebits.prove.__module__ == "samebits.functions.compare"


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "first",
    ["import samebits.check.runner", "import samebits", "from samebits import check", "import samebits.check"],
)
def test_whatever_is_imported_first(first: str) -> None:
    done = run_python("-c", f"{first}\nimport samebits\nprint(samebits.check.__name__, samebits.check.__module__)")
    assert done.stdout.strip() == "check samebits.functions.compare", done.stderr
