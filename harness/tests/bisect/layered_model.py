"""A model of four layers from five small pairs, in a tree of its own: compiled in a second, for tests of bisection.

Its sides are made so that one is wrong alone, two only together, one backward only, and one from step 7 on.
"""

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from samebits.errors import DeclarationError
from samebits.schema.model import Config, Defect, Model, Parts, Training
from tests.support.foreign import AXES, write_pair
from tests.support.toy_model import commit, git

LAYERS, ROWS, FEATURES = 4, 8, 4
PAIRS = ("arrange", "descend", "largest", "scale")

SIDES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "arrange": (
        "def plain(x):\n    return jnp.sort(x, axis=-1)\n",
        "def downward(x):\n    return jnp.sort(x, axis=-1)[..., ::-1]\n",
        ("downward",),
    ),
    "largest": ("def plain(x):\n    return jnp.max(x, axis=-1)\n", "def last(x):\n    return x[..., -1]\n", ("last",)),
    "scale": (
        "def plain(x, w):\n    return x * w\n",
        """
        def doubled(x, w):
            return (x * 2) * w * 0.5

        def wrong(x, w):
            return x * w * (1 + 2**-9)

        def unpulled(x, w):
            return x * jax.lax.stop_gradient(w)

        def narrow(x, w):
            return (x.astype(jnp.bfloat16) * w.astype(jnp.bfloat16)).astype(x.dtype)
        """,
        ("doubled", "wrong", "unpulled", "narrow"),
    ),
    "descend": (
        "def plain(w, gradient, count):\n    return w - 0.125 * gradient\n",
        "def stuck(w, gradient, count):\n    return w - jnp.where(count == 6, 0, 0.125) * gradient\n",
        ("stuck",),
    ),
}

HEAD = "import jax\nimport jax.numpy as jnp\n\n"

INIT = '''"""A model for tests."""

from pathlib import Path

from tests.bisect.layered_model import layered

MODEL = layered(Path(__file__).parent)
'''

LAYER = tuple(f"layer{number}" for number in range(1, LAYERS + 1))
HEALTHY = {"arrange": "downward", "scale": "doubled"}
CONFIGS = (
    Config(name="good"),
    Config(name="healthy", choice=HEALTHY),
    Config(name="one_wrong", choice={**HEALTHY, "scale@layer3": "wrong"}),
    Config(name="together", choice={**HEALTHY, "largest": "last"}),
    Config(name="unpulled", choice={**HEALTHY, "scale@layer2": "unpulled"}),
    Config(name="late", choice={**HEALTHY, "descend": "stuck"}),
    Config(name="narrow", choice={"scale@layer1": "narrow"}),
    Config(name="shifted", mesh="data2", choice=HEALTHY, options={"shift": 0.25}),
    Config(name="shifted_more", options={"shift": 0.5}),
    Config(name="sized", sizes={"rows": 2 * ROWS}),
)
DEFECTS = (
    Defect(
        name="second layer negated",
        run=CONFIGS[1],
        plant=lambda parts: {**parts, "scale@layer2": lambda x, w: -parts["scale"](x, w)},
    ),
)


def layered(origin: Path) -> Model:
    """The model."""
    return Model(
        name="layered",
        configs=CONFIGS,
        matrices=(),
        build=_build,
        check=_check,
        pairs=PAIRS,
        defects=lambda: DEFECTS,
        sites=lambda config: {"scale": LAYER},
        origin=origin,
    )


def write_tree(root: Path) -> Path:
    """The tree, committed."""
    for name, (reference, optimized, variants) in SIDES.items():
        write_pair(
            root,
            name,
            reference=HEAD + textwrap.dedent(reference),
            optimized=HEAD + textwrap.dedent(optimized),
            variants=variants,
            axes=AXES,
        )
    folder = root / "suites" / "model"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(INIT)
    git(root, "init", "-q")
    (root / ".gitignore").write_text("__pycache__/\n")
    commit(root)
    return root


def _check(config: Config) -> None:
    if config.mesh not in ("data1", "data2"):
        raise DeclarationError(f"config '{config.name}': mesh '{config.mesh}' is none of data1 and data2")


def _build(config: Config, parts: Parts) -> Training:
    import jax
    import jax.numpy as jnp
    from jax.sharding import PartitionSpec

    def at(layer: str) -> Callable[..., Any]:
        return parts.get(f"scale@{layer}", parts["scale"])

    def loss(parameters: Any, batch: Any) -> Any:
        x = parts["arrange"](batch["x"])
        for layer in LAYER:
            x = at(layer)(x, parameters[layer])
        return jnp.mean(jnp.square(parts["largest"](x) - batch["y"] - config.options.get("shift", 0)))

    def step(state: Any, batch: Any) -> Any:
        found, gradients = jax.value_and_grad(loss)(state["parameters"], batch)
        after = {name: parts["descend"](w, gradients[name], state["step"]) for name, w in state["parameters"].items()}
        outputs = {"loss": found, "perplexity": jnp.exp(found), "gradients": gradients}
        return {"parameters": after, "step": state["step"] + 1}, outputs

    def initial() -> Any:
        rng = np.random.default_rng(config.seed)
        parameters = {layer: np.float32(1 + 0.1 * rng.random()) for layer in LAYER}
        return {"parameters": parameters, "step": np.zeros((), np.int32)}

    def batch(number: int) -> Mapping[str, Any]:
        rng = np.random.default_rng([config.seed, number])
        x = rng.random((config.sizes.get("rows", ROWS), FEATURES)).astype(np.float32)
        return {"x": x, "y": (2 * x.max(axis=1)).astype(np.float32)}

    whole = PartitionSpec()
    return Training(
        initial=initial,
        batch=batch,
        step=step,
        state_spec={"parameters": dict.fromkeys(LAYER, whole), "step": whole},
        batch_spec={"x": PartitionSpec("data"), "y": PartitionSpec("data")},
        tokens=ROWS,
    )
