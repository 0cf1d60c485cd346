"""Another user's repository: one pair in three files, in a folder that has nothing of this project."""

from pathlib import Path

REFERENCE = '''"""Rotary embedding, the plain way."""

import jax.numpy as jnp


def complex_form(x, angle, *, base=1.0):
    """Rotate pairs of features by an angle."""
    first, second = x[..., 0::2], x[..., 1::2]
    cos, sin = jnp.cos(angle * base), jnp.sin(angle * base)
    return jnp.stack([first * cos - second * sin, first * sin + second * cos], axis=-1).reshape(x.shape)
'''

OPTIMIZED = '''"""Rotary embedding without the interleaved slices."""

import jax.numpy as jnp


def paired(x, angle, *, base=1.0):
    """The same, on a last axis of pairs."""
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    first, second = pairs[..., 0], pairs[..., 1]
    cos, sin = jnp.cos(angle * base), jnp.sin(angle * base)
    return jnp.stack([first * cos - second * sin, first * sin + second * cos], axis=-1).reshape(x.shape)
'''

SUITE = """from samebits import Arg, Case, Pair, implementation, pair_test

PAIR = Pair(
    name="rope",
    reference="complex_form",
    variants=("paired",),
    args={
        "x": Arg(shape=("batch", "features"), spec=("data",)),
        "angle": Arg(shape=("half",), differentiable=False),
    },
    cases=(
        Case(id="small", sizes={"batch": 8, "features": 8, "half": 4}),
        Case(id="base", sizes={"batch": 8, "features": 8, "half": 4}, statics={"base": 3.0}),
    ),
    dtypes=("float32",),
    meshes=("data2",),
    modes=("auto",),
)

test_rope = pair_test(PAIR)


def test_angle_zero_is_identity():
    import numpy as np

    x = np.arange(8.0, dtype=np.float32)[None]
    assert np.array_equal(implementation(PAIR, "paired")(x, np.zeros(4, np.float32)), x)
"""

FAULT = ("first * sin + second * cos", "first * sin - second * cos")
"""The sign of one product, in the optimized file."""


def write_tree(root: Path, *, fault: bool = False) -> Path:
    """The three files under `root`, with the fault in the optimized one if asked for."""
    optimized = OPTIMIZED.replace(*FAULT) if fault else OPTIMIZED
    files = {
        "reference_impls/rope.py": REFERENCE,
        "optimized_impls/rope.py": optimized,
        "suites/test_rope.py": SUITE,
    }
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
