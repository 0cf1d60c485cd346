"""Another user's repository whose pairs declare production shapes: three files per pair, small arrays, on CPUs."""

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.foreign import write_pair
from tests.support.invoke import Ended, samebits

REFERENCE = """
    import jax
    import jax.numpy as jnp


    def gather(x):
        return x[jnp.arange(64)[::-1]] * 0.5
    """
"""Turns the rows round by an array of indices: a gather, and a scatter backwards."""

OPTIMIZED = """
    import jax
    import jax.numpy as jnp


    def turned(x):
        return jnp.flip(x, axis=0) * 0.5


    def again(x):
        return (x * 1)[jnp.arange(64)[::-1]] * 0.5


    def quarter(x):
        return x[jnp.arange(64)[::-1]] * 0.25


    def looped(x):
        def step(at, _):
            return at + 1, jax.lax.dynamic_index_in_dim(x, 63 - at, keepdims=False) * 0.5

        return jax.lax.scan(step, jnp.int32(0), None, length=64)[1]
    """
"""Without the gather; with it, and a product that compilers drop; with another constant; and row by row in a loop."""

VARIANTS = ("turned", "again", "quarter", "looped")

SUITE = """
from samebits import REFERENCE, VARIANT, Arg, Case, Claim, Pair, RealSize, Refusal, compiled_side

PAIR = Pair(
    name="{name}",
    reference="{reference}",
    variants={variants!r},
    args={args},
    cases=(Case(id="small", sizes={{"rows": 4}}),),
    dtypes=("float32",),
    meshes=("data1",),
    modes=("auto",),
    {extra}
    compiled=(
        RealSize(
            case=Case(id="real", sizes={sizes!r}{case}),
            layout={layout!r},
            dtype={dtype!r},
            targets={targets!r},
            claims=({claims}),
            {real}
        ),
        {more}
    ),
)
"""


def write_real_pair(
    root: Path,
    name: str = "reorder",
    *,
    claims: Sequence[str] = (),
    reference: str = REFERENCE,
    optimized: str = OPTIMIZED,
    reference_name: str = "gather",
    variants: tuple[str, ...] = VARIANTS,
    args: str = '{"x": Arg(shape=("rows", 16), spec=(None, "data"))}',
    sizes: dict[str, int] | None = None,
    layout: str = "data*",
    dtype: str = "float32",
    targets: Sequence[str] = ("cpu:8",),
    case: str = "",
    extra: str = "",
    more: str = "",
    real: str = "",
) -> Path:
    """Write a pair with one production shape; `claims` are the arguments of a `Claim` each, its source apart."""
    text = SUITE.format(
        name=name,
        reference=reference_name,
        variants=variants,
        args=args,
        sizes=sizes or {"rows": 64},
        layout=layout,
        dtype=dtype,
        targets=tuple(targets),
        claims="".join(f'Claim({claim}, source="us"), ' for claim in claims),
        case=case,
        extra=extra,
        more=more,
        real=real,
    )
    write_pair(root, name, reference=reference, optimized=optimized, suite=textwrap.dedent(text))
    return root


def compiled(root: Path, *words: str | Path) -> tuple[Ended, dict[str, Any]]:
    """`samebits compile` of a tree, how it ended and its document."""
    file = root / "compiled.json"
    file.unlink(missing_ok=True)
    ended = samebits("compile", "--root", root, "--json", file, *words)
    return ended, json.loads(file.read_text()) if file.exists() else {}


def where(entries: Sequence[dict[str, Any]], **fields: str) -> list[dict[str, Any]]:
    """The entries of a document with these fields."""
    return [one for one in entries if all(one[name] == value for name, value in fields.items())]
