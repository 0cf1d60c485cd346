"""A declaration whose import ends or blocks the process is a problem of its own; the other pairs are checked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.support.invoke import clean_environment, command

HONEST = """
from samebits import Arg, Case, Pair

def plain(x):
    return x + x

def fast(x):
    return 2 * x

PAIR = Pair(
    name="{name}",
    reference=plain,
    variants={{"fast": fast}},
    args={{"x": Arg(shape=("n",))}},
    cases=(Case(id="few", sizes={{"n": 8}}),),
    dtypes=("float32",),
    gradients=False,
)
"""

BAD = {
    "a_aborts": "import os\nos.abort()\n",
    "b_exits": "import os\nos._exit(0)\n",
    "c_blocks": "import time\ntime.sleep(100_000)\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two honest pairs, before and after three whose import does not end well."""
    (tmp_path / "suites").mkdir()
    for name in ("a", "z"):
        (tmp_path / "suites" / f"test_{name}.py").write_text(HONEST.format(name=name))
    return tmp_path


def _start(tree: Path, *words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*words), cwd=tree, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_a_bad_import_costs_its_own_pair(tree: Path) -> None:
    for name, text in BAD.items():
        (tree / "suites" / f"test_{name}.py").write_text(text)
    document = tree / "check.json"
    process = _start(tree, "check", "--timeout", "20", "--json", document)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    found = json.loads(document.read_text())
    problems = {problem["pair"]: problem["message"] for problem in found["problems"]}
    assert set(problems) == set(BAD)
    assert "its declaration ended the process that imported it (SIGABRT; it was at " in problems["a_aborts"]
    assert "(exit code 0)" in problems["b_exits"]
    assert "(it took more than 20 s; it was at " in problems["c_blocks"]
    assert "test_c_blocks.py:2 in <module>" in problems["c_blocks"]
    assert {row["pair"] for row in found["results"]} == {"a", "z"} and all(row["ok"] for row in found["results"])
    assert "Fatal Python error" not in err


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 3), (signal.SIGTERM, 3), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_signal_to_the_parent_ends_both(tree: Path, number: signal.Signals, code: int) -> None:
    marker = tree / "importing"
    text = f"import pathlib, time\npathlib.Path({str(marker)!r}).touch()\ntime.sleep(1000)\n"
    (tree / "suites" / "test_blocks.py").write_text(text)
    process = _start(tree, "check", "blocks")
    while not marker.exists():
        assert process.poll() is None
        time.sleep(0.02)
    (child,) = psutil.Process(process.pid).children()
    os.kill(process.pid, number)
    process.communicate(timeout=60)
    assert process.returncode == code
    assert child.wait(timeout=60) is None or not child.is_running()
