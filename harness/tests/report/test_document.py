"""The JSON document: its keys, the round trip, and what is rejected."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import RequestError
from samebits.report.any_document import read_any_document
from samebits.report.check import Document, read_document
from samebits.report.document import read_as, restored, to_json
from samebits.report.html.sections import section_of
from samebits.report.train import TrainDocument
from samebits.schema.result import Problem
from tests.report.html.run_samples import run, trained
from tests.support.documents import different, document, result

RESULT_KEYS = {
    "tool": "",
    "place": "pair variant case dtype mesh mode direction leaf target item",
    "ruling": "verdict required ok reason evidence exempt undeclared domain machine snapshot",
    "comparison": "elements mismatches max_ulp kind differences witness picture array bits",
    "accuracy": "error_reference error_optimized error_ratio error_ratio_low error_ratio_high draws error_group bias "
    "bound bound_used magnitudes bound_reference bound_optimized likely loses_most",
    "proof": "method domain words unkept routing products log2_error points degree unknown assumptions constants "
    "no_movement refutation sizes family alone reads not_interpreted",
    "named": "lines why",
    "shaken": "",
    "run": "devices device_order layout emulated remembered",
    "seconds": "",
    "replay": "",
}
SUMMARY_KEYS = "cases ok failed skipped exempt verdicts selected product seconds notes interrupted"


@pytest.fixture
def whole() -> Document:
    problem = Problem(pair="rope", message="pair 'rope' lacks a twin")
    emulated = result(emulated=("ragged_all_to_all",), layout={"x": "('data',)"}, error_ratio=1.25)
    return document(emulated, different(), problems=(problem,), notes=("a note",), interrupted=True)


def test_published_keys(whole: Document) -> None:
    data = json.loads(to_json(whole))
    assert " ".join(data) == (
        "schema written command environment pairs results problems summary request shard shake snapshot no_skips"
    )
    assert (data["schema"], data["command"]) == ("samebits/2", "check")
    row = data["results"][0]
    assert {name: " ".join(row[name]) if isinstance(row[name], dict) else "" for name in row} == RESULT_KEYS
    assert " ".join(data["summary"]) == SUMMARY_KEYS
    assert data["summary"]["verdicts"] == {"bitwise": 1, "different": 1}
    assert data["problems"] == [{"pair": "rope", "message": "pair 'rope' lacks a twin", "exit_code": 2}]


def test_there_and_back(whole: Document, tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(to_json(whole))
    assert read_document(file) == whole


def test_an_infinite_ratio_is_null(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(to_json(document(result(error_ratio=math.inf), result(error_ratio=math.nan))))
    assert [found.accuracy.error_ratio for found in read_document(file).results] == [None, None]


def _set(*keys: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        place: Any = data
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = to

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("schema", to="samebits/3"), 'expected a document with "schema": "samebits/2", got \'samebits/3\''),
        (_set("extra", to=1), "not a samebits/2 document: the key $.extra is unknown"),
        (_set("results", 1, "extra", to=1), "not a samebits/2 document: the key $.results[1].extra is unknown"),
        (_set("results", 0, "ruling", "verdict", to="fine"), "not a samebits/2 document: Invalid enum value 'fine'"),
        (_set("results", 0, "ruling", "ok", to="true"), "not a samebits/2 document: Expected `bool`, got `str`"),
        (_set("results", 0, to={}), "not a samebits/2 document: Object missing required field `place`"),
        (_set("summary", "cases", to=1.5), "not a samebits/2 document: Expected `int`, got `float`"),
    ],
)
def test_what_is_not_such_a_document(
    whole: Document, tmp_path: Path, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    data = json.loads(to_json(whole))
    change(data)
    file = tmp_path / "r.json"
    file.write_text(json.dumps(data))
    with pytest.raises(RequestError) as raised:
        read_document(file)
    assert str(raised.value).startswith(f"{file}: {message}")


@pytest.mark.parametrize("text", ["", "[]", "{", "3"])
def test_what_is_not_even_an_object(tmp_path: Path, text: str) -> None:
    file = tmp_path / "r.json"
    file.write_text(text)
    with pytest.raises(RequestError, match=str(file)):
        read_document(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="cannot be read: No such file or directory"):
        read_document(tmp_path / "r.json")


# --- numbers that are not finite -------------------------------------------------------------------------------------


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
