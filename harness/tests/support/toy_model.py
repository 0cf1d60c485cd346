"""A model of two parameters, small enough to be trained twenty steps in a test, in a tree of its own under git.

Its loss is a mean of squares, its optimizer plain descent. `nudge` plants a change: so many ulps on the loss of a step.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from samebits.schema.model import Config, Matrix, Model, Parts, Training

ROWS, FEATURES = 8, 2

MATRIX = Matrix(
    name="toy",
    about="one device and two",
    runs=(Config(name="one", mesh="data1"), Config(name="two", mesh="data2")),
)
ALONE = Config(name="alone", sizes={"rows": ROWS})

INIT = """\"\"\"A model for tests.\"\"\"

from pathlib import Path

from tests.support.toy_model import toy

MODEL = toy(Path(__file__).parent{arguments})
"""


def toy(origin: Path, *, nudge: Mapping[int, int] | None = None, scale: float = 1.0, matrix: Matrix = MATRIX) -> Model:
    """The model."""

    def build(config: Config, parts: Parts) -> Training:
        del parts
        return training(config, dict(nudge or {}), scale)

    return Model(name="toy", configs=(ALONE,), matrices=(matrix,), build=build, check=_check, pairs=(), origin=origin)


def training(config: Config, nudge: Mapping[int, int], scale: float) -> Training:
    """The training of a configuration."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec

    replicated = PartitionSpec()

    def mean_square(parameters: Any, batch: Any) -> Any:
        found = batch["x"] @ parameters["w"] + parameters["b"]
        return jnp.mean(jnp.square(found - batch["y"]))

    def step(state: Any, batch: Any) -> Any:
        loss, gradients = jax.value_and_grad(mean_square)(state["parameters"], batch)
        gradients = {name: scale * array for name, array in gradients.items()}
        after = {name: array - 0.125 * gradients[name] for name, array in state["parameters"].items()}
        number = state["step"] + 1
        for at, count in nudge.items():
            bits = jax.lax.bitcast_convert_type(loss, jnp.int32) + jnp.where(number == at, count, 0)
            loss = jax.lax.bitcast_convert_type(bits, jnp.float32)
        outputs = {"loss": loss, "perplexity": jnp.exp(loss), "gradients": gradients}
        return {"parameters": after, "step": number}, outputs

    def initial() -> Any:
        rng = np.random.default_rng(config.seed)
        parameters = {"w": rng.normal(size=FEATURES).astype(np.float32), "b": np.full((), 0.25, np.float32)}
        return {"parameters": parameters, "step": np.zeros((), np.int32)}

    def batch(number: int) -> Mapping[str, Any]:
        rng = np.random.default_rng([config.seed, number])
        x = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
        return {"x": x, "y": (x @ np.array([1, -2], np.float32) + rng.normal(size=ROWS)).astype(np.float32)}

    return Training(
        initial=initial,
        batch=batch,
        step=step,
        state_spec={"parameters": {"w": replicated, "b": replicated}, "step": replicated},
        batch_spec={"x": PartitionSpec("data"), "y": PartitionSpec("data")},
        tokens=ROWS,
    )


def write_tree(root: Path, arguments: str = "") -> Path:
    """A tree with the toy model, committed; `arguments` go to `toy`."""
    folder = root / "suites" / "model"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(INIT.format(arguments=arguments and f", {arguments}"))
    if not (root / ".git").exists():
        git(root, "init", "-q")
        (root / ".gitignore").write_text("__pycache__/\n")
    commit(root)
    return root


def commit(root: Path) -> None:
    """Commit all that is there."""
    git(root, "add", "-A")
    settings = ("user.name=A", "user.email=a@b", "maintenance.auto=false")  # the last spares a process
    git(root, *(word for each in settings for word in ("-c", each)), "commit", "-q", "--allow-empty", "-m", "toy")


def git(root: Path, *words: str) -> None:
    """Run git in a tree, without the settings of this machine."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", "-C", str(root), *words], check=True, env=clean, capture_output=True)


def _check(config: Config) -> None:
    del config


def replace_seed(matrix: Matrix, seed: int) -> Matrix:
    """The same matrix from another seed."""
    return replace(matrix, runs=tuple(run.having(seed=seed) for run in matrix.runs))
