"""Trees of one pair each, for bisections.

`doubling`: wrong only on two shards or more, at one element. `scaled`: the compiler drops a rounding of one side only.
"""

from pathlib import Path

REFERENCE = '''"""Twice a table."""


def doubled(x, shift):
    """Twice the rows of x, and a shift."""
    return x * 2 + shift
'''

OPTIMIZED = '''"""Twice a table, shard by shard."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def honest(x, shift):
    """The same on every mesh."""
    return _split(x, wrong=False) + shift


def planted(x, shift):
    """Wrong on the second shard: the second column of its first row is taken three times unless it is small."""
    return _split(x, wrong=True) + shift


def fragile(x, shift):
    """As planted; and wrong on every mesh where there are less than four columns, which is another failure."""
    return planted(x, shift) + (x.shape[1] < 4)


def _split(x, *, wrong):
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or "expert" not in mesh.axis_names:
        return 2 * x

    def one(x):
        found = 2 * x
        if wrong and x.shape[1] > 1:
            hit = (jax.lax.axis_index("expert") == 1) & (jnp.abs(x[0, 1]) > 0.01)
            found = found.at[0, 1].add(jnp.where(hit, x[0, 1], 0))
        return found

    return jax.shard_map(one, in_specs=P("expert"), out_specs=P("expert"))(x)
'''

SUITE = """from samebits import Arg, Case, Pair

PAIR = Pair(
    name="doubling",
    reference="doubled",
    variants=("honest", "planted", "fragile"),
    args={
        "x": Arg(shape=("rows", "columns"), spec=("expert",)),
        "shift": Arg(shape=("columns",)),
    },
    cases=(Case(id="small", sizes={"rows": 16, "columns": 12}),),
    dtypes=("float32",),
    meshes=("expert8",),
    modes=("auto",),
)
"""


DOUBLING = {
    "reference_impls/doubling.py": REFERENCE,
    "optimized_impls/doubling.py": OPTIMIZED,
    "suites/test_doubling.py": SUITE,
}

SCALED = {
    "reference_impls/scaled.py": '''"""A product that is rounded to bfloat16 halfway."""

import jax
import jax.numpy as jnp


def rounded(x, scale):
    """Rounded by an operation that stays."""
    return jax.lax.reduce_precision((x * scale).astype(jnp.float32), 8, 7) * 3
''',
    "optimized_impls/scaled.py": '''"""A product that is rounded to bfloat16 halfway."""

import jax
import jax.numpy as jnp


def plain(x, scale):
    """Rounded because it is bfloat16, which the compiler may leave out: precision in excess."""
    return (x * scale).astype(jnp.float32) * 3


def kept(x, scale):
    """The same as the reference."""
    return jax.lax.reduce_precision((scale * x).astype(jnp.float32), 8, 7) * 3
''',
    "suites/test_scaled.py": """from samebits import Arg, Case, Pair

PAIR = Pair(
    name="scaled",
    reference="rounded",
    variants=("plain", "kept"),
    args={"x": Arg(shape=("rows", "columns"), spec=("data",)), "scale": Arg(shape=("columns",))},
    cases=(Case(id="small", sizes={"rows": 4, "columns": 8}),),
    dtypes=("bfloat16",),
    meshes=("data1",),
    modes=("auto",),
    gradients=False,
)
""",
}


def write_tree(root: Path, pair: str = "doubling") -> Path:
    """Write the three files of a pair."""
    files = SCALED if pair == "scaled" else DOUBLING
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root
