"""`samebits new`: the three files of a first pair, which hold as they are, to be edited."""

from __future__ import annotations

import keyword
from dataclasses import dataclass
from pathlib import Path

import click

from samebits.cli import options
from samebits.errors import CouldNotRun, RequestError
from samebits.host.own_output import own_stdout

FILES = {
    "reference_impls/{name}.py": '''\
"""{name}: what it computes, and where that is written down. Plain and obvious; it imports jax and nothing else."""

import jax.numpy as jnp


def plain(x, *, by=1):
    """Rows one after the other, each moved up by `by` rows."""
    return jnp.concatenate([x[by:], x[:by]])
''',
    "optimized_impls/{name}.py": '''\
"""{name}, faster: one function per variant, with the reference's parameters. It never imports the reference."""

import jax.numpy as jnp


def rolled(x, *, by=1):
    """The same as one call."""
    return jnp.roll(x, -by, axis=0)
''',
    "suites/test_{name}.py": '''\
"""The declaration of {name}: `samebits check {name}`, or `pytest suites/test_{name}.py`."""

from samebits import Arg, Case, Pair, pair_test

PAIR = Pair(
    name="{name}",
    reference="plain",
    variants=("rolled",),
    args={{"x": Arg(shape=("rows", "columns"), spec=(None, "data"))}},
    cases=(
        Case(id="small", sizes={{"rows": 6, "columns": 8}}),
        Case(id="by_three", sizes={{"rows": 6, "columns": 8}}, statics={{"by": 3}}),
    ),
    dtypes=("float32", "bfloat16"),
    meshes=("data1", "data4"),
)

test_{name} = pair_test(PAIR)
''',
}
"""By path in a tree, the text of a file; both take the name."""


@dataclass(frozen=True, kw_only=True)
class NewOptions:
    """The options of `samebits new`."""

    name: str
    root: Path | None


@click.command("new")
@click.argument("name")
@click.option(
    "--root", type=click.Path(path_type=Path), metavar="TREE", help="The tree of pairs; the current folder by default."
)
@options.takes(NewOptions, runs_user_code=False)
def new(chosen: NewOptions) -> int:
    """Write the three files of a pair called NAME: a reference, a variant and a declaration that holds.

    Put your own functions into the first two, and their arguments into the third. No file is overwritten.

    Exit codes: 0 the files are written, 2 the name is not an identifier or a file exists, 3 a file cannot be written.
    """
    name, root = chosen.name, chosen.root or Path.cwd()
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
        raise RequestError(f"'{name}' cannot name a pair; expected a Python identifier such as rope or rms_norm")
    texts = {root / path.format(name=name): text.format(name=name) for path, text in FILES.items()}
    for path in texts:
        if path.exists():
            raise RequestError(f"'{path}' exists, and no file is overwritten; choose another name")
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            click.echo(f"wrote {path}", file=own_stdout())
    except OSError as error:
        raise CouldNotRun(f"'{error.filename}' cannot be written: {error.strerror}") from None
    root_option = f" --root {chosen.root}" if chosen.root else ""
    click.echo(f"next: samebits check {name}{root_option}", file=own_stdout())
    return 0
