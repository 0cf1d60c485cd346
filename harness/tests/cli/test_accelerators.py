"""A platform that is in use, silent or missing is one line with exit code 2, from every command and from pytest."""

import json
import os
import subprocess
from importlib.metadata import entry_points
from pathlib import Path

import click
import pytest

from samebits.cli import main
from tests.support import fake_accelerator as fake
from tests.support.child import run_python
from tests.support.findings import flat_rows
from tests.support.foreign import write_pair
from tests.support.forked import run_module

EXECUTING = (
    "check",
    "accept",
    "compare",
    "train",
    "audit faults",
    "golden check",
    "golden accept",
    "bisect pairs",
    "bisect steps",
    "bisect tensors",
    "bisect mesh",
    "bisect flags",
    "bisect commits",
)

FAULT = """
from samebits import Fault
FAULTS = (Fault(name="halved", pair="good", side="fast", old="2.0", new="1.0"),)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write_pair(tmp_path / "tree", "good")
    (tmp_path / "tree" / "suites" / "faults").mkdir()
    (tmp_path / "tree" / "suites" / "faults" / "good.py").write_text(FAULT)
    return tmp_path / "tree"


def samebits(tree: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_module("samebits", *words, cwd=tree, variables=variables)


def command_of(words: str) -> click.Command:
    command: click.Command = main
    for word in words.split():
        assert isinstance(command, click.Group)
        found = command.get_command(click.Context(command), word)
        assert found is not None
        command = found
    return command


@pytest.mark.parametrize("words", EXECUTING)
def test_every_command_that_executes_takes_a_platform(words: str) -> None:
    options = {parameter.name: parameter for parameter in command_of(words).params}
    assert isinstance(options["platform"].type, click.Choice)
    assert list(options["platform"].type.choices) == ["cpu", "tpu", "gpu"]


def test_several_workers_on_a_tpu(tree: Path) -> None:
    done = samebits(tree, "check", "--platform", "tpu", "--workers", "4")
    assert (done.returncode, done.stderr) == (
        2,
        "samebits: --workers 4: a TPU belongs to one process at a time; expected --workers 1, or one run for each part "
        "of the chips (TPU_VISIBLE_CHIPS)\n",
    )


@pytest.mark.slow
@pytest.mark.skipif(bool(entry_points(group="jax_plugins")), reason="a plugin of jax may know a GPU here")
def test_a_gpu_that_is_not_there(tree: Path) -> None:
    done = samebits(tree, "check", "--platform", "gpu")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        "samebits: jax has no plugin for a GPU here; pip install 'jax[cuda13]' (NVIDIA), or --platform cpu",
    )


def test_compare_asks_for_its_platform_before_it_imports(tree: Path, tmp_path: Path) -> None:
    variables = fake.install(tmp_path, "tpu", fake.raises(fake.IN_USE.format(pid=os.getpid())))
    words = ("compare", "no_such_module:f", "no_such_module:g", "--arg", "x=f32[2]", "--platform", "tpu")
    done = samebits(tree, *words, **variables)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.startswith(f"samebits: the TPU is in use: process {os.getpid()} (")


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "words",
    [("check",), ("compare", "operator:neg", "operator:neg", "--arg", "x=f32[2]"), ("audit", "faults")],
    ids=lambda words: words[0],
)
def test_a_tpu_that_another_process_uses(words: tuple[str, ...], tree: Path, tmp_path: Path) -> None:
    body = fake.raises(fake.IN_USE.format(pid=os.getpid()))
    variables = fake.install(tmp_path, "tpu", body)
    done = samebits(tree, *words, "--platform", "tpu", **variables)
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"samebits: the TPU is in use: process {os.getpid()} (")
    assert "Traceback" not in done.stderr


def test_bisect_flags_does_not_run_on_a_tpu(tree: Path) -> None:
    done = samebits(tree, "bisect", "flags", "good", "--platform", "tpu", "--variant", "fast", "--case", "base")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(
        "samebits: bisect flags runs both sides in a process of their own beside this one"
    )


@pytest.mark.slow
def test_pytest_on_a_tpu_that_another_process_uses(tree: Path, tmp_path: Path) -> None:
    """Each test fails with the line; the accelerator is tried once, not once for each test."""
    starts = tmp_path / "starts"
    body = f"open({str(starts)!r}, 'a').write('x'); {fake.raises(fake.IN_USE.format(pid=os.getpid()))}"
    variables = fake.install(tmp_path, "tpu", body)
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "suites", cwd=tree, **variables)
    assert done.returncode == 1
    assert f"the TPU is in use: process {os.getpid()} (" in done.stdout
    assert "passed" not in done.stdout.splitlines()[-1]
    assert starts.read_text() == "x"


@pytest.mark.slow
def test_pytest_on_a_tpu_with_several_workers(tree: Path) -> None:
    """As pytest-xdist tells each of its workers."""
    variables = {"JAX_PLATFORMS": "tpu", "PYTEST_XDIST_WORKER_COUNT": "2"}
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", "suites", cwd=tree, **variables)
    assert done.returncode == 2
    assert "-n 2: a TPU belongs to one process at a time; expected -n 1" in done.stdout


@pytest.mark.slow
def test_the_worker_has_the_accelerator_and_not_the_driver(tree: Path, tmp_path: Path) -> None:
    """With the lock in the driving process, the worker could not start: no row would be decided."""
    lock = tmp_path / "lock"
    variables = fake.install(tmp_path, "stand_in", fake.exclusive(lock))
    done = samebits(tree, "check", "good", "--workers", "1", "--json", str(tmp_path / "all.json"), **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads((tmp_path / "all.json").read_text())
    assert flat_rows(document) and all(result["ok"] for result in flat_rows(document))
    starts = Path(f"{lock}.starts").read_text().split()
    assert len(starts) == len(set(starts)) == 2  # the process that captured the environment, and the worker


@pytest.mark.slow
def test_in_one_process_that_process_has_it(tree: Path, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    variables = fake.install(tmp_path, "stand_in", fake.exclusive(lock))
    done = samebits(tree, "check", "good", "--in-process", **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(Path(f"{lock}.starts").read_text().split()) == 2  # one that tried, and this one


@pytest.mark.slow
def test_a_worker_that_finds_the_accelerator_taken(tree: Path, tmp_path: Path) -> None:
    """Two workers, one of which holds it: no bug of samebits, and said in one line."""
    for number in range(4):  # few items are left to one worker
        write_pair(tmp_path / "tree", f"another_{number}")
    variables = fake.install(tmp_path, "stand_in", fake.exclusive(tmp_path / "lock"))
    done = samebits(tree, "check", "--workers", "2", **variables)
    assert done.returncode == 2
    assert "jax does not start on the platform asked for: " in done.stderr
    assert "please report" not in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_fault_that_needs_more_devices_has_no_answer(tree: Path) -> None:
    """As on a machine with one GPU; neither is the fault missed, nor does the honest implementation fail."""
    (tree / "suites" / "faults" / "good.py").write_text(FAULT.replace('old="2.0", new="1.0"', 'old="2 * x", new="x"'))
    assert samebits(tree, "audit", "faults").returncode == 0
    done = samebits(tree, "audit", "faults", JAX_NUM_CPU_DEVICES="1")
    assert done.returncode == 3
    assert "NO ANSWER good/fast: halved" in done.stdout
    assert "not tried here: mesh 'data2' needs 2 devices and 1 are there" in done.stdout
