"""Clusters and groups of processes: wrong options and variables are rejected in one line."""

import os
from pathlib import Path
from typing import Any

import pytest

from samebits.engine.distributed_request import REPORTED, DistributedRequest, lacks_report, recorder, take_request
from samebits.engine.ray_request import ray_request
from samebits.errors import RequestError


@pytest.fixture(autouse=True)
def no_cluster_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


def test_resources_and_tree_of_a_request(tmp_path: Path) -> None:
    request = ray_request("10.0.0.1:6379", ["CPU=0.5", "TPU=4"], platform="tpu", workers=3, root=tmp_path)
    assert request.task == {"CPU": 0.5, "TPU": 4.0}
    assert (request.address, request.platform, request.workers) == ("10.0.0.1:6379", "tpu", 3)
    assert request.folders == (str(tmp_path.resolve()),)


def test_ray_address_names_the_cluster_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ray_request("local", ()).address == "local"
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert ray_request("local", ()).address == "head:6379"
    assert ray_request("auto", ()).address == "auto"


def test_tasks_get_the_settings_of_jax_and_nothing_else() -> None:
    mine = {
        "JAX_ENABLE_X64": "1",
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": "--a",
        "HOME": "/root",
        "TPU_NAME": "0",
    }
    passed = ray_request("local", (), platform="tpu").environment(mine)
    assert passed == {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "tpu", "XLA_FLAGS": "--a"}


@pytest.mark.parametrize(
    ("address", "task", "message"),
    (
        ("head:99999", (), "--ray head:99999: expected a port of at most 65535"),
        ("rope", (), "--ray rope: expected local, auto or HOST:PORT; names of pairs go before --ray"),
        ("ray://head:10001", (), "Ray's client protocol streams no results; run samebits on a machine of the cluster"),
        ("local", ("TPU",), "--ray-task TPU: expected NAME=AMOUNT with an amount above 0"),
        ("local", ("cpu=1",), "--ray-task cpu=1: did you mean CPU=1? Ray's names are case-sensitive"),
        ("local", ("Memory=1000",), "--ray-task Memory=1000: did you mean memory=1000?"),
        ("local", ("CPU=0",), "--ray-task CPU=0: expected NAME=AMOUNT with an amount above 0"),
        ("local", ("CPU=1.5",), "--ray-task CPU=1.5: expected an integer above 1, or a part of 1"),
        ("local", ("GPU=1",), "--ray-task GPU=1: tasks run on the cpu and would leave it idle; add --platform gpu"),
    ),
)
def test_what_is_malformed_is_told(address: str, task: tuple[str, ...], message: str) -> None:
    with pytest.raises(RequestError) as told:
        ray_request(address, task)
    assert message in str(told.value)


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
