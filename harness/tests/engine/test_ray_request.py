from pathlib import Path

import pytest

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
