"""Python code in a child process in which jax has not started."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BYTECODE = "TESTS_BYTECODE"
"""The variable with the folder in which the processes of one run of the tests share compiled modules.

It is set where Python must not write them beside their sources.
"""

_OF_THE_PARENT = ("JAX_", "XLA_", "PYTEST_")


def run_python(*args: str, cwd: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """`python ARGS`, with the environment that a user's shell would have and `variables` added."""
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env={**shell_environment(), **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def shell_environment() -> dict[str, str]:
    """The variables of a user's shell, where this harness is found: none that set up jax or pytest for this process."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(_OF_THE_PARENT)}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "harness"), str(ROOT), env.get("PYTHONPATH"))))
    return {**sharing_bytecode(env), "JAX_PLATFORMS": "cpu"}


def sharing_bytecode(env: Mapping[str, str]) -> dict[str, str]:
    """An environment with which Python keeps what it compiles for the other processes of these tests, and no longer.

    Pytest alone takes half a second to rewrite the asserts of a plugin. `conftest.py` makes the folder and removes it.
    """
    if BYTECODE not in env:
        return dict(env)
    kept = {name: value for name, value in env.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": env[BYTECODE]}


def value_of(code: str, cwd: Path = ROOT, variables: Mapping[str, str] | None = None) -> str:
    """The last line that some code prints; a code that fails is an error with its own words."""
    done = run_python("-c", code, cwd=cwd, **(variables or {}))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout.splitlines()[-1]
