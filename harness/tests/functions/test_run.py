"""How a comparison of two functions runs: its points, and what shows a result again."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jax.sharding import PartitionSpec as P

from samebits.functions.as_pair import pair_of
from samebits.functions.compare import function_plan, pair_mesh, rerun
from samebits.functions.request import compare_request
from tests.functions import specimens as f
from tests.support.invoke import clean_environment

SCRIPT = """\
import jax.numpy as jnp
import samebits

compared = samebits.check(lambda x: jnp.flip(x, 0), lambda x: jnp.roll(x, 1, 0), jnp.arange(6.0).reshape(3, 2))
print(compared.leaves[0].ruling.verdict, compared.leaves[0].replay)
"""


def test_on_one_device_the_reference_is_not_compared_with_itself() -> None:
    pair = pair_of(compare_request(f.softmax, f.shifted, (f.rows(),), {}))
    assert {point.variant for point in function_plan(pair).points} == {"shifted"}
    on_mesh = pair_of(compare_request(f.softmax, f.shifted, (f.rows(),), {"mesh": "dp2", "specs": P("dp")}))
    assert {point.variant for point in function_plan(on_mesh, 8).points} == {"softmax", "shifted"}


def test_a_mesh_of_any_size_can_be_proved() -> None:
    pair = pair_of(compare_request(f.softmax, f.shifted, (f.rows(),), {"mesh": "dp2_tp4096"}))
    assert pair_mesh(pair).id == "dp2_tp4096"
    assert pair.wide_meshes == ("dp2_tp4096",)


def test_under_pytest_the_test_is_the_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rerun() == "pytest 'harness/tests/functions/test_run.py::test_under_pytest_the_test_is_the_replay'"
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert rerun().startswith(f"the call in {__file__}:")


@pytest.mark.slow
def test_in_a_script_the_line_of_the_call_is_the_replay(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {name: value for name, value in clean_environment().items() if name != "PYTEST_CURRENT_TEST"}
    ended = subprocess.run(
        [sys.executable, script],
        env={**environment, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == f"different the call in {script}:4"
    assert os.listdir(tmp_path) == ["script.py"]
