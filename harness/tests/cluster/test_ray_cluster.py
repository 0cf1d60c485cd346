"""Chunks as tasks of a real cluster of two nodes on this machine."""

import contextlib
import json
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from samebits.cluster.ray_cluster import RayExecutor
from samebits.cluster.ray_connection import connect
from samebits.cluster.ray_probe import cluster_environment
from samebits.engine.drive import Done, Limits, drive
from samebits.engine.ray_request import RayRequest, ray_request
from samebits.engine.work import Chunk, Ended, Item
from samebits.errors import RequestError
from samebits.host.fingerprint import fingerprint
from samebits.schema.result import Problem
from tests.cluster.ray_toys import RayToyRow, RayToyWork, toy_items
from tests.support.child import run_python
from tests.support.findings import flat_rows
from tests.support.invoke import clean_environment
from tests.support.rope_tree import write_tree

pytest.importorskip("ray", reason="Ray is not installed: pip install 'samebits[ray]'")

pytestmark = [
    pytest.mark.xdist_group("ray"),
    # Ray forks to start its processes; jax, which another test may have started here, warns of that in a hook.
    pytest.mark.filterwarnings("ignore:os.fork\\(\\) was called:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PATIENT = Limits(seconds=60)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes, one of which says that it has a TPU host's chips."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name, value in clean_environment(RAY_USAGE_STATS_ENABLED="0").items():
            patch.setenv(name, value)
        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        made.add_node(num_cpus=1, resources={"TPU": 4})
        yield made
        made.shutdown()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of one pair."""
    write_tree(tmp_path)
    return tmp_path


def asked(cluster: Any, *task: str, root: Path, platform: str = "cpu") -> RayRequest:
    return ray_request(cluster.address, task, platform=platform, root=root)


@contextlib.contextmanager
def running(request: RayRequest, seconds: float | None = None) -> Iterator[RayExecutor]:
    with contextlib.closing(RayExecutor(RayToyWork(), connect(request), lambda text: None, seconds)) as executor:
        yield executor


def rows_of(executor: RayExecutor, items: list[Item], limits: Limits = PATIENT) -> dict[str, RayToyRow]:
    done = list(drive(RayToyWork(), items, executor, limits=limits, on_problem=unexpected))
    assert len({ended.item.key for ended in done}) == len(done)
    return {ended.item.key: ended.rows[0] for ended in done}


def until_an_event(executor: RayExecutor) -> None:
    for _ in range(60):
        if list(executor.events(1.0)):
            return


def unexpected(problem: Problem) -> None:
    pytest.fail(problem.message)


def gone(pids: set[int]) -> bool:
    """Whether these processes end within some seconds."""
    until = time.monotonic() + 30
    while alive := [pid for pid in pids if psutil.pid_exists(pid)]:
        if time.monotonic() > until:
            return not alive
        time.sleep(0.1)
    return True


def test_a_lost_process_costs_its_item_alone(cluster: Any, tree: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    items = toy_items(0.0, "abort", 0.0, "exit", 0.0, 600.0, 0.0)
    with running(asked(cluster, root=tree), 6) as executor:
        assert signal.getsignal(signal.SIGTERM) is before, "Ray's handler would end the run without a report"
        rows = rows_of(executor, items, Limits(seconds=6))
    lost = {key: row.lost for key, row in rows.items() if row.lost}
    assert sorted(rows) == [item.key for item in items]
    assert lost["item1"] == "signal: SIGABRT, running"
    assert lost["item3"] == "exit: exit code 3, running"
    assert lost["item5"] == "timeout: more than 6 s, running"
    assert "ray_toys.py" in rows["item5"].where and "in run" in rows["item5"].where, rows["item5"].where
    assert len(lost) == 3


@pytest.mark.slow
def test_too_much_memory_costs_its_item_alone(cluster: Any, tree: Path) -> None:
    """Without a tight time limit: a busy machine may take many seconds to hand out half a GiB."""
    items = toy_items(0.0, "allocate", 0.0)
    with running(asked(cluster, root=tree)) as executor:
        rows = rows_of(executor, items, Limits(seconds=60, bytes=2**29))
    assert [bool(rows[item.key].lost) for item in items] == [False, True, False]
    assert rows["item1"].lost.startswith("memory: ") and "more than the 0.5 GiB" in rows["item1"].lost


@pytest.mark.slow
def test_a_lost_node_costs_nothing(cluster: Any, tree: Path) -> None:
    """Tasks ask for a resource of two nodes; the one that has run something first is killed."""
    spare = [cluster.add_node(num_cpus=1, resources={"spare": 1}) for _ in range(2)]
    cluster.wait_for_nodes()
    raylets = {str(node.all_processes["raylet"][0].process.pid): node for node in spare}
    items = toy_items(*[0.5] * 12)
    losses, done = [], []
    with running(asked(cluster, "spare=1", root=tree)) as executor:
        events = executor.events

        def watched(seconds: float) -> Iterator[tuple[int, Any]]:
            for number, event in events(seconds):
                losses.extend([event.loss.kind] if isinstance(event, Ended) and event.loss else [])
                yield number, event

        executor.events = watched  # type: ignore[method-assign]
        for ended in drive(RayToyWork(), items, executor, limits=PATIENT, on_problem=unexpected):
            done.append(ended)
            if len(done) == 1:  # the first item of a chunk: three are to come
                cluster.remove_node(raylets.pop(rows(done)[0].raylet), allow_graceful=False)
    (survivor,) = raylets.values()
    cluster.remove_node(survivor)
    assert losses == ["node"]
    assert Counter(ended.item.key for ended in done) == dict.fromkeys((item.key for item in items), 1)
    assert not any(row.lost for row in rows(done))
    assert gone({row.pid for row in rows(done)}), "a process outlived its node"


def rows(done: list[Done[RayToyRow]]) -> list[RayToyRow]:
    return [row for ended in done for row in ended.rows]


@pytest.mark.slow
def test_closing_ends_what_runs_and_what_waits(cluster: Any, tree: Path) -> None:
    items = toy_items(0.0, 600.0, 0.0, 600.0, 600.0, 600.0, together=2)
    with running(asked(cluster, root=tree)) as executor:
        work = drive(RayToyWork(), items, executor, limits=PATIENT, on_problem=unexpected)
        first, second = next(work), next(work)
    assert gone({row.pid for row in rows([first, second])})


@pytest.mark.slow
def test_tasks_ask_for_the_chips_of_a_node(cluster: Any, tree: Path) -> None:
    with running(asked(cluster, root=tree, platform="tpu")) as executor:
        assert executor.slots == 2, "one node has chips; a second task waits"
        executor.submit(Chunk(number=7, items=tuple(toy_items(0.0))))
        executor.submit(Chunk(number=8, items=tuple(toy_items(0.0))))
        assert executor.queued(8)
        chunks = Counter[int]()
        until = time.monotonic() + 60
        while len(chunks) < 2 and time.monotonic() < until:
            chunks.update(number for number, event in executor.events(1.0) if isinstance(event, Ended))
    assert chunks == {7: 1, 8: 1}


@pytest.mark.slow
def test_other_sources_on_a_node_are_named(cluster: Any, tree: Path) -> None:
    with running(asked(cluster, root=tree)) as executor:
        (tree / "suites" / "test_rope.py").write_text("changed = True\n")
        with pytest.raises(RequestError, match=r"node \S+ \(\S+\) differs from this machine: \S+/test_rope.py has ano"):
            rows_of(executor, toy_items(0.0))


@pytest.mark.slow
def test_closing_ends_all_where_both_nodes_differ(cluster: Any, tree: Path) -> None:
    """The second one's report is read while the tasks are cancelled, and must not end that."""
    import ray

    with running(asked(cluster, root=tree)) as executor:
        (tree / "suites" / "test_rope.py").write_text("changed = True\n")
        for number in (7, 8):
            executor.submit(Chunk(number=number, items=tuple(toy_items(0.0))))
        with pytest.raises(RequestError, match="differs from this machine"):
            until_an_event(executor)
        reports = [task.messages for task in executor._tasks.values()]
        assert not ray.wait(reports, num_returns=len(reports), timeout=60)[1]
    assert not executor._tasks


def test_resources_that_no_node_has(cluster: Any, tree: Path) -> None:
    with pytest.raises(RequestError, match=r"asks for CPU: 9 for each task, no node has that \(2 nodes: CPU 1, 1; TPU"):
        connect(asked(cluster, "CPU=9", root=tree))
    with pytest.raises(RequestError, match="--platform gpu asks for GPU, the cluster has none"):
        connect(asked(cluster, root=tree, platform="gpu"))


@pytest.mark.slow
def test_nodes_say_what_they_have(cluster: Any, tree: Path) -> None:
    here = cluster_environment(asked(cluster, root=tree))
    assert here.platform == "cpu"
    assert here.versions["jax"] == fingerprint([]).versions["jax"]


@pytest.mark.slow
def test_an_address_without_a_cluster_is_told(tree: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(RequestError) as told:
            connect(ray_request(address, (), root=tree))
    assert str(told.value).startswith(f"--ray {address}: no connection (Connection refused); expected HOST:PORT")


@pytest.mark.slow
def test_check_on_two_nodes_gives_the_document_of_one_machine(cluster: Any, tree: Path, tmp_path: Path) -> None:
    copy_pair(tree, "second")
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    usual = check("--root", tree, "--in-process", "--json", here)
    ended = check(f"--ray={cluster.address}", "--root", tree, "--json", there)
    assert usual.returncode == 0, usual.stdout + usual.stderr
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert without_times(here) == without_times(there)


@pytest.mark.slow
def test_check_with_a_pair_that_crashes_on_its_node(cluster: Any, tree: Path, tmp_path: Path) -> None:
    copy_pair(tree, "crashing")
    crash = tree / "optimized_impls" / "crashing.py"
    crash.write_text(crash.read_text().replace("    pairs = ", "    __import__('os').abort()\n    pairs = "))
    words = ("--case", "small", "--direction", "forward", "--json", tmp_path / "there.json")
    ended = check(f"--ray={cluster.address}", "--root", tree, *words)
    assert ended.returncode == 3, ended.stdout + ended.stderr
    found = without_times(tmp_path / "there.json")
    lost = [row for row in found if row["verdict"] == "error"]
    assert {(row["pair"], row["variant"]) for row in lost} == {("crashing", "paired")}
    assert all("SIGABRT" in row["reason"] for row in lost)
    assert {row["ok"] for row in found if row["pair"] == "rope"} == {True}


def check(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "samebits", "check", *map(str, words))


def copy_pair(tree: Path, name: str) -> None:
    """The pair of the tree once more, under another name."""
    for part in ("reference_impls/{}.py", "optimized_impls/{}.py", "suites/test_{}.py"):
        text = (tree / part.format("rope")).read_text()
        (tree / part.format(name)).write_text(text.replace('name="rope"', f'name="{name}"'))


def without_times(document: Path) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = flat_rows(json.loads(document.read_text()))
    return [{name: value for name, value in row.items() if name != "seconds"} for row in results]
