"""Documents with numbers that are not finite are read again; null elsewhere stays an error."""

import json
import math
from pathlib import Path

import pytest

from samebits.errors import RequestError
from samebits.report.any_document import read_any_document
from samebits.report.document import read_as, restored, to_json
from samebits.report.html.sections import section_of
from samebits.report.train import TrainDocument
from tests.report.html.run_samples import run, trained


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "train.json"
    path.write_text(to_json(trained(run("base"), run("broken", loss={2: math.nan, 3: math.inf}))))
    return path


def test_a_training_that_lost_its_numbers_is_read(file: Path) -> None:
    document = read_any_document(file)
    assert isinstance(document, TrainDocument)
    losses = [step.loss for step in document.results[1].steps]
    assert [math.isfinite(loss) for loss in losses] == [True, False, False, True]
    assert [math.isfinite(step.loss) for step in read_as(file, TrainDocument).results[1].steps].count(False) == 2


def test_it_has_a_page(file: Path) -> None:
    section = section_of(read_any_document(file))
    assert (
        section.page.state == "failed"
        and "different; first broken against base: first differs in step 2, loss" in section.page.headline
    )


def test_null_in_place_of_a_word_is_an_error(file: Path) -> None:
    raw = json.loads(file.read_text())
    raw["results"][1]["mesh"] = None
    file.write_text(json.dumps(raw))
    with pytest.raises(RequestError, match="Expected `str`, got `null`"):
        read_any_document(file)


def test_null_stays_where_it_is_allowed() -> None:
    assert restored([None, 1.0], tuple[float | None, ...]) == [None, 1.0]
    assert restored({"a": None}, dict[str, str]) == {"a": None}
    (number,) = restored([None], tuple[float, ...])
    assert math.isnan(number)
