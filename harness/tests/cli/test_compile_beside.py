"""`samebits compile` beside other processes: environment variables, a terminal, xdist and the other commands."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hlo.programs import CPU, V5E, needs_libtpu
from tests.support.child import value_of
from tests.support.foreign import write_pair
from tests.support.invoke import clean_environment, command
from tests.support.real_tree import write_real_pair
from tests.testing.test_plugin import run_pytest

COMMAND = """
from samebits.cli import main
try:
    main({words!r})
except SystemExit as end:
    assert not end.code, end.code
"""


def as_in_a_shell(**more: str) -> dict[str, str]:
    """The environment of a user who has set nothing, and `more`."""
    own = ("JAX_", "XLA_", "TPU_", "LIBTPU_", "ALLOW_MULTIPLE_LIBTPU_LOAD", "PYTEST_")
    return {name: value for name, value in clean_environment().items() if not name.startswith(own)} | more


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_real_pair(tmp_path_factory.mktemp("beside"), variants=("turned", "again"))


def read(file: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.read_text())
    return found


@pytest.mark.slow
@needs_libtpu
def test_two_at_once_with_one_cache(tree: Path, tmp_path: Path) -> None:
    """Libtpu locks its hardware, and a second process aborts on the lock; there is no hardware here."""
    files = [tmp_path / f"{number}.json" for number in range(2)]
    environment = as_in_a_shell(SAMEBITS_CACHE_DIR=str(tmp_path / "cache"))
    started = [
        subprocess.Popen(
            command("compile", "--root", tree, "--target", V5E, "--target", CPU, "--json", file),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            text=True,
        )
        for file in files
    ]
    ended = [(*process.communicate(timeout=300), process.returncode) for process in started]
    assert [(err, code) for _, err, code in ended] == [("", 0)] * 2
    programs = [{_key(one): one["program"] for one in read(file)["results"]} for file in files]
    assert programs[0] == programs[1] and len(programs[0]) == 12
    assert all("again: PROVED, same program" in out for out, _, _ in ended)
    kept = [path.name for path in (tmp_path / "cache" / "compiled").iterdir()]
    assert len(kept) == 12 and {len(name) for name in kept} == {64}, "no draft is left"


def _key(one: Mapping[str, Any]) -> tuple[str, ...]:
    return one["side"], one["direction"], one["target"]


USER_S = {
    "TPU_WORKER_HOSTNAMES": "mine",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "JAX_NUM_CPU_DEVICES": "4",
    "XLA_FLAGS": "--xla_cpu_enable_fast_min_max=false",
    "LIBTPU_INIT_ARGS": "",
    "OPENBLAS_NUM_THREADS": "2",
}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", pytest.param(V5E, marks=needs_libtpu)])
def test_the_backend_and_the_environment_are_unchanged(target: str, tree: Path, tmp_path: Path) -> None:
    words = ["compile", "--root", str(tree), "--target", target, "--direction", "forward"]
    code = "import os, json\nbefore = dict(os.environ)\n" + COMMAND.format(words=words)
    code += "changed = sorted(name for name in before if os.environ.get(name) != before[name])\n"
    code += "import jax\nprint(json.dumps([jax.default_backend(), len(jax.devices()), changed]))\n"
    environment = as_in_a_shell(SAMEBITS_CACHE_DIR=str(tmp_path), **USER_S)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout.splitlines()[-1]) == ["cpu", 4, []]
    assert f" on {target}, " in done.stdout


PROBE = """
print([name for name in ("jax", "numpy", "rich", "msgspec", "google.protobuf", "libtpu") if name in sys.modules])
"""


@pytest.mark.parametrize("words", [["--help"], ["compile", "--help"]], ids=" ".join)
def test_help_imports_neither_jax_nor_protobuf(words: list[str]) -> None:
    assert value_of("import sys\n" + COMMAND.format(words=words) + PROBE) == "[]"


def test_that_probe_sees_what_is_imported() -> None:
    assert value_of(f"import sys, google.protobuf, jax\n{PROBE}") == "['jax', 'numpy', 'google.protobuf']"


EACH = """
import jax
import pytest
from samebits import compile_for, target_mesh

@pytest.mark.parametrize("rows", [16, 32, 64, 128])
def test_flipped(rows):
    mesh = target_mesh({target!r}, "data*")
    x = jax.ShapeDtypeStruct((rows, 128), "float32")
    found = compile_for(lambda x: x[::-1] * 2, x, mesh=mesh, target={target!r})
    assert (found.gathers, found.while_loops) == (0, 0) and found.output_bytes == rows * 512
"""


@pytest.mark.slow
@pytest.mark.parametrize("target", [pytest.param(V5E, marks=needs_libtpu)])
def test_tests_of_theirs_under_xdist(target: str, tmp_path: Path) -> None:
    (tmp_path / "test_each.py").write_text(textwrap.dedent(EACH.format(target=target)))
    done = run_pytest(tmp_path, "-n", "2", "-q", SAMEBITS_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stdout + done.stderr
    # A worker that ends while Python collects garbage can say so on its own; the compilers must not.
    noise = [line for line in done.stderr.splitlines() if re.search(r"libtpu|TPU|lockfile|WARNING|E0000", line)]
    assert "4 passed" in done.stdout and not noise


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [("list",), ("check",)], ids=" ".join)
def test_the_other_commands_say_nothing_of_libtpu(words: tuple[str, ...], tmp_path: Path) -> None:
    """Where the user leaves the platform to jax, and libtpu is installed for its compiler alone."""
    write_pair(tmp_path, "good")
    environment = as_in_a_shell()
    assert "JAX_PLATFORMS" not in environment
    done = subprocess.run(
        command(*words, "--root", tmp_path), env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("words", [(), ("--target", "cpu:16")], ids=["declared", "asked for"])
def test_more_cpus_than_usual(words: tuple[str, ...], tmp_path: Path) -> None:
    write_real_pair(tmp_path, targets=("cpu:16",), variants=("turned",))
    file = tmp_path / "r.json"
    done = subprocess.run(
        command("compile", "--root", tmp_path, "--direction", "forward", "--no-cache", "--json", file, *words),
        env=as_in_a_shell(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert [(one["target"], one["mesh"]) for one in read(file)["results"]] == [("cpu:16", "data16")] * 2


SLOW = """
    import os, pathlib, time

    def turned(x):
        pathlib.Path(os.environ["SAMEBITS_TEST_MARK"]).touch()
        time.sleep(60)
        return x
    """


@pytest.mark.slow
def test_an_interrupted_run_shows_and_writes_what_it_has(tmp_path: Path) -> None:
    write_real_pair(tmp_path, "a_fast", variants=("turned",))
    write_real_pair(tmp_path, "b_slow", optimized=SLOW, variants=("turned",))
    mark, file, table = (tmp_path / name for name in ("mark", "r.json", "r.md"))
    process = subprocess.Popen(
        command(
            *("compile", "--root", tmp_path, "--direction", "forward", "--workers", "1"),
            *("--json", file, "--markdown", table),
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=as_in_a_shell(SAMEBITS_CACHE_DIR=str(tmp_path / "cache"), SAMEBITS_TEST_MARK=str(mark)),
    )
    deadline = time.monotonic() + 90
    while not mark.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 3
    journal, interrupted = err.splitlines()
    assert journal.startswith("samebits: every result so far is in ") and "--resume" in journal
    assert interrupted == "samebits: interrupted; what was compiled so far is shown"
    document = read(file)
    assert document["summary"]["interrupted"] is True
    assert [(one["pair"], one["side"]) for one in document["results"]] == [("a_fast", "gather"), ("a_fast", "turned")]
    assert out.splitlines()[-1].startswith("interrupted; 2 programs (0 cached), 1 comparison")
    assert table.read_text().startswith("### samebits compile: incomplete\n")


@pytest.mark.slow
def test_compiling_says_nothing_on_stderr(tree: Path, tmp_path: Path) -> None:
    environment = as_in_a_shell(SAMEBITS_CACHE_DIR=str(tmp_path))
    done = subprocess.run(
        command("compile", "reorder", "--direction", "forward"),
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(os.listdir(tmp_path)) == ["compiled", "journals"] and not os.listdir(tmp_path / "journals")
    assert "--root" not in done.stdout
