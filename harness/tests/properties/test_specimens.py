"""The specimens are what they say, by runs alone: where inputs that must not be read change, leaks move."""

from typing import Any

import pytest

from samebits.errors import NotCovered
from samebits.properties import reading
from tests.properties.specimens.specimen import Specimen
from tests.properties.test_named import ALL, outcome


@pytest.mark.slow  # `test_named` decides them all, leaks by runs
@pytest.mark.parametrize("specimen", ALL, ids=lambda specimen: specimen.name)
def test_runs_alone_show_the_leaks(specimen: Specimen, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any) -> Any:
        raise NotCovered("runs alone")

    monkeypatch.setattr(reading, "_interpreted", stopped)
    monkeypatch.setattr(reading, "COLUMNS", 1000)
    reaches = specimen.property == "gradient_reaches"  # which a run shows
    expected = "undecided" if specimen.leaks == reaches else "proved" if reaches else "refuted"
    assert outcome(specimen).verdict == expected


def test_each_leak_has_an_honest_twin() -> None:
    names = {specimen.name: specimen.name.rsplit("_", 1) for specimen in ALL}
    assert len(names) == len(ALL) == 2 * len({name for name, _ in names.values()})
    assert {kind for _, kind in names.values()} == {"leak", "honest"}
