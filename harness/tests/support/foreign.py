"""Another user's repository, written by a test: three files per pair, small arrays, one or two devices."""

import textwrap
from pathlib import Path

SUITE = """
from samebits import Arg, Case, Contract, Exemption, Pair, pair_test

PAIR = Pair(
    name="{name}",
    reference="plain",
    variants={variants!r},
    args={{"x": Arg(shape=("rows", 5), spec=("data",))}},
    out_spec={{"out": ("data",)}},
    {axes}
    {extra}
)
test_{name} = pair_test(PAIR)
"""
FORWARD = "gradients=False,"
AXES = 'cases=(Case(id="small", sizes={"rows": 4}),), dtypes=("float32",), meshes=("data2",), modes=("auto",),'

PLAIN = """
    import jax.numpy as jnp

    def plain(x):
        return x + x
    """
HONEST = """
    def fast(x):
        return 2 * x
    """
PLANTED = """
    def fast(x):
        return (2 * x).at[1, 2].multiply(1.5)
    """
SUM = """
    import jax.numpy as jnp

    def plain(x):
        return x * jnp.sum(x * x, axis=1, keepdims=True)
    """
SUM_BACKWARDS = """
    def fast(x):
        total = 0.0
        for column in range(4, -1, -1):
            total = total + x[:, column : column + 1] ** 2
        return x * total
    """


def write_pair(
    root: Path,
    name: str,
    *,
    reference: str = PLAIN,
    optimized: str = HONEST,
    variants: tuple[str, ...] = ("fast",),
    axes: str = AXES,
    extra: str = "",
    suite: str | None = None,
) -> None:
    """Write the three files of a pair."""
    text = suite if suite is not None else SUITE.format(name=name, variants=variants, axes=axes, extra=extra)
    for folder, file, source in (
        ("reference_impls", f"{name}.py", reference),
        ("optimized_impls", f"{name}.py", optimized),
        ("suites", f"test_{name}.py", text),
    ):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / file).write_text(textwrap.dedent(source))


def write_tree(root: Path) -> Path:
    """A tree with one pair for every way in which a check can end, and `good`; few of them have gradients."""
    write_pair(root, "good")
    write_pair(root, "planted", optimized=PLANTED, extra=FORWARD)
    raising = "def fast(x):\n    raise RuntimeError('no kernel for this shape')\n"
    write_pair(root, "raising", optimized=raising, extra=FORWARD)
    write_pair(root, "signature", optimized="def fast(x, scale):\n    return scale * x\n", extra=FORWARD)
    write_pair(root, "unimportable", suite="import nothing_of_this_name\n")
    write_pair(root, "lonely")
    (root / "optimized_impls" / "lonely.py").unlink()
    no_case = AXES.replace("sizes=", 'meshes=("data16",), sizes=') + 'wide_meshes=("data16",),'
    write_pair(root, "no_case", axes=no_case)
    write_pair(root, "known", optimized=PLANTED, extra=FORWARD + _exemption('kind="other"'))
    write_pair(root, "stale", extra=FORWARD + _exemption(""))
    write_pair(root, "unmatched", extra=_exemption('leaf="out[[]3]"'))
    contract = 'contracts=(Contract(lowest="rounding", reason="summed backwards: 3 ulps", error_ratio=8.0),),'
    write_pair(root, "rounds", reference=SUM, optimized=SUM_BACKWARDS, extra=FORWARD + contract)
    write_pair(root, "loose", extra=FORWARD + contract)
    return root


def _exemption(more: str) -> str:
    return f'exemptions=(Exemption(variant="fast", reason="one element is 1.5 times too large", {more}),),'
