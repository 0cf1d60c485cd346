"""`pair_test` in another user's tree: collection, filters, xdist, junit, markers, header, a fault with its witness."""

import importlib.metadata
import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import pytest

from samebits.testing import plugin
from tests.support import failing_device
from tests.support.foreign import write_pair
from tests.support.forked import run_module
from tests.support.rope_tree import write_tree


def run_pytest(tree: Path, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Pytest in a tree, with the plugin whether samebits is installed or only on the path."""
    installed = any(entry.name == "samebits" for entry in importlib.metadata.entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "samebits.testing.plugin"]
    return run_module("pytest", *plugin, "-p", "no:cacheprovider", *args, cwd=tree, variables=variables)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tree(tmp_path_factory.mktemp("their_tree"))


@pytest.mark.slow
def test_one_case_per_point_and_a_property_without_reference(tree: Path) -> None:
    """Two sides, two cases, two directions; found without a conftest of theirs, with the header and the verdicts."""
    done = run_pytest(tree, "-v")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout
    assert "test_rope[paired-base-float32-data2-auto-gradient] PASSED" in done.stdout
    assert "samebits: leaves compared by verdict: 8 bitwise" in done.stdout
    assert "of 8 comparisons passed under assumptions that other values could break (" in done.stdout
    header = [line for line in done.stdout.splitlines() if line.startswith("samebits: ")]
    assert "jax " in header[0]
    assert "8 CPU devices asked for" in header[0]


@pytest.mark.slow
def test_k_and_junit_under_xdist(tree: Path, tmp_path: Path) -> None:
    """-k picks points by name, -n 2 gathers the verdicts of both workers, junit carries them."""
    report = tmp_path / "r.xml"
    done = run_pytest(tree, "-n", "2", "--dist", "loadgroup", "-k", "paired and gradient", f"--junitxml={report}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert "samebits: leaves compared by verdict: 2 bitwise" in done.stdout
    properties = [(p.get("name"), p.get("value")) for p in ET.parse(report).getroot().iter("property")]
    assert properties == [("samebits_verdict", "bitwise")] * 2


def test_collection_starts_no_backend(tree: Path) -> None:
    """Collecting may import jax; its backend starts with the first case."""
    (tree / "conftest.py").write_text(
        "import sys\n"
        "def pytest_collection_finish(session):\n"
        "    bridge = sys.modules.get('jax._src.xla_bridge')\n"
        "    print('BACKENDS', dict(getattr(bridge, '_backends', {})))\n"
    )
    try:
        done = run_pytest(tree, "--collect-only", "-q", "-s")
        assert "BACKENDS {}" in done.stdout, done.stdout + done.stderr
        assert "test_rope[complex_form-small-float32-data2-auto-forward]" in done.stdout
    finally:
        (tree / "conftest.py").unlink()


def test_a_mesh_that_does_not_fit_skips_by_name_or_fails(tree: Path) -> None:
    """One device, a mesh of two."""
    pick = ("-k", "paired and small and forward", "-rs", "--samebits-devices", "1")
    done = run_pytest(tree, *pick)
    assert done.returncode == 0
    assert "1 skipped" in done.stdout
    assert "mesh 'data2' needs 2 devices and 1 are there" in done.stdout
    strict = run_pytest(tree, *pick, "--samebits-no-skips")
    assert strict.returncode == 1
    assert "mesh 'data2' needs 2 devices and 1 are there" in strict.stdout


def test_markers_skip_by_backend(tree: Path, tmp_path: Path) -> None:
    """tpu_only skips here, cpu_only runs; all are registered even under strict markers."""
    (tmp_path / "test_marks.py").write_text(
        "import pytest\n@pytest.mark.tpu_only\ndef test_a(): pass\n@pytest.mark.cpu_only\ndef test_b(): pass\n"
        "@pytest.mark.slow\ndef test_c(): pass\n"
        "@pytest.mark.devices(2)\ndef test_d(): pass\n@pytest.mark.devices(1)\ndef test_e(): pass\n"
        "@pytest.mark.devices('4')\ndef test_f(): pass\n"
    )
    done = run_pytest(tmp_path, "--strict-markers", "-rs", "-m", "not slow", "--samebits-devices", "1")
    assert "2 passed, 2 skipped, 1 deselected, 1 error" in done.stdout
    assert "tpu_only: the default backend is cpu" in done.stdout
    assert "devices(2): 1 is there" in done.stdout
    assert "test_marks.py::test_f: devices('4',); expected a number, as in devices(4)" in done.stdout


@pytest.mark.slow
def test_only_what_check_runs_too_is_marked(tmp_path: Path) -> None:
    """`make test` leaves out the points that its check has run; what no check runs must not be lost with them."""
    tree = write_tree(tmp_path)
    suite = tree / "suites" / "test_rope.py"
    suite.write_text(suite.read_text() + "\nimport copy\nOTHER = copy.copy(PAIR)\ntest_other = pair_test(OTHER)\n")
    both = run_pytest(tree, "--collect-only", "-q").stdout
    points = both.count("::test_rope[")
    assert points == both.count("::test_other[") > 0
    swept, rest = (run_pytest(tree, "--collect-only", "-q", "-m", which).stdout for which in ("swept", "not swept"))
    assert (swept.count("::test_rope["), swept.count("::test_other[")) == (points, 0)
    assert (rest.count("::test_rope["), rest.count("::test_other[")) == (0, points)


def test_a_planted_fault_fails_with_witness_and_replay(tmp_path: Path) -> None:
    """What their engineer sees in the log of their own CI."""
    done = run_pytest(write_tree(tmp_path, fault=True), "-k", "paired and small and forward")
    assert done.returncode == 1
    text = done.stdout
    assert "rope/paired, case small, float32, mesh data2 (auto), forward" in text
    assert "verdict   different, required rounding" in text
    assert re.search(r"witness   out\[\d, \d\]: reference=", text)
    assert "32 of 64 elements differ" in text
    assert (
        "replay    samebits check rope --variant paired --case small --dtype float32 --mesh data2 --mode auto" in text
    )
    assert "Traceback" not in text


# --- copies of a declaration -----------------------------------------------------------------------------------------

REPLACED = """
import dataclasses
from samebits import Arg, Case, Pair, pair_test

PAIR = Pair(
    name="copied",
    reference="plain",
    variants=("fast",),
    args={"x": Arg(shape=("rows", 5), spec=("data",))},
    out_spec={"out": ("data",)},
    cases=(Case(id="small", sizes={"rows": 4}),),
    dtypes=("float32",),
    meshes=("data1",),
    modes=("auto",),
    gradients=False,
)
test_copied = pair_test(PAIR)


def wrong(x):
    return 3 * x


test_wrong = pair_test(dataclasses.replace(PAIR, variants={"fast": wrong}))
test_case = pair_test(dataclasses.replace(PAIR, cases=(Case(id="tall", sizes={"rows": 8}),)))
test_again = pair_test(dataclasses.replace(PAIR))
"""


@pytest.mark.slow
def test_each_copy_of_a_declaration_is_run_as_it_is(tmp_path: Path) -> None:
    """`dataclasses.replace(PAIR, ...)` keeps name and origin, and is another declaration all the same."""
    write_pair(tmp_path, "copied", suite=REPLACED)
    done = run_pytest(tmp_path, "-v", "suites")
    lines = [line.split() for line in done.stdout.splitlines() if line.endswith("%]")]
    said = {words[0].split("::")[1].split("[")[0]: words[1] for words in lines}  # of each, the variant comes last
    expected = {"test_copied": "PASSED", "test_wrong": "FAILED", "test_case": "PASSED", "test_again": "PASSED"}
    assert said == expected, done.stdout
    assert "StopIteration" not in done.stdout


IN_A_CLASS = """
from samebits import Arg, Case, Pair, pair_test

PAIR = Pair(
    name="in_a_class",
    reference=lambda x: x[::-1],
    variants={"fast": lambda x: x[::-1, :]},
    args={"x": Arg(shape=(4, 5))},
    cases=(Case(id="small"),),
    dtypes=("float32",),
    gradients=False,
)


class TestPairs:
    test_reversed = pair_test(PAIR)
"""


def test_a_pair_test_may_be_a_method(tmp_path: Path) -> None:
    (tmp_path / "test_in_a_class.py").write_text(IN_A_CLASS, encoding="utf-8")
    done = run_pytest(tmp_path, "-v", "test_in_a_class.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TestPairs::test_reversed[fast-small-float32-none-auto-forward] PASSED" in done.stdout


OWN_TESTS = """\
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

{imports}


def one(x):
    return jnp.sum(x, axis=1)


def other(x):
    return x @ jnp.ones(x.shape[1])


def wrong(x):
    return jnp.sum(x, axis=1) + 1e-3


def test_same():
    assert_same(one, other, jnp.arange(32.0).reshape(8, 4), mesh="dp4", specs=P("dp"))


def test_wrong():
    assert_same(one, wrong, jnp.arange(32.0).reshape(8, 4))
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "imports", ["from samebits import assert_same", "import samebits as sb\nassert_same = sb.assert_same"]
)
def test_an_assertion_in_an_ordinary_test(imports: str, tmp_path: Path) -> None:
    """Devices are there for its mesh, and the failure is the witness under the line of the test."""
    (tmp_path / "test_own.py").write_text(OWN_TESTS.format(imports=imports), encoding="utf-8")
    done = run_pytest(tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "    assert_same(one, wrong, jnp.arange(32.0).reshape(8, 4))" in done.stdout
    assert "witness   out[" in done.stdout
    assert "replay    pytest 'test_own.py::test_wrong'" in done.stdout
    assert "samebits/functions" not in done.stdout


@pytest.mark.parametrize("text", ["abc", "0", ""])
def test_the_header_of_a_session_with_a_wrong_number(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that need no devices run; an error in this hook would end the session."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.setenv("JAX_NUM_CPU_DEVICES", text)
    config = SimpleNamespace(getoption=lambda name: None)
    assert any("an unknown number of CPU devices asked for" in line for line in plugin.pytest_report_header(config))  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_tests_after_it_are_not_run(tmp_path: Path) -> None:
    failing_device.write_failing_pair(tmp_path, "bad")
    write_pair(tmp_path, "good", extra="gradients=False,")
    done = run_pytest(tmp_path)
    assert done.returncode == 1 and " failed" in done.stdout, done.stdout
    assert f"not run: device cpu:0 failed: {failing_device.MESSAGE}, in bad: " in done.stdout
    assert "; run it in a new process\n" in done.stdout
    alone = run_pytest(tmp_path, "-k", "good")
    assert alone.returncode == 0, alone.stdout


@pytest.mark.slow
def test_a_result_that_is_right_does_not_hide_it(tmp_path: Path) -> None:
    write_pair(tmp_path, "good", extra="gradients=False,")
    (tmp_path / "conftest.py").write_text(
        "from samebits.testing import session\nsession.device_failure = lambda: 'device cuda:0 failed: planted'\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 1 and "2 failed" in done.stdout
    assert "\ndevice cuda:0 failed: planted, in good: " in done.stdout and "traced ahead)\n" in done.stdout
    assert "not run: device cuda:0 failed: planted, in good: " in done.stdout
