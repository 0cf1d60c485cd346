"""Devices, platform and flags are set before jax starts, printed, and rejected when it is too late."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest

from samebits.errors import RequestError
from samebits.host import environment
from samebits.host.accelerator import jax_platforms
from tests.support import forked
from tests.support.child import ROOT, run_python, value_of

COUNT = "--xla_force_host_platform_device_count"
DEVICES = "import jax; print(len(jax.devices()))"
PREPARE = "from samebits.host import environment"


def prepared(call: str, variables: Mapping[str, str] | None = None, after: str = DEVICES) -> str:
    """What some code says after a call of `prepare`, by default how many devices jax really has."""
    return value_of(f"{PREPARE}\n{call}\n{after}", variables=variables)


@pytest.mark.parametrize(
    ("call", "variables", "devices"),
    [
        ("environment.prepare()", {}, 8),
        ("environment.prepare(devices=3)", {}, 3),
        ("environment.prepare()", {"JAX_NUM_CPU_DEVICES": "5"}, 5),
        ("environment.prepare(devices=3)", {"JAX_NUM_CPU_DEVICES": "5"}, 3),
        ("environment.prepare()", {"XLA_FLAGS": f"{COUNT}=6"}, 6),
        ("environment.prepare(devices=3)", {"XLA_FLAGS": f"{COUNT}=6"}, 3),
    ],
)
def test_the_option_comes_before_the_variable_before_the_default(
    call: str, variables: dict[str, str], devices: int
) -> None:
    assert prepared(call, variables, after="print(environment.asked_devices())") == str(devices)


@pytest.mark.parametrize("variables", [{"JAX_NUM_CPU_DEVICES": "3"}, {"XLA_FLAGS": f"{COUNT}=3"}], ids=list)
def test_jax_has_the_devices_that_the_variable_asks_for(variables: dict[str, str]) -> None:
    assert prepared("environment.prepare()\nassert environment.asked_devices() == 3", variables) == "3"


def test_prepare_works_after_jax_is_imported() -> None:
    """A user's own `conftest.py` may import jax first; only a started backend is too late."""
    code = f"import jax\n{PREPARE}\nenvironment.prepare(devices=3, platform='cpu')\n{DEVICES}"
    assert forked.value_of(code) == "3"


def test_prepare_twice_is_prepare_once() -> None:
    twice = f"environment.prepare(devices=3)\n{DEVICES}\nenvironment.prepare(devices=3)\n{DEVICES}"
    assert forked.value_of(f"{PREPARE}\n{twice}") == "3"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            "devices=3",
            "3 devices asked for, but jax has already started with 2; "
            "set JAX_NUM_CPU_DEVICES before the first use of jax",
        ),
        ("platform='tpu'", "platform tpu asked for, but jax has already started on cpu"),
    ],
)
def test_a_request_that_comes_too_late_is_refused(request_: str, message: str) -> None:
    code = f"""
import os
os.environ["JAX_NUM_CPU_DEVICES"] = "2"
import jax
jax.config.update("jax_num_cpu_devices", 2)  # as where jax has read the variable
jax.devices()
{PREPARE}
try:
    environment.prepare({request_})
except environment.RequestError as error:
    print(error)
"""
    assert forked.value_of(code) == message


def test_less_than_one_device_is_refused() -> None:
    with pytest.raises(RequestError, match=r"^--devices 0: expected at least 1$"):
        environment.prepare(devices=0)


def test_other_flags_of_the_user_are_kept() -> None:
    code = """
import os
from samebits.host import environment
environment.prepare(devices=2)
print(os.environ["XLA_FLAGS"])
"""
    flags = f"--xla_cpu_enable_fast_math=false {COUNT}=4"
    assert value_of(code, variables={"XLA_FLAGS": flags}) == "--xla_cpu_enable_fast_math=false"


def test_a_gpu_is_made_deterministic() -> None:
    """Its flag is set once, and a user's own setting of it stays."""
    code = """
import os
from samebits.host import environment
environment.prepare(platform="gpu")
environment.prepare(platform="gpu")
print(os.environ["XLA_FLAGS"])
"""
    assert value_of(code) == "--xla_gpu_deterministic_ops=true"
    mine = "--xla_gpu_deterministic_ops=false"
    assert value_of(code, variables={"XLA_FLAGS": mine}) == mine


@pytest.mark.sampled(1)
@pytest.mark.parametrize("first", ["", "import jax"])
@pytest.mark.parametrize(("call", "names"), [('platform="gpu"', "gpu"), ("", "tpu"), ('platform="tpu"', "cuda")])
def test_the_cpu_stays_beside_an_accelerator(first: str, call: str, names: str) -> None:
    """Proofs compute in float64 on it, and so may users; whether jax reads its variables before or after."""
    code = f"""
import os
{first}
from samebits.host import environment
environment.prepare({call})
import jax
print(os.environ["JAX_PLATFORMS"], jax.config.jax_platforms)
"""
    named = jax_platforms("gpu" if "gpu" in call else "tpu")
    assert named.endswith(",cpu")
    assert value_of(code, variables={"JAX_PLATFORMS": names}) == f"{named} {named}"


def test_what_code_has_configured_stays() -> None:
    """As in the process that drives workers: they have the accelerator, and it the CPU."""
    code = f"""
import os
os.environ["JAX_PLATFORMS"] = "tpu"
import jax
jax.config.update("jax_platforms", "cpu")
{PREPARE}
environment.prepare()
print(os.environ["JAX_PLATFORMS"], jax.config.jax_platforms)
"""
    assert forked.value_of(code) == "tpu,cpu cpu"


def test_capture_says_what_the_bits_depend_on() -> None:
    import jax

    seen = environment.capture()
    assert seen.devices == len(jax.devices())
    assert seen.platform == jax.default_backend()
    assert seen.versions["jax"] == jax.__version__
    assert set(seen.versions) == {
        "samebits",
        "python",
        "jax",
        "jaxlib",
        "libtpu",
        "numpy",
        "ml_dtypes",
        "flax",
        "optax",
    }
    assert seen.settings["jax_enable_x64"] == "False"
    assert "None" not in seen.settings["jax_threefry_partitionable"]
    assert seen.cpus >= 1
    with jax.enable_x64(True):
        assert environment.capture().settings["jax_enable_x64"] == "True"


def test_the_environment_is_plain_data_and_three_lines() -> None:
    seen = environment.capture()
    assert json.loads(json.dumps(asdict(seen)))["devices"] == seen.devices
    versions, devices, flags = seen.lines()
    assert f"jax {seen.versions['jax']}" in versions
    assert devices.startswith(f"{seen.devices} x {seen.platform}")
    assert "enable_x64=False" in flags


def test_the_header_names_every_variable_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """A typing error in a variable's name is seen by its being there."""
    for name in [name for name in os.environ if name.startswith(("JAX_", "XLA_", "LIBTPU_"))]:
        monkeypatch.delenv(name)
    assert environment.flags_header("8 CPU devices")[1] == "no JAX_, XLA_ or LIBTPU_ variables set"
    monkeypatch.setenv("JAX_NUM_CPU_DEVICE", "4")
    assert environment.flags_header("8 CPU devices")[1] == "JAX_NUM_CPU_DEVICE='4'"


# --- the root conftest.py --------------------------------------------------------------------------------------------


def run_under_our_conftest(tmp_path: Path, test: str, *options: str) -> tuple[int, str]:
    """The exit code and output of pytest on one test file beside a copy of our `conftest.py`."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(test)
    done = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", *options, cwd=tmp_path)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_tests_have_the_devices_that_were_asked_for(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Here by default or by a variable; there by the option."""
    import jax

    asked = pytestconfig.getoption("--samebits-devices") or environment.asked_devices()
    assert jax.default_backend() != "cpu" or len(jax.devices()) == asked
    test = "import jax\ndef test_it(): assert len(jax.devices()) == 3\n"
    assert run_under_our_conftest(tmp_path, test, "--samebits-devices", "3")[0] == 0


def test_a_wrong_number_of_devices_is_one_line(tmp_path: Path) -> None:
    code, output = run_under_our_conftest(tmp_path, "def test_it(): pass\n", "--samebits-devices", "0")
    assert (code, output.strip()) == (4, "ERROR: --devices 0: expected at least 1")


@pytest.mark.slow
def test_a_test_that_leaks_a_setting_fails(tmp_path: Path) -> None:
    """Each of four ways to leave jax changed; the honest test between them passes."""
    code, output = run_under_our_conftest(
        tmp_path,
        """
import jax
def test_updates(): jax.config.update("jax_numpy_dtype_promotion", "strict")
def test_enters(): jax.enable_x64(True).__enter__()
def test_is_honest():
    with jax.enable_x64(False), jax.set_mesh(jax.make_mesh((2,), ("data",))):
        pass
def test_sets_a_flag(): jax.config.update("jax_disable_most_optimizations", True)
def test_sets_a_mesh(): jax.set_mesh(jax.make_mesh((2,), ("data",)))
""",
    )
    assert code == 1
    assert "5 passed, 4 errors" in output  # the tests' own bodies pass, the fixture around them fails
    assert output.count("this test leaves jax changed for those after it: ") >= 4
    for leaked in (
        "jax_numpy_dtype_promotion: ",
        "jax_enable_x64: False -> True",
        "jax_disable_most_optimizations: False -> True",
        "mesh in context: ",
    ):
        assert leaked in output
