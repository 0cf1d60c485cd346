"""Under pytest: jax started too early, `-W error`, no GPU, and functions that raise, exit or parse `sys.argv`."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support.foreign import write_pair
from tests.testing.test_plugin import run_pytest

EARLY = "import jax\njax.devices()\n"
FAILS = (
    "mesh 'data2' needs 2 devices and 1 are there: a conftest.py or a test module started jax before samebits could "
    "ask for 8; set JAX_NUM_CPU_DEVICES=8 in the environment, or use jax only inside fixtures and tests"
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    write_pair(tmp_path, "good", extra="gradients=False,")
    return tmp_path


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_jax_started_by_a_conftest_fails(tree: Path, words: tuple[str, ...]) -> None:
    """Not `2 skipped` and exit code 0: nothing was compared, and the user did not choose that."""
    (tree / "conftest.py").write_text(EARLY)
    done = run_pytest(tree, *words)
    assert done.returncode == 1 and "2 failed" in done.stdout, done.stdout
    assert done.stdout.splitlines().count(FAILS) == 2 and "Traceback" not in done.stdout
    assert "hidden" not in done.stdout and "During handling" not in done.stdout


@pytest.mark.slow
def test_as_the_line_says_it_runs(tree: Path) -> None:
    (tree / "conftest.py").write_text(EARLY)
    done = run_pytest(tree, JAX_NUM_CPU_DEVICES="8")
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_devices_that_the_user_chose_are_skips(tree: Path) -> None:
    """As before: the mesh does not fit on purpose, and `--samebits-no-skips` fails on it."""
    (tree / "conftest.py").write_text('import jax\njax.config.update("jax_num_cpu_devices", 1)\njax.devices()\n')
    done = run_pytest(tree, "-rs")
    assert done.returncode == 0 and "mesh 'data2' needs 2 devices and 1 are there" in done.stdout
    assert run_pytest(tree, "--samebits-no-skips").returncode == 1


@pytest.mark.slow
def test_devices_that_a_conftest_configures_are_kept(tree: Path) -> None:
    """It has not started jax: samebits must not put its own number in place of theirs."""
    (tree / "conftest.py").write_text('import jax\njax.config.update("jax_num_cpu_devices", 2)\n')
    (tree / "suites" / "test_zz.py").write_text("import jax\ndef test_it(): assert len(jax.devices()) == 2\n")
    done = run_pytest(tree)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("name", "code"), [("test_aa.py", 1), ("test_zz.py", 0)])
def test_jax_at_the_top_of_another_test_file(tree: Path, name: str, code: int) -> None:
    """One that is collected after the pair finds the devices that samebits has asked for."""
    (tree / "suites" / name).write_text("import jax.numpy as jnp\nX = jnp.ones(3)\ndef test_it(): assert X.size == 3\n")
    done = run_pytest(tree)
    assert done.returncode == code and (FAILS in done.stdout) == bool(code), done.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_devices_asked_for_too_late_are_an_error(tree: Path, words: tuple[str, ...]) -> None:
    (tree / "conftest.py").write_text(EARLY)
    done = run_pytest(tree, "--samebits-devices", "4", *words)
    assert done.returncode not in (0, 5) and "INTERNALERROR" not in done.stdout + done.stderr
    line = (
        "4 devices asked for, but jax has already started with 1; set JAX_NUM_CPU_DEVICES before the first use of jax"
    )
    assert line in done.stdout and "Traceback" not in done.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize("words", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_warnings_as_errors_with_a_junit_report(tree: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    """Pytest's default report warns of `record_property`."""
    report = tmp_path / "r.xml"
    done = run_pytest(tree, "-W", "error", f"--junitxml={report}", *words)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout
    properties = [(one.get("name"), one.get("value")) for one in ET.parse(report).getroot().iter("property")]
    assert sorted(properties) == [("samebits_verdict", "bitwise"), ("samebits_verdict", "proved")]


@pytest.mark.slow
def test_no_gpu_is_one_line(tree: Path) -> None:
    done = run_pytest(tree, "-k", "fast", JAX_PLATFORMS="cuda")
    line = "jax has no plugin for a GPU here; pip install 'jax[cuda13]' (NVIDIA), or --platform cpu"
    assert done.returncode == 1 and done.stdout.splitlines().count(line) == 1
    assert "AssertionError" not in done.stdout


def test_an_exception_is_a_line_and_their_traceback(tree: Path) -> None:
    write_pair(tree, "raising", optimized="def fast(x):\n    raise ValueError('no kernel')\n", extra="gradients=False,")
    done = run_pytest(tree, "suites/test_raising.py", "-k", "fast")
    source = tree / "optimized_impls" / "raising.py"
    assert done.returncode == 1
    assert f"raised ValueError: no kernel ({source}:2)" in done.stdout
    assert "  replay    samebits check raising --variant fast " in done.stdout
    section = done.stdout[done.stdout.index("Captured traceback call") :]
    assert section.splitlines()[1:3] == ["Traceback (most recent call last):", f'  File "{source}", line 2, in fast']
    assert "samebits/" not in section  # no frame of ours


def test_what_ends_a_process_ends_a_case(tree: Path) -> None:
    """The other cases run, and a skip inside a function is none of the case."""
    for name, body in (
        ("exiting", "import sys\n    sys.exit(0)"),
        ("skipping", "import pytest\n    pytest.skip('no GPU')"),
    ):
        write_pair(tree, name, optimized=f"def fast(x):\n    {body}\n", extra="gradients=False,")
    done = run_pytest(tree)
    assert done.returncode == 1 and "2 failed, 4 passed" in done.stdout, done.stdout
    assert "raised SystemExit: 0" in done.stdout and "raised Skipped: no GPU" in done.stdout


def test_their_code_does_not_see_the_words_of_pytest(tree: Path) -> None:
    body = "import argparse\n    argparse.ArgumentParser().parse_args()\n    return 2 * x"
    write_pair(tree, "parsing", optimized=f"def fast(x):\n    {body}\n", extra="gradients=False,")
    done = run_pytest(tree, "-k", "parsing and fast")
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
