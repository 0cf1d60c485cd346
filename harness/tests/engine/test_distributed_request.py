"""Wrong options and variables are rejected in one line."""

import os
from pathlib import Path
from typing import Any

import pytest

from samebits.engine.distributed_request import REPORTED, DistributedRequest, lacks_report, recorder, take_request
from samebits.errors import RequestError


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            {"coordinator": "here:1"},
            "--process-id and --num-processes are missing: give --coordinator HOST:PORT, --process-id I and "
            "--num-processes N together, or none of them under a launcher",
        ),
        (
            {"coordinator": "here", "process_id": 0, "num_processes": 2},
            "--coordinator here: expected HOST:PORT, such as 10.0.0.1:8476",
        ),
        (
            {"coordinator": "here:1", "process_id": 2, "num_processes": 2},
            "--process-id 2: expected a number from 0 to 1 for --num-processes 2",
        ),
        (
            {"coordinator": "here:1", "process_id": 0, "num_processes": 0},
            "--num-processes 0: expected the number of all processes",
        ),
        (
            {"coordinator": "http://here:1", "process_id": 0, "num_processes": 2},
            "--coordinator http://here:1: expected HOST:PORT, such as 10.0.0.1:8476",
        ),
    ],
)
def test_what_does_not_go_together_is_rejected(words: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as error:
        DistributedRequest(**words)
    assert str(error.value) == message


def test_variables_are_taken_so_that_children_do_not_see_them() -> None:
    variables = {
        "SAMEBITS_DISTRIBUTED": "1",
        "SAMEBITS_COORDINATOR": "here:1",
        "SAMEBITS_PROCESS_ID": "1",
        "SAMEBITS_NUM_PROCESSES": "2",
        "SAMEBITS_WAIT": "5",
        "HOME": "/",
    }
    request = DistributedRequest(coordinator="here:1", process_id=1, num_processes=2, seconds=5.0)
    assert take_request(variables) == request
    assert variables == {"HOME": "/"}
    assert take_request(variables) is None


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"SAMEBITS_DISTRIBUTED": "yes"}, "SAMEBITS_DISTRIBUTED=yes: expected 1 or 0"),
        (
            {"SAMEBITS_DISTRIBUTED": "1", "SAMEBITS_PROCESS_ID": "x"},
            "SAMEBITS_PROCESS_ID=x: expected an integer",
        ),
    ],
)
def test_malformed_variables_are_rejected(variables: dict[str, str], message: str) -> None:
    with pytest.raises(RequestError) as error:
        take_request(variables)
    assert str(error.value) == message


def test_what_is_recorded_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REPORTED, str(tmp_path / "0"))
    assert not lacks_report(tmp_path / "0", 0), "no user code has run"
    record = recorder()
    assert REPORTED not in os.environ and lacks_report(tmp_path / "0", 0)
    record(0)
    assert not lacks_report(tmp_path / "0", 0)
    record(1)
    assert lacks_report(tmp_path / "0", 0), "it reported another exit code"


def test_a_torn_file_and_no_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "0").write_text("")
    assert lacks_report(tmp_path / "0", 0)
    monkeypatch.delenv(REPORTED, raising=False)
    recorder()(0)
    assert sorted(tmp_path.iterdir()) == [tmp_path / "0"]
